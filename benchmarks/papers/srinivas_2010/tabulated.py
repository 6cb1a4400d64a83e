r"""A Gaussian process on a finite domain for GPyTorch and BoTorch; a point is its index."""

from collections.abc import Sequence
from typing import Any

import torch
from botorch.models.model import Model
from botorch.posteriors import GPyTorchPosterior
from gpytorch.distributions import MultivariateNormal
from gpytorch.kernels import Kernel
from gpytorch.means import Mean
from torch import Tensor

from benchmarks.papers.srinivas_2010.priors import Prior


def domain(size: int) -> Tensor:
    r"""All points, ``N x 1``."""
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
        r"""Posterior mean at some points."""
        return self.prior.mean[indices] + self.prior.features[indices] @ self.weight_mean

    def posterior(self, X: Tensor, *_: Any, **__: Any) -> GPyTorchPosterior:
        r"""Latent posterior at ``b x q x 1`` points."""
        indices = X[..., 0].long()
        features = self.prior.features[indices]
        mean = self.prior.mean[indices] + features @ self.weight_mean
        covariance = features @ self.weight_covariance @ features.mT
        return GPyTorchPosterior(MultivariateNormal(mean, covariance))
