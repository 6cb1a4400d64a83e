r"""From runs to numbers and tables: regret, ranks of the methods, their uncertainty."""

from collections.abc import Callable
from functools import cached_property, partial

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from benchmarks.practical.learners import METHODS
from benchmarks.practical.problems import PROBLEMS
from benchmarks.runner import (
    Moments,
    markdown_table,
    paired_difference,
    stream,
)

MEASURES = ("simple", "recommended")
RESOLUTION = 1e-4  # of the regret of the starts; smaller means count as this
_RESAMPLES = 1000
_FAILURES = ["failed_fits", "failed_searches", "repeated_searches"]


class Results:
    r"""The runs of an experiment as arrays.

    Attributes:
        problems: Names, in the order of the tables.
        methods: Names, likewise.
        rounds: Of each problem.
        seeds: How many.
    """

    def __init__(self, runs: pd.DataFrame) -> None:
        self.runs = runs
        self.problems, self.methods = (
            [*runs["problem"].unique()],
            [*runs["method"].unique()],
        )
        self.rounds = runs.groupby("problem")["rounds"].first().to_dict()
        self.seeds = runs["seed"].nunique()

    @cached_property
    def parts(self) -> dict[tuple[str, str], pd.DataFrame]:
        r"""A run for each seed, by problem and method."""
        return dict([*self.runs.groupby(["problem", "method"], sort=False)])

    def curves(self, measure: str, problem: str, method: str) -> np.ndarray:
        r"""Regret after the starts and after every point chosen, ``seeds x rounds + 1``."""
        runs = self.parts[problem, method]
        if measure == "recommended":
            return np.array([*runs["recommended"]])
        best = np.minimum.accumulate([*runs["regret"]], axis=1)
        return best[:, -self.rounds[problem] - 1 :]

    def values(self, measure: str, share: float = 1.0) -> np.ndarray:
        r"""Regret after a share of the rounds, ``problems x methods x seeds``."""

        def after(problem: str, method: str) -> np.ndarray:
            number = round(share * self.rounds[problem])
            return self.curves(measure, problem, method)[:, number]

        return np.array([[after(p, m) for m in self.methods] for p in self.problems])

    def normalised(self, measure: str) -> np.ndarray:
        r"""Final regret over the mean simple regret of the random starts."""
        starts = self.values("simple", share=0.0).mean(axis=(1, 2), keepdims=True)
        return self.values(measure) / starts


def label(method: str) -> str:
    return METHODS[method][0]


def mean_ranks(values: np.ndarray) -> list[Moments]:
    r"""Rank among the methods, mean over problems; moments over seeds, of each method.

    Args:
        values: ``problems x methods x seeds``, small ones are better; equal ones share
            the mean of their ranks.
    """
    ranks = rankdata(values, axis=1).mean(axis=0)
    return [Moments.of(row) for row in ranks]


def ranks_of_means(values: np.ndarray) -> np.ndarray:
    r"""Rank of the mean over seeds, mean over problems, of each method."""
    return rankdata(values.mean(axis=-1), axis=1).mean(axis=0)


def geometric_means(normalised: np.ndarray) -> np.ndarray:
    r"""Mean over seeds, geometric mean over problems, of each method."""
    means = np.maximum(normalised.mean(axis=-1), RESOLUTION)
    return np.exp(np.log(means).mean(axis=0))


def worst_deciles(normalised: np.ndarray) -> np.ndarray:
    r"""90 % quantile over seeds, geometric mean over problems, of each method."""
    deciles = np.maximum(np.quantile(normalised, 0.9, axis=-1), RESOLUTION)
    return np.exp(np.log(deciles).mean(axis=0))


def bootstrap_error(
    statistic: Callable[[np.ndarray], np.ndarray], values: np.ndarray
) -> np.ndarray:
    r"""Standard error of a statistic of ``problems x methods x seeds`` values.

    Seeds are drawn anew with replacement, for each problem apart; a seed's methods stay
    together, since they share starts and noise.
    """
    random = stream(0, "bootstrap")
    problems, _, seeds = values.shape
    drawn = random.integers(seeds, size=(_RESAMPLES, problems, 1, seeds))
    samples = [statistic(np.take_along_axis(values, index, axis=-1)) for index in drawn]
    return np.std(samples, axis=0)


def run_rows(results: Results) -> pd.DataFrame:
    r"""Final values of every run."""
    runs = pd.concat(
        [results.parts[p, m] for p in results.problems for m in results.methods]
    )
    rows = runs[["problem", "method", "seed"]].copy()
    rows["simple"] = [f"{min(regret):.5g}" for regret in runs["regret"]]
    rows["recommended"] = [f"{regret[-1]:.5g}" for regret in runs["recommended"]]
    rows[_FAILURES] = runs[_FAILURES]
    seconds = runs["fit_seconds"] + runs["search_seconds"]
    return rows.assign(seconds=seconds.map("{:.3g}".format))


_COLUMNS = ("rank of a run", "rank of the mean", "regret", "worst decile")


def rank_table(results: Results) -> list[str]:
    r"""Ranks and normalised regret of all methods; what they cost."""
    columns = []
    for measure in MEASURES:
        values, normalised = results.values(measure), results.normalised(measure)
        columns += [
            [with_error(m.mean, m.standard_error) for m in mean_ranks(values)],
            _with_errors(ranks_of_means, values),
            _with_errors(geometric_means, normalised),
            _with_errors(worst_deciles, normalised),
        ]
    header = [f"{measure}: {name}" for measure in MEASURES for name in _COLUMNS]
    rows = zip(map(label, results.methods), *columns, strict=True)
    return [
        f"Means ± standard errors over {len(results.problems)} problems and "
        f"{results.seeds} seeds, small is better. Ranks are among the "
        f"{len(results.methods)} methods. Regret is the mean over seeds over that of "
        "the random starts, geometric mean over problems; the worst decile is the same for "
        "the 90 % quantile over seeds.",
        "",
        *markdown_table(["method", *header], rows),
        "",
        *effort_table(results),
    ]


def effort_table(results: Results) -> list[str]:
    r"""Processor time, and what went wrong."""
    rows = []
    for method, runs in results.runs.groupby("method", sort=False):
        points = sum(len(recommended) - 1 for recommended in runs["recommended"])
        times = (runs[name].sum() for name in ("fit_seconds", "search_seconds"))
        seconds = (f"{1e3 * time / points:.0f}" for time in times)
        rows.append([label(method), *seconds, *map(str, runs[_FAILURES].sum())])
    header = ["method", "fit, ms a point", "search, ms a point"]
    header += ["failed fits", "failed searches", "repeated searches"]
    return markdown_table(header, rows)


def paired_table(results: Results, method: str) -> list[str]:
    r"""Ours against every other method on the same starts and noise."""
    ours, columns = results.methods.index(method), []
    for measure in MEASURES:
        values = results.values(measure)
        ranks = rankdata(values, axis=1).mean(axis=0)
        differences = [paired_difference(ranks[ours], row) for row in ranks]
        behind = np.sign(values[:, [ours]] - values).mean(axis=(0, 2))
        columns += [
            [with_error(m.mean, m.standard_error) for m in differences],
            [f"{0.5 - 0.5 * share:.0%}" for share in behind],
            _with_errors(partial(_ratios, ours), results.normalised(measure)),
        ]
    rows = [
        [label(other), *(column[index] for column in columns)]
        for index, other in enumerate(results.methods)
        if index != ours
    ]
    header = [f"{m}: {what}" for m in MEASURES for what in ("rank", "ahead", "regret")]
    return [
        f"{label(method)} against the other methods, paired over {results.seeds} seeds: "
        "mean rank among all methods minus the other's (below zero is better) ± standard "
        "error, the share of runs in which it is ahead (ties count half), and mean regret "
        "over the other's (below one is better), geometric mean over problems.",
        "",
        *markdown_table(["against", *header], rows),
    ]


def _ratios(ours: int, normalised: np.ndarray) -> np.ndarray:
    means = geometric_means(normalised)
    return means[ours] / means


def regret_table(results: Results, measure: str) -> list[str]:
    r"""Mean final regret on each problem, the smallest in bold."""
    values = results.values(measure)
    starts = results.values("simple", share=0.0).mean(axis=(1, 2))
    rows = []
    for problem, of_problem, start in zip(results.problems, values, starts, strict=True):
        moments = [Moments.of(row) for row in of_problem]
        cells = [with_error(m.mean, m.standard_error) for m in moments]
        best = int(np.argmin([m.mean for m in moments]))
        cells[best] = f"**{cells[best]}**"
        rows.append([PROBLEMS[problem][0], f"{start:.3g}", *cells])
    what = {"simple": "best", "recommended": "recommended"}[measure]
    return [
        f"Regret of the {what} point after the last round, mean ± standard error over "
        f"{results.seeds} seeds; `starts` is that of the best random start.",
        "",
        *markdown_table(["problem", "starts", *map(label, results.methods)], rows),
    ]


def _with_errors(statistic: Callable, values: np.ndarray) -> list[str]:
    errors = bootstrap_error(statistic, values)
    return [with_error(*pair) for pair in zip(statistic(values), errors, strict=True)]


def with_error(value: float, error: float) -> str:
    return f"{value:.3g} ± {error:.2g}"
