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
    r"""The systems at ``m`` regularisers.

    Conditioned on the older observations, the newest ``p`` have the covariance
    ``S = C_tau / noise^2 + tau``, a Schur complement; the inverse of its Cholesky factor
    grows by a row with each of them, up to ``capacity``. Copies share storage and read
    only the first ``count`` rows.
    """

    def __init__(
        self, basis: Eigenbasis, regularizers: Tensor, noise_std: float, capacity: int
    ) -> None:
        self.basis, self.regularizers, self.noise_std = basis, regularizers, noise_std
        self.count = 0
        m, lam = len(regularizers), basis.eigenvalues
        shifted = lam + regularizers.unsqueeze(-1)
        self.inverse = shifted.reciprocal()  # m x r
        self.shrinkage = regularizers.unsqueeze(-1) / shifted
        self.mean_weights = basis.mean_terms * self.inverse
        self._shrunk = lam.new_empty(capacity, m, len(lam))
        self._factors = lam.new_zeros(m, capacity, capacity)
        self._innovations = lam.new_empty(m, capacity)
        self._log_det = torch.log1p(lam / regularizers.unsqueeze(-1)).sum(-1)
        self._form = self.inverse @ basis.targets.square()

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
        predicted = (self.mean_weights @ points.features[0]) / scale
        predicted = predicted + (row * self.innovations).sum(-1)
        inside = (row.unsqueeze(1) @ self.factors).squeeze(1)
        self._factors[:, index, :index] = -inside / pivot.unsqueeze(-1)
        self._factors[:, index, index] = 1.0 / pivot
        self._innovations[:, index] = (target - predicted) / pivot
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
        sizes = (self.count, len(self.regularizers))
        inside = (shrunk @ points.features.mT).unflatten(0, sizes)
        return inside.add_(points.residual.unsqueeze(1)).transpose(0, 1)


class SpectralHistory(History):
    r"""All observations: an eigenbasis, renewed now and then, and those since.

    Attributes:
        basis: Eigenbasis of the older observations.
        largest_variance: Largest prior variance of an observation.
        newest: Number ``p`` of observations since.
        capacity: How many of them there may be before the basis is due.
    """

    def __init__(self, observations: Observations) -> None:
        super().__init__(observations)
        self._restart(Eigenbasis.empty(observations.inputs), 0.0)

    def renew(self, regression: KernelRegression | None = None) -> None:
        r"""Take the eigenbasis of all observations; ``regression`` where it is known."""
        regression = regression or self.observations.regression()
        largest = float(regression.distinct_variance.max())
        self._restart(Eigenbasis.of(regression), largest)

    def _restart(self, basis: Eigenbasis, largest_variance: float) -> None:
        self.basis, self.largest_variance = basis, largest_variance
        self.newest = 0
        # An `eigh` costs as much as carrying so many.
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
