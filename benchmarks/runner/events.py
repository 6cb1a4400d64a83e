r"""Events among runs: their rate, how sure it is, and whether a promise was kept."""

from typing import Any

import pandas as pd
from scipy.stats import binomtest

from benchmarks.runner.study import Summary
from benchmarks.runner.tables import markdown_table

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
