r"""Orthonormal features of the kernel sections at inducing points."""

import torch
from botorch.exceptions import InputDataError
from torch import Tensor
from torch.nn import Module
from torch.nn.functional import pad

from kernelucb._numerics.estimates import draft_of
from kernelucb._numerics.spectral import (
    Sections,
    kernel_spectrum,
    lost_lengths,
    split_variance,
)
from kernelucb.regression.prior import Prior

# Directions whose squared length is below this share of the sections' own are left out:
# round-off, eps over its root, would show in the coordinates along them.
_CUT_OFF = 1e-10


class Basis(Module):
    r"""Coordinates of ``k(x, .)`` in an orthonormal basis of the inducing sections.

    Repeated and collinear inducing points add nothing.

    Attributes:
        inducing: ``m x d'`` kernel inputs.
        matrix: ``m x r`` matrix that maps covariances to features.
    """

    prior: Prior
    inducing: Tensor
    matrix: Tensor

    def __init__(self, prior: Prior, inducing: Tensor, matrix: Tensor) -> None:
        super().__init__()
        object.__setattr__(self, "prior", prior)  # a part of whoever holds the basis
        self.register_buffer("inducing", inducing, persistent=False)
        self.register_buffer("matrix", matrix, persistent=False)

    @classmethod
    def of(cls, prior: Prior, inducing: Tensor) -> "Basis":
        r"""Basis of the sections at ``m x d'`` kernel inputs; one ``eigh``."""
        covariance = prior.covariance(inducing, inducing)
        return cls(prior, inducing, directions(covariance, covariance.diagonal()))

    @classmethod
    def empty(cls, prior: Prior, like: Tensor) -> "Basis":
        r"""Basis of no sections, for kernel inputs like ``like``."""
        return cls(prior, like[:0], like.new_zeros(0, 0))

    def extended(self, inputs: Tensor) -> "Basis":
        r"""The basis with what ``p x d'`` kernel inputs add, behind the old directions."""
        features = self(inputs)
        rest = self.prior.covariance(inputs, inputs) - features @ features.mT
        return self.bordered(
            inputs, features, directions(rest, self.prior.variance(inputs))
        )

    def bordered(self, inputs: Tensor, features: Tensor, new: Tensor) -> "Basis":
        r"""The basis with directions of more sections behind the old ones.

        From ``p x d'`` kernel inputs, their ``p x r`` old features and ``p x r'`` columns
        that make directions of what those leave.
        """
        old = torch.cat([self.matrix, -self.matrix @ features.mT @ new], dim=-1)
        new = pad(new, (self.matrix.shape[-1], 0))
        inducing = torch.cat([self.inducing, inputs])
        return Basis(self.prior, inducing, torch.cat([old, new]))

    def rotated(self, rotation: Tensor) -> "Basis":
        r"""The basis with features multiplied by ``r x r'`` orthonormal columns."""
        return Basis(self.prior, self.inducing, self.matrix @ rotation)

    def forward(self, inputs: Tensor) -> Tensor:
        r"""Features of ``b x d'`` kernel inputs, ``b x r``; differentiable."""
        if 0 in (len(inputs), len(self.inducing)):
            return inputs.new_zeros(len(inputs), self.matrix.shape[-1])
        return self.prior.covariance(inputs, self.inducing) @ self.matrix

    @property
    def round_off(self) -> float:
        r"""Bound on the error of an inner product of features, relative to ``k(x, x)``."""
        return (len(self.inducing) + 8.0) * torch.finfo(self.matrix.dtype).eps

    def residual_variance(self, inputs: Tensor, features: Tensor) -> Tensor:
        r"""``k(x, x) - |z(x)|^2`` rounded up, ``b`` values, never negative."""
        prior_variance = self.prior.variance(inputs)
        rest = prior_variance - features.square().sum(-1)
        return (rest + self.round_off * prior_variance).clamp_min(0.0)

    def project(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        r"""Features of ``b x d'`` kernel inputs, and the variance that they leave."""
        features = self(inputs)
        return features, self.residual_variance(inputs, features)

    def separate_variance(self) -> Tensor:
        r"""Mean variance of an inducing section that the other ones do not explain."""
        squares = self.matrix.square().sum(-1)  # zero for a section that is zero itself
        return torch.where(squares > 0.0, squares.reciprocal(), 0.0).mean()


class EigenBasis(Basis):
    r"""Features in the eigenbasis of all inducing sections, for the posterior of BKB.

    Its theorem asks for the whole span: the cut-off is that of ``kernel_spectrum``, and
    what round-off hides below it stays in the residual variance, as in the exact
    regression. ``Basis`` has a larger cut-off and features as accurate as its bounds need.

    Attributes:
        matrix: ``m x r`` matrix that maps covariances to features.
        own: ``m x r'`` matrix of the features in the order of the eigenvalues, ascending.
        rotation: ``r' x r``, from these to the features.
    """

    variance: Tensor
    lost: Tensor
    own: Tensor
    rotation: Tensor

    @classmethod
    def of(cls, prior: Prior, inducing: Tensor) -> "EigenBasis":
        r"""Basis of the sections at ``m x d'`` kernel inputs; one ``eigh``."""
        covariance = prior.covariance(inducing, inducing)
        spectrum = kernel_spectrum(0.5 * (covariance + covariance.mT))
        resolved = spectrum.values > 0
        matrix = spectrum.vectors[:, resolved] / spectrum.values[resolved].sqrt()
        hidden = spectrum.vectors[:, ~resolved]
        basis = cls(prior, inducing, matrix)
        buffers = {
            "lost": lost_lengths(hidden, 1.0, spectrum.eigenvalue_cutoff),
            "variance": prior.variance(inducing),
            "own": matrix,
            "rotation": torch.eye(matrix.shape[1]).to(matrix),
        }
        for name, value in buffers.items():
            basis.register_buffer(name, value, persistent=False)
        return basis

    def rotated(self, rotation: Tensor) -> "EigenBasis":
        r"""The basis with features multiplied by ``r x r'`` orthonormal columns."""
        basis = draft_of(self)
        basis.matrix, basis.rotation = self.matrix @ rotation, self.rotation @ rotation
        return basis

    def project(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        r"""Features of ``b x d'`` kernel inputs, and the variance that they leave.

        Where round-off explains more than there is, features are corrected in the order of
        their eigenvalues.
        """
        if len(inputs) == 0:
            return self(inputs), self.prior.variance(inputs)
        covariance = self.prior.covariance(inputs, self.inducing)
        prior_variance = self.prior.variance(inputs)
        sections = Sections(self.inducing, self.variance, self.lost)
        reach = sections.reach(inputs, prior_variance, covariance)
        features = covariance @ self.matrix
        squared = features.square().sum(-1)
        rest = torch.minimum(prior_variance - squared, reach).clamp_min(0.0)
        excessive = squared > prior_variance
        if bool(excessive.any()):
            careful, left = split_variance(
                covariance[excessive] @ self.own,
                prior_variance[excessive],
                reach[excessive],
            )
            features = features.index_put((excessive,), careful @ self.rotation)
            rest = rest.index_put((excessive,), left)
        return features, rest


def directions(matrix: Tensor, variance: Tensor) -> Tensor:
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
    kept = values > _CUT_OFF
    return scale.unsqueeze(-1) * vectors[:, kept] / values[kept].sqrt()
