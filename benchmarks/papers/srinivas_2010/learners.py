r"""The methods of the comparison behind one interface."""

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from botorch.acquisition import AcquisitionFunction
from botorch.acquisition.analytic import (
    LogExpectedImprovement,
    LogProbabilityOfImprovement,
    PosteriorMean,
    PosteriorStandardDeviation,
)
from torch import Tensor

from benchmarks.papers.srinivas_2010.priors import Prior
from benchmarks.papers.srinivas_2010.tabulated import (
    FiniteDomainGP,
    TabulatedKernel,
    TabulatedMean,
    domain,
)
from kernelucb import KernelRegression, MartingaleMixtureUCB, SrinivasUCB
from kernelucb.confidence.srinivas import FiniteDomain


class Method(NamedTuple):
    r"""A rule for choosing points.

    Attributes:
        scale: Multiplies ``beta_t`` of Theorem 1 (the paper: 1/5).
        incumbent: What EI and MPI try to improve on: the largest posterior mean among the
            points played, or the largest noisy observation.
        margin: Added to it, in prior standard deviations.
    """

    label: str
    rule: str
    scale: float = 1.0
    incumbent: str = "posterior_mean"
    margin: float = 0.0


# In the order of the tables.
METHODS = {
    "gp_ucb": Method("GP-UCB (beta / 5)", "srinivas", scale=0.2),
    "gp_ucb_theorem": Method("GP-UCB (beta of Theorem 1)", "srinivas"),
    "gp_ucb_twentieth": Method("GP-UCB (beta / 20)", "srinivas", scale=0.05),
    "mixture": Method("Martingale mixture (ours)", "martingale_mixture"),
    "ei": Method("EI", "expected_improvement"),
    "ei_observed": Method(
        "EI over the best observation",
        "expected_improvement",
        incumbent="best_observation",
    ),
    "mpi": Method("MPI", "probability_of_improvement"),
    "mpi_margin": Method("MPI with margin 0.1", "probability_of_improvement", margin=0.1),
    "mpi_observed": Method(
        "MPI over the best observation",
        "probability_of_improvement",
        incumbent="best_observation",
    ),
    "mean": Method("Mean only", "posterior_mean"),
    "variance": Method("Variance only", "posterior_variance"),
}


class Learner(ABC):
    r"""Plays the maximiser of an acquisition function over the whole domain."""

    def __init__(self, prior: Prior, method: Method) -> None:
        self.prior, self.method = prior, method
        self.candidates = domain(prior.size).unsqueeze(-2)

    @abstractmethod
    def acquisition(self) -> AcquisitionFunction:
        r"""The acquisition function after the observations so far (at least one)."""

    @abstractmethod
    def observe(self, index: int, outcome: float) -> None:
        r"""Learn from a noisy outcome."""

    @torch.no_grad()
    def select(self) -> int:
        r"""The point to play next."""
        return int(self.acquisition()(self.candidates).argmax())


class PosteriorLearner(Learner):
    r"""BoTorch's analytic acquisition functions on the exact posterior."""

    def __init__(self, prior: Prior, method: Method) -> None:
        super().__init__(prior, method)
        self.model = FiniteDomainGP(prior)
        self.outcomes: dict[int, float] = {}

    def observe(self, index: int, outcome: float) -> None:
        self.model.observe(index, outcome)
        self.outcomes[index] = max(outcome, self.outcomes.get(index, outcome))

    def acquisition(self) -> AcquisitionFunction:
        rule = self.method.rule
        if rule == "posterior_mean":
            return PosteriorMean(self.model)
        if rule == "posterior_variance":
            return PosteriorStandardDeviation(self.model)
        classes = {
            "expected_improvement": LogExpectedImprovement,
            "probability_of_improvement": LogProbabilityOfImprovement,
        }
        return classes[rule](self.model, best_f=self.target())

    def target(self) -> Tensor:
        r"""What EI and MPI try to improve on."""
        if self.method.incumbent == "best_observation":
            incumbent = self.prior.mean.new_tensor(max(self.outcomes.values()))
        else:
            incumbent = self.model.mean_at(list(self.outcomes)).max()
        return incumbent + self.method.margin * self.prior.signal_std


class BandLearner(Learner):
    r"""Upper confidence bounds of kernelucb, on pooled observations.

    Observations at the same point are replaced by their average with the noise variance
    divided by their number. Posterior and martingale-mixture set stay exactly the same,
    and the cost follows the number of distinct points instead of the number of rounds.
    """

    def __init__(self, prior: Prior, method: Method, delta: float) -> None:
        super().__init__(prior, method)
        self.delta = delta
        self.kernel = TabulatedKernel(prior.covariance)
        self.mean = TabulatedMean(prior.mean)
        self.counts: dict[int, int] = {}
        self.sums: dict[int, float] = {}

    def observe(self, index: int, outcome: float) -> None:
        self.counts[index] = self.counts.get(index, 0) + 1
        self.sums[index] = self.sums.get(index, 0.0) + outcome

    def pooled(self) -> KernelRegression:
        r"""Regression on the distinct points."""
        counts = self.prior.mean.new_tensor(list(self.counts.values()))
        sums = self.prior.mean.new_tensor(list(self.sums.values()))
        points = self.prior.mean.new_tensor(list(self.counts))
        noise = self.prior.noise_std / counts.sqrt()
        return KernelRegression(
            points[:, None], sums / counts, self.kernel, noise, self.mean
        )

    def acquisition(self) -> AcquisitionFunction:
        if self.method.rule == "srinivas":
            return self._srinivas()
        # Half of delta for the norm, whose distribution is known; half for the noise.
        return MartingaleMixtureUCB(
            self.pooled(),  # pyright: ignore[reportArgumentType]
            norm_bound=self.prior.norm_quantile(1.0 - self.delta / 2.0),
            delta=self.delta / 2.0,
            fit="martingale",  # pooled averages shift its radius and misfit alike
        )

    def _srinivas(self) -> SrinivasUCB:
        r"""``SrinivasUCB`` counts the observations it sees, which are pooled here."""
        theorem, delta = FiniteDomain(self.prior.size), self.delta
        beta = theorem.beta(sum(self.counts.values()) + 1, delta)
        beta_of_pooled = theorem.beta(len(self.counts) + 1, delta)
        return SrinivasUCB(
            self.pooled(),  # pyright: ignore[reportArgumentType]
            delta=delta,
            theorem=theorem,
            scale=self.method.scale * beta / beta_of_pooled,
        )


def make_learner(prior: Prior, method: Method, delta: float) -> Learner:
    r"""The learner of a method."""
    if method.rule in ("srinivas", "martingale_mixture"):
        return BandLearner(prior, method, delta)
    return PosteriorLearner(prior, method)
