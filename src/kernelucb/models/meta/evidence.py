r"""What evaluations of the new function say, in the order in which they came."""

from typing import NamedTuple

import torch
from torch import Tensor

# A conditional variance below this share of the prior variance is round-off.
_RESOLUTION = 1e-12


class Evidence(NamedTuple):
    r"""Evaluations of the new function that told something, distinct inputs only.

    Attributes:
        inputs: ``t x d``.
        sums: ``t`` sums of the outcomes at each input.
        counts: ``t`` numbers of outcomes there.
        prior_means: ``t``.
        factor: ``t x t`` Cholesky factor of the prior covariance.
        basis: The subclass's own: what turns query points into features.
    """

    inputs: Tensor
    sums: Tensor
    counts: Tensor
    prior_means: Tensor
    factor: Tensor
    basis: Tensor

    @classmethod
    def none(cls, dimension: int, basis: Tensor) -> "Evidence":
        r"""Before the first evaluation."""
        zero = basis.new_zeros(0)
        inputs, factor = basis.new_zeros(0, dimension), basis.new_zeros(0, 0)
        return cls(inputs, zero, zero, zero, factor, basis)

    @property
    def weights(self) -> Tensor:
        r"""``t`` innovations: mean outcomes less predictions, in units of their error."""
        residuals = self.sums / self.counts - self.prior_means
        solution = torch.linalg.solve_triangular(
            self.factor, residuals.unsqueeze(-1), upper=False
        )
        return solution.squeeze(-1)

    def with_outcome(self, position: int, outcome: Tensor) -> "Evidence":
        r"""One more outcome at an input that is there already."""
        one = torch.zeros_like(self.counts)
        one[position] = 1.0
        return self._replace(sums=self.sums + outcome * one, counts=self.counts + one)


class Query(NamedTuple):
    r"""Query points as the evidence sees them.

    Attributes:
        prior_mean: ``... x q``.
        features: ``... x q x t`` coordinates along the evaluations, in their order.
        covariance: ``... x q x q`` prior covariance that is left, without the factor.
    """

    prior_mean: Tensor
    features: Tensor
    covariance: Tensor


def unresolved(left: Tensor, whole: Tensor) -> Tensor:
    r"""Where the conditional variance ``left`` is round-off next to the prior variance."""
    return left <= _RESOLUTION * whole
