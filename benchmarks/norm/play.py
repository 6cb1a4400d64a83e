r"""One run: a bound chooses points of a function whose norm is known."""

from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

import torch

from benchmarks import runner
from benchmarks.runner import KnownFunction, fixed_kernel, stream
from kernelucb import KernelRegression, MartingaleMixtureUCB, NormTracker

ARMS, CENTRES, NOISE_STD, LENGTHSCALE = 200, 20, 0.1, 0.3


@dataclass(frozen=True)
class Task(runner.Task):
    r"""One run.

    Attributes:
        kernel: ``"rbf"`` or ``"matern52"``, known to the bound.
        norm: The function's norm, prior standard deviations.
        inflation: Of the ``NormTracker``; 0 where the bound is told the true norm.
        floor: Of the ``NormTracker``.
        kept: Whether one tracker is kept over the rounds.
        rounds: Number of evaluations.
        seed: Of function and noise; the same for all bounds.
    """

    kernel: str
    norm: float
    inflation: float
    floor: float
    kept: bool
    rounds: int
    seed: int

    @property
    def location(self) -> PurePath:
        r"""One folder for each bound on each kind of function."""
        bound = f"{self.inflation:g}-{self.floor:g}-{'kept' if self.kept else 'new'}"
        file = f"{self.rounds}-rounds-seed-{self.seed:03d}.json"
        return PurePath(f"{self.kernel}-{self.norm:g}", bound, file)


@dataclass(frozen=True)
class Run:
    r"""What the band said after every evaluation.

    Attributes:
        missed: Share of the arms at which it missed the function.
        ratio: Norm bound over the true norm.
        regret: Largest value minus that of the arm with the largest lower bound.
    """

    missed: list[float]
    ratio: list[float]
    regret: list[float]


def play(task: Task) -> Run:
    r"""Play one task on ``ARMS`` random points of the unit square."""
    draw = stream(task.seed, "function", task.kernel, f"{task.norm:g}")
    kernel = fixed_kernel(task.kernel, LENGTHSCALE)
    arms = torch.from_numpy(draw.random((ARMS, 2)))
    with torch.no_grad():
        truth = KnownFunction.draw(draw, kernel, task.norm, 2, CENTRES)(arms)
    chosen = [int(draw.integers(ARMS))]
    noise = NOISE_STD * torch.from_numpy(draw.standard_normal(task.rounds))
    tracker, run = _tracker(task), Run([], [], [])
    for number in range(1, task.rounds + 1):
        Y = truth[chosen] + noise[:number]
        state: Any = KernelRegression(arms[chosen], Y, kernel, NOISE_STD)
        norm_bound = task.norm if tracker is None else tracker
        acqf = MartingaleMixtureUCB(state, norm_bound=norm_bound)
        tracker = tracker if task.kept else _tracker(task)
        lower, upper = acqf.bounds(arms)
        slack = 1e-9 * task.norm
        missed = (truth < lower - slack) | (truth > upper + slack)
        run.missed.append(float(missed.double().mean()))
        run.ratio.append(acqf.norm_bound / task.norm)
        run.regret.append(float(truth.max() - truth[lower.argmax()]))
        chosen.append(int(upper.argmax()))
    return run


def _tracker(task: Task) -> NormTracker | None:
    if task.inflation == 0.0:
        return None
    return NormTracker(inflation=task.inflation, floor=task.floor)
