r"""GPs with squared-exponential kernels for the yardsticks, on a finite set of inputs."""

import math
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import torch
from torch import Tensor

_LENGTHS = tuple(0.05 * 1.6**i for i in range(10))  # of the data's own extent
_NOISES = (1e-3, 1e-2, 1e-1, 0.5)  # noise variance, in units of the prior variance


def squared_exponential(left: Tensor, right: Tensor, length: float) -> Tensor:
    r"""Kernel matrix with variance 1."""
    return torch.exp(-0.5 * torch.cdist(left, right).square() / length**2)


class Fit(NamedTuple):
    r"""Maximum-likelihood GP.

    Attributes:
        mean: Constant prior mean.
        variance: Prior variance.
        length: Length scale.
        noise: Noise variance.
    """

    mean: float
    variance: float
    length: float
    noise: float


def fit(X: Tensor, y: Tensor) -> Fit:
    r"""Length scale and noise ratio on a grid, mean and variance in closed form."""
    extent = float((X.amax(0) - X.amin(0)).norm()) or 1.0
    best, chosen = -math.inf, None
    for share, ratio in product(_LENGTHS, _NOISES):
        length = share * extent
        matrix = squared_exponential(X, X, length) + ratio * torch.eye(len(X)).double()
        root = torch.linalg.cholesky(matrix)
        ones, target = torch.linalg.solve_triangular(
            root, torch.stack([torch.ones_like(y), y], -1), upper=False
        ).unbind(-1)
        mean = float(ones @ target / (ones @ ones))
        variance = max(float((target - mean * ones).square().mean()), 1e-8)
        likelihood = -0.5 * len(y) * math.log(variance) - float(root.diagonal().log().sum())
        if likelihood > best:
            best = likelihood
            chosen = Fit(mean, variance, length, ratio * variance)
    assert chosen is not None
    return chosen


def condition(
    mean: Tensor, covariance: Tensor, index: list[int], y: Tensor, noise: float
) -> tuple[Tensor, Tensor]:
    r"""Posterior mean and covariance of a Gaussian vector after observing some entries."""
    if not index:
        return mean, covariance
    matrix = covariance[index][:, index] + noise * torch.eye(len(index)).double()
    gain = torch.linalg.solve(matrix, covariance[index]).mT
    return mean + gain @ (y - mean[index]), covariance - gain @ covariance[index]


def standardised(values: Tensor, dim: int) -> Tensor:
    r"""Mean zero and standard deviation one along a dimension, where it varies."""
    spread = values.std(dim, keepdim=True, correction=0)
    return (values - values.mean(dim, keepdim=True)) / spread.where(spread > 1e-12, 1.0)


@dataclass(frozen=True)
class PooledPrior:
    r"""Prior of a new task from pooled, standardised observations of other tasks.

    The posterior of one response surface that all tasks share, plus a deviation of the new
    task's own: what the pool counts as noise is, for one task, a function with the same
    length scale.

    Attributes:
        inputs: Inputs of the pool.
        parameters: Maximum-likelihood hyper-parameters of the pool.
        inverse_root: Inverse Cholesky factor of the pool's covariance.
        weights: That covariance's inverse times the centred outcomes.
    """

    inputs: Tensor
    parameters: Fit
    inverse_root: Tensor
    weights: Tensor

    @classmethod
    def of(cls, X: Tensor, values: Tensor, chosen: Tensor) -> "PooledPrior":
        r"""From the inputs of the chosen entries of standardised task values.

        Hyper-parameters are fitted to the first 200 (to all would take minutes).
        """
        y = values.reshape(-1)[chosen]
        p = fit(X[:200], y[:200])
        matrix = p.variance * squared_exponential(X, X, p.length)
        root = torch.linalg.cholesky(matrix + (p.noise + 1e-8) * torch.eye(len(X)).double())
        weights = torch.cholesky_solve((y - p.mean).unsqueeze(-1), root).squeeze(-1)
        identity = torch.eye(len(X), dtype=torch.float64)
        inverse_root = torch.linalg.solve_triangular(root, identity, upper=False)
        return cls(X, p, inverse_root, weights)

    @property
    def jitter(self) -> float:
        r"""Noise variance of the new task's own, exact observations."""
        return 1e-6 * (self.parameters.variance + self.parameters.noise)

    def mean(self, X: Tensor) -> Tensor:
        r"""Prior mean of a new task."""
        return self.parameters.mean + self._cross(X) @ self.weights

    def covariance(self, left: Tensor, right: Tensor) -> Tensor:
        r"""Prior covariance of a new task."""
        p = self.parameters
        whole = p.variance + p.noise
        features = [self._cross(X) @ self.inverse_root.mT for X in (left, right)]
        explained = features[0] @ features[1].mT
        return whole * squared_exponential(left, right, p.length) - explained

    def _cross(self, X: Tensor) -> Tensor:
        p = self.parameters
        return p.variance * squared_exponential(X, self.inputs, p.length)
