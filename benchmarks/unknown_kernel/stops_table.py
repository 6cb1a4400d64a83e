r"""How often a stop was false, and how many observations it took."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.runner.events import event_row
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


def tasks_of(search: str, seeds: int) -> list[stops.Task]:
    r"""The runs of a search."""
    _, share = SEARCHES[search]
    return [
        stops.Task(kernel, search, ROUNDS, seed)
        for seed in range(max(1, round(share * seeds)))
        for kernel in ("rbf", "matern52")
    ]


def rows(search: str, runs: Sequence[stops.Run]) -> list[dict[str, Any]]:
    r"""A row for each certificate that is asked in the runs of a search."""
    rows = []
    for rule in ["known"] if search == "known" else ["family", "known"]:
        numbers = [getattr(run, rule) or np.inf for run in runs]
        median, most = (
            # A run without a stop has most.
            float(np.quantile(numbers, level, method="higher"))
            for level in (0.5, 0.9)
        )
        columns = {"stops": int(np.isfinite(numbers).sum()), "median": median}
        columns["90 %"] = most
        worst = max(getattr(run, f"{rule}_regret") for run in runs)
        columns["worst regret at a stop / accepted"] = worst
        labels = {"search": SEARCHES[search][0], "certificate": _CERTIFICATES[rule]}
        false = pd.Series([run.false_stop(rule) for run in runs])
        rows.append(event_row(len(runs), false, labels, stops.DELTA, **columns))
    return rows
