r"""How often a stop was false, and how many observations it took."""

from collections.abc import Sequence

import numpy as np

from benchmarks.trust.counts import Group, cells, count, header
from benchmarks.trust.counts import Row as Counted
from benchmarks.unknown_kernel import stops

ROUNDS, SEEDS = 40, 100
# In words, and the share of the seeds that are played: LogEI alone hardly ever stops.
SEARCHES = {
    "logei": ("LogEI, refitted", 0.05),
    "logei+widest": ("LogEI, refitted, and widest in turn", 1.0),
    "widest": ("widest", 1.0),
    "known": ("known kernel", 1.0),
    "ax": ("widest, in Ax", 1.0),
}
_CERTIFICATES = {"family": "family", "known": "known kernel"}


def groups(searches: Sequence[str], seeds: int) -> list[Group]:
    r"""The rows: the runs of a search, and a certificate that is asked in them."""
    rows: list[Group] = []
    for search in searches:
        words, share = SEARCHES[search]
        tasks = [
            stops.Task(kernel, search, ROUNDS, seed)
            for seed in range(max(1, round(share * seeds)))
            for kernel in ("rbf", "matern52")
        ]
        for rule in ["known"] if search == "known" else ["family", "known"]:
            labels = {"search": words, "certificate": _CERTIFICATES[rule]}
            rows.append(_group(labels, tasks, rule))
    return rows


def _group(labels: dict[str, str], tasks: Sequence[stops.Task], rule: str) -> Group:
    numbers = {
        "stops": lambda runs: len(_stops(runs, rule)),
        "median": lambda runs: _quantile(runs, rule, 0.5),
        "90 %": lambda runs: _quantile(runs, rule, 0.9),
        "worst regret at a stop / accepted": lambda runs: max(
            getattr(run, f"{rule}_regret") for run in runs
        ),
    }
    return Group(labels, tasks, lambda run: run.false_stop(rule), stops.DELTA, numbers)


def _stops(runs: Sequence[stops.Run], rule: str) -> list[int]:
    return [number for run in runs if (number := getattr(run, rule)) > 0]


def _quantile(runs: Sequence[stops.Run], rule: str, level: float) -> float:
    r"""Of the observations at the stop, where a run without one has most; or infinity."""
    numbers = [getattr(run, rule) or np.inf for run in runs]
    return float(np.quantile(numbers, level, method="higher"))


def rows(store, counted: Sequence[Group]) -> list[Counted]:
    r"""The columns of all rows."""
    return [count(group, list(map(store.load, group.tasks))) for group in counted]


def table(counted: Sequence[Counted]) -> tuple[list[str], list[list[str]]]:
    r"""Header and cells as text."""
    return header(counted[0], "false stops"), [cells(row) for row in counted]
