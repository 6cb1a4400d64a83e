r"""Sets of functions and their dual bounds: exact, or the least over a grid (DMM).

By weak duality every regulariser ``tau`` gives an ellipsoid that holds the set, and so a
valid bound; the search over ``tau`` decides only how tight the bound is.
"""

import math
from collections.abc import Callable, Collection
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable

from kernelucb._numerics.arrays import (
    Array,
    as_array,
    library_of,
    minimize_quasiconvex,
    safe_sqrt,
)
from kernelucb._numerics.estimates import Number
from kernelucb._numerics.spectral import eigenvalue_limit
from kernelucb.confidence.assumptions import Assumptions
from kernelucb.confidence.radius import Constraints
from kernelucb.confidence.sets import (
    Change,
    Gains,
    QueryPoints,
    RidgeT_co,
    StateSet,
    without_hessian,
)
from kernelucb.data import RidgeState
from kernelucb.data.exact import Projection

_GRID_SIZE = 64
# What the search leaves to gain, over the half-width of the norm bound alone.
_RELATIVE_TOLERANCE = 1e-13
# Multiples of the problem's own scale beyond which one constraint alone matters.
_RANGE_BELOW, _RANGE_ABOVE = 1e-12, 1e8
_TINY = torch.finfo(torch.float64).tiny
_EPSILON = torch.finfo(torch.float64).eps
# Points beyond a level: those on which a regulariser and a cut are chosen, how many of
# both, steps to an eigenvalue, and points whose covariances are one matrix.
_FEW, _NODES, _CUTS, _POWERS, _BLOCK = 256, 32, 10, 30, 500


class FunctionSet(StateSet[RidgeT_co, Projection]):
    r"""All functions that satisfy the fit and the norm constraint, or a larger set.

    The support function is valid for every linear functional, so for differences of values
    as well as for values. ``source`` is the theorem by which it is computed.
    """

    source: ClassVar[str]
    # A reference, a copy of its values, and its projection
    _last: tuple[Tensor, Tensor, Projection] | None = None

    def __init__(
        self,
        regression: RidgeT_co,
        constraints: Constraints,
        assumptions: Assumptions,
    ) -> None:
        super().__init__(regression, assumptions)
        self.constraints = constraints

    @property
    def norm(self) -> Number:
        r"""The norm bound, prior units; an estimate where it was estimated or raised."""
        return self.constraints.norm

    def change_in(self, fixed: Collection[int]) -> Change | None:
        prior, like, norm = self.regression.prior, self.regression.eigenvalues, self.norm
        if not prior.bounds_changes(fixed):
            return None
        return lambda centres, halves: prior.change_in_cells(
            float(norm), centres.to(like), halves.to(like)
        )

    def max_gain_over(
        self, X: Tensor, reference: Tensor, sign: int = 1, cheap: bool = False
    ) -> Tensor:
        r"""Upper bound on ``sign * (f(x) - f(reference))`` over the set, ``b`` values."""
        points = self.regression.project(without_hessian(X))
        other = self._projected(reference)
        change = self.regression.difference(points, other, cheap)
        support = self._support_of_difference(change, sign, cheap)
        return sign * change.baseline + support

    def gains_among(self, X: Tensor, sign: int = 1) -> Gains:
        points = self.regression.project(X)

        def most(first: Tensor, second: Tensor) -> Tensor:
            pair = points.rows(first), points.rows(second)
            change = self.regression.difference(*pair)
            return sign * change.baseline + self._support_of_difference(change, sign, False)

        def least(first: Tensor, second: Tensor) -> Tensor:
            return points.baseline.new_tensor(-torch.inf).expand(len(first))

        return Gains(most, least)

    def _projected(self, reference: Tensor) -> Projection:
        r"""A reference in the state of the data: a search asks about the same one."""
        if reference.requires_grad or torch.is_inference_mode_enabled():
            return self.regression.project(without_hessian(reference))
        if self._last is not None:
            given, values, points = self._last
            if given is reference and torch.equal(values, reference):  # unchanged since
                return points
        points = self.regression.project(reference)
        self._last = reference, reference.clone(), points
        return points

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        self._last = None  # it would not move to the other device
        return super()._apply(fn, recurse)

    def _support_of_difference(self, change: Projection, sign: int, cheap: bool) -> Tensor:
        r"""Support of ``b`` differences of values; with ``cheap`` its majorant."""
        find = self.majorant if cheap else self.support
        return find(QueryPoints(change, change), sign)


class Ellipsoids:
    r"""``sign * mean_tau + sqrt(excess_tau var_tau / tau)`` at ``b`` points.

    All parts are sums over the spectrum of fixed terms times powers of ``1 / (lam + tau)``,
    so that a search over ``tau`` costs ``O(r)`` a step. ``sign`` is 1 for the upper side.
    Arrays without gradient: a search finds the regulariser alone, not the bound.
    """

    def __init__(self, functions: "GridSet", points: QueryPoints, sign: int) -> None:
        self.functions, self.points, self.sign = functions, points, sign
        self.mean_terms = sign * functions.spectrum.mean_terms
        self.features = as_array(points.centre.features)
        self.deviations = self.features * self.mean_terms
        self.design_features = as_array(points.design.features)
        self.squares = self.design_features * self.design_features
        self.rest = as_array(points.design.residual_variance)
        self.xp = library_of(self.rest)

    def on_grid(self) -> Array:
        r"""Eq. (13) at the regularisers of the grid, ``b x g``; Eq. (12) is the least.

        Source: Flynn & Reeb (2024).
        """
        grid = self.functions.grid
        deviation = self.features @ grid.mean_weights.T
        variance = self.squares @ grid.shrinkage.T + self.rest[:, None]
        return self.sign * deviation + (variance * grid.squared_widths) ** 0.5

    def slopes(self, log_tau: Array) -> tuple[Array, Array]:
        r"""First and second derivatives at ``b`` values of ``log tau``."""
        tau, dot = self.xp.exp(log_tau), self.xp.linalg.vecdot
        ball, spectrum = self.functions.constraints.ball, self.functions.spectrum
        column = tau[:, None]
        first = 1.0 / (spectrum.eigenvalues + column)
        second = first * first
        third = first * second
        mean_slope = -tau * dot(self.deviations, second)
        bend = 2.0 * tau * tau
        mean_bend = mean_slope + bend * dot(self.deviations, third)
        # Excess and variance, with two derivatives of their logarithms in ln(tau).
        # Clipped where round-off empties the set at a regulariser: slopes stay finite.
        excess = self.functions.excess(tau, first).clip(_TINY)
        share = tau / excess
        a = share * (ball**2 - second @ spectrum.fit_terms)
        a_slope = a - a * a + 2.0 * tau * share * (third @ spectrum.fit_terms)
        lam = spectrum.design_eigenvalues
        if lam is not spectrum.eigenvalues:  # of pending points as well
            first = 1.0 / (lam + column)
        shrinkage, resolved = column * first, lam * first
        terms = self.squares * shrinkage
        variance = (self.rest + terms.sum(-1)).clip(_TINY)
        terms *= resolved
        b = terms.sum(-1) / variance
        change_slope = dot(terms, resolved - shrinkage)
        width = self.xp.sqrt(excess * variance / tau)
        slope = 0.5 * (a + b - 1.0)  # of ln(width)
        curvature = 0.5 * (a_slope + change_slope / variance - b * b)
        return mean_slope + width * slope, mean_bend + width * (slope * slope + curvature)

    def bounds(self, tau: Array) -> Tensor:
        r"""Values at ``b`` regularisers, with gradients for fixed ones.

        At minimising regularisers these gradients are those of the minima, by the envelope
        theorem: the derivative by the regulariser is zero there.
        """
        spectrum, column = self.functions.spectrum, tau[:, None]
        inverse = 1.0 / (spectrum.eigenvalues + column)
        excess = self.functions.excess(tau, inverse).clip(0.0)
        shrinkage = 1.0 / (spectrum.design_eigenvalues / column + 1.0)
        return self.at(self.mean_terms * inverse, shrinkage, excess / tau)

    def at(self, weights: Array, shrinkage: Array, squared_width: Array) -> Tensor:
        r"""``<weights, v> + sqrt(squared_width (rest + <shrinkage, v^2>))``, ``b`` values.

        Differentiable once in the points; the arrays, which are chosen for the points,
        change no gradient by the envelope theorem.
        """
        shrunk = self.design_features * shrinkage
        variance = self.rest + (self.design_features * shrunk).sum(-1)
        half_width = self.xp.sqrt(squared_width * variance)
        positive = self.xp.where(half_width > 0.0, half_width, self.xp.inf)
        value = (self.features * weights).sum(-1) + half_width
        slopes = weights, 2.0 * shrunk, 0.5 * squared_width / positive
        centre, design = self.points
        given = centre.features, design.features, design.residual_variance
        return _EllipsoidBound.apply(*given, value, slopes)


class _Slopes(FunctionCtx):
    r"""What a bound keeps for its gradient."""

    found: tuple[Array, Array, Array]  # by features, features of the design, and the rest


class _EllipsoidBound(torch.autograd.Function):
    r"""A bound that was found on arrays, with its slopes: one step of a gradient."""

    @staticmethod
    def forward(
        ctx: _Slopes,
        features: Tensor,
        design_features: Tensor,
        rest: Tensor,
        value: Array,
        slopes: tuple[Array, Array, Array],
    ) -> Tensor:
        ctx.found = slopes
        return torch.as_tensor(value)

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: _Slopes, slope: Tensor
    ) -> tuple[Tensor | None, ...]:
        (weights, shrunk, pull), given = ctx.found, as_array(slope)
        pull = given * pull
        found = given[:, None] * weights, pull[:, None] * shrunk, pull
        return *map(torch.as_tensor, found), None, None


class Spectrum(NamedTuple):
    r"""What bounds need of the data at any regulariser, ``r`` numbers each."""

    eigenvalues: Array
    mean_terms: Array
    fit_terms: Array  # squared targets times eigenvalues
    drop_weights: Array  # of ``GridSet.excess``
    design_eigenvalues: Array  # with pending points, of their state; else the same array

    @classmethod
    def of(cls, functions: FunctionSet) -> "Spectrum":
        r"""Arrays of the states of a set."""
        state, design = functions.regression, functions.design
        tau_ref, lam = functions.constraints.radius.tau_ref, as_array(state.eigenvalues)
        targets, of_design = as_array(state.targets), lam
        if design is not state:
            of_design = as_array(design.eigenvalues)
        fit_terms = targets * targets * lam
        mean_terms = as_array(state.mean_terms)
        weights = fit_terms / (lam + tau_ref)
        return cls(lam, mean_terms, fit_terms, weights, of_design)


class Grid(NamedTuple):
    r"""Parts of the bounds at ``g`` regularisers that do not depend on points."""

    regularizers: Array  # `g`
    mean_weights: Array  # `g x r`, as is the shrinkage
    shrinkage: Array
    squared_widths: Array  # `g`


class GridSet(FunctionSet):
    r"""Minimum of the ellipsoid bounds over a grid of regularisers (DMM), anytime.

    Source: Flynn & Reeb (2024), Eq. (12) over a finite set. Valid for any grid of ``g``
    values ``tau = alpha / noise_std^2``, never tighter than ``ExactSet``; values below the
    ``eigenvalue_cutoff``, where round-off would decide, are raised to it.
    """

    source = "Flynn & Reeb (2024), Eq. (12) over a grid"
    regularizers: Tensor

    def __init__(
        self,
        regression: RidgeState,
        constraints: Constraints,
        regularizers: Tensor,
        assumptions: Assumptions,
    ) -> None:
        super().__init__(regression, constraints, assumptions)
        self._place(regularizers)

    def _design_changed(self) -> None:
        self._place(self.regularizers)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        moved = super()._apply(fn, recurse)
        self._place(self.regularizers)  # arrays follow to the device
        return moved

    def _place(self, regularizers: Tensor) -> None:
        r"""Set the grid, and the parts of its bounds that do not depend on the points."""
        regression = self.regression
        grid = regularizers.to(regression.eigenvalues)
        grid = grid.clamp_min(regression.eigenvalue_cutoff)
        self.register_buffer("regularizers", grid)  # moves with the set to a device
        self.spectrum = spectrum = Spectrum.of(self)
        tau = as_array(grid)
        column = tau[:, None]
        inverse = 1.0 / (spectrum.eigenvalues + column)
        excess = self.excess(tau, inverse).clip(0.0)
        shrinkage = column / (spectrum.design_eigenvalues + column)
        mean_weights = spectrum.mean_terms * inverse
        self.grid = Grid(tau, mean_weights, shrinkage, excess / tau)

    def excess(self, tau: Array, inverse: Array) -> Array:
        r"""``Constraints.excess`` at ``b`` values of ``tau``, from ``1 / (lam + tau)``."""
        change = self.constraints.radius.tau_ref - tau
        drop = change * (inverse @ self.spectrum.drop_weights)
        return self.constraints.excess_from(tau, drop)

    @torch.no_grad()
    def most_beyond(self, X: Tensor, level: float, sign: int) -> int:
        r"""Upper bound on at how many of ``n x d`` points ``sign * (f - level) >= 0``.

        Each regulariser gives an ellipsoid ``f = m + C^(1/2) z, |z| <= 1`` that holds the
        set. Where ``D_i = sign * (level - m_i) > 0``, a function beyond the level has
        ``((f_i - m_i) / D_i)^2 >= 1``, and over any points these squares add up to at most
        the largest eigenvalue of ``D^-1 C D^-1``: of the points with ``D_i`` above a cut no
        function is beyond the level at more than its whole part. The others count one each.
        Regulariser and cut are those that are best for some of the points; blocks of many
        points count by themselves.

        Source: ours. On the event of the set, at no further probability.
        """
        points, grid = self.regression.project(X), self.grid.regularizers
        few = points.rows(slice(None, None, -(-len(X) // _FEW) or 1))
        nodes = range(0, len(grid), -(-len(grid) // _NODES))
        found = [(*self._cut(few, level, sign, node), node) for node in nodes]
        _, cut, node = min(found, default=(0.0, math.inf, 0))
        distance = self._distance(points, level, sign, node)
        joint = (distance >= cut).nonzero().squeeze(-1)
        count, blocks = len(X) - len(joint), -(-len(joint) // _BLOCK)
        for first in range(blocks):  # evenly mixed: blocks of the same mean
            rows = joint[first::blocks]
            spread, rounding = self._spread(points.rows(rows), distance[rows], node)
            # What is not finite says nothing.
            count += int(min(float(len(rows)), eigenvalue_limit(spread) + rounding))
        return count

    def _distance(self, points: Projection, level: float, sign: int, node: int) -> Tensor:
        r"""How far the centre at a regulariser is from the level, less its round-off."""
        tau = points.baseline.new_tensor(float(self.grid.regularizers[node]))
        centre = points.baseline + self.regression.deviation_at(points, tau)
        sizes = (
            centre.abs() + abs(level) + self.constraints.ball * points.prior_variance.sqrt()
        )
        return sign * (level - centre) - self._rounding * sizes

    def _spread(
        self, points: Projection, distance: Tensor, node: int
    ) -> tuple[Tensor, float]:
        r"""``D^-1 C D^-1``, and what round-off adds to its eigenvalues at most."""
        tau = points.baseline.new_tensor(float(self.grid.regularizers[node]))
        covariance = self.regression.covariance_at(points, points, tau)
        weight = math.sqrt(float(self.grid.squared_widths[node])) / distance
        # Errors of at most `a_i a_j` in the entries change no eigenvalue by above `|a|^2`.
        rest = points.prior_variance - points.features.square().sum(-1)
        error = (points.residual_variance - rest).abs()
        error = weight.square() * (error + self._rounding * points.prior_variance)
        spread = weight[:, None] * covariance * weight
        return 0.5 * (spread + spread.mT), float(error.sum())

    @property
    def _rounding(self) -> float:
        r"""Relative error of a sum over the spectrum, at most."""
        return 4.0 * (len(self.regression.eigenvalues) + 8) * _EPSILON

    def _cut(
        self, points: Projection, level: float, sign: int, node: int
    ) -> tuple[float, float]:
        r"""Share of the points that the best cut leaves beyond the level, and the cut."""
        distance = self._distance(points, level, sign, node)
        ahead = distance > 0.0
        if not bool(ahead.any()):
            return 1.0, math.inf
        points, distance = points.rows(ahead), distance[ahead]
        spread, _ = self._spread(points, distance, node)
        shares = torch.linspace(0.0, 0.9, _CUTS).to(distance)
        cuts = distance.quantile(shares)
        above = (distance[:, None] >= cuts).to(distance)
        vectors = above.clone()
        largest = above.sum(0)
        for _ in range(_POWERS):  # near the eigenvalues: this only chooses
            vectors = above * (spread @ vectors)
            largest = vectors.norm(dim=0)
            vectors = vectors / largest.clamp_min(_TINY)
        counts = len(ahead) - torch.relu(above.sum(0) - largest)
        best = int(counts.argmin())
        return float(counts[best]) / len(ahead), float(cuts[best])

    def support(self, points: QueryPoints, sign: int) -> Tensor:
        r"""Least ellipsoid bound over the grid."""
        ellipsoids, grid = Ellipsoids(self, points, sign), self.grid
        index = ellipsoids.on_grid().argmin(-1)
        weights = sign * grid.mean_weights[index]
        return ellipsoids.at(weights, grid.shrinkage[index], grid.squared_widths[index])


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
        design, norm = self.design, self.constraints.ball
        scale = self.constraints.radius.squared(design) / norm**2
        lower = max(design.eigenvalue_cutoff, _RANGE_BELOW * scale)
        upper = _RANGE_ABOVE * max(float(design.eigenvalues[-1]), scale, lower)
        logs = math.log10(lower), math.log10(upper)
        super()._place(torch.logspace(*logs, _GRID_SIZE, dtype=torch.float64))
        self.log_step = math.log(upper / lower) / (_GRID_SIZE - 1)
        tau = self.grid.regularizers
        self.log_regularizers = library_of(tau).log(tau)

    def support(self, points: QueryPoints, sign: int) -> Tensor:
        r"""Least ellipsoid bound over all regularisers."""
        return self.least(points, sign)[0]

    def least(self, points: QueryPoints, sign: int) -> tuple[Tensor, Tensor]:
        r"""The support, and the ``b`` regularisers that attain it.

        Infinite where the norm constraint alone decides.
        """
        ellipsoids = Ellipsoids(self, points, sign)
        xp, nodes = ellipsoids.xp, self.log_regularizers
        # The limit of an infinite regulariser: the ball of the norm constraint alone.
        ball = self.constraints.ball * safe_sqrt(points.centre.prior_variance)
        values, half_width = ellipsoids.on_grid(), as_array(ball)
        best = values.argmin(-1)
        found = minimize_quasiconvex(
            ellipsoids.slopes,
            lower=nodes[(best - 1).clip(0)],
            upper=nodes[(best + 1).clip(0, len(nodes) - 1)],
            start=nodes[best] + self.log_step * _parabola_vertex(values, best),
            # A point's gain over itself is zero at every regulariser.
            tolerance=xp.where(half_width > 0, _RELATIVE_TOLERANCE * half_width, xp.inf),
        )
        tau = xp.exp(found)
        finite = ellipsoids.bounds(tau)
        inside = ball.detach() <= finite.detach()
        value = torch.where(inside, ball, finite) if bool(inside.any()) else finite
        return value, torch.where(inside, torch.inf, torch.as_tensor(tau))

    def gains_among(self, X: Tensor, sign: int = 1) -> Gains:
        r"""At least the difference of two sides, one of which a function attains."""
        ends = sign * torch.stack(self.bounds(X))

        def least(first: Tensor, second: Tensor) -> Tensor:
            return (ends[:, first] - ends[:, second]).amax(0)

        return super().gains_among(X, sign)._replace(least=least)

    def majorant(self, points: QueryPoints, sign: int) -> Tensor:
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
