r"""Sketched posterior of a finite set of arms, kept up to date at low rank."""

from copy import copy
from typing import NamedTuple

import torch
from gpytorch.settings import lazily_evaluate_kernels
from torch import Tensor

from kernelucb._numerics.nystrom import regularized_factor
from kernelucb.regression.prior import Prior

# Variance outside the span of the inducing arms that counts as none, relative to the prior:
# the pseudo-inverse's cut-off. Features are divided by its root, so round-off stays 1e-11.
_RESOLUTION = 1e-10
_FIRST_CAPACITY = 32
# Inducing arms that are added together: their `eigh` and their covariances stay small.
_PART = 512


class SketchedArms:
    r"""Posterior mean and variance of every arm, given features of the inducing arms.

    With orthonormal features ``z(a)`` of the inducing arms, ``Z`` those of the observations
    and ``V = Z^T Z + lam I``: mean ``z^T V^-1 Z^T y`` and variance
    ``residual_variance + lam z^T V^-1 z`` (see ``kernelucb._numerics.nystrom``).
    Observations
    at ``k`` arms, and ``k`` more inducing arms, change ``z^T V^-1 z`` by ``k`` squares
    each, so a step costs ``O(A r k)`` for ``A`` arms and ``r`` features, in ``O(A r)``
    memory. For few ``k`` reading the features is what takes the time; they are read once.

    A step returns other arms and leaves these as they are. The features of both lie in the
    same storage, where those that are new come behind those that these arms read: only the
    latest arms, or those of an abandoned step, can be continued.

    Source: Calandriello et al. (2019), Eq. 4; block matrix inversion.

    Attributes:
        inducing: Inducing arms, in the order they were added.
        counts: ``A`` numbers of observations.
        sums: ``A`` sums of outcomes minus prior means.
        mean: ``A`` posterior means.
        residual_variance: ``A`` values ``k(a, a) - |z(a)|^2``.
        quadratic: ``A`` values ``z(a)^T V^-1 z(a)``.
    """

    def __init__(self, prior: Prior, candidates: Tensor, regularizer: float) -> None:
        r"""Arms without observations.

        Args:
            prior: Prior of the outcomes.
            candidates: ``A x d`` arms.
            regularizer: ``lam``.
        """
        self.prior, self.candidates, self.regularizer = prior, candidates, regularizer
        self.prior_mean = prior.mean(candidates)
        self.prior_variance = prior.variance(candidates)
        self.counts = torch.zeros_like(self.prior_mean)
        self.sums = torch.zeros_like(self.prior_mean)
        self._forget()

    def _forget(self) -> None:
        r"""Drop all inducing arms; the observations stay."""
        empty = self.candidates.new_zeros(0, 0)
        # Not the old storage, which other arms may read.
        self._storage, self._rank = self.candidates.new_empty(len(self.candidates), 0), 0
        self.inducing = torch.zeros(0, dtype=torch.long, device=empty.device)
        self.mean = self.prior_mean
        self.residual_variance = self.prior_variance
        self.quadratic = torch.zeros_like(self.prior_variance)
        self._gram, self._factor = empty, empty

    @property
    def features(self) -> Tensor:
        r"""``A x r`` features of the arms."""
        return self._storage[:, : self._rank]

    @property
    def observed(self) -> Tensor:
        r"""Arms with observations, ascending."""
        return self.counts.nonzero().squeeze(-1)

    @property
    def variance(self) -> Tensor:
        r"""``A`` latent variances."""
        return self.residual_variance + self.regularizer * self.quadratic

    def solve(self, right: Tensor) -> Tensor:
        r"""``V^-1`` times ``r x k`` columns."""
        return torch.cholesky_solve(right, self._factor) if len(right) else right

    def hallucination(self, arm: int, earlier: Tensor) -> Tensor:
        r"""What a further observation at an arm takes from quadratic forms.

        ``V^-1 z / sqrt(1 + z^T V^-1 z)`` after the ``earlier`` ones: the square of a
        feature's product with it is taken away.

        Args:
            arm: Where the observation would be made.
            earlier: ``r x h`` columns that this function returned before.

        Returns:
            ``r`` numbers.
        """
        z = self.features[arm]
        column = self.solve(z.unsqueeze(-1))[:, 0] - earlier @ (earlier.mT @ z)
        return column / (1.0 + z @ column).sqrt()

    def observe(
        self, arms: Tensor, counts: Tensor, sums: Tensor, inducing: Tensor
    ) -> "SketchedArms":
        r"""The arms with observations at distinct ones, and with more inducing arms.

        Args:
            arms: ``b`` distinct arms.
            counts: How many observations there are at each.
            sums: Summed outcomes minus prior means.
            inducing: ``k`` arms that are not inducing yet.
        """
        state = copy(self)
        state.counts = self.counts.index_add(0, arms, counts)
        state.sums = self.sums.index_add(0, arms, sums)
        first, *others = inducing.split(_PART)
        state._update(arms, counts, first)
        for part in others:
            state._update(arms[:0], counts[:0], part)
        return state

    def without_inducing(self) -> "SketchedArms":
        r"""The arms with their observations, but no inducing arms."""
        state = copy(self)
        state._forget()
        return state

    def rebuilt(self, inducing: Tensor, counts: Tensor, sums: Tensor) -> "SketchedArms":
        r"""Everything computed again, for other inducing arms and observations.

        Args:
            inducing: ``k`` observed arms.
            counts: ``A`` numbers of observations.
            sums: ``A`` sums of outcomes minus prior means.
        """
        state = self.without_inducing()
        state.counts, state.sums = counts, sums
        none = state.inducing
        return state.observe(none, counts[none], sums[none], inducing)

    def _update(self, arms: Tensor, counts: Tensor, inducing: Tensor) -> None:
        r"""Take observations and then inducing arms into the posterior.

        With orthonormal directions that the inducing arms add, the block inverse of the
        larger ``V`` adds ``|rest|^2`` to the quadratic forms, where ``rest`` are the new
        coordinates less what the old ones predict of them.
        """
        taken = self._absorb(arms, counts)
        new = _Directions.of(self, inducing)
        seen = self.observed
        own, weights = self.features[seen], self.counts[seen].unsqueeze(-1)
        added = new.coordinates(seen, own @ new.spanned)
        border = own.mT @ (weights * added)
        corner = added.mT @ (weights * added)
        half = torch.linalg.solve_triangular(self._factor, border, upper=False)
        projected = torch.linalg.solve_triangular(self._factor.mT, half, upper=True)
        lower = regularized_factor(corner - half.mT @ half, self.regularizer)
        self._gram = _bordered(self._gram, border, border, corner)
        self._factor = _bordered(self._factor, torch.zeros_like(half), half, lower)
        moments = torch.cat([own, added], dim=1).mT @ self.sums[seen]
        solution = self.solve(moments.unsqueeze(-1))
        old, size = len(projected), len(corner)
        columns = (new.spanned, projected, taken, solution[:old])
        # Thin products are up to twice as fast with columns that are contiguous.
        products = self.features @ torch.cat([each.mT for each in columns]).mT
        spanned, predicted, drops, mean = products.split(
            [size, size, taken.shape[1], 1], dim=1
        )
        added = new.coordinates(slice(None), spanned)
        rest = added - predicted
        rest = torch.linalg.solve_triangular(lower.mT, rest, upper=True, left=False)
        self.mean = self.prior_mean + (mean + added @ solution[old:])[:, 0]
        change = rest.square().sum(-1) - drops.square().sum(-1)
        self.quadratic = (self.quadratic + change).clamp_(min=0.0)
        explained = added.square().sum(-1)
        self.residual_variance = (self.residual_variance - explained).clamp_(min=0.0)
        self.inducing = torch.cat([self.inducing, inducing])
        self._append(added)

    def _absorb(self, arms: Tensor, counts: Tensor) -> Tensor:
        r"""Add observations to ``V``.

        Returns:
            ``r x b`` columns; their squares are what quadratic forms fall by.
        """
        weighted = counts.sqrt().unsqueeze(-1) * self.features[arms]
        columns = self.solve(weighted.mT)
        lower = regularized_factor(weighted @ columns, 1.0)
        self._set_gram(self._gram + weighted.mT @ weighted)
        return torch.linalg.solve_triangular(lower.mT, columns, upper=True, left=False)

    def _append(self, added: Tensor) -> None:
        rank = self._rank + added.shape[1]
        if rank > self._storage.shape[1]:
            capacity = max(_FIRST_CAPACITY, rank + rank // 2)
            storage = self._storage.new_empty(len(added), capacity)
            storage[:, : self._rank] = self.features
            self._storage = storage
        self._storage[:, self._rank : rank] = added
        self._rank = rank

    def _set_gram(self, gram: Tensor) -> None:
        self._gram = gram
        self._factor = regularized_factor(gram, self.regularizer)


class _Directions(NamedTuple):
    r"""Orthonormal directions that ``k`` arms add to the features.

    Attributes:
        covariance: ``A x k'`` covariances with the directions, old features included.
        spanned: ``r x k'`` part of the directions along the old features.
        room: ``A`` variances that the old features leave.
    """

    covariance: Tensor
    spanned: Tensor
    room: Tensor

    @classmethod
    def of(cls, state: SketchedArms, arms: Tensor) -> "_Directions":
        r"""One ``eigh`` of the size of their number."""
        left = state.features[arms]
        if len(arms) == 0:
            nothing = state.candidates.new_zeros(len(state.candidates), 0)
            return cls(nothing, left.mT, state.residual_variance)
        with lazily_evaluate_kernels(False):  # half the time for few columns
            covariance = state.prior.covariance(state.candidates, state.candidates[arms])
        square = covariance[arms] - left @ left.mT
        values, vectors = torch.linalg.eigh(0.5 * (square + square.mT))
        resolved = values > _RESOLUTION * float(state.prior_variance[arms].max())
        basis = vectors[:, resolved] / values[resolved].sqrt()
        return cls(covariance @ basis, left.mT @ basis, state.residual_variance)

    def coordinates(self, arms: Tensor | slice, spanned: Tensor) -> Tensor:
        r"""Coordinates of arms along the directions.

        Reduced where round-off would explain more than there is.

        Args:
            arms: Which arms.
            spanned: Products of their old features with ``spanned``.
        """
        added, room = self.covariance[arms] - spanned, self.room[arms]
        explained = added.square().sum(-1)
        excess = explained > room
        factors = (room / explained.where(excess, 1.0)).sqrt().where(excess, 1.0)
        return added * factors.unsqueeze(-1)


def _bordered(matrix: Tensor, right: Tensor, below: Tensor, corner: Tensor) -> Tensor:
    r"""``[[matrix, right], [below^T, corner]]``."""
    upper = torch.cat([matrix, right], dim=1)
    return torch.cat([upper, torch.cat([below.mT, corner], dim=1)])
