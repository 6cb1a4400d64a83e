r"""A bandit on a fixed set of arms, at a cost that does not grow with the rounds."""

from typing import Any, cast

import numpy as np
import torch
from botorch.models.model import Model
from torch import Tensor
from torch.nn import Module
from torch.nn.functional import pad

import kernelucb
from benchmarks.papers.durand_2018.streams import kernel_of, true_function
from benchmarks.runner import stream
from benchmarks.runner.study import Settings
from kernelucb.regression.from_model import ModelData
from kernelucb.regression.prior import Prior


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


class PooledRegression(kernelucb.KernelRegression):
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
    r"""One method with what the protocol lets it know; every bound has all of ``delta``."""

    def __init__(self, task: Settings) -> None:
        self.task = task
        self.unknown = kernelucb.UnknownNoise(task["noise_lower"], task["noise_upper"])
        # Corollary 1: four events, three of which the noise bounds rest on.
        self.tracker = kernelucb.StreamingNoiseTracker(
            task["norm_bound"], self.unknown, delta=0.75 * task["delta"]
        )

    def values(self, state: kernelucb.KernelRegression, arms: Tensor) -> Tensor:
        r"""Upper bounds at the arms; the largest is played."""
        return self._bound(cast(Model, state))(arms.unsqueeze(1))

    def _bound(self, model: Model) -> Any:
        task, norm = self.task, self.task["norm_bound"]
        given: dict[str, Any] = {"norm_bound": norm, "delta": task["delta"]}
        known = given | {"noise_std": task["noise_std"]}
        unknown = given | {"noise_std": self.unknown}
        match task["bound"]:
            case "theorem1":
                alpha = (task["noise_std"] / norm) ** 2
                return kernelucb.AbbasiYadkoriUCB(model, alpha=alpha, **known)
            case "corollary1":
                return kernelucb.StreamingKernelUCB(model, **unknown, tracker=self.tracker)
            case "joint":
                return kernelucb.MartingaleMixtureUCB(model, **unknown)
        fit = kernelucb.MartingaleMixture(task["covariance_scale"])
        return kernelucb.MartingaleMixtureUCB(model, fit=fit, **known)


@torch.no_grad()
def play(task: Settings) -> dict[str, Any]:
    r"""Mean reward of each arm, and arms played."""
    own = stream(task["seed"], "own", task["method"], task["repetition"])
    history, learner = History(task), Learner(task)
    means = true_function(task)(history.arms)
    own.integers(2**63)  # the seed of samplers, which no method here has
    played = [int(own.integers(len(means)))]
    for _ in range(task["rounds"]):
        outcome = means[played[-1]] + task["noise_std"] * own.standard_normal()
        history.observe(played[-1], float(outcome))
        if len(played) < task["rounds"]:
            state = PooledRegression(history)
            played.append(int(learner.values(state, history.arms).argmax()))
    return {"means": means.tolist(), "played": played}
