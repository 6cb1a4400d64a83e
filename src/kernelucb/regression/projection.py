r"""Query points in the eigenbasis of the training sections."""

from typing import NamedTuple

import torch
from botorch.exceptions import InputDataError
from torch import Tensor

from kernelucb._numerics.features import Sections, split_variance
from kernelucb.regression.prior import Prior


class Projection(NamedTuple):
    r"""Query points as the state sees them; everything else is arithmetic on these.

    ``k(x, .)`` is split along the eigendirections of the kernel matrix: ``features`` are
    its coordinates in an orthonormal basis of the span of the training sections, the rest
    is orthogonal to all of them.

    Attributes:
        inputs: ``b x d'`` kernel inputs.
        prior_mean: ``b`` values of the prior mean, outcome units.
        prior_variance: ``b`` values of ``k(x, x)``, outcome units squared.
        features: ``b x r`` values ``v(x) = lam^-1/2 U^T D^-1/2 k(X, x)``.
        unexplained: ``b`` values ``k(x, x) - |v|^2``: what no outcome at the inputs can
            tell.
    """

    inputs: Tensor
    prior_mean: Tensor
    prior_variance: Tensor
    features: Tensor
    unexplained: Tensor

    def detach(self) -> "Projection":
        r"""The same points without gradients."""
        return Projection(*(part.detach() for part in self))


def project(
    prior: Prior,
    inputs: Tensor,
    sections: Sections,
    feature_basis: Tensor,
) -> Projection:
    r"""Coordinates of kernel inputs in the eigenbasis; differentiable in the inputs.

    Args:
        prior: Prior of the outcomes.
        inputs: ``b x d'`` kernel inputs.
        sections: The ``m`` training sections.
        feature_basis: ``m x r`` matrix that maps covariances to features.

    Raises:
        InputDataError: If the kernel or the prior mean is not finite there.
    """
    covariance = prior.covariance(inputs, sections.inputs)
    whole = prior.variance(inputs)
    reach = sections.reach(inputs, whole, covariance)
    features, unexplained = split_variance(covariance @ feature_basis, whole, reach)
    mean = prior.mean(inputs)
    resolved(mean, unexplained)
    return Projection(inputs, mean, whole, features, unexplained)


def resolved(prior_mean: Tensor, unexplained: Tensor) -> None:
    r"""Check that the prior could be evaluated at query points.

    Args:
        prior_mean: ``b`` values.
        unexplained: ``b`` values; NaN where the kernel or a feature is not finite.

    Raises:
        InputDataError: If a value is not finite.
    """
    if not bool(torch.isfinite(prior_mean + unexplained).all()):
        raise InputDataError(
            "The kernel or the prior mean is not finite at some points: they are too "
            "large for 64-bit numbers. Rescale the inputs, those of the data as well "
            "(input_transform=Normalize(d))."
        )


def difference(prior: Prior, points: Projection, other: Projection) -> Projection:
    r"""The functional ``f(x) - f(x')`` in the form of a projected point.

    Its prior variance is the squared kernel metric ``||k(x, .) - k(x', .)||^2``.

    Args:
        prior: Prior of the outcomes.
        points: Projection of ``b`` points ``x``.
        other: Projection of one point ``x'``.
    """
    covariance = prior.covariance(points.inputs, other.inputs)[:, 0]
    whole = points.prior_variance + other.prior_variance - 2.0 * covariance
    whole = torch.where((points.inputs == other.inputs).all(-1), 0.0, whole)
    whole = whole.clamp_min(0.0)
    farthest = points.unexplained.sqrt() + other.unexplained.sqrt()
    features, rest = split_variance(
        points.features - other.features, whole, farthest.square()
    )
    mean = points.prior_mean - other.prior_mean
    return Projection(points.inputs, mean, whole, features, rest)
