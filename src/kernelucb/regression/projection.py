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
        residual_variance: ``b`` values ``k(x, x) - |v|^2``, which no outcome at the
            training inputs reduces.
        pending_covariance: ``b x p`` covariances with pending points outside the span of
            the training sections; None where no points are pending.
    """

    inputs: Tensor
    prior_mean: Tensor
    prior_variance: Tensor
    features: Tensor
    residual_variance: Tensor
    pending_covariance: Tensor | None = None

    @property
    def baseline(self) -> Tensor:
        r"""What the support function is measured from: the prior mean, ``b`` values."""
        return self.prior_mean

    def detach(self) -> "Projection":
        r"""The same points without gradients."""
        parts = (None if part is None else part.detach() for part in self)
        return Projection._make(parts)

    def rows(self, mask: Tensor | slice) -> "Projection":
        r"""Those of the points in a slice, or where ``mask`` is true."""
        parts = (None if part is None else part[mask] for part in self)
        return Projection._make(parts)


def project(
    prior: Prior, inputs: Tensor, sections: Sections, feature_basis: Tensor
) -> Projection:
    r"""Coordinates of ``b x d'`` kernel inputs in the eigenbasis; differentiable in them.

    ``feature_basis`` maps covariances with the ``m`` sections to ``r`` features, ``m x r``.

    Raises:
        InputDataError: If the kernel or the prior mean is not finite there.
    """
    covariance = prior.covariance(inputs, sections.inputs)
    prior_variance = prior.variance(inputs)
    raw_features = covariance @ feature_basis
    with torch.no_grad():
        reach = sections.reach(inputs, prior_variance, covariance)
    features, residual_variance = split_variance(raw_features, prior_variance, reach)
    if covariance.requires_grad and bool((residual_variance == reach).any()):
        reach = sections.reach(inputs, prior_variance, covariance)
        features, residual_variance = split_variance(raw_features, prior_variance, reach)
    mean = prior.mean(inputs)
    resolved(mean, residual_variance)
    return Projection(inputs, mean, prior_variance, features, residual_variance)


def resolved(prior_mean: Tensor, residual_variance: Tensor) -> None:
    r"""Raise ``InputDataError`` where the prior could not be evaluated at query points.

    ``residual_variance`` is NaN where the kernel or a feature is not finite.
    """
    if not bool(torch.isfinite(prior_mean + residual_variance).all()):
        raise InputDataError(
            "The kernel or the prior mean is not finite at some points: they are too "
            "large for 64-bit numbers. Rescale the inputs, those of the data as well "
            "(input_transform=Normalize(d))."
        )
