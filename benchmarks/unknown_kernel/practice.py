r"""What people use today: BoTorch's default model, refitted in every round."""

from abc import abstractmethod

import torch
from botorch import acquisition
from botorch.acquisition import AcquisitionFunction
from botorch.sampling import SobolQMCNormalSampler
from torch import Tensor

from benchmarks.practical.fitting import fitted_model, hyperparameters
from benchmarks.practical.model import LeanGP
from benchmarks.unknown_kernel.learners import Learner
from benchmarks.unknown_kernel.problems import Problem
from kernelucb import MartingaleMixtureUCB


class Refitted(Learner):
    r"""The arm with the largest acquisition value on the model of all data so far."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self._previous = None

    def model(self) -> LeanGP:
        r"""Fitted to all data so far."""
        inputs = self.problem.arms[self.played]
        outcomes = torch.tensor(self.outcomes, dtype=torch.float64)
        model, _ = fitted_model(inputs, outcomes, self._previous)
        self._previous = hyperparameters(model)
        return model

    @torch.no_grad()
    def select(self) -> int:
        # The fit needs gradients, and asks for them itself.
        values = self.acquisition(self.model())(self.problem.arms[:, None])
        return int(values.argmax())

    @abstractmethod
    def acquisition(self, model: LeanGP) -> AcquisitionFunction:
        r"""On the model of a round."""

    def means(self) -> Tensor:
        model = self.model()
        return model.posterior(model.train_inputs[0]).mean.detach().squeeze(-1)


class FittedMixture(Refitted):
    r"""``MartingaleMixtureUCB`` with no other argument than the model."""

    def acquisition(self, model: LeanGP) -> AcquisitionFunction:
        return MartingaleMixtureUCB(model)


class UpperConfidenceBound(Refitted):
    r"""``mean + sqrt(beta) sd``."""

    def __init__(self, problem: Problem, beta: float) -> None:
        super().__init__(problem)
        self.beta = beta

    def acquisition(self, model: LeanGP) -> AcquisitionFunction:
        return acquisition.UpperConfidenceBound(model, self.beta)


class LogNoisyExpectedImprovement(Refitted):
    r"""``qLogNoisyExpectedImprovement`` with ``q = 1`` and quasi-random samples."""

    def __init__(self, problem: Problem, samples: int) -> None:
        super().__init__(problem)
        self.samples = samples

    def acquisition(self, model: LeanGP) -> AcquisitionFunction:
        sampler = SobolQMCNormalSampler(torch.Size([self.samples]))
        return acquisition.qLogNoisyExpectedImprovement(
            model, model.train_inputs[0], sampler, prune_baseline=True
        )
