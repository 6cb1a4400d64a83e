r"""A task is a run of consecutive cases of one family; a case is its family and seed."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import NamedTuple

from benchmarks import runner
from benchmarks.attack.verdicts import KINDS, Verdict


class Family(NamedTuple):
    r"""One way to attack.

    Attributes:
        play: Plays the case of a seed.
        count: Cases of the whole benchmark.
        words: What it does, for the table.
        chunk: Cases of one task.
    """

    play: Callable[[int], Verdict]
    count: Callable[[], int]
    words: str
    chunk: int = 250


@dataclass(frozen=True)
class Task(runner.Task):
    r"""Cases ``first`` to ``first + cases - 1`` of a family."""

    family: str
    first: int
    cases: int

    @property
    def location(self) -> PurePath:
        r"""One folder for each family."""
        return PurePath(self.family, f"{self.first:06d}-{self.cases}.json")


@dataclass(frozen=True)
class Run:
    r"""Verdicts of a task.

    Attributes:
        counts: Number of cases by kind.
        failures: Seed, kind, place, message and case of each that is neither ``ok`` nor
            ``typed``.
        seconds: Processor time.
    """

    counts: dict[str, int]
    failures: list[list] = field(default_factory=list)
    seconds: float = 0.0


def play(task: Task, family: Family) -> Run:
    r"""Play the cases of a task."""
    counts: dict[str, int] = dict.fromkeys(KINDS, 0)
    failures, start = [], time.process_time()
    for seed in range(task.first, task.first + task.cases):
        verdict = family.play(seed)
        counts[verdict.kind] += 1
        if verdict.kind in ("untyped", "wrong"):
            failures.append([seed, *verdict])
    return Run(counts, failures, time.process_time() - start)


def tasks_of(name: str, family: Family, cases: int | None) -> list[Task]:
    r"""The tasks of a family, or of its first cases."""
    total = family.count()
    total = total if cases is None else min(cases, total)
    step = family.chunk
    return [Task(name, at, min(step, total - at)) for at in range(0, total, step)]
