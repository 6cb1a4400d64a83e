r"""What evaluations of the new function say, in the order in which they came."""

from typing import NamedTuple

import torch
from torch import Tensor

# A conditional variance below this share of the prior variance is round-off.
_RESOLUTION = 1e-12


class Evidence(NamedTuple):
    r"""Evaluations of a function with prior covariance ``psi(x)^T psi(x')``.

    Only distinct inputs, and only those whose outcome the earlier ones leave open.

    Attributes:
        inputs: ``t x d``.
        sums: ``t`` sums of the outcomes at each input.
        counts: ``t`` numbers of outcomes there.
        prior_means: ``t``.
        factor: ``t x t`` Cholesky factor of the prior covariance.
        basis: ``r x t`` orthonormal columns that span the features of the inputs.
    """

    inputs: Tensor
    sums: Tensor
    counts: Tensor
    prior_means: Tensor
    factor: Tensor
    basis: Tensor

    @classmethod
    def none(cls, dimension: int, rank: int, like: Tensor) -> "Evidence":
        r"""Before the first evaluation, for ``d`` input columns and ``r`` features."""
        zero = like.new_zeros(0)
        inputs, basis = like.new_zeros(0, dimension), like.new_zeros(rank, 0)
        return cls(inputs, zero, zero, zero, like.new_zeros(0, 0), basis)

    @property
    def weights(self) -> Tensor:
        r"""``t`` standardised prediction errors of the mean outcomes, in their order."""
        residuals = self.sums / self.counts - self.prior_means
        solution = torch.linalg.solve_triangular(
            self.factor, residuals.unsqueeze(-1), upper=False
        )
        return solution.squeeze(-1)

    def split(self, features: Tensor) -> tuple[Tensor, Tensor]:
        r"""Split ``... x q x r`` features into what the evaluations reach and the rest.

        Returns:
            ``... x q x t`` coordinates in the basis, and the ``... x q x r`` rest, exactly
            zero where it is round-off.
        """
        coordinates = features @ self.basis
        rest = features - coordinates @ self.basis.mT
        correction = rest @ self.basis  # again: the first projection leaves round-off
        rest = rest - correction @ self.basis.mT
        prior_variance = features.square().sum(-1, keepdim=True)
        known = rest.square().sum(-1, keepdim=True) <= _RESOLUTION * prior_variance
        return coordinates + correction, rest.masked_fill(known, 0.0)

    def repeated(self, position: int, outcome: Tensor) -> "Evidence":
        r"""With one more outcome at an input that is there already."""
        one = torch.zeros_like(self.counts)
        one[position] = 1.0
        return self._replace(sums=self.sums + outcome * one, counts=self.counts + one)

    def extended(
        self, x: Tensor, outcome: Tensor, prior_mean: Tensor, parts: tuple[Tensor, Tensor]
    ) -> "Evidence":
        r"""With an outcome at a new input.

        Args:
            x: ``1 x d`` input.
            outcome: One value, a vector.
            prior_mean: One value, a vector.
            parts: From ``split``, the second one not zero.
        """
        coordinates, rest = parts
        length = rest.norm()
        factor = torch.nn.functional.pad(self.factor, (0, 1, 0, 1))
        factor[-1] = torch.cat([coordinates.squeeze(0), length.reshape(1)])
        return Evidence(
            inputs=torch.cat([self.inputs, x]),
            sums=torch.cat([self.sums, outcome]),
            counts=torch.cat([self.counts, torch.ones_like(outcome)]),
            prior_means=torch.cat([self.prior_means, prior_mean]),
            factor=factor,
            basis=torch.cat([self.basis, rest.mT / length], dim=-1),
        )
