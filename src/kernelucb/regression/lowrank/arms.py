r"""Sketched posterior of a finite set of arms, kept up to date at low rank."""

from copy import copy
from typing import NamedTuple

import torch
from gpytorch.settings import lazily_evaluate_kernels
from torch import Tensor

from kernelucb.regression.lowrank.basis import Basis, directions
from kernelucb.regression.lowrank.sketch import Sketch, Sketched, ridge_factor
from kernelucb.regression.pooling import Change
from kernelucb.regression.prior import Prior

_FIRST_CAPACITY = 32
# Inducing arms that are added together: their `eigh` and their covariances stay small.
_PART = 512


class SketchedArms(Sketched):
    r"""Posterior mean and variance of every arm, given features of the inducing arms.

    With orthonormal features ``z(a)`` of the inducing arms, ``Z`` those of the observations
    and ``V = Z^T Z + alpha I``: mean ``z^T V^-1 Z^T y`` and variance
    ``residual_variance + alpha z^T V^-1 z`` (see ``Sketch``). Observations at ``k`` arms,
    and ``k`` more inducing arms, change ``z^T V^-1 z`` by ``k`` squares each, so a step
    costs ``O(A r k)`` for ``A`` arms and ``r`` features, in ``O(A r)`` memory. For few
    ``k`` reading the features is what takes the time; they are read once.

    A step returns other arms and leaves these as they are. The features of both lie in the
    same storage, where those that are new come behind those that these arms read: only the
    latest arms, or those of an abandoned step, can be continued.

    Source: Calandriello et al. (2019), Eq. 4; block matrix inversion.

    Attributes:
        alpha: Ridge parameter, in the squared units of the outcomes.
        inducing: Inducing arms, in the order they were added.
        prior_mean: ``A`` prior means.
        mean: ``A`` posterior means.
        quadratic: ``A`` values ``z(a)^T V^-1 z(a)``.
    """

    def __init__(self, prior: Prior, inputs: Tensor, alpha: float) -> None:
        r"""``A x d`` arms without observations."""
        self.prior, self.inputs, self.alpha = prior, inputs, alpha
        self.prior_mean = prior.mean(inputs)
        self.counts = torch.zeros_like(self.prior_mean)
        self.sums = torch.zeros_like(self.prior_mean)
        self.squares = torch.zeros_like(self.prior_mean)
        self._forget()

    def _forget(self) -> None:
        r"""Drop all inducing arms; the observations stay."""
        # Not the old storage, which other arms may read.
        self._storage, self._rank = self.inputs.new_empty(len(self.inputs), 0), 0
        self.inducing = self.counts[:0].long()
        self.mean = self.prior_mean
        self.residual_variance = self.prior_variance
        self.quadratic = torch.zeros_like(self.prior_mean)
        self.basis = Basis.empty(self.prior, self.inputs)
        self.sketch = Sketch.empty(0, self.alpha, self.inputs)

    @property
    def features(self) -> Tensor:
        r"""``A x r`` features of the arms."""
        return self._storage[:, : self._rank]

    @property
    def variance(self) -> Tensor:
        r"""``A`` latent variances."""
        return self.residual_variance + self.alpha * self.quadratic

    def hallucination(self, arm: int, earlier: Tensor) -> Tensor:
        r"""Drop of the quadratic forms for a further observation at an arm, as a column.

        ``V^-1 z / sqrt(1 + z^T V^-1 z)``, ``r`` numbers, after ``earlier`` ones (``r x h``
        columns): the square of a feature's product with it is taken away.
        """
        z = self.features[arm]
        column = _solve(self.sketch.factor, z.unsqueeze(-1))[:, 0] - earlier @ (
            earlier.mT @ z
        )
        return column / (1.0 + z @ column).sqrt()

    def observe(self, change: Change, inducing: Tensor) -> "SketchedArms":
        r"""The arms with more observations, and ``k`` arms more that are inducing."""
        arms, counts, sums, squares = change
        state = copy(self)
        state.counts = self.counts.index_add(0, arms, counts)
        state.sums = self.sums.index_add(0, arms, sums)
        state.squares = self.squares.index_add(0, arms, squares)
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

    def rebuilt(
        self, inducing: Tensor, counts: Tensor, sums: Tensor, squares: Tensor
    ) -> "SketchedArms":
        r"""Everything computed again, for other inducing arms and observations."""
        state = self.without_inducing()
        state.counts, state.sums, state.squares = counts, sums, squares
        none = Change(state.inducing, counts[:0], sums[:0], squares[:0])
        return state.observe(none, inducing)

    def _update(self, arms: Tensor, counts: Tensor, inducing: Tensor) -> None:
        r"""Take observations and then inducing arms into the posterior.

        With orthonormal directions that the inducing arms add, the block inverse of the
        larger ``V`` adds ``|rest|^2`` to the quadratic forms, where ``rest`` are the new
        coordinates less what the old ones predict of them.
        """
        taken, gram, factor = self._absorbed(arms, counts)
        new = _Directions.of(self, inducing)
        seen = self.observed
        own, weights = self.features[seen], self.counts[seen].unsqueeze(-1)
        added = new.coordinates(seen, own @ new.spanned)
        border = own.mT @ (weights * added)
        corner = added.mT @ (weights * added)
        half = torch.linalg.solve_triangular(factor, border, upper=False)
        projected = torch.linalg.solve_triangular(factor.mT, half, upper=True)
        lower = ridge_factor(corner - half.mT @ half, self.alpha)
        gram = _bordered(gram, border, border, corner)
        factor = _bordered(factor, torch.zeros_like(half), half, lower)
        moments = torch.cat([own, added], dim=1).mT @ self.sums[seen]
        solution = _solve(factor, moments.unsqueeze(-1))
        self.sketch = Sketch(gram, moments, self.alpha, factor, solution[:, 0])
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
        if len(inducing):
            self.inducing = torch.cat([self.inducing, inducing])
            self.basis = new.basis
        self._append(added)

    def _absorbed(self, arms: Tensor, counts: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        r"""Observations added to ``V``: columns by whose squares quadratic forms fall.

        ``r x b`` of them, and ``Z^T Z`` and the factor of ``V``.
        """
        weighted = counts.sqrt().unsqueeze(-1) * self.features[arms]
        columns = _solve(self.sketch.factor, weighted.mT)
        lower = ridge_factor(weighted @ columns, 1.0)
        gram = self.sketch.gram + weighted.mT @ weighted
        taken = torch.linalg.solve_triangular(lower.mT, columns, upper=True, left=False)
        return taken, gram, ridge_factor(gram, self.alpha)

    def _append(self, added: Tensor) -> None:
        rank = self._rank + added.shape[1]
        if rank > self._storage.shape[1]:
            capacity = max(_FIRST_CAPACITY, rank + rank // 2)
            storage = self._storage.new_empty(len(added), capacity)
            storage[:, : self._rank] = self.features
            self._storage = storage
        self._storage[:, self._rank : rank] = added
        self._rank = rank


class _Directions(NamedTuple):
    r"""Orthonormal directions that ``k`` arms add to the features."""

    covariance: Tensor  # `A x k'` covariances with the directions, old features included
    spanned: Tensor  # `r x k'` part of the directions along the old features
    room: Tensor  # `A` variances that the old features leave
    basis: Basis

    @classmethod
    def of(cls, state: SketchedArms, arms: Tensor) -> "_Directions":
        r"""Directions of ``k`` arms; one ``eigh`` of that size."""
        left = state.features[arms]
        if len(arms) == 0:
            nothing = state.inputs.new_zeros(len(state.inputs), 0)
            return cls(nothing, left.mT, state.residual_variance, state.basis)
        with lazily_evaluate_kernels(False):  # half the time for few columns
            covariance = state.prior.covariance(state.inputs, state.inputs[arms])
        square = covariance[arms] - left @ left.mT
        new = directions(square, state.prior_variance[arms])
        basis = state.basis.bordered(state.inputs[arms], left, new)
        return cls(covariance @ new, left.mT @ new, state.residual_variance, basis)

    def coordinates(self, arms: Tensor | slice, spanned: Tensor) -> Tensor:
        r"""Coordinates of arms along the directions, from old features times ``spanned``.

        Reduced where round-off would explain more than there is.
        """
        added, room = self.covariance[arms] - spanned, self.room[arms]
        explained = added.square().sum(-1)
        excess = explained > room
        factors = (room / explained.where(excess, 1.0)).sqrt().where(excess, 1.0)
        return added * factors.unsqueeze(-1)


def _solve(factor: Tensor, right: Tensor) -> Tensor:
    r"""``V^-1`` times ``r x k`` columns, from the lower factor of ``V``."""
    return torch.cholesky_solve(right, factor) if len(right) else right


def _bordered(matrix: Tensor, right: Tensor, below: Tensor, corner: Tensor) -> Tensor:
    r"""``[[matrix, right], [below^T, corner]]``."""
    upper = torch.cat([matrix, right], dim=1)
    return torch.cat([upper, torch.cat([below.mT, corner], dim=1)])
