r"""Ridge estimates at a few regularisers, from data that grow in ``O(n^2)`` each.

An eigenbasis of the older observations, and Schur complements for the newest.
"""

from typing import Any, NamedTuple

import torch
from gpytorch.settings import lazily_evaluate_kernels
from torch import Tensor
from torch.nn.functional import pad

from kernelucb.regression import KernelRegression
from kernelucb.regression.prior import Prior

_FIRST_CAPACITY = 8


class Points(NamedTuple):
    r"""Points in the eigenbasis of the older observations."""

    mean: Tensor  # a prior means, outcome units
    prior_variance: Tensor  # a values, outcome units squared
    older: Any  # their projection on the older observations; None where there are none
    features: Tensor  # a x r coordinates
    rest: Tensor  # a variances outside the basis
    covariance: Tensor  # p x a covariances with the newest inputs outside the basis


class GrowingSystems:
    r"""The systems ``K_w + tau`` at ``m`` regularisers ``tau``.

    Conditioned on the older observations, the newest ``p`` have the covariance
    ``S = C_tau / noise^2 + tau``, a Schur complement; the inverse of its Cholesky factor
    grows by a row with each of them.

    Args:
        prior: Prior in outcome units.
        noise_std: Noise scale, outcome units.
        regularizers: ``m`` values of ``tau``.
        older: The older observations; none when absent.
    """

    def __init__(
        self,
        prior: Prior,
        noise_std: float,
        regularizers: Tensor,
        older: KernelRegression | None = None,
    ) -> None:
        self.prior, self.noise_std, self.regularizers = prior, noise_std, regularizers
        self.older, self.count = older, 0  # number p of the newest
        lam = targets = regularizers.new_empty(0)
        self._zeros, self._unresolved = 0, 0.0  # directions that round-off hides
        if older is not None:
            self._zeros = int((older.eigenvalues == 0).sum())
            self._unresolved = float(older.targets[: self._zeros].square().sum())
            lam, targets = older.eigenvalues[self._zeros :], older.targets[self._zeros :]
        tau = regularizers.unsqueeze(-1)
        inverse = 1.0 / (lam + tau)
        self._shrinkage = tau * inverse
        self._mean_weights = lam.sqrt() * targets * inverse
        self._log_det = torch.log1p(lam / tau).sum(-1)
        self._form = inverse @ targets.square()
        self._features = tau.new_empty(0, len(lam))
        self._shrunk = tau.new_empty(_FIRST_CAPACITY, len(tau), len(lam))
        self._factors = tau.new_zeros(len(tau), _FIRST_CAPACITY, _FIRST_CAPACITY)
        self._innovations = tau.new_zeros(len(tau), _FIRST_CAPACITY)
        self._inputs: Any = None  # p x d

    def append(self, x: Tensor, target: float) -> None:
        r"""Add one ``1 x d`` input and its outcome minus prior mean, noise units."""
        # Cholesky of a bordered matrix: the new row of the factor is the covariance solved
        # by the old factor, the pivot the deviation that is left. With the inverse factor
        # a round consists of products, without a solve or a factorisation.
        points, p, noise = self.project(x), self.count, self.noise_std
        if p == len(self._shrunk):
            self._shrunk = torch.cat([self._shrunk, torch.empty_like(self._shrunk)])
            self._factors = pad(self._factors, (0, p, 0, p))
            self._innovations = pad(self._innovations, (0, p))
        factors, innovations = self._factors[:, :p, :p], self._innovations[:, :p]
        covariance = self._conditioned(points, len(self._factors)) / noise**2
        row = (factors @ covariance).squeeze(-1)
        variance = self._older_variance(points)[0] / noise**2 + self.regularizers
        pivot = (variance - row.square().sum(-1)).sqrt()
        predicted = self._mean_weights @ points.features[0] / noise
        predicted = predicted + (row * innovations).sum(-1)
        inside = (row.unsqueeze(1) @ factors).squeeze(1)
        self._factors[:, p, :p] = -inside / pivot.unsqueeze(-1)
        self._factors[:, p, p] = 1.0 / pivot
        self._innovations[:, p] = (target - predicted) / pivot
        self._shrunk[p] = points.features * self._shrinkage
        self._features = torch.cat([self._features, points.features])
        self._inputs = x if p == 0 else torch.cat([self._inputs, x])
        self._log_det = self._log_det + 2.0 * pivot.log() - self.regularizers.log()
        self.count += 1

    def fit(self) -> tuple[Tensor, Tensor]:
        r"""``ln det(I + K_w / tau)`` and ``y_w^T (I + K_w / tau)^-1 y_w``, ``m`` each."""
        form = self._form + self._innovations[:, : self.count].square().sum(-1)
        return self._log_det, self.regularizers * form + self._unresolved

    def moments(self, points: Points, m: int) -> tuple[Tensor, Tensor]:
        r"""Ridge estimates minus prior means, and latent variances.

        ``a x m`` each, at ``a`` points and the first ``m`` regularisers.
        """
        p = self.count
        deviation = points.features @ self._mean_weights[:m].mT
        variance = self._older_variance(points)[:, :m]
        if p:
            factors = self._factors[:m, :p, :p]
            explained = factors @ self._conditioned(points, m)  # times the noise scale
            newest = self._innovations[:m, :p].unsqueeze(1) @ explained  # m x 1 x a
            deviation = deviation + newest.squeeze(1).mT / self.noise_std
            squares = torch.linalg.vecdot(explained, explained, dim=1)
            variance = variance - squares.mT / self.noise_std**2
        return deviation, variance.clamp_min(0.0)

    def project(self, X: Tensor) -> Points:
        r"""Points as the systems see them, from ``a x d`` inputs."""
        with lazily_evaluate_kernels(False):  # half the time for small matrices
            if self.older is None:
                older, mean, variance = None, self.prior.mean(X), self.prior.variance(X)
                features, rest = variance.new_empty(len(X), 0), variance
            else:
                older = self.older.project_inputs(X)
                mean, variance, rest = older[1], older[2], older[4]
                features = older.features[:, self._zeros :]
            covariance = rest.new_empty(0, len(X))
            if self.count:
                covariance = self.prior.covariance(X, self._inputs).mT
                covariance = covariance - self._features @ features.mT
        return Points(mean, variance, older, features, rest, covariance)

    def _older_variance(self, points: Points) -> Tensor:
        r"""Variance given the older observations, ``a x m``."""
        return points.rest.unsqueeze(-1) + points.features.square() @ self._shrinkage.mT

    def _conditioned(self, points: Points, m: int) -> Tensor:
        r"""Covariance with the newest given the older observations, ``m x p x a``."""
        shrunk = self._shrunk[: self.count, :m]
        inside = (shrunk.flatten(0, 1) @ points.features.mT).unflatten(0, shrunk.shape[:2])
        return inside.add_(points.covariance.unsqueeze(1)).transpose(0, 1)
