r"""Growing Cholesky factors, for bounds that need one or two regularisers."""

import math
from copy import copy
from typing import NamedTuple

import torch
from torch import Tensor

from kernelucb.bandit.history import Fit, Moments
from kernelucb.bandit.observations import Query

_BLOCK = 128


class GrowingCholesky:
    r"""Cholesky factor ``L`` of ``K_w + tau``, with ``L^-1 y_w``, row by row.

    Stored as block rows whose diagonal blocks are inverted, so that a solve is a handful
    of matrix products. Forks share the rows that both have; what lies beyond ``count`` is
    never read.

    Attributes:
        regularizer: ``tau``.
        log_det: ``ln det(I + K_w / tau)``.
        squared_targets: ``|L^-1 y_w|^2``.
    """

    def __init__(self, regularizer: float, like: Tensor) -> None:
        self.regularizer = regularizer
        self.log_det = 0.0
        self.count = 0
        self._like = like
        self._rows: list[Tensor] = []
        self._inverses: list[Tensor] = []
        self.squared_targets = 0.0
        self._solved_targets = like.new_empty(0)
        self._storage = like.new_empty(0)

    def fork(self) -> "GrowingCholesky":
        r"""A factor that grows on its own."""
        new = copy(self)
        new._rows, new._inverses = list(self._rows), list(self._inverses)
        return new

    @property
    def solved_targets(self) -> Tensor:
        r"""``n`` values ``L^-1 y_w``."""
        return self._solved_targets[: self.count]

    def append(self, solved: Tensor, variance: float, target: float) -> None:
        r"""Add one row.

        Args:
            solved: ``n`` values ``L^-1 k``, ``k`` the whitened covariances with the
                earlier inputs.
            variance: Whitened prior variance.
            target: Outcome minus prior mean, noise units.
        """
        pivot = math.sqrt(variance + self.regularizer - float(solved @ solved))
        start = self.count % _BLOCK
        if start == 0:
            self._rows.append(self._like.new_zeros(_BLOCK, self.count + _BLOCK))
            self._inverses.append(self._like.new_zeros(_BLOCK, _BLOCK))
            self._extend_targets()
        residual = target - float(solved @ self.solved_targets)
        self._rows[-1][start, : self.count] = solved
        self._rows[-1][start, self.count] = pivot
        inside = solved[self.count - start :] @ self._inverses[-1][:start, :start]
        self._inverses[-1][start, :start] = inside / -pivot
        self._inverses[-1][start, start] = 1.0 / pivot
        self._solved_targets[self.count] = residual / pivot
        self.squared_targets += (residual / pivot) ** 2
        self.log_det += 2.0 * math.log(pivot) - math.log(self.regularizer)
        self.count += 1

    def solve(self, right: Tensor, out: Tensor | None = None) -> Tensor:
        r"""``L^-1`` times each of the ``a x n`` rows of right sides.

        Args:
            right: Right sides.
            out: ``a x n`` storage for the solution.
        """
        solution = right.new_empty(right.shape) if out is None else out
        for index, (row, inverse) in enumerate(
            zip(self._rows, self._inverses, strict=True)
        ):
            low, high = index * _BLOCK, min((index + 1) * _BLOCK, self.count)
            size, rest = high - low, right[:, low:high]
            if low:
                before, known = row[:size, :low], solution[:, :low]
                rest = torch.addmm(rest, known, before.mT, alpha=-1.0)
            torch.mm(rest, inverse[:size, :size].mT, out=solution[:, low:high])
        return solution

    def solve_arms(self, right: Tensor) -> Tensor:
        r"""As ``solve``, into storage that the next call overwrites.

        Fresh pages for a matrix of this size cost as much as part of the arithmetic.
        """
        if right.numel() > len(self._storage):
            self._storage = self._like.new_empty(2 * right.numel())
        return self.solve(right, self._storage[: right.numel()].view(right.shape))

    def _extend_targets(self) -> None:
        if self.count == len(self._solved_targets):
            longer = self._like.new_empty(2 * self.count + _BLOCK)
            longer[: self.count] = self._solved_targets
            self._solved_targets = longer


class CholeskyPoints(NamedTuple):
    r"""Arms, and what has been solved for them so far.

    Attributes:
        query: The arms.
        solved: ``a x n`` rows ``L^-1 k(x)`` for the regularisers in use.
    """

    query: Query
    solved: dict[float, Tensor]


class CholeskySystems:
    r"""The systems at a few regularisers, one factor each."""

    def __init__(
        self, factors: list[GrowingCholesky], regularizers: Tensor, noise_std: float
    ) -> None:
        self.factors, self.regularizers = factors, regularizers
        self.noise_std = noise_std

    def fit(self) -> Fit:
        r"""How the ridge estimates fit the data."""
        like = self.regularizers
        return Fit(
            regularizers=like,
            log_det=like.new_tensor([f.log_det for f in self.factors]),
            quadratic_form=like
            * like.new_tensor([f.squared_targets for f in self.factors]),
        )

    def moments(self, points: CholeskyPoints) -> Moments:
        r"""Ridge estimates at arms; see ``Systems``."""
        deviations, variances = [], []
        for factor in self.factors:
            solved = factor.solve_arms(points.query.covariance.mT)
            points.solved[factor.regularizer] = solved
            deviations.append(solved @ factor.solved_targets / self.noise_std)
            squares = torch.einsum("an,an->a", solved, solved)
            explained = squares / self.noise_std**2
            variances.append((points.query.prior_variance - explained).clamp_min(0.0))
        return Moments(torch.stack(deviations, -1), torch.stack(variances, -1))


class CholeskyHistory:
    r"""One growing factor for each regulariser in use.

    Args:
        noise_std: Noise scale, outcome units.
        like: Gives dtype and device.
    """

    def __init__(self, noise_std: float, like: Tensor) -> None:
        self.noise_std = noise_std
        self._like = like
        self._slots: dict[str, CholeskySystems] = {}
        self._past: list[tuple[Tensor, float, float]] = []
        self._last: CholeskyPoints | None = None

    def fork(self) -> "CholeskyHistory":
        r"""A history that goes on on its own; see ``History``."""
        new = copy(self)
        factors = {tau: factor.fork() for tau, factor in self._factors().items()}
        new._slots = {
            slot: CholeskySystems(
                [factors[f.regularizer] for f in known.factors],
                known.regularizers,
                self.noise_std,
            )
            for slot, known in self._slots.items()
        }
        new._past = list(self._past)
        return new

    def append(self, query: Query, target: float) -> None:
        r"""Add one observation; see ``History``."""
        covariance = query.covariance.mT / self.noise_std**2
        variance = float(query.prior_variance) / self.noise_std**2
        self._past.append((covariance, variance, target))
        for factor in self._factors().values():
            solved = self._recalled(query, factor.regularizer)
            if solved is None:
                solved = factor.solve(covariance)[0]
            factor.append(solved, variance, target)
        self._last = None

    def project(self, query: Query) -> CholeskyPoints:
        r"""Arms in the form that the systems take; remembered for ``append``."""
        self._last = CholeskyPoints(query, {})
        return self._last

    def _recalled(self, query: Query, regularizer: float) -> Tensor | None:
        r"""The new row, where it was solved when its arm was scored."""
        if self._last is None or query.source is None:
            return None
        whole, index = query.source
        if whole is not self._last.query:
            return None
        solved = self._last.solved.get(regularizer)
        return None if solved is None else solved[index] / self.noise_std**2

    def systems(self, slot: str, regularizers: Tensor) -> CholeskySystems:
        r"""The systems at given regularisers; a new one costs ``O(n^3)`` once."""
        known = self._slots.get(slot)
        if known is None or not torch.equal(known.regularizers, regularizers):
            factors = self._factors()
            taus = [float(tau) for tau in regularizers]
            for tau in set(taus) - factors.keys():
                factors[tau] = GrowingCholesky(tau, self._like)
                for covariance, variance, target in self._past:
                    solved = factors[tau].solve(covariance)[0]
                    factors[tau].append(solved, variance, target)
            ordered = [factors[tau] for tau in taus]
            known = CholeskySystems(ordered, regularizers, self.noise_std)
            self._slots[slot] = known
        return known

    def _factors(self) -> dict[float, GrowingCholesky]:
        systems = self._slots.values()
        return {f.regularizer: f for known in systems for f in known.factors}
