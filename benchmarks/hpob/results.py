r"""From runs and published curves to tables: regret, ranks, and differences in pairs."""

from functools import cached_property

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from benchmarks.hpob.problems import PUBLISHED, STARTS, TABLES, published, table
from benchmarks.practical.results import Results, label, with_error
from benchmarks.runner import Moments, captioned, paired_difference

_SHOWN = (10, 25, 50, 100)  # trials
_REGRET = "Regret is one minus the best normalised accuracy."


class Comparison:
    r"""Our runs beside the published ones of the same tables and seeds.

    Attributes:
        methods: Labels.
        curves: Regret, ``methods x tables x seeds x trials + 1``.
        shown: Numbers of trials that the tables show.
    """

    def __init__(self, results: Results) -> None:
        self.results, tables = results, results.problems
        seeds = sorted(results.runs["seed"].unique())
        last = min(results.rounds.values())
        self.shown = [trials for trials in _SHOWN if trials < last] + [last]
        played = [
            [results.curves("simple", name, method)[:, : last + 1] for name in tables]
            for method in results.methods
        ]
        known = [
            [1.0 - published(method, name)[seeds, : last + 1] for name in tables]
            for method in PUBLISHED
        ]
        self.curves = np.array(played + known)
        labels = [f"{label} (published)" for label in PUBLISHED.values()]
        self.methods = [*map(label, results.methods), *labels]

    @cached_property
    def measures(self) -> dict[str, np.ndarray]:
        r"""Means over seeds after the trials shown, each ``shown x methods x tables``."""
        regret = np.moveaxis(self.curves[..., self.shown], -1, 0)
        ranks = rankdata(regret.round(5), axis=1)  # published values are rounded
        return {"regret": regret.mean(axis=-1), "rank": ranks.mean(axis=-1)}

    def _columns(self) -> list[str]:
        return [f"{what} after {n}" for what in self.measures for n in self.shown]

    def mean_lines(self) -> list[str]:
        r"""Regret and ranks of all methods."""
        values = [*self.measures["regret"], *self.measures["rank"]]
        rows = [
            [name, *(_mean(Moments.of(each[index])) for each in values)]
            for index, name in enumerate(self.methods)
        ]
        text = (
            f"{_REGRET} Means over {self.results.seeds} seeds and "
            f"{len(self.results.problems)} tables ± standard errors over tables; ranks are "
            f"among the {len(self.methods)} methods of a seed. Small is better."
        )
        return captioned(text, ["method", *self._columns()], rows)

    def paired_lines(self, method: str) -> list[str]:
        r"""A method that we played minus every other, on the same starts."""
        ours = self.results.methods.index(method)
        values = [*self.measures["regret"], *self.measures["rank"]]
        rows = [
            [name, *(_mean(paired_difference(each[ours], each[index])) for each in values)]
            for index, name in enumerate(self.methods)
            if index != ours
        ]
        text = (
            f"{self.methods[ours]} minus the other methods, paired by table and seed: mean "
            "over tables ± standard error over tables. Below zero is better."
        )
        return captioned(text, ["against", *self._columns()], rows)

    def run_rows(self) -> pd.DataFrame:
        r"""Regret of every run that we played, and its processor time."""
        rows = []
        for run in self.results.runs.to_dict("records"):
            best = np.minimum.accumulate(run["regret"])[STARTS - 1 :]
            kept = ("problem", "method", "seed", "failed_fits", "failed_searches")
            row = {name: run[name] for name in kept}
            row |= {f"regret after {n}": f"{best[n]:.5g}" for n in self.shown}
            row["seconds"] = f"{run['fit_seconds'] + run['search_seconds']:.3g}"
            rows.append(row)
        return pd.DataFrame(rows)


def random_search(name: str, best: float, trials: int) -> np.ndarray:
    r"""Expected regret of random search, without replacement, after 0, 1, ... trials.

    Args:
        name: Of the table.
        best: Normalised accuracy of the best start.
        trials: How many.
    """
    values = table(name)[1]
    better = np.sort(values[values > best])[::-1]
    left, ahead = len(values) - STARTS, np.arange(len(better) + 1)
    levels = np.append(better, best)
    steps = -np.diff(levels, append=0.0)[:-1]  # lost where the rows ahead are not drawn
    none = np.ones(len(ahead))  # probability that no row ahead is drawn
    regret = [1.0 - levels[0] + none[1:] @ steps]
    for rest in range(left, left - trials, -1):
        none = none * np.maximum(rest - ahead, 0) / rest
        regret.append(1.0 - levels[0] + none[1:] @ steps)
    return np.array(regret)


def random_lines() -> list[str]:
    r"""The published random search against its expectation: a check of what we read."""
    played = np.array([1.0 - published("Random", name) for name in TABLES])
    last = played.shape[-1] - 1
    expected = np.array(
        [
            [random_search(name, 1.0 - run[0], last) for run in runs]
            for name, runs in zip(TABLES, played, strict=True)
        ]
    )
    rows = []
    for trials in (0, *_SHOWN):
        ours, theirs = (each[..., trials].mean(axis=1) for each in (expected, played))
        pair = [_mean(Moments.of(each)) for each in (theirs, ours)]
        rows.append([str(trials), *pair, _mean(paired_difference(theirs, ours))])
    text = (
        f"{_REGRET} Random search as published, and its expectation on rows that are drawn "
        f"without replacement after the same best start; means ± standard errors over "
        f"{len(TABLES)} tables of {played.shape[1]} seeds."
    )
    return captioned(text, ["trials", "published", "expected", "difference"], rows)


def _mean(moments: Moments) -> str:
    return with_error(moments.mean, moments.standard_error)
