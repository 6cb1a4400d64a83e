r"""The ellipsoid bounds of one set at one batch of points, as functions of ``tau``."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from kernelucb._numerics.arrays import Array, as_array, library_of, safe_sqrt
from kernelucb.confidence.base import RidgePoints
from kernelucb.confidence.martingale_mixture.function_set import FunctionSet

_TINY = torch.finfo(torch.float64).tiny


class Ellipsoids:
    r"""``sign * mean_tau + sqrt(excess_tau var_tau / tau)`` at ``b`` points.

    Sums over the spectrum of fixed terms times powers of ``1 / (lam + tau)``, so that a
    search over ``tau`` costs little.

    Args:
        functions: The set of functions.
        points: Its ``b`` query points.
        sign: 1 for the upper side of the band, -1 for the lower.
    """

    def __init__(self, functions: FunctionSet[Any], points: RidgePoints, sign: int) -> None:
        self.regression, self.design = functions.regression, functions.design
        self.constraints, self.points, self.sign = functions.constraints, points, sign
        self.eigenvalues = as_array(self.regression.eigenvalues)
        targets = as_array(self.regression.targets)
        self.mean_terms = sign * as_array(self.regression.mean_terms)
        self.fit_terms = targets * targets * self.eigenvalues
        self.tau_ref = self.constraints.radius.tau_ref
        self.drop_weights = self.fit_terms / (self.eigenvalues + self.tau_ref)
        self.features = as_array(points.centre.features)
        self.squares = self.features * self.features
        self.deviations = self.features * self.mean_terms
        self.residual_variance = as_array(points.centre.residual_variance)
        self.xp = library_of(self.features)

    @property
    def half_width(self) -> Array:
        r"""The norm bound alone at each point, outcome units."""
        return self.constraints.norm * self.xp.sqrt(
            as_array(self.points.centre.prior_variance)
        )

    def slopes(self, log_tau: Array) -> tuple[Array, Array]:
        r"""First and second derivatives at ``b`` values of ``log tau``."""
        tau, dot = self.xp.exp(log_tau), self.xp.linalg.vecdot
        first = 1.0 / (self.eigenvalues + tau[:, None])
        second = first * first
        third = first * second
        mean_slope = -tau * dot(self.deviations, second)
        bend = 2.0 * tau * tau
        mean_bend = mean_slope + bend * dot(self.deviations, third)
        sums = first @ self.drop_weights, second @ self.fit_terms, third @ self.fit_terms
        excess, a, a_slope = self.constraints.log_excess_slopes(tau, sums)
        if self.design is self.regression:
            low, middle, high = (dot(self.squares, p) for p in (first, second, third))
            variance = self.residual_variance + tau * low
            change = tau * (low - tau * middle)
            change_slope = change - bend * (middle - tau * high)
        else:
            given = torch.as_tensor(tau)
            found = self.design.variance_slopes(self.points.design, given)
            variance, change, change_slope = map(as_array, found)
        variance = variance.clip(_TINY)
        b = change / variance
        width = self.xp.sqrt(excess * variance / tau)
        slope = 0.5 * (a + b - 1.0)  # of ln(width)
        curvature = 0.5 * (a_slope + change_slope / variance - b * b)
        return mean_slope + width * slope, mean_bend + width * (slope * slope + curvature)

    def bounds(self, tau: Array) -> Tensor:
        r"""Values at ``b`` regularisers, with gradients for fixed ones.

        At minimising regularisers those are the gradients of the minima (envelope theorem).
        """
        if self.design is not self.regression:
            return self._pending_bounds(torch.as_tensor(tau))
        xp = self.xp
        inverse = 1.0 / (self.eigenvalues + tau[:, None])
        weights, shrunk = self.mean_terms * inverse, self.features * inverse * tau[:, None]
        variance = self.residual_variance + xp.linalg.vecdot(self.features, shrunk)
        drop = (self.tau_ref - tau) * (inverse @ self.drop_weights)
        squared_width = self.constraints.excess_from(tau, drop).clip(0.0) / tau
        value = xp.linalg.vecdot(self.features, weights)
        value = torch.as_tensor(value + xp.sqrt(squared_width * variance))
        projection = self.points.centre
        inputs = projection.features, projection.residual_variance
        if not (torch.is_grad_enabled() and any(part.requires_grad for part in inputs)):
            return value
        ratio = xp.sqrt(squared_width / xp.where(variance > 0.0, variance, xp.inf))
        slopes = weights + ratio[:, None] * shrunk, 0.5 * ratio
        return _WithSlopes.apply(value, *map(torch.as_tensor, slopes), *inputs)

    def _pending_bounds(self, tau: Tensor) -> Tensor:
        column = tau.unsqueeze(-1)
        deviation = self.regression.deviation_at(self.points.centre, column)
        variance = self.design.variance_at(self.points.design, column)
        excess = self.constraints.excess(self.regression, tau).clamp_min(0.0)
        return self.sign * deviation + safe_sqrt(excess / tau * variance)


class _WithSlopes(torch.autograd.Function):
    r"""Values computed already, with slopes in features and residual variance."""

    @staticmethod
    def forward(
        ctx: Any,
        value: Tensor,
        feature_slopes: Tensor,
        residual_slopes: Tensor,
        features: Tensor,
        residual_variance: Tensor,
    ) -> Tensor:
        ctx.save_for_backward(feature_slopes, residual_slopes)
        return value.clone()

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, *grad_outputs: Tensor
    ) -> tuple[Tensor | None, ...]:
        (grad,), (feature_slopes, residual_slopes) = grad_outputs, ctx.saved_tensors
        return None, None, None, grad.unsqueeze(-1) * feature_slopes, grad * residual_slopes
