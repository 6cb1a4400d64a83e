r"""Orthonormal features of the kernel sections at inducing points."""

import torch
from botorch.exceptions import InputDataError
from torch import Tensor
from torch.nn import Module
from torch.nn.functional import pad

from kernelucb.regression.prior import Prior

# Directions whose squared length is below this share of the sections' own are left out:
# round-off, eps over its root, would show in the coordinates along them.
_CUT_OFF = 1e-10
# For each section, where the whole span counts: what is below is round-off itself.
_FINEST = 16.0 * torch.finfo(torch.float64).eps
# Rows that are worked on together, so that nothing as large as the features is needed.
ROWS = 4096


class Basis(Module):
    r"""Coordinates of ``k(x, .)`` in an orthonormal basis of the inducing sections.

    Repeated and collinear inducing points add nothing.

    Attributes:
        inducing: ``m x d'`` kernel inputs.
        matrix: ``m x r`` matrix that maps covariances to features.
        whole: Whether all directions count that round-off leaves. A posterior of BKB does
            not learn from those left out, and would be too sure of the others.
    """

    prior: Prior
    inducing: Tensor
    matrix: Tensor

    def __init__(
        self, prior: Prior, inducing: Tensor, matrix: Tensor, whole: bool = False
    ) -> None:
        super().__init__()
        self.whole = whole
        object.__setattr__(self, "prior", prior)  # a part of whoever holds the basis
        self.register_buffer("inducing", inducing, persistent=False)
        self.register_buffer("matrix", matrix, persistent=False)

    @classmethod
    def of(cls, prior: Prior, inducing: Tensor) -> "Basis":
        r"""Basis of the sections at ``m x d'`` kernel inputs; one ``eigh``."""
        return cls.empty(prior, inducing).extended(inducing)

    @classmethod
    def empty(cls, prior: Prior, like: Tensor, whole: bool = False) -> "Basis":
        r"""Basis of no sections, for kernel inputs like ``like``."""
        return cls(prior, like[:0], like.new_zeros(0, 0), whole)

    def extended(self, inputs: Tensor, known: Tensor | None = None) -> "Basis":
        r"""The basis with the directions that ``p x d'`` kernel inputs add, as the last.

        Their features, where these are ``known``, are more accurate than computed anew:
        after many extensions the matrix is a long product.
        """
        features: Tensor = self(inputs) if known is None else known
        rest = self.prior.covariance(inputs, inputs) - features @ features.mT
        inducing = torch.cat([self.inducing, inputs])
        cut_off = _FINEST * len(inducing) if self.whole else _CUT_OFF
        new = directions(rest, self.prior.variance(inputs), cut_off)
        old = torch.cat([self.matrix, -self.matrix @ features.mT @ new], dim=-1)
        new = pad(new, (self.matrix.shape[-1], 0))
        return Basis(self.prior, inducing, torch.cat([old, new]), self.whole)

    def rotated(self, rotation: Tensor) -> "Basis":
        r"""The basis with features multiplied by ``r x r'`` orthonormal columns."""
        return Basis(self.prior, self.inducing, self.matrix @ rotation, self.whole)

    def forward(self, inputs: Tensor) -> Tensor:
        r"""Features of ``b x d'`` kernel inputs, ``b x r``; differentiable."""
        if 0 in (len(inputs), len(self.inducing)):
            return inputs.new_zeros(len(inputs), self.matrix.shape[-1])
        return self.prior.covariance(inputs, self.inducing) @ self.matrix

    @property
    def round_off(self) -> float:
        r"""Bound on the error of an inner product of features, relative to ``k(x, x)``."""
        return (len(self.inducing) + 8.0) * torch.finfo(self.matrix.dtype).eps

    def project(self, inputs: Tensor, rows: int | None = None) -> tuple[Tensor, Tensor]:
        r"""Features of ``b x d'`` kernel inputs, and the variance ``k(x, x) - |z(x)|^2``.

        The variance is rounded up and never negative. ``rows`` are worked on together.
        """
        features = torch.cat([self(part) for part in inputs.split(rows or ROWS)])
        prior_variance = self.prior.variance(inputs)
        rest = prior_variance - features.square().sum(-1)
        return features, (rest + self.round_off * prior_variance).clamp_min(0.0)

    def separate_variance(self) -> Tensor:
        r"""Mean variance of an inducing section that the other ones do not explain."""
        squares = self.matrix.square().sum(-1)  # zero for a section that is zero itself
        return torch.where(squares > 0.0, squares.reciprocal(), 0.0).mean()


def directions(matrix: Tensor, variance: Tensor, cut_off: float = _CUT_OFF) -> Tensor:
    r"""``r`` columns ``c`` with ``c^T matrix c = 1`` that resolve a Gram matrix.

    ``matrix`` holds the inner products of ``m`` sections, or of what a basis leaves of
    them; the cut-off is relative to ``variance``, the squared lengths of whole sections.
    """
    scale = torch.where(variance > 0, variance, torch.inf).rsqrt()
    values, vectors = torch.linalg.eigh(scale.outer(scale) * (0.5 * (matrix + matrix.mT)))
    if len(values) and float(values[0]) < -1e-8 * max(1.0, float(values[-1])):
        raise InputDataError(
            "The kernel matrix of the inducing points has a negative eigenvalue "
            f"({float(values[0]):.3g} where the diagonal is one): covar_module is not a "
            "positive semi-definite kernel."
        )
    kept = values > cut_off
    return scale.unsqueeze(-1) * vectors[:, kept] / values[kept].sqrt()
