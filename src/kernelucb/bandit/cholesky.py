r"""Growing Cholesky factors, for bounds that need one or two regularisers."""

import math
from copy import copy
from typing import NamedTuple, Self

import torch
from torch import Tensor

from kernelucb.bandit.history import Fit, History, Moments
from kernelucb.bandit.observations import Arms, Observations

_BLOCK = 128


class GrowingCholesky:
    r"""Cholesky factor ``L`` of ``K_w + tau``, with ``L^-1 y_w``, row by row.

    Stored as block rows whose diagonal blocks are inverted, so that a solve is a handful
    of matrix products. Forks share storage and read only the first ``count`` rows.

    Attributes:
        regularizer: ``tau``.
        count: Number of rows ``n``.
        log_det: ``ln det(I + K_w / tau)``.
        squared_targets: ``|L^-1 y_w|^2``.
    """

    def __init__(self, regularizer: float, like: Tensor) -> None:
        self.regularizer = regularizer
        self.count, self.log_det, self.squared_targets = 0, 0.0, 0.0
        self._like = like
        self._rows: list[Tensor] = []
        self._inverses: list[Tensor] = []
        self._solved_targets = self._storage = self._spare = like.new_empty(0)

    def fork(self) -> "GrowingCholesky":
        r"""A factor that grows on its own."""
        new = copy(self)
        new._rows, new._inverses = list(self._rows), list(self._inverses)
        # What this one has solved for arms stays, should the fork be interrupted.
        new._storage, new._spare = self._spare, self._storage
        return new

    @property
    def solved_targets(self) -> Tensor:
        r"""``n`` values ``L^-1 y_w``."""
        return self._solved_targets[: self.count]

    def append(self, solved: Tensor, variance: float, target: float) -> None:
        r"""Add one row.

        Args:
            solved: ``n`` values ``L^-1 k`` of the whitened covariances ``k`` with the rest.
            variance: Whitened prior variance.
            target: Outcome minus prior mean, noise units.
        """
        pivot = math.sqrt(variance + self.regularizer - float(solved @ solved))
        start = self.count % _BLOCK
        if start == 0:
            self._extend()
        residual = (target - float(solved @ self.solved_targets)) / pivot
        row, inverse = self._rows[-1][start], self._inverses[-1]
        row[: self.count] = solved
        row[self.count] = pivot
        inside = solved[self.count - start :] @ inverse[:start, :start]
        inverse[start, :start] = inside / -pivot
        inverse[start, start] = 1.0 / pivot
        self._solved_targets[self.count] = residual
        self.squared_targets += residual**2
        self.log_det += 2.0 * math.log(pivot) - math.log(self.regularizer)
        self.count += 1

    def solve(self, right: Tensor, out: Tensor | None = None) -> Tensor:
        r"""``L^-1`` times each of ``a`` rows of length ``n``; ``out`` is storage for it."""
        solution = right.new_empty(right.shape) if out is None else out
        for index, row in enumerate(self._rows):
            low, high = index * _BLOCK, min((index + 1) * _BLOCK, self.count)
            size, rest = high - low, right[:, low:high]
            if low:
                before, known = row[:size, :low], solution[:, :low]
                rest = torch.addmm(rest, known, before.mT, alpha=-1.0)
            inverse = self._inverses[index][:size, :size]
            torch.mm(rest, inverse.mT, out=solution[:, low:high])
        return solution

    def solve_arms(self, right: Tensor) -> Tensor:
        r"""As ``solve``, into storage that the next call overwrites.

        Fresh pages for a matrix of this size cost as much as part of the arithmetic.
        """
        if right.numel() > len(self._storage):
            self._storage = self._like.new_empty(2 * right.numel())
        return self.solve(right, self._storage[: right.numel()].view(right.shape))

    def _extend(self) -> None:
        self._rows.append(self._like.new_zeros(_BLOCK, self.count + _BLOCK))
        self._inverses.append(self._like.new_zeros(_BLOCK, _BLOCK))
        if self.count == len(self._solved_targets):
            longer = self._like.new_empty(2 * self.count + _BLOCK)
            longer[: self.count] = self._solved_targets
            self._solved_targets = longer


class CholeskyPoints(NamedTuple):
    r"""Arms, and what has been solved for them so far."""

    arms: Arms
    solved: dict[float, Tensor]  # a x n rows L^-1 k(x) for each regulariser asked for

    def at(self, index: int) -> "CholeskyPoints":
        r"""One of the arms."""
        solved = {tau: rows[index : index + 1] for tau, rows in self.solved.items()}
        return CholeskyPoints(self.arms.at(index), solved)


class CholeskySystems(NamedTuple):
    r"""The systems at a few regularisers, one factor each."""

    factors: list[GrowingCholesky]
    regularizers: Tensor
    noise_std: float

    def fit(self) -> Fit:
        r"""How the ridge estimates fit the data; see ``Systems``."""
        tau = self.regularizers
        log_det = tau.new_tensor([f.log_det for f in self.factors])
        squares = tau.new_tensor([f.squared_targets for f in self.factors])
        return Fit(tau, log_det, tau * squares)

    def moments(self, points: CholeskyPoints) -> Moments:
        r"""Ridge estimates at arms; see ``Systems``."""
        deviations, variances = [], []
        for factor in self.factors:
            solved = factor.solve_arms(points.arms.covariance.mT)
            points.solved[factor.regularizer] = solved
            deviations.append(solved @ factor.solved_targets / self.noise_std)
            explained = torch.einsum("an,an->a", solved, solved) / self.noise_std**2
            variances.append((points.arms.prior_variance - explained).clamp_min(0.0))
        return Moments(torch.stack(deviations, -1), torch.stack(variances, -1))


class CholeskyHistory(History):
    r"""One growing factor for each regulariser that ``systems`` will be asked for."""

    def __init__(self, observations: Observations, regularizers: Tensor) -> None:
        super().__init__(observations)
        like = observations.inputs
        self.factors = {tau: GrowingCholesky(tau, like) for tau in regularizers.tolist()}

    def fork(self, observations: Observations) -> Self:
        r"""A copy that grows on its own; see ``History``."""
        new = copy(self)
        new.observations = observations
        new.factors = {tau: factor.fork() for tau, factor in self.factors.items()}
        return new

    def append(self, arm: Arms, target: float) -> None:
        r"""Add one observation; see ``History``."""
        points = self._recalled(arm)
        variance = float(arm.prior_variance) / self.noise_std**2
        for tau, factor in self.factors.items():
            solved = points.solved.get(tau)
            if solved is None:
                solved = factor.solve(arm.covariance.mT)
            factor.append(solved[0] / self.noise_std**2, variance, target)

    def systems(self, slot: str, regularizers: Tensor) -> CholeskySystems:
        r"""The systems at given regularisers; see ``History``."""
        factors = [self.factors[tau] for tau in regularizers.tolist()]
        return CholeskySystems(factors, regularizers, self.noise_std)

    def _projected(self, arms: Arms) -> CholeskyPoints:
        return CholeskyPoints(arms, {})
