r"""A bandit on a fixed set of arms, at a cost that does not grow with the rounds."""

import math
from typing import Any, cast

import numpy as np
import torch
from botorch.models.model import Model
from torch import Tensor
from torch.nn import Module
from torch.nn.functional import pad

from benchmarks.papers.durand_2018.problems import Settings, kernel_of, true_function
from benchmarks.runner import stream
from kernelucb import (
    AbbasiYadkoriUCB,
    KernelRegression,
    KernelThompsonSampling,
    MartingaleMixture,
    MartingaleMixtureUCB,
    StreamingKernelUCB,
    StreamingNoiseTracker,
    UnknownNoise,
)
from kernelucb.regression.from_model import ModelData
from kernelucb.regression.prior import Prior

# Rounds at which the noise bound is kept, to a factor of two.
_KEPT_PER_OCTAVE = 4


class History:
    r"""How often each arm was played, and the mean and scatter of what came out."""

    def __init__(self, task: Settings) -> None:
        self.prior = Prior(kernel_of(task))
        self.arms = torch.from_numpy(np.linspace(0.0, 1.0, task["arms"]))[:, None]
        self.counts = torch.zeros(len(self.arms), dtype=torch.float64)
        self.means = torch.zeros_like(self.counts)
        self.scatter = 0.0

    def observe(self, index: int, outcome: float) -> None:
        r"""Add one outcome (Welford's recursion)."""
        self.counts[index] += 1.0
        deviation = outcome - float(self.means[index])
        self.means[index] += deviation / self.counts[index]
        self.scatter += deviation * (outcome - float(self.means[index]))


class PooledRegression(KernelRegression):
    r"""The state that ``KernelRegression`` makes of all rows, from the pooled ones.

    ``KernelRegression`` pools its rows to the same effect, but has to compare all of them
    in every round first.
    """

    def __init__(self, history: History) -> None:
        r"""State of a history with at least one observation, whitened by noise of 1."""
        Module.__init__(self)
        played = history.counts > 0
        self._count = int(history.counts.sum())
        arms, means = history.arms[played], history.means[played]
        noise = history.counts[played].rsqrt()
        self._decompose(ModelData(history.prior, arms, means, noise, 1, frozenset()))
        # No section reaches the direction that stands for the scatter.
        scatter = self.targets.new_tensor([history.scatter]).sqrt()
        self.targets = torch.cat([scatter, self.targets])
        for name in ("eigenvalues", "feature_basis"):
            setattr(self, name, pad(getattr(self, name), (1, 0)))
        self.noise_scales = self.noise_scales.new_ones(1)

    @property
    def num_observations(self) -> int:
        r"""Number of observations, not of arms."""
        return self._count


class Learner:
    r"""One method with what the protocol lets it know."""

    def __init__(self, task: Settings) -> None:
        self.task = task
        self.level = task["delta"] / task["share"]
        self.unknown = UnknownNoise(task["noise_lower"], task["noise_upper"])
        # Corollary 1: four events, three of which the noise bounds rest on.
        self.tracker = StreamingNoiseTracker(
            task["norm_bound"], self.unknown, delta=3.0 * self.level
        )

    def values(self, state: KernelRegression, arms: Tensor) -> Tensor:
        r"""Of the arms; the largest is played."""
        bound = self._bound(cast(Model, state))
        if isinstance(bound, KernelThompsonSampling):
            return bound.sample_values(arms)[0]
        return bound(arms.unsqueeze(1))

    def _bound(self, model: Model) -> Any:
        task, norm = self.task, self.task["norm_bound"]
        noise_std = task["noise_std" if task["knows"] == "noise" else "noise_upper"]
        given: dict[str, Any] = {"norm_bound": norm, "delta": self.level}
        known = given | {"noise_std": noise_std}
        unknown = given | {"noise_std": self.unknown}
        tracked = unknown | {"delta": 4.0 * self.level, "tracker": self.tracker}
        match task["policy"], task["bound"]:
            case "ucb", "theorem1":
                return AbbasiYadkoriUCB(model, alpha=(noise_std / norm) ** 2, **known)
            case "ucb", "corollary1":
                return StreamingKernelUCB(model, **tracked)
            case "ucb", "exact":
                fit = MartingaleMixture(task["covariance_scale"])
                return MartingaleMixtureUCB(model, fit=fit, **known)
            case "ucb", "joint":
                return MartingaleMixtureUCB(model, **unknown)
            case "ts", "theorem1":
                return KernelThompsonSampling(model, **known)
            case "ts", "corollary1":
                return KernelThompsonSampling(model, **tracked)
        raise ValueError(f"Unknown method in {task}.")


@torch.no_grad()
def play(task: Settings) -> dict[str, Any]:
    r"""Mean reward of each arm, arms played, and at some rounds the upper noise bound."""
    own = stream(task["seed"], "own", task["method"], task["repetition"])
    history, learner = History(task), Learner(task)
    means = true_function(task)(history.arms)
    torch.manual_seed(int(own.integers(2**63)))  # Thompson sampling draws from torch
    index, played, uppers = int(own.integers(len(means))), [], []
    for number in range(1, task["rounds"] + 1):
        if number > 1:
            state = PooledRegression(history)
            index = int(learner.values(state, history.arms).argmax())
            if task["bound"] == "corollary1" and _is_kept(number):
                uppers.append([number, learner.tracker.upper])
        played.append(index)
        outcome = means[index] + task["noise_std"] * own.standard_normal()
        history.observe(index, float(outcome))
    return {"means": means.tolist(), "played": played, "noise_uppers": uppers}


def _is_kept(number: int) -> bool:
    r"""Whether a step of the logarithmic scale ends with this round."""
    before, after = (_KEPT_PER_OCTAVE * math.log2(n) for n in (number, number + 1))
    return math.floor(before) != math.floor(after)
