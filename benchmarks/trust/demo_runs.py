r"""Do the demo's band and its "largest possible gap" hold?"""

from dataclasses import dataclass
from pathlib import PurePath

from benchmarks import runner
from benchmarks.trust.demo import run_one


@dataclass(frozen=True)
class Task(runner.Task):
    r"""One run; see ``run_one``."""

    function: str
    estimate: bool
    rounds: int
    seed: int

    @property
    def location(self) -> PurePath:
        r"""One folder for each function, with and without ``--estimate``."""
        file = f"{self.rounds}-rounds-seed-{self.seed:03d}.json"
        return PurePath(
            "demo", "estimate" if self.estimate else "default", self.function, file
        )


@dataclass(frozen=True)
class Run:
    r"""What ``run_one`` returns."""

    missed_rounds: int
    gap_below_regret_rounds: int
    final_gap: float
    final_regret: float
    norm_bound: float
    norm: float


def play(task: Task) -> Run:
    r"""Play the demo once."""
    return Run(**run_one(task.function, task.seed, task.estimate, task.rounds))
