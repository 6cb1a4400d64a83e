r"""One run of a bandit."""

import math
from dataclasses import dataclass
from time import perf_counter

import numpy as np
import torch

from benchmarks.papers.durand_2018.configuration import BanditTask
from benchmarks.papers.durand_2018.learners import Learner
from benchmarks.papers.durand_2018.pooled import ArmPrior, History
from benchmarks.papers.durand_2018.problems import (
    arm_grid,
    covar_module,
    own_stream,
    true_function,
)

# Rounds at which the noise interval is kept, to a factor of two.
_KEPT_PER_OCTAVE = 4


@dataclass(frozen=True)
class Run:
    r"""Result of a bandit's task.

    Attributes:
        means: Mean reward of each arm.
        arms: Index of the arm played in each round.
        noise: Round, lower and upper bound on the noise scale, at some rounds.
        seconds: Wall-clock time of all rounds.
    """

    means: list[float]
    arms: list[int]
    noise: list[list[float]]
    seconds: float

    def cumulative_regret(self) -> np.ndarray:
        r"""Sum of the best mean minus that of the arm played, up to each round."""
        means = np.array(self.means)
        return np.cumsum(means.max() - means[self.arms])


@torch.no_grad()
def play(task: BanditTask) -> Run:
    r"""Play one task, in this process, single-threaded."""
    protocol, own = task.protocol, own_stream(task)
    arms = arm_grid(protocol)
    means = true_function(protocol, task.repetition)(arms)
    history = History(ArmPrior(covar_module(protocol), torch.from_numpy(arms)))
    learner = Learner(task, history.arms)
    torch.manual_seed(int(own.integers(2**63)))  # Thompson sampling draws from torch
    index, played, noise = int(own.integers(len(arms))), [], []
    start = perf_counter()
    for number in range(1, task.rounds + 1):
        if number > 1:
            index = learner.select(history.regression())
            if learner.noise_interval is not None and _is_kept(number):
                noise.append([number, *learner.noise_interval])
        played.append(index)
        outcome = means[index] + protocol.noise_std * own.standard_normal()
        history.observe(index, float(outcome))
    return Run(means.tolist(), played, noise, perf_counter() - start)


def _is_kept(number: int) -> bool:
    r"""Whether a step of the logarithmic scale ends with this round."""
    before, after = (_KEPT_PER_OCTAVE * math.log2(n) for n in (number, number + 1))
    return math.floor(before) != math.floor(after)
