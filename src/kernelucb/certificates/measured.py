r"""How often claims at a margin were false, on problems that no kernel made.

``python -m benchmarks.reliability package`` makes ``reliability.csv`` from what was
measured. Shares of the past are no theorem: nothing here is certified.
"""

import csv
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from kernelucb.certificates.task import Task
from kernelucb.regression import KernelRegression

KINDS = "value", "window", "anywhere"
WINDOW = 0.05  # half sides of the window that was measured, over the domain's


class Record(NamedTuple):
    r"""What became of claims of one kind, after so many runs, at one margin."""

    kind: str  # of `KINDS`
    runs: int  # the record is used from so many on
    level: float  # the norm bound over the least one
    claims: int
    problems: int
    share_false: float

    def __str__(self) -> str:
        return (
            f"of {self.claims:,} claims of this kind at this margin on {self.problems} "
            f"other problems {100 * self.share_false:.2g} % were false"
        )


@cache
def records() -> tuple[Record, ...]:
    r"""The table of the package, the least margins first."""
    path = files("kernelucb.certificates").joinpath("reliability.csv")
    rows = csv.DictReader(path.read_text(encoding="utf-8").splitlines())
    kinds = Record.__annotations__.items()
    found = [Record(**{name: kind(row[name]) for name, kind in kinds}) for row in rows]
    return tuple(sorted(found, key=lambda each: each.level))


def at_margin(task: Task, kind: str, margin: float) -> Record | None:
    r"""The record of the largest margin that is not above this one."""
    runs = _runs(task)
    same = [each for each in records() if each.kind == kind and each.runs <= runs]
    count = max((each.runs for each in same), default=0)
    found = [each for each in same if each.runs == count and each.level <= margin]
    return found[-1] if found else None


def _runs(task: Task) -> int:
    r"""Number of runs; 0 where the task is unlike those that were measured."""
    band = task.bound
    unlike = task.constraints is not None or not band.outcome_map.is_identity
    if unlike or band.observed is None or band.noise_scale is None:
        return 0
    return len(band.observed) if isinstance(band.data, KernelRegression) else 0
