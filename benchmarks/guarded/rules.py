r"""Functions of known norm, from named streams, and the point that a rule plays next."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from botorch.acquisition import (
    AcquisitionFunction,
    LogExpectedImprovement,
    UpperConfidenceBound,
    qLogNoisyExpectedImprovement,
)
from botorch.optim import optimize_acqf, optimize_acqf_discrete
from botorch.sampling import SobolQMCNormalSampler
from gpytorch.kernels import Kernel
from gpytorch.means import ZeroMean
from torch import Tensor

import kernelucb
from benchmarks.practical.model import LeanGP
from benchmarks.runner import KnownFunction, fixed_kernel, largest_value, stream, unit_cube
from kernelucb.acquisition.guarded import is_ucb_turn
from kernelucb.regression.from_model import ModelData
from kernelucb.regression.prior import Prior


@dataclass(frozen=True)
class Problem:
    r"""A function on finitely many arms or on the unit cube.

    Attributes:
        task: The settings of the run.
        kernel: That the norm is known under.
        function: From ``n x d`` points to ``n`` values.
        arms: ``n x d``; in the cube the starting points.
        is_box: Whether the whole unit cube is the domain.
        starts: ``s x d`` points that are played first.
        noise: Of every round.
    """

    task: SimpleNamespace
    kernel: Kernel
    function: Callable[[Tensor], Tensor]
    arms: Tensor
    is_box: bool
    starts: Tensor
    noise: Tensor

    @cached_property
    def prior(self) -> Prior:
        r"""What all states are made from."""
        return Prior(self.kernel, None)

    @cached_property
    def optimum(self) -> float:
        if self.is_box:
            return largest_value(self.function, self.arms)
        return float(self.function(self.arms).max())

    @classmethod
    def draw(cls, task: SimpleNamespace, seed: int) -> "Problem":
        r"""The problem of a seed, the same for all rules."""

        def drawn(what: str) -> np.random.Generator:
            return stream(task.stream, what, task.setting, seed)

        kernel, d = fixed_kernel(task.kernel, task.lengthscale), task.dimension
        function = KnownFunction.draw(drawn("function"), kernel, task.norm, d, task.centres)
        is_box = task.arms == 0
        count = task.starts if is_box else task.arms
        arms = torch.from_numpy(drawn("arms").random((count, d)))
        first = drawn("starts").permutation(count)[: task.starts]
        rounds = task.starts + task.rounds
        noise = torch.from_numpy(drawn("noise").standard_normal(rounds))
        starts = arms[torch.from_numpy(first)]
        return cls(task, kernel, function, arms, is_box, starts, task.noise_std * noise)


class KnownGP(LeanGP):
    r"""``SingleTaskGP`` with a zero mean, a fixed kernel and a fixed noise.

    Args:
        inputs: ``n x d``.
        outcomes: ``n``.
        kernel: Of unit variance.
        variance: Of the prior.
        noise_std: Noise scale.
    """

    _constant: Any = 0.0
    _offset: Any = 0.0
    _scale: Any = 1.0

    def __init__(
        self,
        inputs: Tensor,
        outcomes: Tensor,
        kernel: Kernel,
        variance: float,
        noise_std: float,
    ) -> None:
        column = outcomes.unsqueeze(-1)
        super().__init__(
            inputs,
            column,
            train_Yvar=torch.full_like(column, noise_std**2),
            covar_module=kernel,
            mean_module=ZeroMean(),
            outcome_transform=None,
        )
        self.variance = variance
        self.eval()

    def _variance(self, half: Tensor) -> Tensor:
        return (self.variance - half.square().sum(-2)).clamp_min(1e-12)

    def _covariance(self, left: Tensor, right: Tensor) -> Tensor:
        return self.variance * self.covar_module(left, right).to_dense()


# Prior variances among which the search's model has the most likely one.
_VARIANCES = torch.logspace(-1.0, 3.0, 41, dtype=torch.float64)
_RANDOM_BETA = torch.distributions.Exponential(0.5)  # mean 2


class Round:
    r"""All observations so far, and what a rule makes of them.

    Args:
        problem: Whose values are not read.
        inputs: ``n x d``.
        outcomes: ``n``.
        norm_bound, noise_std: That are believed; by default the true ones.
    """

    def __init__(
        self,
        problem: Problem,
        inputs: Tensor,
        outcomes: Tensor,
        norm_bound: float | None = None,
        noise_std: float | None = None,
    ) -> None:
        self.problem, self.task = problem, problem.task
        self.inputs, self.outcomes = inputs, outcomes
        self.noise_std = noise_std or self.task.noise_std
        noise, columns = torch.full_like(outcomes, self.noise_std), inputs.shape[-1]
        data = ModelData(problem.prior, inputs, outcomes, noise, columns, frozenset())
        self.state = kernelucb.KernelRegression.from_data(data)
        self.band = kernelucb.MartingaleMixtureUCB(
            self.state, norm_bound=norm_bound or self.task.norm, delta=self.task.delta
        )

    @classmethod
    def observed(cls, problem: Problem, inputs: Tensor, *belief: float) -> "Round":
        r"""With the noisy values of the function at the inputs."""
        outcomes = problem.function(inputs) + problem.noise[: len(inputs)]
        return cls(problem, inputs, outcomes, *belief)

    def point(self) -> Tensor:
        r"""The point that the rule of the run plays next, ``1 x d``."""
        rule = self.task
        if not rule.search:
            return self._largest(self.band)
        is_turn = rule.ucb_every > 0 and is_ucb_turn(len(self.inputs), rule.ucb_every)
        if is_turn and rule.turns == "challenger":
            certificate = kernelucb.regret_certificate(self.band, self.problem.arms)
            return certificate.challenger.unsqueeze(0)
        search = self._search(rule.search)
        if not rule.is_guarded:
            return self._largest(search)
        guard = kernelucb.GuardedAcquisition(
            search,
            self.band,
            temperature=0.02 if self.problem.is_box else 0.0,
            ucb_every=rule.ucb_every or None,
        )
        arms = None
        if rule.search == "qLogNEI" and not (self.problem.is_box or is_turn):
            # What is excluded need not be evaluated, which costs more than the guard.
            possible = self.problem.arms[guard.excess(self.problem.arms) >= 0.0]
            arms = possible if len(possible) else None
        return self._largest(guard, arms)

    def model(self) -> KnownGP:
        r"""A Gaussian process with the given kernel and noise and the likeliest variance.

        Functions of a known norm have no known variance.
        """
        signal = _VARIANCES.unsqueeze(-1) * self.state.eigenvalues + 1.0
        loss = (signal.log() + self.state.targets.square() / signal).sum(-1)
        variance = float(_VARIANCES[loss.argmin()])
        return KnownGP(
            self.inputs, self.outcomes, self.problem.kernel, variance, self.noise_std
        )

    def _search(self, name: str) -> AcquisitionFunction:
        model = self.model()
        if name == "LogEI":
            best = model.posterior(self.inputs).mean.max().detach()
            return LogExpectedImprovement(model, best)
        if name == "qLogNEI":
            sampler = SobolQMCNormalSampler(torch.Size([self.task.samples]))
            return qLogNoisyExpectedImprovement(
                model, self.inputs, sampler, prune_baseline=True
            )
        return UpperConfidenceBound(model, float(_RANDOM_BETA.sample()))

    def _largest(self, acqf: AcquisitionFunction, arms: Tensor | None = None) -> Tensor:
        r"""The maximiser in the domain, or among some arms, ``1 x d``."""
        if self.problem.is_box:
            point, _ = optimize_acqf(
                acqf,
                unit_cube(self.task.dimension),
                q=1,
                num_restarts=self.task.restarts,
                raw_samples=self.task.raw_samples,
                options={"maxiter": self.task.iterations},
            )
        else:
            arms = self.problem.arms if arms is None else arms
            point, _ = optimize_acqf_discrete(acqf, 1, arms, unique=False)
        return point.detach()
