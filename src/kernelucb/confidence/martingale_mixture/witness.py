r"""The function of the confidence set that attains the bound."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from kernelucb.confidence.base import RidgePoints
from kernelucb.confidence.martingale_mixture.dual import ExactSet
from kernelucb.regression import Projection, RidgeState


class Witness(NamedTuple):
    r"""A plausible function that is as large (or small) as the bound at one point.

    It has at most the bounded norm, lies within the radius of the data, and takes the
    bound's value at the point; it shows what the data do not exclude.

    Attributes:
        regression: The state it is expressed in.
        point: Projection of the one point.
        weights: ``n`` coordinates in the eigenbasis of the training sections.
        rest_weight: Coordinate along the part of ``k(x, .)`` orthogonal to them.
        norm: RKHS norm of ``f - mean`` in outcome units, under the model's kernel.
        misfit: Distance to the data in noise units.
        radius: Largest distance that the confidence set allows, noise units.
    """

    regression: RidgeState
    point: Projection
    weights: Tensor
    rest_weight: Tensor
    norm: float
    misfit: float
    radius: float

    @torch.no_grad()
    def __call__(self, X: Tensor) -> Tensor:
        r"""Values at ``b x d`` points, ``b`` numbers in outcome units."""
        points = self.regression.project(X)
        prior = self.regression.prior.covariance(points.inputs, self.point.inputs)[:, 0]
        rest = prior - points.features @ self.point.features[0]
        length = self.point.residual_variance.sqrt().clamp_min(torch.finfo(rest.dtype).tiny)
        deviation = points.features @ self.weights + self.rest_weight * rest / length
        return points.prior_mean + deviation


@torch.no_grad()
def attaining_function(
    confidence_set: ExactSet[Any], points: RidgePoints, sign: int
) -> Witness:
    r"""Maximiser of ``sign * f(x)`` over the confidence set, at one projected point.

    Source: stationarity of the Lagrangian of Flynn & Reeb (2024), Eq. (9): the ridge
    estimate plus a multiple of the posterior covariance with the point.
    """
    regression, constraints = confidence_set.regression, confidence_set.constraints
    tau = confidence_set.support(points, sign).regularizer
    point, lam = points.centre, regression.eigenvalues
    features, rest = point.features[0], point.residual_variance.sqrt()[0]
    if bool(torch.isinf(tau)):
        multiple = sign * constraints.norm / point.prior_variance.sqrt()[0]
        weights = multiple * features
    else:
        variance = regression.variance_at(point, tau.unsqueeze(-1))[0]
        excess = constraints.excess(regression, tau)[0].clamp_min(0.0)
        multiple = sign * (excess / (tau[0] * variance)).sqrt()
        weights = (regression.mean_terms + multiple * tau * features) / (lam + tau)
    rest_weight = multiple * rest
    squared_norm = weights.square().sum() + rest_weight.square()
    fitted = regression.singular_values * weights
    return Witness(
        regression=regression,
        point=point,
        weights=weights,
        rest_weight=rest_weight,
        norm=float(squared_norm.sqrt()) * regression.outcome_scale,
        misfit=float((fitted - regression.targets).norm()),
        radius=constraints.radius.squared(regression) ** 0.5,
    )
