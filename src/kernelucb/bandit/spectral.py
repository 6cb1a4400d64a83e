r"""All observations in a form to which an observation is added in ``O(n^2)``.

An eigenbasis of the older observations, made anew after every sixteenth part of new ones,
and Schur complements for the newest: ridge estimates at any few regularisers.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.linalg import vecdot
from torch.nn.functional import pad

from kernelucb._numerics.spectral import Sections, hidden_part, split_variance
from kernelucb.bandit.observations import Arms, Observations
from kernelucb.regression import KernelRegression


class Fit(NamedTuple):
    r"""How ridge estimates fit the data, one value for each regulariser ``tau``."""

    log_det: Tensor  # ln det(I + K_w / tau)
    quadratic_form: Tensor  # y_w^T (I + K_w / tau)^-1 y_w


class Moments(NamedTuple):
    r"""Ridge estimates at arms, ``a x m`` for ``m`` regularisers."""

    deviation: Tensor  # estimate minus prior mean, outcome units
    variance: Tensor  # latent variance, outcome units squared


class Points(NamedTuple):
    r"""Arms in the eigenbasis of the older observations."""

    features: Tensor  # a x r coordinates
    residual_variance: Tensor  # a variances outside the basis
    residual: Tensor  # p x a prior covariances with the newest inputs outside the basis


class Eigenbasis(NamedTuple):
    r"""The resolved part of the spectrum of the ``n`` older observations."""

    num_observations: int
    eigenvalues: Tensor  # r, of the whitened kernel matrix, ascending
    basis: Tensor  # n x r, maps covariances to features
    sections: Sections  # the kernel sections at the distinct inputs
    rows: Tensor  # position of an observation at each of them
    targets: Tensor  # r coordinates z of the whitened outcomes
    unresolved: float  # squared norm of the outcomes outside these directions
    hidden_length: float  # of those that eigenvalues near round-off would explain
    eigenvalue_cutoff: float  # what round-off can make of a zero eigenvalue

    @classmethod
    def empty(cls, like: Tensor) -> "Eigenbasis":
        r"""The basis before any observation."""
        none, matrix = like.new_empty(0), like.new_empty(0, 0)
        sections, tiny = Sections(matrix, none, none), torch.finfo(like.dtype).tiny
        return cls(0, none, matrix, sections, none.long(), none, 0.0, 0.0, tiny)

    @classmethod
    def of(cls, regression: KernelRegression) -> "Eigenbasis":
        r"""The basis of a regression, without the directions that round-off hides."""
        zeros = int((regression.eigenvalues == 0).sum())
        rows, rank = regression.distinct_index, len(regression.eigenvalues) - zeros
        basis = regression.eigenvalues.new_zeros(regression.num_observations, rank)
        return cls(
            num_observations=regression.num_observations,
            eigenvalues=regression.eigenvalues[zeros:].clone(),
            basis=basis.index_copy(0, rows, regression.feature_basis[:, zeros:]),
            sections=regression.distinct_sections,
            rows=rows,
            targets=regression.targets[zeros:].clone(),
            unresolved=float(regression.targets[:zeros].square().sum()),
            hidden_length=regression.hidden_length,
            eigenvalue_cutoff=regression.eigenvalue_cutoff,
        )

    def hidden_part(self, norm: float) -> float:
        r"""See ``KernelRegression``."""
        return hidden_part(self.hidden_length, norm * math.sqrt(self.eigenvalue_cutoff))

    def hidden_log_det(self, regularizer: float) -> float:
        r"""What eigenvalues that count as zero may add to ``ln det(I + K_w / tau)``."""
        hidden = self.num_observations - len(self.eigenvalues)
        return hidden * math.log1p(self.eigenvalue_cutoff / regularizer)

    @property
    def mean_terms(self) -> Tensor:
        r"""``r`` values ``sqrt(lam) z``."""
        return self.eigenvalues.sqrt() * self.targets


class SchurSystems:
    r"""The systems ``K_w + tau`` at ``m`` regularisers with a positive real part.

    Conditioned on the older observations, the newest ``p`` have the covariance
    ``S = C_tau / noise^2 + tau``, a Schur complement; the inverse of its Cholesky factor
    grows by a row with each of them. For complex regularisers ``S`` is symmetric and both
    its parts are positive definite, so that the factor without conjugation is stable
    (Higham 1998, Factorizing complex symmetric matrices with positive definite real and
    imaginary parts).
    """

    def __init__(
        self, basis: Eigenbasis, regularizers: Tensor, noise_std: float, capacity: int = 64
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

    def append(self, points: Points, target: float) -> None:
        r"""Add one observation: its projected input, and its outcome in noise units."""
        # Cholesky of a bordered matrix: the new row of the factor is the covariance solved
        # by the old factor, the pivot the deviation that is left. With the inverse factor
        # a round consists of products, without a solve or a factorisation.
        scale, index = self.noise_std, self.count
        if index == len(self._shrunk):
            self._enlarge()
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

    def _enlarge(self) -> None:
        r"""Twice the storage."""
        more = len(self._shrunk)
        self._shrunk = torch.cat([self._shrunk, torch.empty_like(self._shrunk)])
        self._factors = pad(self._factors, (0, more, 0, more))
        self._innovations = pad(self._innovations, (0, more))

    def fit(self) -> Fit:
        r"""How the ridge estimates fit the data."""
        tau = self.regularizers
        form = self._form + self.innovations.square().sum(-1)
        return Fit(self._log_det, tau * form + self.basis.unresolved)

    def moments(self, points: Points) -> Moments:
        r"""Ridge estimates at arms, analytic functions of the regulariser."""
        deviation = _times(points.features, self._mean_weights)
        variance = self._older_variance(points)
        if self.count:
            explained = self.factors @ self._conditioned(points)  # times the noise scale
            newest = self.innovations.unsqueeze(1) @ explained  # m x 1 x a
            deviation = deviation + newest.squeeze(1).mT / self.noise_std
            squares = vecdot(explained.conj(), explained, dim=1)  # without conjugation
            variance = variance - squares.mT / self.noise_std**2
        return Moments(deviation, variance)

    def _older_variance(self, points: Points) -> Tensor:
        r"""Variance given the older observations, ``a x m``."""
        explained = _times(points.features.square(), self._shrinkage)
        return points.residual_variance.unsqueeze(-1) + explained

    def _conditioned(self, points: Points) -> Tensor:
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


class Spectrum:
    r"""An eigenbasis of the older observations, and systems for all of them."""

    def __init__(self, observations: Observations) -> None:
        self.observations, self.noise_std = observations, observations.noise_std
        self._set(Eigenbasis.empty(observations.inputs))

    def renew(self, regression: KernelRegression) -> None:
        r"""Take all observations into the eigenbasis."""
        self._set(Eigenbasis.of(regression))

    def _set(self, basis: Eigenbasis) -> None:
        self.basis, self.newest = basis, 0  # number p of observations since
        # An `eigh` costs as much as carrying so many; then the basis is due.
        self.capacity = max(8, basis.num_observations // 16)
        like = basis.eigenvalues
        self._features = like.new_empty(self.capacity, len(like))
        self._residual = like.new_empty(self.capacity, self.capacity)
        self._targets = like.new_empty(self.capacity)
        self._slots: dict[str, SchurSystems] = {}

    @property
    def is_full(self) -> bool:
        r"""Whether the eigenbasis is due."""
        return self.newest >= self.capacity

    def append(self, arm: Arms, target: float) -> None:
        r"""Add an observation: its arm, and outcome minus prior mean in noise units."""
        points, index = self.project(arm), self.newest
        self._features[index] = points.features[0]
        self._residual[index, :index] = points.residual[:, 0]
        self._residual[index, index] = points.residual_variance[0]
        self._targets[index] = target
        self.newest += 1
        for systems in self._slots.values():
            systems.append(points, target)

    def project(self, arms: Arms) -> Points:
        r"""Arms in the form that ``SchurSystems.moments`` takes."""
        basis, variance = self.basis, arms.prior_variance
        older, newer = arms.covariance.split([basis.num_observations, self.newest])
        features = variance.new_empty(len(variance), 0)
        if basis.num_observations:
            reach = basis.sections.reach(arms.inputs, variance, older[basis.rows].mT)
            features, variance = split_variance(older.mT @ basis.basis, variance, reach)
        inside = self._features[: self.newest] @ features.mT
        return Points(features, variance, newer - inside)

    def systems(self, slot: str, regularizers: Tensor) -> SchurSystems:
        r"""The systems at given regularisers; each slot keeps those last asked for."""
        for known in self._slots.values():
            if torch.equal(known.regularizers, regularizers):
                break
        else:
            known = SchurSystems(self.basis, regularizers, self.noise_std, self.capacity)
            for i, target in enumerate(self._targets[: self.newest].tolist()):
                features, residual = self._features[i : i + 1], self._residual[i]
                own, others = residual[i : i + 1], residual[:i].unsqueeze(-1)
                known.append(Points(features, own, others), target)
            self._slots[slot] = known
        return known
