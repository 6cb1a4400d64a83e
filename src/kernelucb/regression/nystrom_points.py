r"""Query points in the span of inducing features."""

from torch import Tensor

from kernelucb.regression.prior import Prior
from kernelucb.regression.projection import Projection, resolved
from kernelucb.regression.sums import Embedding
from kernelucb.regression.weights import WeightProblem


def project(
    prior: Prior,
    inputs: Tensor,
    embedding: Embedding,
    problem: WeightProblem,
    feature_basis: Tensor,
) -> Projection:
    r"""Coordinates of kernel inputs in the eigenbasis; differentiable in the inputs.

    ``residual_variance`` holds the split part of ``rho^2`` as well, so it may exceed what
    ``features`` leave of the prior variance.

    Args:
        prior: Prior of the outcomes.
        inputs: ``b x d'`` kernel inputs.
        embedding: Coordinates in the inducing span.
        problem: The weights, which say how those are scaled and how ``rho`` is split.
        feature_basis: ``m x r`` matrix that maps coordinates to features.
    """
    coordinates = embedding(inputs)
    features = coordinates @ feature_basis
    prior_variance = prior.variance(inputs)
    scaled = (coordinates * problem.scale).square().sum(-1)
    left = scaled - features.square().sum(-1)
    left = left.clamp_min(0.0) + embedding.round_off * prior_variance
    rest = embedding.residual_variance(inputs, coordinates)
    mean, residual_variance = prior.mean(inputs), (1.0 + problem.split) * rest + left
    resolved(mean, residual_variance)
    return Projection(inputs, mean, prior_variance, features, residual_variance)


def difference(prior: Prior, points: Projection, other: Projection) -> Projection:
    r"""The functional ``f(x) - f(x')`` in the form of a projected point.

    The residual_variance parts count as opposite to each other: the triangle inequality.

    Args:
        prior: Prior of the outcomes.
        points: Projection of ``b`` points ``x``.
        other: Projection of one point ``x'``.
    """
    covariance = prior.covariance(points.inputs, other.inputs)[:, 0]
    prior_variance = points.prior_variance + other.prior_variance - 2.0 * covariance
    farthest = points.residual_variance.sqrt() + other.residual_variance.sqrt()
    return Projection(
        inputs=points.inputs,
        prior_mean=points.prior_mean - other.prior_mean,
        prior_variance=prior_variance.clamp_min(0.0),
        features=points.features - other.features,
        residual_variance=farthest.square(),
    )
