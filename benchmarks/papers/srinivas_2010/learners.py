r"""The methods of the comparison behind one interface, and one run of each."""

from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from typing import Any, NamedTuple

import numpy as np
import torch
from botorch.acquisition import AcquisitionFunction
from botorch.acquisition.analytic import (
    LogExpectedImprovement,
    LogProbabilityOfImprovement,
    PosteriorMean,
    PosteriorStandardDeviation,
)
from torch import Tensor

from benchmarks.papers.srinivas_2010.priors import (
    FiniteDomainGP,
    Prior,
    TabulatedKernel,
    TabulatedMean,
    domain,
    function_of,
    prior_of,
)
from benchmarks.runner import stream
from kernelucb import KernelRegression, MartingaleMixtureUCB, SrinivasUCB
from kernelucb.papers import FiniteDomain


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


_OBSERVED = "best_observation"
# In the order of the tables.
METHODS = {
    "gp_ucb": Method("GP-UCB (beta / 5)", "srinivas", scale=0.2),
    "gp_ucb_theorem": Method("GP-UCB (beta of Theorem 1)", "srinivas"),
    "gp_ucb_twentieth": Method("GP-UCB (beta / 20)", "srinivas", scale=0.05),
    "mixture": Method("Martingale mixture (ours)", "martingale_mixture"),
    "ei": Method("EI", "expected_improvement"),
    "ei_observed": Method(
        "EI over the best observation", "expected_improvement", incumbent=_OBSERVED
    ),
    "mpi": Method("MPI", "probability_of_improvement"),
    "mpi_margin": Method("MPI with margin 0.1", "probability_of_improvement", margin=0.1),
    "mpi_observed": Method(
        "MPI over the best observation", "probability_of_improvement", incumbent=_OBSERVED
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
        if self.method.incumbent == _OBSERVED:
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
        self.counts, self.sums = Counter(), defaultdict(float)

    def observe(self, index: int, outcome: float) -> None:
        self.counts[index] += 1
        self.sums[index] += outcome

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
            self.pooled(),
            norm_bound=self.prior.norm_quantile(1.0 - self.delta / 2.0),
            delta=self.delta / 2.0,
            fit="martingale",  # pooled averages shift its radius and misfit alike
        )

    def _srinivas(self) -> SrinivasUCB:
        r"""``SrinivasUCB`` counts the observations it sees, which are pooled here."""
        theorem, delta = FiniteDomain(self.prior.size), self.delta
        beta = theorem.beta(sum(self.counts.values()) + 1, delta)
        beta_of_pooled = theorem.beta(len(self.counts) + 1, delta)
        scale = self.method.scale * beta / beta_of_pooled
        return SrinivasUCB(self.pooled(), delta=delta, theorem=theorem, scale=scale)


def make_learner(prior: Prior, method: Method, delta: float) -> Learner:
    if method.rule in ("srinivas", "martingale_mixture"):
        return BandLearner(prior, method, delta)
    return PosteriorLearner(prior, method)


def play(task: dict[str, Any]) -> dict[str, Any]:
    r"""Points played and the regret of each; first point and noise are for all the same."""
    source, seed, trial = task["source"], task["seed"], task["trial"]
    sizes = {"points": task["points"]} if "points" in task else {}
    prior = prior_of(source, task["noise_share"], **sizes)
    function = function_of(prior, source, task["functions"], seed, trial)
    first = stream(seed, "first", source, trial)
    noise = stream(seed, "noise", source, trial)
    learner = make_learner(prior, METHODS[task["method"]], task["delta"])
    arms, regret = [], []
    for number in range(task["rounds"]):
        arm = learner.select() if number else int(first.integers(prior.size))
        outcome = float(function[arm]) + prior.noise_std * noise.standard_normal()
        learner.observe(arm, outcome)
        arms.append(arm)
        regret.append(float(function.max() - function[arm]))
    if not np.all(np.isfinite(regret)):
        raise ArithmeticError(f"Regret that is not a number in {task}.")
    return {"arms": arms, "regret": regret}
