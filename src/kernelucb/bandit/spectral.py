r"""An eigenbasis of the older observations and Schur complements of the newest."""

from copy import copy
from typing import NamedTuple, Self

import torch
from torch import Tensor
from torch.linalg import vecdot

from kernelucb._numerics.features import split_variance
from kernelucb.bandit.eigenbasis import Eigenbasis, RidgeEstimate
from kernelucb.bandit.history import Fit, History, Moments
from kernelucb.bandit.observations import Arms, Observations
from kernelucb.regression import KernelRegression


class SpectralPoints(NamedTuple):
    r"""Arms in the eigenbasis of the older observations."""

    features: Tensor  # a x r coordinates
    residual_variance: Tensor  # a variances outside the basis
    residual: Tensor  # p x a prior covariances with the newest inputs outside the basis

    def at(self, index: int) -> "SpectralPoints":
        r"""One of the arms."""
        one = slice(index, index + 1)
        return SpectralPoints(
            self.features[one], self.residual_variance[one], self.residual[:, one]
        )


class SchurSystems:
    r"""The systems at ``m`` regularisers, positive or complex with a positive real part.

    Conditioned on the older observations, the newest ``p`` have the covariance
    ``S = C_tau / noise^2 + tau``, a Schur complement; the inverse of its Cholesky factor
    grows by a row with each of them, up to ``capacity``. Copies share storage and read
    only the first ``count`` rows. For complex regularisers ``S`` is symmetric and both its
    parts are positive definite, so that the factor without conjugation is stable (Higham
    1998, Factorizing complex symmetric matrices with positive definite real and imaginary
    parts).
    """

    def __init__(
        self, basis: Eigenbasis, regularizers: Tensor, noise_std: float, capacity: int
    ) -> None:
        self.basis, self.regularizers, self.noise_std = basis, regularizers, noise_std
        self.count = 0
        m, lam = len(regularizers), basis.eigenvalues
        shifted = lam + regularizers.unsqueeze(-1)
        inverse = shifted.reciprocal()
        # Real parts, and imaginary ones where there are any: k x m x r with k = 1 or 2.
        self._shrinkage = _parts(regularizers.unsqueeze(-1) / shifted)
        self._mean_weights = _parts(basis.mean_terms * inverse)
        self._shrunk = lam.new_empty(capacity, *self._shrinkage.shape)
        self._factors = regularizers.new_zeros(m, capacity, capacity)
        self._innovations = regularizers.new_empty(m, capacity)
        self._log_det = torch.log1p(lam / regularizers.unsqueeze(-1)).sum(-1)
        self._form = _times(basis.targets.square(), _parts(inverse))

    @property
    def factors(self) -> Tensor:
        r"""``m x p x p`` inverse Cholesky factors of the Schur complements."""
        return self._factors[:, : self.count, : self.count]

    @property
    def innovations(self) -> Tensor:
        r"""``m x p`` outcomes of the newest, predicted from the others and scaled."""
        return self._innovations[:, : self.count]

    def append(self, points: SpectralPoints, target: float) -> None:
        r"""Add one observation: its projected input, and its outcome in noise units."""
        scale, index = self.noise_std, self.count
        covariance = self._conditioned(points)[..., 0] / scale**2  # m x p
        row = (self.factors @ covariance.unsqueeze(-1)).squeeze(-1)
        own = self._older_variance(points)[0] / scale**2 + self.regularizers
        pivot = (own - row.square().sum(-1)).sqrt()
        predicted = _times(points.features[0], self._mean_weights) / scale
        predicted = predicted + (row * self.innovations).sum(-1)
        inside = (row.unsqueeze(1) @ self.factors).squeeze(1)
        self._factors[:, index, :index] = -inside / pivot.unsqueeze(-1)
        self._factors[:, index, index] = 1.0 / pivot
        self._innovations[:, index] = (target - predicted) / pivot
        self._shrunk[index] = points.features * self._shrinkage
        self._log_det = self._log_det + 2.0 * pivot.log() - self.regularizers.log()
        self.count += 1

    def fit(self) -> Fit:
        r"""How the ridge estimates fit the data; see ``Systems``."""
        tau = self.regularizers
        form = self._form + self.innovations.square().sum(-1)
        return Fit(tau, self._log_det, tau * form + self.basis.unresolved)

    def moments(self, points: SpectralPoints) -> Moments:
        r"""Ridge estimates at arms; see ``Systems``."""
        deviation, variance = self.analytic_moments(points)
        return Moments(deviation, variance.clamp_min(0.0))

    def analytic_moments(self, points: SpectralPoints) -> Moments:
        r"""The same as analytic functions of the regulariser, where it is complex too."""
        deviation = _times(points.features, self._mean_weights)
        variance = self._older_variance(points)
        if self.count:
            explained = (self.factors / self.noise_std) @ self._conditioned(points)
            newest = self.innovations.unsqueeze(1) @ explained  # m x 1 x a
            deviation = deviation + newest.squeeze(1).mT
            squares = vecdot(explained.conj(), explained, dim=1)  # without conjugation
            variance = variance - squares.mT
        return Moments(deviation, variance)

    def _older_variance(self, points: SpectralPoints) -> Tensor:
        r"""Variance given the older observations, ``a x m``."""
        explained = _times(points.features.square(), self._shrinkage)
        return points.residual_variance.unsqueeze(-1) + explained

    def _conditioned(self, points: SpectralPoints) -> Tensor:
        r"""Covariance with the newest given the older observations, ``m x p x a``."""
        shrunk = self._shrunk[: self.count]
        inside = (shrunk.flatten(0, 2) @ points.features.mT).unflatten(0, shrunk.shape[:3])
        whole = inside[:, 0].add_(points.residual.unsqueeze(1))
        if shrunk.shape[1] == 2:
            whole = torch.complex(whole, inside[:, 1])
        return whole.transpose(0, 1)


def _parts(values: Tensor) -> Tensor:
    r"""Real parts, and imaginary ones where there are any, in front."""
    if not values.is_complex():
        return values.unsqueeze(0)
    return torch.stack([values.real, values.imag])


def _times(real: Tensor, weights: Tensor) -> Tensor:
    r"""``real @ weights.mT`` for weights whose ``_parts`` are given."""
    products = real @ weights.flatten(0, 1).mT
    if len(weights) == 1:
        return products
    return torch.complex(*products.chunk(2, dim=-1))


class SpectralHistory(History):
    r"""All observations: an eigenbasis, renewed now and then, and the newest since."""

    def __init__(self, observations: Observations) -> None:
        super().__init__(observations)
        self._restart(Eigenbasis.empty(observations.inputs), 0.0)

    def renew(self, regression: KernelRegression | None = None) -> None:
        r"""Take the eigenbasis of all observations; ``regression`` where it is known."""
        regression = regression or self.observations.regression()
        largest = float(regression.distinct_variance.max())
        self._restart(Eigenbasis.of(regression), largest)

    def _restart(self, basis: Eigenbasis, largest_variance: float) -> None:
        self.basis = basis  # of the older observations
        self.largest_variance = largest_variance  # of the priors of all observations
        self.newest = 0  # number p of observations since
        # An `eigh` costs as much as carrying so many; then the basis is due.
        self.capacity = max(8, basis.num_observations // 16)
        like = basis.eigenvalues
        self._features = like.new_empty(self.capacity, len(like))
        self._residual = like.new_empty(self.capacity, self.capacity)
        self._targets = like.new_empty(self.capacity)
        self._slots: dict[str, SchurSystems] = {}
        self._last = None

    def fork(self, observations: Observations) -> Self:
        r"""A copy that grows on its own; see ``History``."""
        new = copy(self)
        new.observations = observations
        new._slots = {slot: copy(systems) for slot, systems in self._slots.items()}
        return new

    @property
    def squared_targets(self) -> float:
        r"""Squared length of the outcomes minus the prior mean, noise units."""
        targets = torch.cat([self.basis.targets, self._targets[: self.newest]])
        return float(targets @ targets) + self.basis.unresolved

    @property
    def is_full(self) -> bool:
        r"""Whether the eigenbasis is due."""
        return self.newest >= self.capacity

    def append(self, arm: Arms, target: float) -> None:
        r"""Add one observation; see ``History``."""
        points = self._recalled(arm)
        self.largest_variance = max(self.largest_variance, float(arm.prior_variance))
        index = self.newest
        self._features[index] = points.features[0]
        self._residual[index, :index] = points.residual[:, 0]
        self._residual[index, index] = points.residual_variance[0]
        self._targets[index] = target
        self.newest += 1
        for systems in self._slots.values():
            systems.append(points, target)

    def _projected(self, arms: Arms) -> SpectralPoints:
        basis, variance = self.basis, arms.prior_variance
        older, newer = arms.covariance.split([basis.num_observations, self.newest])
        features = variance.new_empty(len(variance), 0)
        if basis.num_observations:
            reach = basis.sections.reach(arms.inputs, variance, older[basis.rows].mT)
            features, variance = split_variance(older.mT @ basis.basis, variance, reach)
        inside = self._features[: self.newest] @ features.mT
        return SpectralPoints(features, variance, newer - inside)

    def systems(self, slot: str, regularizers: Tensor) -> SchurSystems:
        r"""The systems at given regularisers; see ``History``."""
        known = self._slots.get(slot)
        if known is None or not torch.equal(known.regularizers, regularizers):
            known = SchurSystems(self.basis, regularizers, self.noise_std, self.capacity)
            for i, target in enumerate(self._targets[: self.newest].tolist()):
                features, residual = self._features[i : i + 1], self._residual[i]
                own, others = residual[i : i + 1], residual[:i].unsqueeze(-1)
                known.append(SpectralPoints(features, own, others), target)
            self._slots[slot] = known
        return known

    def ridge_estimate(self, tau: float) -> RidgeEstimate:
        r"""The ridge estimate at one ``tau``, in ``O(n p^2)`` for the newest ``p``."""
        basis, count = self.basis, self.newest
        lam, shifted = basis.eigenvalues, basis.eigenvalues + tau
        features = self._features[:count] / self.noise_std
        matrix = torch.addmm(
            self._residual[:count, :count] / self.noise_std**2,
            features * (tau / shifted),
            features.mT,
        )
        matrix.diagonal().add_(tau)
        factor = torch.linalg.cholesky(matrix)  # of the lower triangle
        targets = self._targets[:count]
        surprise = targets - features @ (basis.mean_terms / shifted)
        newest = torch.cholesky_solve(surprise.unsqueeze(-1), factor)[:, 0]
        terms = lam.sqrt() * (newest @ features)
        older = (basis.targets - terms) / shifted
        fit_older, fit_newest = basis.targets - tau * older, targets - tau * newest
        squares = float(older @ older) + float(newest @ newest)
        misfit = tau**2 * squares + basis.unresolved
        squared_norm = float(older @ fit_older) + float(newest @ fit_newest)
        return RidgeEstimate(tau, older, newest, misfit, squared_norm)

    def weights(self, estimate: RidgeEstimate) -> Tensor:
        r"""``n`` weights of covariances that sum up to the estimate, outcome units."""
        older = self.basis.basis @ (self.basis.eigenvalues.sqrt() * estimate.older)
        return torch.cat([older, estimate.newest / self.noise_std])
