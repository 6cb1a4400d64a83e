r"""Durand, Maillard & Pineau (2018), Corollary 1, for many sequences on a few arms at once.

As ``oracles.streaming``, from counts and sums of the outcomes: repeated plays of an arm are
one of their mean and the scatter around it. Outcome units.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from oracles.streaming import constant


class Pooled(NamedTuple):
    r"""Outcomes after ``t`` rounds, for ``N`` sequences.

    Attributes:
        t: Number of rounds.
        lam: ``N x A`` eigenvalues of ``n^(1/2) K n^(1/2)``, with ``n`` the plays.
        z: ``N x A`` coordinates of the sums over ``n^(1/2)``.
        vectors: ``N x A x A`` eigenvectors.
        counts: ``N x A`` plays.
        scatter: ``N`` sums of squared distances of the outcomes to the means of their arms.
    """

    t: int
    lam: Tensor
    z: Tensor
    vectors: Tensor
    counts: Tensor
    scatter: Tensor

    @classmethod
    def of(cls, K: Tensor, counts: Tensor, sums: Tensor, squares: Tensor) -> "Pooled":
        r"""From ``N x A`` counts and sums, and ``N`` sums of squared outcomes."""
        root = counts.sqrt()
        means = torch.where(counts > 0, sums / root, 0.0)
        lam, vectors = torch.linalg.eigh(root.unsqueeze(-1) * K * root.unsqueeze(-2))
        z = (vectors.mT @ means.unsqueeze(-1)).squeeze(-1)
        scatter = squares - means.square().sum(-1)
        return cls(int(counts[0].sum()), lam.clamp_min(0.0), z, vectors, counts, scatter)

    def residual_std(self, ridge: Tensor) -> Tensor:
        r"""``sigma_hat`` at ``N`` values of ``lambda``, before Theorem 3."""
        left = self.z / (1.0 + self.lam / ridge.unsqueeze(-1))
        return ((self.scatter + left.square().sum(-1)).clamp_min(0.0) / self.t).sqrt()

    def log_det(self, ridge: Tensor) -> Tensor:
        return torch.log1p(self.lam / ridge.unsqueeze(-1)).sum(-1)

    def moments(self, K: Tensor, ridge: Tensor) -> tuple[Tensor, Tensor]:
        r"""Ridge estimates and variances at the arms, ``N x A`` each."""
        features = self.counts.sqrt().unsqueeze(-2) * K @ self.vectors
        weights = 1.0 / (self.lam + ridge.unsqueeze(-1))
        mean = (features @ (weights * self.z).unsqueeze(-1)).squeeze(-1)
        known = (features.square() * weights.unsqueeze(-2)).sum(-1)
        return mean, (K.diagonal() - known).clamp_min(0.0)


def sandwich(data: Pooled, norm: float, level: float, lower: Tensor, upper: Tensor):
    r"""``sigma_-`` and ``sigma_+`` of one more round, case 2 of Theorem 3.

    Where ``sigma_+`` is infinite the lower bound is taken at ``sigma_-``, and the upper one
    from the residuals of the function zero.
    """
    t, known = data.t, upper.isfinite()
    guess = torch.where(known, upper, lower)
    ratio = constant(t, level) / t
    found = data.residual_std((guess / norm).square())
    lower = torch.maximum(
        lower, (found - guess / math.sqrt(t)) / (1.0 + math.sqrt(2.0 * ratio))
    )
    D = 2.0 * math.log(1.0 / level) + data.log_det((lower / norm).square())
    alpha = 1.0 - math.sqrt(ratio) - (ratio + 2.0 * D / t).sqrt()
    b = guess * D.sqrt() / (2.0 * t)
    second = (((found * alpha + b).sqrt() + b.sqrt()) / alpha).square()
    second = torch.where(alpha > 0.0, second, torch.inf)
    slope = alpha - (2.0 * D.sqrt() / t).sqrt()
    plain = ((data.scatter + data.z.square().sum(-1)) / t).sqrt()
    first = torch.where(slope > 0.0, plain / slope, torch.inf)
    return lower, torch.minimum(upper, torch.where(known, second, first))


def half_widths(data: Pooled, K: Tensor, norm: float, level: float, lower, upper):
    r"""Eq. (3): estimates and half widths at the arms, ``lambda = sigma_+^2 / C^2``."""
    mean, variance = data.moments(K, (upper / norm).square())
    D = 2.0 * math.log(1.0 / level) + data.log_det((lower / norm).square())
    return mean, norm * (1.0 + D.sqrt()).unsqueeze(-1) * variance.sqrt()
