r"""Do the demo's band and its "largest possible gap" hold?"""

from dataclasses import dataclass
from pathlib import PurePath

from benchmarks import runner
from kernelucb.__main__ import FUNCTIONS
from kernelucb._demo.problems import make_problem
from kernelucb._demo.run import Run as Demo

__all__ = ["FUNCTIONS", "Run", "Task", "play"]


@dataclass(frozen=True)
class Task(runner.Task):
    r"""One run.

    Attributes:
        function: One of ``FUNCTIONS``.
        estimate: As ``--estimate``; otherwise the norm is known, as by default.
        rounds: Rounds after the initial points.
        seed: Of initial points, noise and search.
    """

    function: str
    estimate: bool
    rounds: int
    seed: int

    @property
    def location(self) -> PurePath:
        r"""One folder for each function, with and without ``--estimate``."""
        file = f"{self.rounds}-rounds-seed-{self.seed:03d}.json"
        command = "estimate" if self.estimate else "default"
        return PurePath("demo", command, self.function, file)


@dataclass(frozen=True)
class Run:
    r"""The demo's misses.

    Attributes:
        missed_rounds: Rounds in which the band missed the black box at one of the demo's
            settings or more.
        gap_below_regret_rounds: Rounds whose gap was below the true regret of the point it
            is about; also 1 if only the smallest gap, the last line's, was.
        final_gap: Of the last line, outcome units.
        final_regret: Of the point in the last line, outcome units.
        norm_bound: In the end.
        norm: The black box's.
    """

    missed_rounds: int
    gap_below_regret_rounds: int
    final_gap: float
    final_regret: float
    norm_bound: float
    norm: float


def play(task: Task) -> Run:
    r"""Play the demo once and count its misses."""
    problem = make_problem(task.function)
    demo = Demo(problem, rounds=task.rounds, seed=task.seed, estimate=task.estimate)
    rows = list(demo.steps())
    regret = demo.regret(demo.best)
    wrong = sum(row.certificate.gap < demo.regret(row.certificate) for row in rows)
    return Run(
        sum(not row.covered for row in rows),
        wrong or int(demo.best.gap < regret),
        demo.best.gap,
        regret,
        demo.band.norm_bound,
        problem.function.norm,
    )
