r"""Repeated inputs made one."""

from typing import NamedTuple

import torch
from torch import Tensor


class Pooled(NamedTuple):
    r"""Observations with repeated inputs made one."""

    inputs: Tensor  # `m x d'` distinct inputs
    residuals: Tensor  # `m` precision-weighted means of outcome minus prior mean
    noise_std: Tensor  # `m` noise scales of these means
    # Whitened squared distance of the outcomes to their means; None where no input is
    # repeated
    scatter: Tensor | None
    positions: Tensor  # `m` positions of an observation at each input


def pool(inputs: Tensor, residuals: Tensor, noise_std: Tensor) -> Pooled:
    r"""Pool observations at equal inputs, sorted: the order of the data does not count."""
    first, index = _sorted_rows(inputs)
    if len(first) == len(inputs):
        rows = torch.arange(len(inputs), device=inputs.device)
        return Pooled(inputs, residuals, noise_std, None, rows)
    weights = noise_std.square().reciprocal()
    precision = weights.new_zeros(len(first)).index_add(0, index, weights)
    sums = weights.new_zeros(len(first)).index_add(0, index, weights * residuals)
    means = sums / precision
    scatter = (weights * (residuals - means[index]).square()).sum()
    return Pooled(inputs[first], means, precision.rsqrt(), scatter, first)


def distinct_rows(inputs: Tensor) -> tuple[Tensor, Tensor]:
    r"""Distinct rows of ``n x d`` inputs, in the order in which they come first.

    ``u`` positions where they come first, and for each row which of the ``u`` it is.
    """
    first, index = _sorted_rows(inputs)
    first, order = first.sort()
    return first, order.argsort()[index]


def _sorted_rows(inputs: Tensor) -> tuple[Tensor, Tensor]:
    r"""Distinct rows as for ``distinct_rows``, in ascending order."""
    rows = torch.arange(len(inputs), device=inputs.device)
    distinct, index = torch.unique(inputs, dim=0, return_inverse=True)
    first = rows.new_full((len(distinct),), len(inputs))
    return first.scatter_reduce(0, index, rows, "amin"), index


class Change(NamedTuple):
    r"""Observations added up at each of the places where they were made."""

    places: Tensor  # `k` different places, ascending
    counts: Tensor  # `k` numbers of observations there
    sums: Tensor  # `k` sums of outcomes minus prior means
    squares: Tensor  # `k` sums of their squares

    @classmethod
    def of(cls, index: Tensor, residuals: Tensor) -> "Change":
        r"""From the places of ``n`` observations, and outcomes minus prior means."""
        places, inverse = index.unique(return_inverse=True)
        zeros = residuals.new_zeros(len(places))
        values = (torch.ones_like(residuals), residuals, residuals.square())
        return cls(places, *(zeros.index_add(0, inverse, value) for value in values))


class Tally(NamedTuple):
    r"""Observations counted at distinct inputs, in the order in which these came."""

    inputs: Tensor  # `u x d'` distinct inputs
    counts: Tensor  # `u` numbers of observations
    sums: Tensor  # `u` sums of outcomes minus prior means
    squares: Tensor  # `u` sums of their squares

    @classmethod
    def empty(cls, like: Tensor) -> "Tally":
        r"""No observations, at inputs like ``n x d'`` ones."""
        none = like.new_zeros(0)
        return cls(like[:0], none, none, none)

    def extended(self, inputs: Tensor, residuals: Tensor) -> tuple["Tally", Change]:
        r"""The tally after ``n`` more observations, at equal inputs or new ones."""
        known, every = len(self.inputs), torch.cat([self.inputs, inputs])
        first, index = distinct_rows(every)
        change = Change.of(index[known:], residuals)
        zeros = self.counts.new_zeros(len(first) - known)
        totals = (
            torch.cat([old, zeros]).index_add(0, change.places, more)
            for old, more in zip(self[1:], change[1:], strict=True)
        )
        return Tally(every[first], *totals), change
