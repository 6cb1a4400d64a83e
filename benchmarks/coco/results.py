r"""From runs to shares of targets: COCO's measure of a run, and means over functions."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from benchmarks.practical.results import label
from benchmarks.runner import Moments, markdown_table
from benchmarks.runner.study import Summary

TARGETS = np.logspace(2, -8, 51)  # of the distance from the optimum
# The last function of each group, of both suites.
_GROUPS = {
    5: "separable",
    9: "moderate",
    14: "ill-conditioned",
    19: "multimodal",
    24: "weak structure",
    106: "moderate noise",
    121: "severe noise",
    130: "severe noise, multimodal",
}
MEASURES = {
    "reached": "Share of the targets reached by the best point evaluated within the budget",
    "area": "The same, mean over the decimal logarithm of the number of evaluations",
    "recommended": "Share of the targets reached by the point recommended at the end",
    "recommended_area": "The same, mean over the logarithm of the number of evaluations",
}


def group(function: int) -> str:
    return next(name for last, name in _GROUPS.items() if function <= last)


def reached(distances: Sequence[float]) -> np.ndarray:
    r"""Share of the targets that are reached at each of the distances."""
    return (np.asarray(distances)[:, None] <= TARGETS).mean(axis=1)


def area(shares: np.ndarray, first: int) -> float:
    r"""Mean of shares after ``first, first + 1, ...`` evaluations over ``log10``.

    A share stands until the next evaluation; the last one ends the mean.
    """
    numbers = np.arange(first, first + len(shares))
    return float(np.average(shares[:-1], weights=np.diff(np.log10(numbers))))


def measured(played: pd.DataFrame) -> pd.DataFrame:
    r"""The measures of every run, from the end of the starts on."""
    rows = []
    for run in played.to_dict("records"):
        first = run["most_starts"]
        best = reached(np.minimum.accumulate(run["regret"])[first - 1 :])
        recommended = reached(run["recommended"])
        rows.append(
            {name: run[name] for name in ("function", "dimension", "seed", "method")}
            | {"group": group(run["function"])}
            | {"best": min(run["regret"]), "reached": best[-1], "area": area(best, first)}
            | {"recommended": recommended[-1]}
            | {"recommended_area": area(recommended, first)}
            | {"seconds": run["fit_seconds"] + run["search_seconds"]}
        )
    return pd.DataFrame(rows)


def by_function(rows: pd.DataFrame, measure: str) -> dict[str, pd.DataFrame]:
    r"""Means over instances, of all runs and of parts: functions x methods."""
    parts = {"all": rows}
    parts |= {f"d = {d}": part for d, part in rows.groupby("dimension")}
    parts |= {str(name): part for name, part in rows.groupby("group", sort=False)}
    return {
        name: part.pivot_table(measure, "function", "method", sort=False)
        for name, part in parts.items()
    }


def share_table(rows: pd.DataFrame, measure: str, ours: str | None = None) -> list[str]:
    r"""Means and standard errors over functions; with ``ours``, ours minus the others."""
    parts = by_function(rows, measure)
    methods = [each for each in rows["method"].unique() if each != ours]
    lines = [
        [label(method), *(_text(part, method, ours) for part in parts.values())]
        for method in methods
    ]
    return markdown_table(["against" if ours else "method", *parts], lines)


def _text(part: pd.DataFrame, method: str, ours: str | None) -> str:
    values = part[method] if ours is None else part[ours] - part[method]
    moments = Moments.of(values)
    return f"{100 * moments.mean:.1f} ± {100 * moments.standard_error:.1f}"


def summaries(played: pd.DataFrame, ours: Sequence[str]) -> dict[str, Summary]:
    r"""All runs; tables of all measures; ``ours`` in pairs with every other method."""
    rows = measured(played)
    means, paired = [], []
    for measure, words in MEASURES.items():
        text = f"{words}, in percent, mean ± standard error over functions"
        means += [f"{text}.", "", *share_table(rows, measure), ""]
        for method in [each for each in ours if each in {*rows["method"]}]:
            text = f"{words}, in percent: {label(method)} minus the others (above zero is "
            text += "better), on the same functions, instances and starts."
            paired += [text, "", *share_table(rows, measure, method), ""]
    numbers = ["best", *MEASURES, "seconds"]
    texts = {name: rows[name].map("{:.4g}".format) for name in numbers}
    return {
        "runs": Summary(rows.assign(**texts), None),
        "targets": Summary(None, [*means, *_costs(rows)]),
        "paired": Summary(None, paired[:-1]),
    }


def _costs(rows: pd.DataFrame) -> list[str]:
    r"""Processor time."""
    seconds = rows.pivot_table("seconds", "method", "dimension", sort=False)
    lines = [[label(m), *map("{:.3g}".format, line)] for m, line in seconds.iterrows()]
    header = ["seconds a run", *(f"d = {d}" for d in seconds.columns)]
    return markdown_table(header, lines)
