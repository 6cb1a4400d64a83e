r"""Do the demo's band and its "largest possible gap" hold?"""

from dataclasses import dataclass
from pathlib import PurePath

from benchmarks import runner
from kernelucb._demo import loop
from kernelucb._demo.problems import PROBLEMS, make_problem

FUNCTIONS = tuple(PROBLEMS)


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
            candidates or more.
        gap_below_regret_rounds: Rounds in which the gap was below the true regret of the
            recommended point.
        final_gap: Of the last round, outcome units.
        final_regret: Of the last round, outcome units.
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
    settings = loop.Settings(seed=task.seed, estimate=task.estimate, rounds=task.rounds)
    demo = loop.Run(problem, settings)
    rows = list(demo.steps())
    return Run(
        sum(row.covered < 1.0 for row in rows),
        sum(row.gap < row.regret for row in rows),
        rows[-1].gap,
        rows[-1].regret,
        demo.acquisition.norm_bound,
        problem.function.norm,
    )
