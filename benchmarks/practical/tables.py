r"""Tables of regret and ranks, as CSV and Markdown."""

from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from benchmarks.practical.configuration import Configuration, Experiment, Method
from benchmarks.practical.summaries import (
    MEASURES,
    Results,
    bootstrap_error,
    geometric_means,
    mean_ranks,
    ranks_of_means,
    worst_deciles,
)
from benchmarks.runner import (
    Moments,
    load_configuration,
    markdown_table,
    moments_table,
    paired_difference,
    write_lines,
    write_table,
)


def result_stem(experiment: Experiment) -> str:
    r"""Name of the tables and pictures; a part of an experiment gets its own."""
    whole = load_configuration(Configuration).experiments[experiment.name]
    return experiment.name if experiment == whole else f"{experiment.name}_part"


def write_tables(results: Results, folder: Path) -> list[Path]:
    r"""Final values of every run, mean curves, ranks, and regret on each problem."""
    stem = result_stem(results.experiment)
    write_table(folder / f"{stem}_runs.csv", _run_rows(results))
    write_table(folder / f"{stem}_curves.csv", _curve_table(results))
    tables = {"ranks": _rank_table(results)}
    tables |= {measure: _regret_table(results, measure) for measure in MEASURES}
    if ours := [m for m in results.experiment.ours if m in results.experiment.methods]:
        parts = ("\n".join(_paired_table(results, method)) for method in ours)
        tables["paired"] = ["\n\n".join(parts)]
    for name, lines in tables.items():
        write_lines(folder / f"{stem}_{name}.md", lines)
    names = ["runs.csv", "curves.csv", *(f"{name}.md" for name in tables)]
    return [folder / f"{stem}_{name}" for name in names]


def _run_rows(results: Results) -> list[dict]:
    experiment = results.experiment
    return [
        {
            "problem": problem.name,
            "method": method.name,
            "seed": seed,
            "simple": f"{min(run.regret):.5g}",
            "recommended": f"{run.recommended[-1]:.5g}",
            "failed_fits": run.failed_fits,
            "failed_searches": run.failed_searches,
            "repeated_searches": run.repeated_searches,
            "seconds": f"{run.fit_seconds + run.search_seconds:.3g}",
        }
        for problem in experiment.problems
        for method in experiment.methods
        for seed, run in zip(
            experiment.seeds, results.runs_of(problem, method), strict=True
        )
    ]


def _curve_table(results: Results) -> pd.DataFrame:
    experiment = results.experiment
    parts = []
    for problem in experiment.problems:
        keys = {(problem.name, method.name): method for method in experiment.methods}
        part = pd.DataFrame()
        for measure in MEASURES:
            curves = {key: results.curves(measure, problem, m) for key, m in keys.items()}
            shown = np.arange(1, problem.rounds + 2)
            moments = moments_table(curves, ["problem", "method"], shown)
            part[["problem", "method"]] = moments[["problem", "method"]]
            part["round"] = moments["round"] - 1  # the first is after the random starts
            part[measure] = moments["mean"].map("{:.4g}".format)
            part[f"{measure}_error"] = moments["standard_error"].map("{:.2g}".format)
        parts.append(part)
    return pd.concat(parts)


_COLUMNS = ("rank of a run", "rank of the mean", "regret", "worst decile")


def _rank_table(results: Results) -> list[str]:
    experiment = results.experiment
    columns = []
    for measure in MEASURES:
        values, normalised = results.values(measure), results.normalised(measure)
        columns += [
            [_text(m.mean, m.standard_error) for m in mean_ranks(values)],
            _with_errors(ranks_of_means, values),
            _with_errors(geometric_means, normalised),
            _with_errors(worst_deciles, normalised),
        ]
    header = [f"{measure}: {name}" for measure in MEASURES for name in _COLUMNS]
    rows = zip((method.label for method in experiment.methods), *columns, strict=True)
    return [
        f"Means ± standard errors over {len(experiment.problems)} problems and "
        f"{len(experiment.seeds)} seeds, small is better. Ranks are among the "
        f"{len(experiment.methods)} methods. Regret is the mean over seeds over that of "
        "the random starts, geometric mean over problems; the worst decile is the same for "
        "the 90 % quantile over seeds.",
        "",
        *markdown_table(["method", *header], rows),
        "",
        *_effort_table(results),
    ]


def _effort_table(results: Results) -> list[str]:
    r"""Processor time, and what went wrong."""
    experiment = results.experiment
    rows = []
    for method in experiment.methods:
        runs = [r for p in experiment.problems for r in results.runs_of(p, method)]
        points = sum(len(run.recommended) - 1 for run in runs)
        rows.append(
            [
                method.label,
                f"{1e3 * sum(run.fit_seconds for run in runs) / points:.0f}",
                f"{1e3 * sum(run.search_seconds for run in runs) / points:.0f}",
                *(
                    f"{sum(getattr(run, name) for run in runs)}"
                    for name in ("failed_fits", "failed_searches", "repeated_searches")
                ),
            ]
        )
    header = ["method", "fit, ms a point", "search, ms a point"]
    header += ["failed fits", "failed searches", "repeated searches"]
    return markdown_table(header, rows)


def _paired_table(results: Results, method: Method) -> list[str]:
    r"""Ours against every other method on the same starts and noise."""
    methods, seeds = results.experiment.methods, len(results.experiment.seeds)
    ours, columns = methods.index(method), []
    for measure in MEASURES:
        values = results.values(measure)
        ranks = rankdata(values, axis=1).mean(axis=0)
        differences = [paired_difference(ranks[ours], row) for row in ranks]
        behind = np.sign(values[:, [ours]] - values).mean(axis=(0, 2))
        columns += [
            [_text(m.mean, m.standard_error) for m in differences],
            [f"{0.5 - 0.5 * share:.0%}" for share in behind],
            _with_errors(partial(_ratios, ours), results.normalised(measure)),
        ]
    rows = [
        [other.label, *(column[index] for column in columns)]
        for index, other in enumerate(methods)
        if index != ours
    ]
    header = [f"{m}: {what}" for m in MEASURES for what in ("rank", "ahead", "regret")]
    return [
        f"{method.label} against the other methods, paired over {seeds} seeds: mean rank "
        "among all methods minus the other's (below zero is better) ± standard error, the "
        "share of runs in which it is ahead (ties count half), and mean regret over the "
        "other's (below one is better), geometric mean over problems.",
        "",
        *markdown_table(["against", *header], rows),
    ]


def _ratios(ours: int, normalised: np.ndarray) -> np.ndarray:
    means = geometric_means(normalised)
    return means[ours] / means


def _regret_table(results: Results, measure: str) -> list[str]:
    r"""Mean final regret on each problem, the smallest in bold."""
    experiment, values = results.experiment, results.values(measure)
    starts = results.values("simple", share=0.0).mean(axis=(1, 2))
    rows = []
    for problem, of_problem, start in zip(experiment.problems, values, starts, strict=True):
        moments = [Moments.of(row) for row in of_problem]
        cells = [_text(m.mean, m.standard_error) for m in moments]
        best = int(np.argmin([m.mean for m in moments]))
        cells[best] = f"**{cells[best]}**"
        rows.append([problem.title, f"{start:.3g}", *cells])
    what = {"simple": "best", "recommended": "recommended"}[measure]
    return [
        f"Regret of the {what} point after the last round, mean ± standard error over "
        f"{len(experiment.seeds)} seeds; `starts` is that of the best random start.",
        "",
        *markdown_table(
            ["problem", "starts", *(method.label for method in experiment.methods)], rows
        ),
    ]


def _with_errors(statistic, values: np.ndarray) -> list[str]:
    errors = bootstrap_error(statistic, values)
    return [_text(*pair) for pair in zip(statistic(values), errors, strict=True)]


def _text(value: float, error: float) -> str:
    return f"{value:.3g} ± {error:.2g}"
