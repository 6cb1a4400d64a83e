r"""Command line: ``python -m benchmarks.trust stops``."""

from typing import Any

import pandas as pd
from scipy.stats import binomtest

from benchmarks.runner.study import Study, Summary, grid
from benchmarks.runner.tables import markdown_table
from benchmarks.trust import lost, stops, unsafe
from benchmarks.trust.functions import TEST_FUNCTIONS

CONFIDENCE = 0.95


def event_row(
    runs: int,
    event: pd.Series,
    labels: dict[str, str],
    promise: float | None,
    **numbers: str | float,
) -> dict[str, Any]:
    r"""A row: labels, numbers, and the rate of an event.

    ``lower`` and ``upper`` are the ends of the exact (Clopper-Pearson) interval of the
    rate. ``promise`` is the largest probability of the event where everything was given,
    None where something was estimated or an assumption is false. ``kept`` is ``"yes"``
    where ``upper`` is at most the promise, ``"no"`` where ``lower`` is above it, and
    ``"undecided"`` where the runs are too few to tell.
    """
    events = int(event.sum())
    interval = binomtest(events, runs).proportion_ci(CONFIDENCE, method="exact")
    kept = ""
    if promise is not None:
        undecided = "no" if interval.low > promise else "undecided"
        kept = "yes" if interval.high <= promise else undecided
    return {
        **labels,
        "runs": runs,
        **numbers,
        "events": events,
        "rate": events / runs,
        "lower": float(interval.low),
        "upper": float(interval.high),
        "promise": "" if promise is None else promise,
        "kept": kept,
    }


def event_table(rows: list[dict[str, Any]], event: str) -> Summary:
    r"""The rows as a table; ``event`` is the name of what is counted."""
    names = [*rows[0]][: [*rows[0]].index("events")]
    header = [*names, event, "rate (95 % interval)", "promised", "kept"]
    return Summary(pd.DataFrame(rows), markdown_table(header, map(_cells, rows)))


def _cells(row: dict[str, Any]) -> list[str]:
    names = [*row][: [*row].index("rate")]
    texts = [v if isinstance(v := row[name], str) else f"{v:.3g}" for name in names]
    rate, lower, upper = (row[name] for name in ("rate", "lower", "upper"))
    promised = "nothing" if row["promise"] == "" else f"at most {row['promise']:.0%}"
    interval = f"{rate:.1%} ({lower:.1%} to {upper:.1%})"
    return [*texts, interval, promised, row["kept"] or "-"]


STUDY = Study(
    "benchmarks.trust",
    "Counts promises that were broken: false certified stops, unsafe evaluations, bands "
    "where outcomes are lost.",
)
_RULES = {
    ("given", False): "`norm_bound=10`",
    ("none", False): "`norm_bound=None`",
    ("none", True): "`norm_bound=None`, `allow_estimated=True`",
    ("cautious", True): '`norm_bound="cautious"`, `allow_estimated=True`',
    ("tracker", True): "`NormTracker.cautious()` kept, `allow_estimated=True`",
}
_LOSSES = {
    "none": "none",
    "random": "by a fair coin",
    "-1": "noise below -1 sd",
    "-0.5": "noise below -0.5 sd",
    "0": "noise below 0",
}
_KNOWN = ["given", "none", "cautious", "tracker"]


def _rules(*norm_bounds: str) -> list[dict[str, Any]]:
    names = ("norm_bound", "allow_estimated")
    return [dict(zip(names, r, strict=True)) for r in _RULES if r[0] in norm_bounds]


STOPS = grid(
    {"rounds": 40, "function": ["random", "spike"]},
    _rules(*_KNOWN),
    {"kernel": ["rbf", "matern52"], "seed": range(100)},
) + grid(
    {"rounds": 40, "kernel": stops.FITTED},
    _rules("none", "cautious"),
    {"function": [*TEST_FUNCTIONS], "seed": range(50)},
)


@STUDY.table("stops", STOPS, stops.play_stop)
def false_stops(runs: pd.DataFrame) -> Summary:
    r"""Stops too far from the optimum."""
    fitted = runs["kernel"] == stops.FITTED
    kinds, rows = runs["function"].where(~fitted, "test functions"), []
    keys = [kinds.rename("functions"), "norm_bound", "allow_estimated"]
    for (functions, *rule), part in runs.groupby(keys, sort=False):
        given = "nothing: fitted" if functions == "test functions" else "kernel and noise"
        false = (part["stopped"] > 0) & (part["regret"] > 1.0)
        labels = {"functions": functions, "given": given, "rule": _RULES[tuple(rule)]}
        promise = stops.DELTA if rule[0] == "given" else None
        numbers = {"refused": part["refused"].sum(), "stops": (part["stopped"] > 0).sum()}
        numbers["worst regret at a stop / accepted"] = part["regret"].max()
        rows.append(event_row(len(part), false, labels, promise, **numbers))
    return event_table(rows, "false stops")


@STUDY.table(
    "unsafe",
    grid(
        {"rounds": 20, "norm": [2.0, 10.0], "model": ["known", "fitted"]},
        _rules("given", "none", "cautious"),
        {"seed": range(200)},
    ),
    unsafe.play_safe,
)
def unsafe_runs(runs: pd.DataFrame) -> Summary:
    r"""Evaluations of points that are called safe and are not."""
    rows, keys = [], ["norm", "model", "norm_bound", "allow_estimated"]
    for (norm, model, *rule), part in runs.groupby(keys, sort=False):
        given = "kernel and noise" if model == "known" else "nothing: fitted"
        band = "`norm_bound=B`" if rule[0] == "given" else _RULES[tuple(rule)]
        labels = {"norm B": f"{norm:g}", "given": given, "band": band}
        promise = unsafe.DELTA if (model, rule[0]) == ("known", "given") else None
        numbers = {name: part[name].sum() for name in ("refused", "contradicted")}
        numbers["unsafe evaluations"] = part["unsafe"].sum()
        rows.append(event_row(len(part), part["unsafe"] > 0, labels, promise, **numbers))
    return event_table(rows, "unsafe runs")


@STUDY.table(
    "lost",
    grid({"outcomes": 100, "losses": [*_LOSSES], "seed": range(200)}),
    lost.play_lost,
)
def lost_outcomes(runs: pd.DataFrame) -> Summary:
    r"""Bands where whether an outcome is reported depends on its noise."""
    rows = []
    for losses, part in runs.groupby("losses", sort=False):
        promise = lost.DELTA if losses in ("none", "random") else None
        rows.append(
            event_row(len(part), part["missed"] > 0, {"lost": _LOSSES[losses]}, promise)
        )
    return event_table(rows, "runs with a miss")


if __name__ == "__main__":
    STUDY.main()
