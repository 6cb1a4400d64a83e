r"""Mean widths of the two sets on the same data."""

from dataclasses import dataclass

from benchmarks.filters.configuration import Task
from benchmarks.filters.problems import Problem

FITS = ("filters", "martingale")


@dataclass(frozen=True)
class Run:
    r"""Mean widths and misses, each for ``FITS`` in their order."""

    domain: list[float]
    data: list[float]
    missed: list[bool]


def play(task: Task) -> Run:
    r"""Both bands of one problem."""
    problem, run = Problem.of(task), Run([], [], [])
    for fit in FITS:
        widths, missed = problem.measure(problem.band(fit))
        run.domain.append(widths["domain"])
        run.data.append(widths["data"])
        run.missed.append(missed)
    return run
