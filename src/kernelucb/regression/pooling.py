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
