r"""The observations of a bandit, and the prior of its arms."""

from typing import NamedTuple

import torch
from gpytorch.settings import lazily_evaluate_kernels
from torch import Tensor

from kernelucb.regression import KernelRegression
from kernelucb.regression.from_model import ModelData
from kernelucb.regression.prior import Prior

_FIRST_CAPACITY = 64
Signs = tuple[int, ...]  # sides of a band: 1 for the upper, -1 for the lower


class Arms(NamedTuple):
    r"""Arms, with their prior and their covariance with the observed inputs."""

    inputs: Tensor  # a x d
    prior_mean: Tensor  # a, outcome units
    prior_variance: Tensor  # a, outcome units squared
    covariance: Tensor  # n x a prior covariances with the n observed inputs


class Observations:
    r"""``n`` inputs and outcomes in storage that grows geometrically."""

    def __init__(self, prior: Prior, noise_std: float) -> None:
        self.prior, self.noise_std = prior, noise_std  # outcome units
        self.count = 0  # n
        self.total_variance = 0.0  # sum of the prior variances, outcome units squared
        device = next(prior.parameters(), torch.zeros(1)).device
        self._inputs = torch.empty(0, 0, dtype=torch.float64, device=device)
        self._outcomes = self._inputs.new_empty(0)
        self._variance: Tensor | None = None
        self._regression: KernelRegression | None = None  # of all data, once it was needed

    @property
    def dimension(self) -> int | None:
        r"""Number of input columns; None before the first observation."""
        return self._inputs.shape[1] if self.count else None

    @property
    def inputs(self) -> Tensor:
        r"""``n x d`` inputs."""
        return self._inputs[: self.count]

    @property
    def outcomes(self) -> Tensor:
        r"""``n`` outcomes."""
        return self._outcomes[: self.count]

    def append(self, arm: Arms, outcome: float) -> None:
        r"""Add one observation."""
        x = arm.inputs
        if self.count == len(self._outcomes):
            capacity = max(_FIRST_CAPACITY, 2 * self.count)
            inputs = self._inputs.new_empty(capacity, x.shape[1])
            outcomes = self._outcomes.new_empty(capacity)
            inputs[: self.count] = self.inputs if self.count else 0.0
            outcomes[: self.count] = self.outcomes
            self._inputs, self._outcomes = inputs, outcomes
        self._regression = None
        self._inputs[self.count] = x[0]
        self._outcomes[self.count] = outcome
        self.total_variance += float(arm.prior_variance)
        self.count += 1

    def arms(self, X: Tensor) -> Arms:
        r"""Prior of ``a x d`` arms and their covariance with the inputs."""
        with lazily_evaluate_kernels(False):  # half the time for small matrices
            mean, variance = self.prior.mean(X), self._prior_variance(X)
            if self.count == 0:
                return Arms(X, mean, variance, X.new_empty(0, len(X)))
            # Rounded as in KernelRegression, which asks in this order.
            return Arms(X, mean, variance, self.prior.covariance(X, self.inputs).mT)

    def _prior_variance(self, X: Tensor) -> Tensor:
        if not self.prior.has_constant_variance:
            return self.prior.variance(X)
        if self._variance is None and len(X):
            self._variance = self.prior.variance(X[:1])
        constant = X.new_empty(0) if self._variance is None else self._variance
        return constant.expand(len(X))

    def regression(self) -> KernelRegression:
        r"""The stateless regression of the same data, in ``O(n^3)``."""
        if self._regression is None:
            inputs, outcomes = self.inputs.clone(), self.outcomes.clone()
            noise, columns = torch.full_like(outcomes, self.noise_std), inputs.shape[1]
            data = ModelData(self.prior, inputs, outcomes, noise, columns, frozenset())
            self._regression = KernelRegression.from_data(data)
        return self._regression
