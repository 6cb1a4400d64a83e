r"""Events among runs: their rate, how sure it is, and whether a promise was kept."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from scipy.stats import binomtest

from benchmarks.runner import Task

CONFIDENCE = 0.95
Row = dict[str, str | float]


@dataclass(frozen=True)
class Group:
    r"""Runs of one kind: a row of a table.

    Attributes:
        labels: What they have in common, in words, by the name of the column.
        tasks: The runs.
        event: What counts as a broken promise.
        promise: The largest probability of it, where everything was given; None where
            something was estimated or an assumption is false, and nothing is promised.
        numbers: Further columns: what they say of all runs.
    """

    labels: dict[str, str]
    tasks: Sequence[Task]
    event: Callable[[Any], bool]
    promise: float | None = None
    numbers: dict[str, Callable[[Sequence[Any]], str | float]] = field(default_factory=dict)


def count(group: Group, runs: Sequence[Any]) -> Row:
    r"""The columns of a group.

    ``lower`` and ``upper`` are the ends of the exact (Clopper-Pearson) interval of the
    rate. ``kept`` is ``"yes"`` where ``upper`` is at most the promise, ``"no"`` where
    ``lower`` is above it, and ``"undecided"`` where the runs are too few to tell.
    """
    events = sum(group.event(run) for run in runs)
    result = binomtest(events, len(runs))
    interval = result.proportion_ci(CONFIDENCE, method="exact")
    return {
        **group.labels,
        "runs": len(runs),
        **{name: number(runs) for name, number in group.numbers.items()},
        "events": events,
        "rate": events / len(runs),
        "lower": float(interval.low),
        "upper": float(interval.high),
        "promise": "" if group.promise is None else group.promise,
        "kept": _kept(group.promise, interval.low, interval.high),
    }


def header(first: Row, event: str) -> list[str]:
    r"""Names of the columns in words; ``event`` is the name of what is counted."""
    names = list(first)[: list(first).index("events")]
    return [*names, event, "rate (95 % interval)", "promised", "kept"]


def cells(row: Row) -> list[str]:
    r"""The columns as text."""
    names = list(row)[: list(row).index("rate")]
    texts = [v if isinstance(v := row[name], str) else f"{v:.3g}" for name in names]
    rate, lower, upper = (float(row[name]) for name in ("rate", "lower", "upper"))
    promised = "nothing" if row["promise"] == "" else f"at most {row['promise']:.0%}"
    interval = f"{rate:.1%} ({lower:.1%} to {upper:.1%})"
    return [*texts, interval, promised, str(row["kept"]) or "-"]


def _kept(promise: float | None, lower: float, upper: float) -> str:
    if promise is None:
        return ""
    if upper <= promise:
        return "yes"
    return "no" if lower > promise else "undecided"
