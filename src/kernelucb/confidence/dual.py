r"""Sets of functions and their dual bounds: exact, or the least over a grid (DMM).

By weak duality every regulariser ``tau`` gives an ellipsoid that holds the set, and so a
valid bound; the search over ``tau`` decides only how tight the bound is.
"""

import math
from typing import Any, ClassVar, Self

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from kernelucb._numerics.arrays import (
    Array,
    as_array,
    library_of,
    minimize_quasiconvex,
    safe_sqrt,
)
from kernelucb.confidence.assumptions import Assumptions
from kernelucb.confidence.mixture import Constraints
from kernelucb.confidence.sets import (
    ConfidenceSet,
    QueryPoints,
    Support,
)
from kernelucb.regression import RidgeState
from kernelucb.regression.exact import Projection

_GRID_SIZE = 64
# What the search leaves to gain, over the half-width of the norm bound alone.
_RELATIVE_TOLERANCE = 1e-13
# Multiples of the problem's own scale beyond which one constraint alone matters.
_RANGE_BELOW, _RANGE_ABOVE = 1e-12, 1e8
_TINY = torch.finfo(torch.float64).tiny


class FunctionSet(ConfidenceSet):
    r"""All functions that satisfy the fit and the norm constraint, or a larger set.

    The support function is valid for every linear functional, so for differences of values
    as well as for values. ``source`` is the theorem by which it is computed.
    """

    source: ClassVar[str]

    def __init__(
        self,
        regression: RidgeState,
        constraints: Constraints,
        assumptions: Assumptions,
    ) -> None:
        super().__init__(regression, assumptions)
        self.constraints = constraints
        self._reference: tuple[Tensor, int, Projection] | None = None

    @property
    def norm(self) -> float:
        r"""The norm bound, prior units."""
        return self.constraints.norm

    def max_gain_over(
        self, X: Tensor, reference: Tensor, sign: int = 1, cheap: bool = False
    ) -> Tensor:
        r"""Upper bound on ``sign * (f(x) - f(reference))`` over the set, ``b`` values."""
        points, other = self.regression.project(X), self._projected(reference)
        change = self.regression.difference(points, other)
        support = self._support_of_difference(change, sign, cheap)
        return sign * change.baseline + support.value

    def _support_of_difference(self, change: Projection, sign: int, cheap: bool) -> Support:
        r"""Support of ``b`` differences of values; with ``cheap`` its majorant."""
        find = self.majorant if cheap else self.support
        return find(QueryPoints(change, change), sign)

    def _projected(self, reference: Tensor) -> Projection:
        r"""The projection of a reference, kept for the next call (a third of a search)."""
        if reference.requires_grad:
            return self.regression.project(reference)
        if self._reference is not None:
            known, version, other = self._reference
            same = known is reference and version == reference._version
            if same and other.features.device == self.regression.eigenvalues.device:
                return other
        with torch.no_grad():
            other = self.regression.project(reference)
        self._reference = reference, reference._version, other
        return other


class Ellipsoids:
    r"""``sign * mean_tau + sqrt(excess_tau var_tau / tau)`` at ``b`` points.

    All parts are sums over the spectrum of fixed terms times powers of ``1 / (lam + tau)``,
    so that a search over ``tau`` costs ``O(r)`` a step. ``sign`` is 1 for the upper side.
    """

    def __init__(self, functions: FunctionSet, points: QueryPoints, sign: int) -> None:
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

    def slopes(self, log_tau: Array) -> tuple[Array, Array]:
        r"""First and second derivatives at ``b`` values of ``log tau``."""
        tau, dot = self.xp.exp(log_tau), self.xp.linalg.vecdot
        first = 1.0 / (self.eigenvalues + tau[:, None])
        second = first * first
        third = first * second
        mean_slope = -tau * dot(self.deviations, second)
        bend = 2.0 * tau * tau
        mean_bend = mean_slope + bend * dot(self.deviations, third)
        # Excess and variance, with two derivatives of their logarithms in ln(tau).
        drop = (self.tau_ref - tau) * (first @ self.drop_weights)
        excess = self.constraints.excess_from(tau, drop).clip(_TINY)
        share = tau / excess
        a = share * (self.constraints.norm**2 - second @ self.fit_terms)
        a_slope = a - a * a + 2.0 * tau * share * (third @ self.fit_terms)
        if self.design is self.regression:
            low, middle = dot(self.squares, first), dot(self.squares, second)
            high = dot(self.squares, third)
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

        At minimising regularisers these gradients are those of the minima, by the envelope
        theorem: the derivative by the regulariser is zero there.
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
        wanted = inputs[0].requires_grad or inputs[1].requires_grad
        if not (wanted and torch.is_grad_enabled()):
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


class GridSet(FunctionSet):
    r"""Minimum of the ellipsoid bounds over a grid of regularisers (DMM), anytime.

    Source: Flynn & Reeb (2024), Eq. (12) over a finite set. Valid for any grid of ``g``
    values ``tau = alpha / noise_std^2``, never tighter than ``ExactSet``; values below the
    ``eigenvalue_cutoff``, where round-off would decide, are raised to it.
    """

    source = "Flynn & Reeb (2024), Eq. (12) over a grid"
    regularizers: Tensor
    mean_weights: Tensor
    shrinkage: Tensor
    squared_widths: Tensor

    def __init__(
        self,
        regression: RidgeState,
        constraints: Constraints,
        regularizers: Tensor,
        assumptions: Assumptions,
    ) -> None:
        super().__init__(regression, constraints, assumptions)
        self._place(regularizers)

    def with_design(self, design: RidgeState) -> Self:
        r"""See ``ConfidenceSet``."""
        band = super().with_design(design)
        band._place(self.regularizers)
        return band

    def _place(self, regularizers: Tensor) -> None:
        r"""Set the grid, and the parts of its bounds that do not depend on the points."""
        regression = self.regression
        grid = regularizers.to(regression.eigenvalues)
        grid = grid.clamp_min(regression.eigenvalue_cutoff)
        self.register_buffer("regularizers", grid)
        tau = grid.unsqueeze(-1)
        mean_weights = regression.mean_terms / (regression.eigenvalues + tau)
        shrinkage = tau / (self.design.eigenvalues + tau)
        self.register_buffer("mean_weights", mean_weights.mT)
        self.register_buffer("shrinkage", shrinkage.mT)
        excess = self.constraints.excess(regression, grid).clamp_min(0.0)
        self.register_buffer("squared_widths", excess / grid)

    def support(self, points: QueryPoints, sign: int) -> Support:
        r"""Least ellipsoid bound over the grid."""
        with torch.no_grad():
            index = self.ellipsoid_bounds(points, sign).argmin(dim=-1)
        tau = self.regularizers[index]
        value = Ellipsoids(self, points, sign).bounds(as_array(tau))
        return Support(value, tau, torch.zeros_like(tau))

    def ellipsoid_bounds(self, points: QueryPoints, sign: int) -> Tensor:
        r"""Eq. (13) on the grid: ``sign * mean_tau + width_tau * sd_tau``, ``b x g``."""
        deviation = points.centre.features @ self.mean_weights
        grid, shrinkage = self.regularizers, self.shrinkage
        variance = self.design.variances_at(points.design, grid, shrinkage)
        return sign * deviation + safe_sqrt(variance * self.squared_widths)


class ExactSet(GridSet):
    r"""The exact bound: the maximum over the confidence set itself, anytime.

    Source: Flynn & Reeb (2024), Theorem 4.5 and Eq. (12); strong duality makes the minimum
    over every regulariser equal to the maximum over functions. The objective is
    quasi-convex in the regulariser (ours: it is the partial minimum of the jointly convex
    Lagrange dual along rays), so a coarse grid brackets the minimum and safeguarded Newton
    steps find it. Gradients follow the envelope theorem.
    """

    source = "Flynn & Reeb (2024), Theorem 4.5"

    def __init__(
        self,
        regression: RidgeState,
        constraints: Constraints,
        assumptions: Assumptions,
    ) -> None:
        super().__init__(regression, constraints, torch.empty(0), assumptions)

    def _place(self, regularizers: Tensor) -> None:
        r"""Set a grid that brackets every search, from round-off to the norm alone."""
        design, norm = self.design, self.constraints.norm
        scale = self.constraints.radius.squared(design) / norm**2
        largest = float(design.eigenvalues[-1])
        lower, upper = regularizer_range(scale, largest, design.eigenvalue_cutoff)
        logs = math.log10(lower), math.log10(upper)
        super()._place(torch.logspace(*logs, _GRID_SIZE, dtype=torch.float64))
        self.log_step = math.log(upper / lower) / (_GRID_SIZE - 1)

    def support(self, points: QueryPoints, sign: int) -> Support:
        r"""Least ellipsoid bound over all regularisers."""
        ellipsoids = Ellipsoids(self, points, sign)
        xp = ellipsoids.xp
        # The limit of an infinite regulariser: the ball of the norm constraint alone.
        ball = self.constraints.norm * safe_sqrt(points.centre.prior_variance)
        with torch.no_grad():
            values = as_array(self.ellipsoid_bounds(points, sign))
            nodes, best = xp.log(as_array(self.regularizers)), values.argmin(-1)
            half_width = as_array(ball)
            log_tau, gap, _ = minimize_quasiconvex(
                ellipsoids.slopes,
                lower=nodes[(best - 1).clip(0)],
                upper=nodes[(best + 1).clip(0, len(nodes) - 1)],
                start=nodes[best] + self.log_step * _parabola_vertex(values, best),
                # A point's gain over itself is zero at every regulariser.
                tolerance=xp.where(
                    half_width > 0, _RELATIVE_TOLERANCE * half_width, xp.inf
                ),
            )
        tau = xp.exp(log_tau)
        finite, regularizer = ellipsoids.bounds(tau), torch.as_tensor(tau)
        gap, inside = torch.as_tensor(gap), ball.detach() <= finite.detach()
        if not bool(inside.any()):
            return Support(finite, regularizer, gap)
        return Support(
            value=torch.where(inside, ball, finite),
            regularizer=torch.where(inside, torch.inf, regularizer),
            gap=torch.where(inside, 0.0, gap),
        )

    def majorant(self, points: QueryPoints, sign: int) -> Support:
        r"""Least bound over the grid that brackets the search."""
        return super().support(points, sign)


def _parabola_vertex(values: Array, best: Array) -> Array:
    r"""Vertex of the parabola through the best value of each row and its neighbours.

    In steps of the grid, between -1 and 1; zero at the ends of the grid.
    """
    xp = library_of(values)
    inner = best.clip(1, values.shape[-1] - 2)
    rows = xp.arange(len(values), device=values.device)[:, None]
    around = inner[:, None] + xp.arange(-1, 2, device=values.device)
    left, middle, right = values[rows, around].T
    bend = left - 2.0 * middle + right
    vertex = 0.5 * (left - right) / xp.where(bend > 0, bend, xp.inf)
    return xp.where(inner == best, vertex, 0.0).clip(-1.0, 1.0)


def regularizer_range(
    scale: float, largest: float, eigenvalue_cutoff: float
) -> tuple[float, float]:
    r"""Smallest and largest ``tau`` worth trying for the exact bound.

    ``scale`` is the squared radius over the squared norm bound, ``largest`` the largest
    eigenvalue of the whitened kernel matrix.
    """
    lower = max(eigenvalue_cutoff, _RANGE_BELOW * scale)
    return lower, _RANGE_ABOVE * max(largest, scale, lower)
