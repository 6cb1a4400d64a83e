r"""The function of the confidence set that attains the bound."""

from typing import NamedTuple

import torch
from torch import Tensor

from kernelucb.confidence.base import QueryPoints
from kernelucb.confidence.martingale_mixture.constraints import Constraints
from kernelucb.confidence.martingale_mixture.dual import ExactSet
from kernelucb.regression import KernelRegression, Projection


class Witness(NamedTuple):
    r"""A plausible function that is as large (or small) as the bound at one point.

    It has at most the bounded norm, lies within the radius of the data, and takes the
    bound's value at the point; it shows what the data do not exclude.

    Attributes:
        regression: The state it is expressed in.
        point: Projection of the one point.
        weights: ``n`` coefficients in the eigenbasis.
        point_weight: Coefficient of ``k(x, .)``.
        norm: RKHS norm of ``f - mean`` in outcome units, under the model's kernel.
        misfit: Distance to the data in noise units.
        radius: Largest distance that the confidence set allows, noise units.
    """

    regression: KernelRegression
    point: Projection
    weights: Tensor
    point_weight: Tensor
    norm: float
    misfit: float
    radius: float

    def __call__(self, X: Tensor) -> Tensor:
        r"""Values at ``b x d`` points, ``b`` numbers in outcome units."""
        points = self.regression.project(X)
        direct = self.regression.prior.covariance(points.inputs, self.point.inputs)
        deviation = points.coordinates @ self.weights + self.point_weight * direct[:, 0]
        return points.prior_mean + deviation


@torch.no_grad()
def attaining_function(
    confidence_set: ExactSet, points: QueryPoints, sign: int
) -> Witness:
    r"""Maximiser of ``sign * f(x)`` over the confidence set.

    Source: stationarity of the Lagrangian of Flynn & Reeb (2024), Eq. (9): the ridge
    estimate plus a multiple of the posterior covariance with the point.

    Args:
        confidence_set: The exact set.
        points: Projections of one point.
        sign: ``1`` for the upper side of the band, ``-1`` for the lower.
    """
    regression, constraints = confidence_set.regression, confidence_set.constraints
    tau = confidence_set.support(points, sign).regularizer
    point = points.centre
    q = point.coordinates[0]
    if bool(torch.isinf(tau)):
        weights = torch.zeros_like(q)
        point_weight = sign * constraints.norm / point.prior_variance.sqrt()[0]
    else:
        variance = regression.variance_at(point, tau.unsqueeze(-1))[0]
        excess = constraints.excess(regression, tau)[0].clamp_min(0.0)
        point_weight = sign * (excess / (tau[0] * variance)).sqrt()
        weights = (regression.targets - point_weight * q) / (regression.eigenvalues + tau)
    return _describe(regression, constraints, point, weights, point_weight)


def _describe(
    regression: KernelRegression,
    constraints: Constraints,
    point: Projection,
    weights: Tensor,
    point_weight: Tensor,
) -> Witness:
    q, lam = point.coordinates[0], regression.eigenvalues
    squared_norm = (
        (lam * weights.square()).sum()
        + 2.0 * point_weight * (weights * q).sum()
        + point_weight.square() * point.prior_variance[0]
    )
    fitted = lam * weights + point_weight * q
    return Witness(
        regression=regression,
        point=point,
        weights=weights,
        point_weight=point_weight,
        norm=float(squared_norm.clamp_min(0.0).sqrt()) * regression.outcome_scale,
        misfit=float((fitted - regression.targets).norm()),
        radius=constraints.radius.squared(regression) ** 0.5,
    )
