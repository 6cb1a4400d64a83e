r"""The unit cube in place of finitely many arms: ``optimize_acqf`` on library classes."""

import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from botorch.acquisition import AcquisitionFunction
from botorch.optim import optimize_acqf
from botorch.utils.sampling import manual_seed
from linear_operator.utils.warnings import NumericalWarning
from torch import Tensor

from benchmarks.practical.model import LeanGP
from benchmarks.runner import largest_value, stream
from benchmarks.unknown_kernel.learners import Refits
from benchmarks.unknown_kernel.problems import Problem, family_of, function_name
from kernelucb import (
    FamilyTracker,
    KernelFamily,
    KernelFamilyUCB,
    KernelRegression,
    MartingaleMixtureUCB,
)


class _Learner:
    r"""Makes the acquisition function of a round; ``state`` gives means, once it has."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.task = problem, problem.task
        self.tracker, self.kernels = FamilyTracker(), family_of(self.task)
        self.refits = Refits(self.task.method, self.task.option)
        self.state: KernelRegression | LeanGP | None = None

    def acquisition(self, inputs: Tensor, outcomes: Tensor) -> AcquisitionFunction:
        r"""On all data so far, ``n x d`` and ``n``."""
        if self.task.method not in ("Oracle", "Family"):
            self.state = self.refits.model(inputs, outcomes)
            return self.refits.acquisition(self.state)
        data, noise_std = (inputs, outcomes), self.task.noise_std
        given = {"norm_bound": self.problem.norm_bound, "delta": self.task.delta}
        self.state = KernelRegression(*data, self.problem.kernel, noise_std)
        if self.task.method == "Oracle":
            return MartingaleMixtureUCB(self.state, **given)
        family = KernelFamily(self.kernels, tracker=self.tracker)
        bound = KernelFamilyUCB(self.state, family, **given)
        simplest = self.kernels[bound.consistent.index(True)]
        self.state = KernelRegression(*data, simplest, noise_std)
        return bound

    def means(self, inputs: Tensor) -> Tensor:
        r"""Posterior means of the last round's model, ``n`` values."""
        if isinstance(self.state, KernelRegression):
            return self.state.mean(inputs)
        assert self.state is not None
        return self.state.posterior(inputs).mean.detach().squeeze(-1)


def play_box(settings: dict[str, Any]) -> dict[str, Any]:
    r"""Regret of every point that a learner chose, and of the one that it recommends."""
    task = SimpleNamespace(**settings)
    own = stream(task.trial, "box", function_name(task), task.method)
    with manual_seed(int(own.integers(2**31))), warnings.catch_warnings():
        warnings.simplefilter("ignore", NumericalWarning)  # a jitter of BoTorch's
        warnings.simplefilter("ignore", RuntimeWarning)  # a search that begins anew
        return _play(task)


def _play(task: SimpleNamespace) -> dict[str, Any]:
    problem = Problem.draw(task, task.trial)
    learner, d = _Learner(problem), task.dimension
    cube = torch.tensor([[0.0], [1.0]], dtype=torch.float64).expand(2, d)
    best = largest_value(problem.function, problem.arms)
    drawn = stream(task.seed, "box", function_name(task), task.trial)
    inputs = torch.from_numpy(drawn.random((task.starts, d)))
    noise = torch.from_numpy(drawn.standard_normal(task.starts + task.rounds))
    noise *= task.noise_std
    for _ in range(task.rounds):
        outcomes = problem.function(inputs) + noise[: len(inputs)]
        point, _ = optimize_acqf(
            learner.acquisition(inputs, outcomes),
            cube,
            q=1,
            num_restarts=task.restarts,
            raw_samples=task.raw_samples,
            options={"maxiter": task.iterations},
        )
        inputs = torch.cat([inputs, point.detach()])
    values = problem.function(inputs)
    learner.acquisition(inputs, values + noise)
    recommended = best - float(values[int(learner.means(inputs).argmax())])
    regret = (best - values[task.starts :]).tolist()
    if not np.all(np.isfinite([*regret, recommended])):
        raise ArithmeticError(f"Regret that is not a number in {task}.")
    return {"regret": regret, "recommended": recommended}
