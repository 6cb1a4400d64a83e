r"""The exact bound (minimum over every regulariser) and the grid bound (DMM)."""

import math

import torch
from torch import Tensor

from kernelucb._numerics.arrays import (
    Array,
    Minimum,
    as_array,
    library_of,
    minimize_quasiconvex,
    safe_sqrt,
)
from kernelucb.confidence.assumptions import Assumptions
from kernelucb.confidence.base import RidgePoints, RidgeStateT, Support
from kernelucb.confidence.geometry import Constraints
from kernelucb.confidence.martingale_mixture.ellipsoids import Ellipsoids
from kernelucb.confidence.martingale_mixture.function_set import FunctionSet
from kernelucb.confidence.martingale_mixture.regularizers import regularizer_range
from kernelucb.regression import RidgeState

_GRID_SIZE = 64
# What the search leaves to gain, over the half-width of the norm bound alone.
_RELATIVE_TOLERANCE = 1e-13


class GridSet(FunctionSet[RidgeStateT]):
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
        regression: RidgeStateT,
        constraints: Constraints,
        regularizers: Tensor,
        assumptions: Assumptions,
        design: RidgeState | None = None,
    ) -> None:
        super().__init__(regression, constraints, assumptions, design)
        grid = regularizers.to(regression.eigenvalues)
        grid = grid.clamp_min(regression.eigenvalue_cutoff)
        self.register_buffer("regularizers", grid)
        tau = grid.unsqueeze(-1)
        mean_weights = regression.mean_terms / (regression.eigenvalues + tau)
        shrinkage = tau / (self.design.eigenvalues + tau)
        self.register_buffer("mean_weights", mean_weights.mT)
        self.register_buffer("shrinkage", shrinkage.mT)
        excess = constraints.excess(regression, grid).clamp_min(0.0)
        self.register_buffer("squared_widths", excess / grid)

    def support(self, points: RidgePoints, sign: int) -> Support:
        r"""Least ellipsoid bound over the grid."""
        with torch.no_grad():
            index = self.ellipsoid_bounds(points.detach(), sign).argmin(dim=-1)
        tau = self.regularizers[index]
        value = Ellipsoids(self, points, sign).bounds(as_array(tau))
        return Support(value, tau, torch.zeros_like(tau))

    def with_design(self, design: RidgeState) -> "GridSet[RidgeStateT]":
        r"""The set with variances of another state."""
        return GridSet(
            self.regression, self.constraints, self.regularizers, self.assumptions, design
        )

    def ellipsoid_bounds(self, points: RidgePoints, sign: int) -> Tensor:
        r"""Eq. (13) on the grid: ``sign * mean_tau + width_tau * sd_tau``, ``b x g``."""
        deviation = points.centre.features @ self.mean_weights
        grid, shrinkage = self.regularizers, self.shrinkage
        variance = self.design.variances_at(points.design, grid, shrinkage)
        return sign * deviation + safe_sqrt(variance * self.squared_widths)


class ExactSet(FunctionSet[RidgeStateT]):
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
        regression: RidgeStateT,
        constraints: Constraints,
        assumptions: Assumptions,
        design: RidgeState | None = None,
    ) -> None:
        super().__init__(regression, constraints, assumptions, design)
        grid, self.log_step = _bracketing_grid(self.design, constraints)
        self.grid = GridSet(regression, constraints, grid, assumptions, self.design)

    def support(self, points: RidgePoints, sign: int) -> Support:
        r"""Least ellipsoid bound over all regularisers."""
        ellipsoids = Ellipsoids(self, points, sign)
        with torch.no_grad():
            values = self.grid.ellipsoid_bounds(points.detach(), sign)
            log_tau, gap, _ = self._search(ellipsoids, as_array(values))
        tau = ellipsoids.xp.exp(log_tau)
        finite, regularizer = ellipsoids.bounds(tau), torch.as_tensor(tau)
        gap = torch.as_tensor(gap)
        # The limit of an infinite regulariser: the ball of the norm constraint alone.
        inside = torch.as_tensor(ellipsoids.half_width) <= finite.detach()
        if not bool(inside.any()):
            return Support(finite, regularizer, gap)
        ball = self.constraints.norm * safe_sqrt(points.centre.prior_variance)
        return Support(
            value=torch.where(inside, ball, finite),
            regularizer=torch.where(inside, torch.inf, regularizer),
            gap=torch.where(inside, 0.0, gap),
        )

    def majorant(self, points: RidgePoints, sign: int) -> Support:
        r"""Least bound over the grid that brackets the search."""
        return self.grid.support(points, sign)

    def _search(self, ellipsoids: Ellipsoids, values: Array) -> Minimum:
        r"""The minimising ``log tau`` of each point, from the values on the grid."""
        xp, best = ellipsoids.xp, values.argmin(-1)
        nodes = xp.log(as_array(self.grid.regularizers))
        half_width = ellipsoids.half_width
        return minimize_quasiconvex(
            ellipsoids.slopes,
            lower=nodes[(best - 1).clip(0)],
            upper=nodes[(best + 1).clip(0, len(nodes) - 1)],
            start=nodes[best] + self.log_step * _parabola_vertex(values, best),
            # A point's gain over itself is zero at every regulariser: nothing to search.
            tolerance=xp.where(half_width > 0, _RELATIVE_TOLERANCE * half_width, xp.inf),
        )


def _parabola_vertex(values: Array, best: Array) -> Array:
    r"""Vertex of the parabola through the best value of each row and its neighbours.

    In steps of the grid, between -1 and 1; zero at the ends of the grid.
    """
    xp = library_of(values)
    inner = best.clip(1, values.shape[-1] - 2)
    rows = xp.arange(len(values), device=values.device)
    left, middle, right = (values[rows, inner + shift] for shift in (-1, 0, 1))
    bend = left - 2.0 * middle + right
    vertex = 0.5 * (left - right) / xp.where(bend > 0, bend, xp.inf)
    return xp.where(inner == best, vertex, 0.0).clip(-1.0, 1.0)


def _bracketing_grid(design: RidgeState, constraints: Constraints) -> tuple[Tensor, float]:
    r"""Regularisers from round-off to where only the norm counts, and their log step."""
    scale = constraints.radius.squared(design) / constraints.norm**2
    largest = float(design.eigenvalues[-1])
    lower, upper = regularizer_range(scale, largest, design.eigenvalue_cutoff)
    grid = torch.logspace(
        math.log10(lower), math.log10(upper), _GRID_SIZE, dtype=torch.float64
    )
    return grid, math.log(upper / lower) / (_GRID_SIZE - 1)
