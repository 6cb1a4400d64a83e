r"""The function of the confidence set that attains the bound."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from kernelucb.confidence.base import RidgePoints
from kernelucb.confidence.martingale_mixture.dual import ExactSet
from kernelucb.regression import Projection, RidgeState


class Witness(NamedTuple):
    r"""A function of the confidence set that attains the bound at one point.

    The function keeps the norm bound, lies within the radius of the data, and takes the
    bound's value at the point: an example of what the data do not exclude.

    Attributes:
        regression: The state in whose eigenbasis the function is expressed.
        point: Projection of the point at which the bound is attained.
        weights: ``n`` coordinates in the eigenbasis of the training sections.
        rest_weight: Coordinate along the part of ``k(x, .)`` that is orthogonal to all
            training sections.
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
        return points.baseline + deviation


@torch.no_grad()
def attaining_function(
    confidence_set: ExactSet[Any], points: RidgePoints, sign: int
) -> Witness:
    r"""Maximiser of ``sign * f(x)`` over the confidence set, at one projected point.

    Source: stationarity of the Lagrangian of Flynn & Reeb (2024), Eq. (9): the ridge
    estimate plus a multiple of the posterior covariance with the point.
    """
    regression, constraints = confidence_set.regression, confidence_set.constraints
    rows, rests = attaining_weights(confidence_set, points, sign)
    point, weights, rest_weight = points.centre, rows[0], rests[0]
    squared_norm = weights.square().sum() + rest_weight.square()
    fitted = regression.eigenvalues.sqrt() * weights
    return Witness(
        regression=regression,
        point=point,
        weights=weights,
        rest_weight=rest_weight,
        norm=float(squared_norm.sqrt()) * regression.outcome_scale,
        misfit=float((fitted - regression.targets).norm()),
        radius=constraints.radius.squared(regression) ** 0.5,
    )


@torch.no_grad()
def attaining_weights(
    confidence_set: ExactSet[Any], points: RidgePoints, sign: int
) -> tuple[Tensor, Tensor]:
    r"""Coordinates of the maximisers of ``sign * f(x)`` at ``b`` points.

    ``b x r`` in the eigenbasis of the training sections, and ``b`` along the part of each
    ``k(x, .)`` that is orthogonal to them.
    """
    regression, constraints = confidence_set.regression, confidence_set.constraints
    point, lam = points.centre, regression.eigenvalues
    tau = confidence_set.support(points, sign).regularizer
    bounded = torch.isinf(tau)  # by the norm alone
    tau = torch.where(bounded, 1.0, tau).unsqueeze(-1)
    variance = regression.variance_at(point, tau)
    excess = constraints.excess(regression, tau.squeeze(-1)).clamp_min(0.0)
    multiple = sign * (excess / (tau.squeeze(-1) * variance)).sqrt().unsqueeze(-1)
    weights = (regression.mean_terms + multiple * tau * point.features) / (lam + tau)
    alone = sign * constraints.norm / point.prior_variance.sqrt().unsqueeze(-1)
    weights = torch.where(bounded.unsqueeze(-1), alone * point.features, weights)
    multiple = torch.where(bounded, alone.squeeze(-1), multiple.squeeze(-1))
    return weights, multiple * point.residual_variance.sqrt()
