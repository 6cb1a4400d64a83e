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
    task's own: what the pool counts as noise is, for one task, mostly a function, with a
    length scale and a noise that single tasks tell.

    Attributes:
        inputs: Inputs of the pool.
        shared: Maximum-likelihood hyper-parameters of the pool.
        own: Those of a task's deviation.
        inverse_root: Inverse Cholesky factor of the pool's covariance.
        weights: That covariance's inverse times the centred outcomes.
    """

    inputs: Tensor
    shared: Fit
    own: Fit
    inverse_root: Tensor
    weights: Tensor

    @classmethod
    def of(cls, inputs: Tensor, values: Tensor, chosen: Tensor) -> "PooledPrior":
        r"""From the chosen entries (flat positions) of standardised task values.

        Hyper-parameters are fitted to 200 of them (to all would take minutes), those of the
        deviation to three tasks that vary.
        """
        X, y = inputs[chosen % len(inputs)], values.reshape(-1)[chosen]
        shared = fit(X[:200], y[:200])
        matrix = shared.variance * squared_exponential(X, X, shared.length)
        identity = torch.eye(len(X), dtype=torch.float64)
        root = torch.linalg.cholesky(matrix + (shared.noise + 1e-8) * identity)
        weights = torch.cholesky_solve((y - shared.mean).unsqueeze(-1), root).squeeze(-1)
        inverse_root = torch.linalg.solve_triangular(root, identity, upper=False)
        return cls(X, shared, _deviation(inputs, values, shared), inverse_root, weights)

    def mean(self, X: Tensor) -> Tensor:
        return self.shared.mean + self._cross(X) @ self.weights

    def covariance(self, left: Tensor, right: Tensor) -> Tensor:
        features = [self._cross(X) @ self.inverse_root.mT for X in (left, right)]
        prior = self.shared.variance * squared_exponential(left, right, self.shared.length)
        own = self.own.variance * squared_exponential(left, right, self.own.length)
        return prior - features[0] @ features[1].mT + own

    def _cross(self, X: Tensor) -> Tensor:
        p = self.shared
        return p.variance * squared_exponential(X, self.inputs, p.length)


def _deviation(inputs: Tensor, values: Tensor, shared: Fit) -> Fit:
    r"""Length scale and noise of single tasks, at the variance that the pool leaves."""
    varying = values[values.std(1) > 1e-12][:3]
    fits = [fit(inputs[:200], row[:200]) for row in varying]
    length = sorted(each.length for each in fits)[len(fits) // 2]
    ratio = sorted(each.noise / each.variance for each in fits)[len(fits) // 2]
    variance = shared.noise / (1.0 + ratio)
    return Fit(0.0, variance, length, ratio * variance)
