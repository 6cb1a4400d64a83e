r"""Does a band hold where whether an outcome is reported depends on its noise?"""

import warnings
from dataclasses import dataclass
from pathlib import PurePath

import numpy as np
import torch
from torch import Tensor

from benchmarks import runner
from benchmarks.runner import fixed_kernel, stream
from benchmarks.trust.functions import drawn_values, line
from kernelucb import KernelRegression, MartingaleMixtureUCB
from kernelucb.exceptions import InconsistentConfidenceSetWarning

KERNEL, LENGTHSCALE, NORM, NOISE_STD, DELTA = "rbf", 0.2, 2.0, 0.1, 0.05


@dataclass(frozen=True)
class Task(runner.Task):
    r"""One run.

    Attributes:
        losses: ``"none"``; ``"random"``, each outcome by a fair coin; or a number: those
            whose noise is below it, in standard deviations of the noise.
        outcomes: Number of reported outcomes.
        seed: Of function, noise and losses.
    """

    losses: str
    outcomes: int
    seed: int

    @property
    def location(self) -> PurePath:
        r"""One folder for each way to lose outcomes."""
        file = f"{self.outcomes}-outcomes-seed-{self.seed:03d}.json"
        return PurePath("lost", self.losses, file)


@dataclass(frozen=True)
class Run:
    r"""Whether the band missed the function.

    Attributes:
        missed: Number of reported outcomes at the first miss; 0 without one.
    """

    missed: int = 0


def play(task: Task) -> Run:
    r"""Play the largest upper bound again and again until its outcome is reported."""
    kernel, arms = fixed_kernel(KERNEL, LENGTHSCALE), line()
    values = drawn_values("random", kernel, NORM, task.seed)
    noise = torch.from_numpy(_reported(task)) * NOISE_STD
    chosen = [int(stream(task.seed, "start").integers(len(values)))]
    for number in range(1, task.outcomes + 1):
        outcomes = values[chosen] + noise[:number]
        lower, upper = _band(KernelRegression(arms[chosen], outcomes, kernel, NOISE_STD))
        slack = 1e-9 * NORM
        if bool(((values < lower - slack) | (values > upper + slack)).any()):
            return Run(missed=number)
        chosen.append(int(upper.argmax()))
    return Run()


def _reported(task: Task) -> np.ndarray:
    r"""The noise of the outcomes that are reported, in its own standard deviations."""
    noise = stream(task.seed, "noise").standard_normal(20 * task.outcomes)
    if task.losses == "random":
        reported = stream(task.seed, "losses").random(len(noise)) < 0.5
    else:
        reported = noise >= (-np.inf if task.losses == "none" else float(task.losses))
    return noise[reported][: task.outcomes]


def _band(state: KernelRegression) -> tuple[Tensor, Tensor]:
    with warnings.catch_warnings():
        # An empty set is widened until it holds one function, which is then judged.
        warnings.simplefilter("ignore", InconsistentConfidenceSetWarning)
        acqf = MartingaleMixtureUCB(state, norm_bound=NORM, delta=DELTA, fit="martingale")
    return acqf.bounds(line())
