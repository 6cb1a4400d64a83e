r"""What people use today: acquisition functions of BoTorch, and random points."""

import torch
from botorch import acquisition
from botorch.acquisition import AcquisitionFunction
from botorch.acquisition.max_value_entropy_search import qLowerBoundMaxValueEntropy
from botorch.acquisition.thompson_sampling import PathwiseThompsonSampling
from botorch.sampling import SobolQMCNormalSampler
from torch import Tensor

from benchmarks.practical.learners.base import Learner
from benchmarks.practical.model import LeanGP
from benchmarks.practical.problems import Environment, Search


class UpperConfidenceBound(Learner):
    r"""``mean + sqrt(beta) sd``."""

    def __init__(self, beta: float) -> None:
        self.beta = beta

    def acquisition(self, model: LeanGP) -> AcquisitionFunction:
        return acquisition.UpperConfidenceBound(model, self.beta)


class BatchUpperConfidenceBound(Learner):
    r"""``qUpperConfidenceBound`` with quasi-random samples.

    ``search`` as for ``Search``.
    """

    def __init__(self, beta: float, samples: int, **search: bool) -> None:
        self.beta, self.samples, self.search = beta, samples, Search(**search)

    def acquisition(self, model: LeanGP) -> AcquisitionFunction:
        sampler = SobolQMCNormalSampler(torch.Size([self.samples]))
        return acquisition.qUpperConfidenceBound(model, self.beta, sampler)


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
    r"""``qLogNoisyExpectedImprovement`` with quasi-random samples.

    ``search`` as for ``Search``.
    """

    def __init__(self, samples: int, **search: bool) -> None:
        self.samples, self.search = samples, Search(**search)

    def acquisition(self, model: LeanGP) -> AcquisitionFunction:
        sampler = SobolQMCNormalSampler(torch.Size([self.samples]))
        return acquisition.qLogNoisyExpectedImprovement(
            model, model.train_inputs[0], sampler, prune_baseline=True
        )


class MaxValueEntropy(Learner):
    r"""GIBBON, a bound on the information about the maximum.

    Moss et al. (2021), ``qLowerBoundMaxValueEntropy``; the law of the maximum is that over
    so many ``candidates`` all over the domain and the evaluated points.
    """

    def __init__(self, candidates: int) -> None:
        self.candidates = candidates
        self.points = torch.empty(0)

    def select(self, model: LeanGP, environment: Environment, count: int) -> Tensor:
        self.points = environment.spread(self.candidates)
        return super().select(model, environment, count)

    def acquisition(self, model: LeanGP) -> AcquisitionFunction:
        return qLowerBoundMaxValueEntropy(model, self.points)


class ThompsonSampling(Learner):
    r"""The maximum of a path of the posterior (random features and Matheron's rule)."""

    def select(self, model: LeanGP, environment: Environment, count: int) -> Tensor:
        paths = (self.acquisition(model) for _ in range(count))
        return torch.cat([environment.maximize(path, 1, self.search) for path in paths])

    def acquisition(self, model: LeanGP) -> AcquisitionFunction:
        return PathwiseThompsonSampling(model)


class RandomSearch(Learner):
    r"""Goes on with random points; the model only recommends one of them."""

    def select(self, model: LeanGP, environment: Environment, count: int) -> Tensor:
        return torch.stack([environment.random_point() for _ in range(count)])

    def acquisition(self, model: LeanGP) -> AcquisitionFunction:
        raise NotImplementedError("Random search has no acquisition function.")
