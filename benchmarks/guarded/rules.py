r"""The point that a rule plays next."""

import torch
from botorch.acquisition import (
    AcquisitionFunction,
    LogExpectedImprovement,
    UpperConfidenceBound,
    qLogNoisyExpectedImprovement,
)
from botorch.optim import optimize_acqf, optimize_acqf_discrete
from botorch.sampling import SobolQMCNormalSampler
from torch import Tensor

import kernelucb
from benchmarks.guarded.model import KnownGP
from benchmarks.guarded.problems import Problem
from benchmarks.runner import unit_cube
from kernelucb.acquisition.guarded import is_ucb_turn
from kernelucb.regression.from_model import ModelData

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
            self.state,
            norm_bound=norm_bound or self.task.norm,
            delta=self.task.delta,
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
