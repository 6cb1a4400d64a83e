r"""An eigenbasis of the older observations and Schur complements of the newest."""

from copy import copy
from typing import NamedTuple

import torch
from torch import Tensor
from torch.linalg import vecdot

from kernelucb._numerics.features import split_variance
from kernelucb.bandit.eigenbasis import Eigenbasis, RidgeEstimate
from kernelucb.bandit.history import Fit, Moments
from kernelucb.bandit.observations import Query
from kernelucb.regression import KernelRegression


class SpectralPoints(NamedTuple):
    r"""Arms in the eigenbasis of the older observations.

    Attributes:
        features: ``a x r`` coordinates.
        residual_variance: ``a`` variances outside the basis.
        residual: ``p x a`` prior covariances with the newest inputs, less their part
            inside the basis.
    """

    features: Tensor
    residual_variance: Tensor
    residual: Tensor

    def at(self, index: int) -> "SpectralPoints":
        r"""One of the arms."""
        one = slice(index, index + 1)
        return SpectralPoints(
            self.features[one], self.residual_variance[one], self.residual[:, one]
        )


class Newest(NamedTuple):
    r"""One of the newest observations, as those before it see it.

    Attributes:
        points: Its input, projected.
        target: Outcome minus prior mean, noise units.
    """

    points: SpectralPoints
    target: float


class SchurSystems:
    r"""The systems at ``m`` regularisers.

    Conditioned on the older observations, the newest ``p`` have the covariance
    ``S = C_tau / noise^2 + tau``, a Schur complement; the inverse of its Cholesky factor
    grows by a row with each of them. Forks share the rows that both have; what lies beyond
    ``count`` is never read.

    Args:
        basis: Of the older observations.
        regularizers: ``m`` values ``tau``.
        noise_std: Noise scale, outcome units.
        capacity: Largest ``p``.
    """

    def __init__(
        self, basis: Eigenbasis, regularizers: Tensor, noise_std: float, capacity: int
    ) -> None:
        self.basis, self.regularizers, self.noise_std = basis, regularizers, noise_std
        self.count = 0
        shape, lam = len(regularizers), basis.eigenvalues
        shifted = lam + regularizers.unsqueeze(-1)
        self.inverse = shifted.reciprocal()  # m x r
        self.shrinkage = regularizers.unsqueeze(-1) / shifted
        self.mean_weights = basis.mean_terms * self.inverse
        self._shrunk = lam.new_empty(capacity, shape, len(lam))
        self._factors = lam.new_zeros(shape, capacity, capacity)
        self._innovations = lam.new_empty(shape, capacity)
        self._log_det = torch.log1p(lam / regularizers.unsqueeze(-1)).sum(-1)
        self._form = self.inverse @ basis.targets.square()

    def fork(self) -> "SchurSystems":
        r"""Systems that grow on their own."""
        return copy(self)

    @property
    def factors(self) -> Tensor:
        r"""``m x p x p`` inverse Cholesky factors of the Schur complements."""
        return self._factors[:, : self.count, : self.count]

    @property
    def innovations(self) -> Tensor:
        r"""``m x p`` outcomes of the newest, predicted from the others and scaled."""
        return self._innovations[:, : self.count]

    def append(self, newest: Newest) -> None:
        r"""Add one observation."""
        points, scale = newest.points, self.noise_std
        index = self.count
        covariance = self._conditioned(points)[..., 0] / scale**2  # m x p
        row = (self.factors @ covariance.unsqueeze(-1)).squeeze(-1)
        own = self._older_variance(points)[0] / scale**2 + self.regularizers
        pivot = (own - row.square().sum(-1)).sqrt()
        predicted = (self.mean_weights @ points.features[0]) / scale
        predicted = predicted + (row * self.innovations).sum(-1)
        inside = (row.unsqueeze(1) @ self.factors).squeeze(1)
        self._factors[:, index, :index] = -inside / pivot.unsqueeze(-1)
        self._factors[:, index, index] = 1.0 / pivot
        self._innovations[:, index] = (newest.target - predicted) / pivot
        self._shrunk[index] = points.features * self.shrinkage
        self._log_det = self._log_det + 2.0 * pivot.log() - self.regularizers.log()
        self.count += 1

    def fit(self) -> Fit:
        r"""How the ridge estimates fit the data; see ``Systems``."""
        tau = self.regularizers
        form = self._form + self.innovations.square().sum(-1)
        return Fit(tau, self._log_det, tau * form + self.basis.unresolved)

    def moments(self, points: SpectralPoints) -> Moments:
        r"""Ridge estimates at arms; see ``Systems``."""
        deviation = points.features @ self.mean_weights.mT
        variance = self._older_variance(points)
        if self.count:
            explained = (self.factors / self.noise_std) @ self._conditioned(points)
            newest = self.innovations.unsqueeze(1) @ explained  # m x 1 x a
            deviation = deviation + newest.squeeze(1).mT
            variance = variance - vecdot(explained, explained, dim=1).mT
        return Moments(deviation, variance.clamp_min(0.0))

    def _older_variance(self, points: SpectralPoints) -> Tensor:
        r"""Variance given the older observations, ``a x m``."""
        explained = points.features.square() @ self.shrinkage.mT
        return points.residual_variance.unsqueeze(-1) + explained

    def _conditioned(self, points: SpectralPoints) -> Tensor:
        r"""Covariance with the newest given the older observations, ``m x p x a``."""
        shrunk = self._shrunk[: self.count].flatten(0, 1)
        inside = (shrunk @ points.features.mT).unflatten(
            0, (self.count, len(self.regularizers))
        )
        return inside.add_(points.residual.unsqueeze(1)).transpose(0, 1)


class SpectralHistory:
    r"""All observations: an eigenbasis, renewed now and then, and those since.

    Args:
        noise_std: Noise scale, outcome units.
        like: Gives dtype and device.

    Attributes:
        basis: Eigenbasis of the older observations.
        largest_variance: Largest prior variance of an observation.
        newest: The observations since.
        capacity: How many of them there may be before the basis is due.
    """

    def __init__(self, noise_std: float, like: Tensor) -> None:
        self.noise_std = noise_std
        self.basis = Eigenbasis.empty(like)
        self.largest_variance = 0.0
        self.newest: list[Newest] = []
        self.capacity = _capacity(0)
        self._features = like.new_empty(self.capacity, 0)
        self._rest = like.new_empty(self.capacity, self.capacity)
        self._targets = like.new_empty(self.capacity)
        self._slots: dict[str, SchurSystems] = {}
        self._last: tuple[Query, SpectralPoints] | None = None

    def fork(self) -> "SpectralHistory":
        r"""A history that goes on on its own; see ``History``."""
        new = copy(self)
        new.newest = list(self.newest)
        new._slots = {slot: systems.fork() for slot, systems in self._slots.items()}
        return new

    @property
    def squared_targets(self) -> float:
        r"""Squared length of the outcomes less the prior mean, noise units."""
        targets = torch.cat([self.basis.targets, self._targets[: len(self.newest)]])
        return float(targets @ targets) + self.basis.unresolved

    @property
    def is_full(self) -> bool:
        r"""Whether the eigenbasis is due."""
        return len(self.newest) >= self.capacity

    def renew(self, regression: KernelRegression) -> None:
        r"""Take the eigenbasis of all observations."""
        self.basis = Eigenbasis.of(regression)
        self.largest_variance = float(regression.distinct_variance.max())
        self.newest = []
        self.capacity = _capacity(self.basis.count)
        rank = len(self.basis.eigenvalues)
        self._features = self.basis.basis.new_empty(self.capacity, rank)
        self._rest = self._features.new_empty(self.capacity, self.capacity)
        self._targets = self._features.new_empty(self.capacity)
        self._slots, self._last = {}, None

    def append(self, query: Query, target: float) -> None:
        r"""Add one observation; see ``History``."""
        newest = Newest(self._recalled(query) or self.project(query), target)
        self._last = None
        variance = float(query.prior_variance)
        self.largest_variance = max(self.largest_variance, variance)
        index = len(self.newest)
        self._features[index] = newest.points.features[0]
        self._rest[index, :index] = newest.points.residual[:, 0]
        self._rest[index, index] = newest.points.residual_variance[0]
        self._targets[index] = target
        self.newest.append(newest)
        for systems in self._slots.values():
            systems.append(newest)

    def project(self, query: Query) -> SpectralPoints:
        r"""Arms in the eigenbasis; remembered for ``append``."""
        self._last = (query, self._projected(query))
        return self._last[1]

    def _recalled(self, query: Query) -> SpectralPoints | None:
        r"""A single arm, where it was projected when it was scored."""
        if self._last is None or query.source is None:
            return None
        whole, index = query.source
        return self._last[1].at(index) if whole is self._last[0] else None

    def _projected(self, query: Query) -> SpectralPoints:
        basis, prior_variance = self.basis, query.prior_variance
        older = query.covariance[: basis.count]
        if basis.count == 0:
            features, residual_variance = (
                prior_variance.new_empty(len(prior_variance), 0),
                prior_variance,
            )
        else:
            reach = basis.sections.reach(query.inputs, prior_variance, older[basis.rows].mT)
            features, residual_variance = split_variance(
                older.mT @ basis.basis, prior_variance, reach
            )
        inside = self._features[: len(self.newest)] @ features.mT
        return SpectralPoints(
            features, residual_variance, query.covariance[basis.count :] - inside
        )

    def systems(self, slot: str, regularizers: Tensor) -> SchurSystems:
        r"""The systems at given regularisers; see ``History``."""
        known = self._slots.get(slot)
        if known is None or not torch.equal(known.regularizers, regularizers):
            known = SchurSystems(self.basis, regularizers, self.noise_std, self.capacity)
            for newest in self.newest:
                known.append(newest)
            self._slots[slot] = known
        return known

    def ridge_estimate(self, tau: float) -> RidgeEstimate:
        r"""The ridge estimate at one regulariser, in ``O(n p^2)`` for the newest ``p``."""
        basis, count = self.basis, len(self.newest)
        lam, shifted = basis.eigenvalues, basis.eigenvalues + tau
        features = self._features[:count] / self.noise_std
        matrix = torch.addmm(
            self._rest[:count, :count] / self.noise_std**2,
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
        return RidgeEstimate(
            regularizer=tau,
            older=older,
            newest=newest,
            squared_misfit=tau**2 * squares + basis.unresolved,
            squared_norm=float(older @ fit_older) + float(newest @ fit_newest),
        )

    def weights(self, estimate: RidgeEstimate) -> Tensor:
        r"""``n`` weights of covariances that sum up to the estimate, outcome units."""
        older = self.basis.basis @ (self.basis.eigenvalues.sqrt() * estimate.older)
        return torch.cat([older, estimate.newest / self.noise_std])


def _capacity(count: int) -> int:
    r"""Newest observations at which an ``eigh`` costs as much as carrying them."""
    return max(8, count // 16)
