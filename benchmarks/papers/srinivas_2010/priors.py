r"""Priors on finite domains and their functions; a point is its index."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
import torch
from botorch.models.model import Model
from botorch.posteriors import GPyTorchPosterior
from gpytorch.distributions import MultivariateNormal
from gpytorch.kernels import Kernel
from gpytorch.means import Mean
from scipy.stats import chi2
from torch import Tensor

from benchmarks.runner import fixed_kernel, line, load_data, stream

_LENGTHSCALE = 0.2  # of the synthetic prior


@dataclass(frozen=True)
class Prior:
    r"""A Gaussian prior on the points ``0 .. N - 1`` and the noise of observations.

    Attributes:
        mean: ``N`` values.
        covariance: ``N x N``.
        noise_variance: Of every observation.
    """

    mean: Tensor
    covariance: Tensor
    noise_variance: float

    @property
    def size(self) -> int:
        r"""``N``, the number of points of the domain."""
        return len(self.mean)

    @property
    def noise_std(self) -> float:
        return math.sqrt(self.noise_variance)

    @property
    def signal_std(self) -> float:
        r"""Root mean square of the prior standard deviations."""
        return math.sqrt(float(self.covariance.diagonal().mean()))

    @cached_property
    def features(self) -> Tensor:
        r"""``N x r`` matrix ``F`` with ``F F^T`` the covariance up to round-off."""
        values, vectors = torch.linalg.eigh(self.covariance)
        resolved = values > 4.0 * torch.finfo(values.dtype).eps * values[-1]
        return vectors[:, resolved] * values[resolved].sqrt()

    def norm(self, function: Tensor) -> float:
        r"""RKHS norm of ``function - mean`` (``N`` values) under the covariance."""
        weights = torch.linalg.lstsq(self.features, (function - self.mean)[:, None])
        return float(weights.solution.norm())

    def norm_quantile(self, probability: float) -> float:
        r"""Quantile of the norm of a sample: its square is chi-squared."""
        return math.sqrt(chi2.ppf(probability, self.features.shape[1]))


@cache
def prior_of(source: str, noise_share: float, points: int = 1000) -> Prior:
    r"""The prior that all methods know.

    Args:
        source: ``"squared_exponential"`` on so many points of the unit interval, or a data
            set of sensors: mean and covariance of the rows for training.
        noise_share: Noise variance as a share of the mean prior variance.

    Raises:
        FileNotFoundError: If the readings are absent; the message says what to do.
    """
    if source == "squared_exponential":
        grid = line(points)
        mean, kernel = torch.zeros_like(grid[:, 0]), fixed_kernel("rbf", _LENGTHSCALE)
        covariance = kernel(grid).to_dense()
    else:
        train, _ = _readings(source)
        mean = train.mean(0)
        covariance = torch.cov(train.mT)
    return Prior(mean, covariance, noise_share * float(covariance.diag().mean()))


def function_of(prior: Prior, source: str, kind: str, seed: int, trial: int) -> Tensor:
    r"""The function of a trial at the points of the domain, the same for all methods.

    A sample of the prior, or a row of readings that was not used for it.
    """
    if kind == "samples":
        generator = stream(seed, "function", source, trial)
        weights = generator.standard_normal(prior.features.shape[1])
        return prior.mean + prior.features @ torch.from_numpy(weights)
    return rows_of(source)[trial % len(rows_of(source))]


def rows_of(source: str) -> Tensor:
    r"""The readings that are played, in the order of time."""
    return _readings(source)[1]


@cache
def _readings(source: str) -> tuple[Tensor, Tensor]:
    r"""Rows for training and rows to play, one column for each sensor."""
    data = load_data(source)
    if source == "intel_temperature":
        parts = np.split(data["T"], [int(data["n_train_rows"])])
    else:
        parts = data["train_lux"], data["test_lux"]
    train, test = (torch.from_numpy(part.astype(np.float64)) for part in parts)
    return train, test


def domain(size: int) -> Tensor:
    return torch.arange(size, dtype=torch.float64)[:, None]


class TabulatedKernel(Kernel):
    r"""Covariance read from an ``N x N`` table."""

    def __init__(self, table: Tensor) -> None:
        super().__init__()
        self.table = table

    def __deepcopy__(self, memo: dict) -> "TabulatedKernel":
        # A constant of several megabytes, which every regression state would copy.
        return self

    def forward(self, x1: Tensor, x2: Tensor, diag: bool = False, **params) -> Tensor:
        rows, columns = x1[..., 0].long(), x2[..., 0].long()
        if diag:
            return self.table[rows, columns]
        return self.table[rows.unsqueeze(-1), columns.unsqueeze(-2)]


class TabulatedMean(Mean):
    r"""Mean read from ``N`` values."""

    def __init__(self, table: Tensor) -> None:
        super().__init__()
        self.table = table

    def forward(self, x: Tensor) -> Tensor:
        return self.table[x[..., 0].long()]


class FiniteDomainGP(Model):
    r"""Exact posterior on a finite domain, one observation at a time.

    ``f = mean + F w`` with ``w ~ N(0, I)``, ``F`` the features of the prior: an observation
    updates the posterior of ``w`` in ``O(r^2)``, however many there were before.
    """

    def __init__(self, prior: Prior) -> None:
        super().__init__()
        self.prior = prior
        self.weight_mean = prior.mean.new_zeros(prior.features.shape[1])
        self.weight_covariance = torch.diag(torch.ones_like(self.weight_mean))

    @property
    def num_outputs(self) -> int:
        return 1

    @property
    def batch_shape(self) -> torch.Size:
        return torch.Size()

    def observe(self, index: int, outcome: float) -> None:
        r"""Condition on a noisy outcome at a point."""
        features = self.prior.features[index]
        covariance = self.weight_covariance @ features
        variance = float(features @ covariance) + self.prior.noise_variance
        expected = float(self.prior.mean[index] + features @ self.weight_mean)
        self.weight_mean += covariance * ((outcome - expected) / variance)
        self.weight_covariance.addr_(covariance, covariance, alpha=-1.0 / variance)

    def mean_at(self, indices: Sequence[int]) -> Tensor:
        return self.prior.mean[indices] + self.prior.features[indices] @ self.weight_mean

    def posterior(self, X: Tensor, *_: Any, **__: Any) -> GPyTorchPosterior:
        r"""Latent posterior at ``b x q x 1`` points."""
        indices = X[..., 0].long()
        features = self.prior.features[indices]
        mean = self.prior.mean[indices] + features @ self.weight_mean
        covariance = features @ self.weight_covariance @ features.mT
        return GPyTorchPosterior(MultivariateNormal(mean, covariance))
