r"""The methods of the comparison. One object for each run, which may carry state along."""

from abc import ABC, abstractmethod
from typing import Any

import torch
from botorch import acquisition
from botorch.acquisition import AcquisitionFunction
from botorch.acquisition.thompson_sampling import PathwiseThompsonSampling
from botorch.sampling import SobolQMCNormalSampler
from torch import Tensor

from benchmarks.practical.configuration import Task
from benchmarks.practical.model import LeanGP
from benchmarks.practical.problems import Environment
from kernelucb import MartingaleMixtureUCB, NormTracker


class Learner(ABC):
    r"""Chooses the maximiser of an acquisition function on the model of each round.

    Subclasses take the options of a method as arguments of ``__init__``.
    """

    def select(self, model: LeanGP, environment: Environment) -> Tensor:
        r"""The point to evaluate next, ``d`` values."""
        return environment.maximize(self.acquisition(model))

    @abstractmethod
    def acquisition(self, model: LeanGP) -> AcquisitionFunction:
        r"""The acquisition function on the model of all observations so far.

        Called once a round, in the order of the rounds.
        """


class UpperConfidenceBound(Learner):
    r"""``mean + sqrt(beta) sd``."""

    def __init__(self, beta: float) -> None:
        self.beta = beta

    def acquisition(self, model: LeanGP) -> AcquisitionFunction:
        return acquisition.UpperConfidenceBound(model, self.beta)


class RandomizedUpperConfidenceBound(Learner):
    r"""``mean + sqrt(beta) sd`` with a new ``beta`` from an exponential law each round.

    IRGP-UCB of Takeno et al. (2023), without the shift that its theorem adds to ``beta``.
    """

    def __init__(self, mean: float) -> None:
        self.law = torch.distributions.Exponential(1.0 / mean)

    def acquisition(self, model: LeanGP) -> AcquisitionFunction:
        return acquisition.UpperConfidenceBound(model, float(self.law.sample()))


class LogExpectedImprovement(Learner):
    r"""Over the largest posterior mean among the evaluated points."""

    def acquisition(self, model: LeanGP) -> AcquisitionFunction:
        best = model.posterior(model.train_inputs[0]).mean.max()
        return acquisition.LogExpectedImprovement(model, best)


class LogNoisyExpectedImprovement(Learner):
    r"""``qLogNoisyExpectedImprovement`` with ``q = 1`` and quasi-random samples."""

    def __init__(self, samples: int) -> None:
        self.samples = samples

    def acquisition(self, model: LeanGP) -> AcquisitionFunction:
        sampler = SobolQMCNormalSampler(torch.Size([self.samples]))
        return acquisition.qLogNoisyExpectedImprovement(
            model, model.train_inputs[0], sampler, prune_baseline=True
        )


class ThompsonSampling(Learner):
    r"""The maximum of one path of the posterior (random features and Matheron's rule)."""

    def acquisition(self, model: LeanGP) -> AcquisitionFunction:
        return PathwiseThompsonSampling(model)


class RandomSearch(Learner):
    r"""Goes on with random points; the model only recommends one of them."""

    def select(self, model: LeanGP, environment: Environment) -> Tensor:
        return environment.random_point()

    def acquisition(self, model: LeanGP) -> AcquisitionFunction:
        raise NotImplementedError("Random search has no acquisition function.")


class MartingaleMixture(Learner):
    r"""Flynn & Reeb's exact bound with no other argument than the model."""

    def acquisition(self, model: LeanGP) -> AcquisitionFunction:
        return MartingaleMixtureUCB(model, fit="martingale")


class EstimatedNorm(Learner):
    r"""Flynn & Reeb's exact bound with other numbers than the defaults of ``NormTracker``.

    With ``keep`` the estimate never falls over the rounds; without, as with
    ``norm_bound=None``, every round has its own.
    """

    def __init__(
        self, inflation: float, floor: float, keep: bool = False, **options: Any
    ) -> None:
        self.numbers = {"inflation": inflation, "floor": floor}
        self.kept = NormTracker(**self.numbers) if keep else None
        self.options = {"fit": "martingale", **options}

    def acquisition(self, model: LeanGP) -> AcquisitionFunction:
        tracker = self.kept or NormTracker(**self.numbers)
        return MartingaleMixtureUCB(model, norm_bound=tracker, **self.options)


def make_learner(task: Task) -> Learner:
    r"""A new learner for a run."""
    rules = {rule.__name__: rule for rule in Learner.__subclasses__()}
    return rules[task.method.rule](**task.method.options)
