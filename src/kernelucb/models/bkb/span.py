r"""The span of the kernel sections at the inducing points."""

from typing import Any, NamedTuple

from torch import Tensor

from kernelucb._numerics import kernels
from kernelucb._numerics.features import Sections, split_variance
from kernelucb._numerics.nystrom import feature_basis

# Rows of the observations that are worked on together, so that what is kept is most of
# what is needed.
_ROWS = 4096


class InducingSpan(NamedTuple):
    r"""Features of kernel inputs in the span of ``m`` sections.

    Attributes:
        kernel: The kernel.
        basis: ``m x r`` map from covariances with the inducing points to features.
        sections: The inducing points, and what round-off leaves of their sections.
    """

    kernel: Any
    basis: Tensor
    sections: Sections

    @classmethod
    def of(cls, kernel: Any, points: Tensor) -> "InducingSpan":
        r"""One ``eigh``.

        Args:
            kernel: The kernel.
            points: ``m x d'`` inducing points.
        """
        basis, lost = feature_basis(kernels.covariance(kernel, points, points))
        variance = kernels.diagonal(kernel, points, points)
        return cls(kernel, basis, Sections(points, variance, lost))

    def covariances(self, inputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        r"""Covariances with the inducing points, ``k(x, x)``, bounds on what they leave."""
        prior_variance = kernels.diagonal(self.kernel, inputs, inputs)
        covariance = kernels.covariance(self.kernel, inputs, self.sections.inputs)
        return (
            covariance,
            prior_variance,
            self.sections.reach(inputs, prior_variance, covariance),
        )

    def project(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        r"""Features of ``n x d'`` kernel inputs, and the variance that they leave.

        Differentiable.
        """
        if len(inputs) == 0 or len(self.sections.inputs) == 0:
            features = inputs.new_zeros(len(inputs), self.basis.shape[1])
            return features, kernels.diagonal(self.kernel, inputs, inputs)
        covariance, prior_variance, reach = self.covariances(inputs)
        return split_variance(covariance @ self.basis, prior_variance, reach)

    def project_all(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        r"""``project`` of very many inputs, in memory for hardly more than the result."""
        features = inputs.new_empty(len(inputs), self.basis.shape[1])
        residual_variance = inputs.new_empty(len(inputs))
        for start in range(0, len(inputs), _ROWS):
            rows = slice(start, start + _ROWS)
            features[rows], residual_variance[rows] = self.project(inputs[rows])
        return features, residual_variance
