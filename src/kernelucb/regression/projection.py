r"""Query points in the eigenbasis of the training sections."""

from typing import NamedTuple

import torch
from torch import Tensor

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
    sections: Tensor,
    section_variance: Tensor,
    feature_basis: Tensor,
) -> Projection:
    r"""Coordinates of kernel inputs in the eigenbasis; differentiable in the inputs.

    Args:
        prior: Prior of the outcomes.
        inputs: ``b x d'`` kernel inputs.
        sections: ``m x d'`` kernel inputs of the training sections.
        section_variance: ``m`` prior variances there.
        feature_basis: ``m x r`` matrix that maps covariances to features.
    """
    covariance = prior.covariance(inputs, sections)
    whole = prior.variance(inputs)
    nearest = nearest_section(inputs, whole, covariance, sections, section_variance)
    features, unexplained = split_variance(covariance @ feature_basis, whole, nearest)
    return Projection(inputs, prior.mean(inputs), whole, features, unexplained)


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


def nearest_section(
    inputs: Tensor,
    whole: Tensor,
    covariance: Tensor,
    sections: Tensor,
    section_variance: Tensor,
) -> Tensor:
    r"""Squared distance of ``k(x, .)`` to the nearest training section, ``b`` values.

    Exactly zero at a repeated input, where the difference would be round-off.

    Args:
        inputs: ``b x d'`` kernel inputs.
        whole: ``b`` values of ``k(x, x)``.
        covariance: ``b x n`` prior covariances with the training inputs.
        sections: ``n x d'`` kernel inputs of the training sections.
        section_variance: ``n`` prior variances there.
    """
    nearest, index = (section_variance - 2.0 * covariance).min(-1)
    repeated = (inputs == sections[index]).all(-1)
    return torch.where(repeated, 0.0, nearest + whole)


def split_variance(
    raw_features: Tensor, whole: Tensor, nearest: Tensor
) -> tuple[Tensor, Tensor]:
    r"""Features and unexplained variance, consistent with each other.

    Args:
        raw_features: ``b x n`` features as computed.
        whole: ``b`` values of ``k(x, x)``.
        nearest: ``b`` squared distances of ``k(x, .)`` to the nearest training section.
            The rest is at most that; at an input it is exact, where the difference of
            ``whole`` and the squared features is round-off.
    """
    features = raw_features
    if bool((raw_features.square().sum(-1) > whole).any()):
        features = raw_features * _room_factors(raw_features, whole)
    rest = (whole - features.square().sum(-1)).clamp_min(0.0)
    return features, torch.minimum(rest, nearest.clamp_min(0.0))


@torch.no_grad()
def _room_factors(features: Tensor, whole: Tensor) -> Tensor:
    r"""Factors that keep the squared features of each row from exceeding the whole.

    Features are ordered as the eigenvalues, ascending. Those of the smallest, near the
    resolution of the ``eigh``, carry large relative errors; they are reduced to what the
    others leave.
    """
    squares = features.square()
    larger = squares.flip(-1).cumsum(-1).flip(-1) - squares
    rounding = 8.0 * features.shape[-1] * torch.finfo(features.dtype).eps
    room = ((1.0 + rounding) * whole.unsqueeze(-1) - larger).clamp_min(0.0)
    return torch.where(squares > room, (room / squares).sqrt(), 1.0)
