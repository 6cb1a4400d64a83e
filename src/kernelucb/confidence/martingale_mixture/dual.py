r"""The exact bound (minimum over every regulariser) and the grid bound (DMM)."""

import math
from typing import Any

import torch
from torch import Tensor

from kernelucb._numerics.quasiconvex import Minimum, minimize_quasiconvex
from kernelucb._numerics.safe_math import safe_sqrt
from kernelucb.confidence.assumptions import Assumptions
from kernelucb.confidence.base import RidgePoints, RidgeStateT, Support
from kernelucb.confidence.geometry import Constraints
from kernelucb.confidence.martingale_mixture.function_set import FunctionSet
from kernelucb.confidence.martingale_mixture.regularizers import regularizer_range
from kernelucb.regression import RidgeState

_GRID_SIZE = 64
# A last Newton step that promises this much leaves an error of about its square.
_RELATIVE_TOLERANCE = 1e-9
_TINY = torch.finfo(torch.float64).tiny


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
        value, index = self.ellipsoid_bounds(points, sign).min(dim=-1)
        return Support(value, self.regularizers[index], torch.zeros_like(value))

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
        with torch.no_grad():
            log_tau, gap, _ = self._search(points.detach(), sign)
            tau = log_tau.exp()
            squared_width = self.constraints.excess(self.regression, tau) / tau
        deviation = self.regression.deviation_at(points.centre, tau.unsqueeze(-1))
        variance = self.design.variance_at(points.design, tau.unsqueeze(-1))
        finite = sign * deviation + safe_sqrt(squared_width.clamp_min(0.0) * variance)
        # The limit of an infinite regulariser: the ball of the norm constraint alone.
        ball = self.constraints.norm * safe_sqrt(points.centre.prior_variance)
        inside = ball <= finite
        return Support(
            value=torch.where(inside, ball, finite),
            regularizer=torch.where(inside, torch.inf, tau),
            gap=torch.where(inside, 0.0, gap),
        )

    def majorant(self, points: RidgePoints, sign: int) -> Support:
        r"""Least bound over the grid that brackets the search."""
        return self.grid.support(points, sign)

    def _search(self, points: RidgePoints, sign: int) -> Minimum:
        r"""The minimising ``log tau`` of each point."""
        values = self.grid.ellipsoid_bounds(points, sign)
        best = values.argmin(dim=-1)
        nodes = self.grid.regularizers.log()
        last = len(nodes) - 1
        half_width = self.constraints.norm * safe_sqrt(points.centre.prior_variance)
        return minimize_quasiconvex(
            EllipsoidObjective(self, points, sign).slopes,
            lower=nodes[(best - 1).clamp_min(0)],
            upper=nodes[(best + 1).clamp_max(last)],
            start=nodes[best] + self.log_step * _parabola_vertex(values, best),
            # A point's gain over itself is zero at every regulariser: nothing to search.
            tolerance=torch.where(
                half_width > 0, _RELATIVE_TOLERANCE * half_width, torch.inf
            ),
        )


class EllipsoidObjective:
    r"""``sign * mean_tau + sqrt(excess_tau var_tau / tau)`` as a function of ``log tau``.

    One function for each of ``b`` points: sums over the spectrum of fixed terms times
    powers of ``1 / (lam + tau)``. Each step of the search reuses the ``b x r`` tables.
    """

    def __init__(self, exact: ExactSet[Any], points: RidgePoints, sign: int) -> None:
        regression = exact.regression
        self.regression, self.design = regression, exact.design
        self.constraints = exact.constraints
        self.mean_terms = sign * regression.mean_terms
        self.fit_terms = regression.targets.square() * regression.eigenvalues
        self.drop_weights = regression.drop_weights(self.constraints.radius.tau_ref)
        self.features, self.design_points = points.centre.features, points.design
        self.tables = [torch.empty_like(self.features) for _ in range(3)]

    def slopes(self, log_tau: Tensor) -> tuple[Tensor, Tensor]:
        r"""First and second derivatives at ``b`` values of ``log tau``."""
        tau = log_tau.exp()
        sums, mean_sums = self._sums(tau)
        mean_slope = -tau * mean_sums[0]
        mean_curvature = mean_slope + 2.0 * tau.square() * mean_sums[1]
        excess, a, a_slope = self.constraints.log_excess_slopes(tau, sums)
        variance, b, b_slope = self._log_variance(tau)
        width = (excess * variance / tau).sqrt()
        slope = 0.5 * (a + b - 1.0)  # of ln(width)
        first = mean_slope + width * slope
        second = mean_curvature + width * (slope.square() + 0.5 * (a_slope + b_slope))
        return first, second

    def _sums(self, tau: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        r"""Sums for the excess, of powers 1 to 3, and for the mean, of powers 2 and 3."""
        inverse, power, terms = self.tables
        torch.add(self.regression.eigenvalues, tau.unsqueeze(-1), out=inverse).reciprocal_()
        sums, mean_sums = [inverse @ self.drop_weights], []
        torch.mul(self.features, self.mean_terms, out=terms).mul_(inverse)
        power.copy_(inverse)
        for _ in range(2):
            sums.append(power.mul_(inverse) @ self.fit_terms)
            mean_sums.append(terms.mul_(inverse).sum(-1))
        return sums, mean_sums

    def _log_variance(self, tau: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        r"""Variance, and the first two derivatives of its logarithm in ``log tau``."""
        value, first, second = self.design.variance_slopes(self.design_points, tau)
        variance = value.clamp_min(_TINY)
        slope = first / variance
        return variance, slope, second / variance - slope.square()


def _parabola_vertex(values: Tensor, best: Tensor) -> Tensor:
    r"""Vertex of the parabola through the best value of each row and its neighbours.

    In steps of the grid, between -1 and 1; zero at the ends of the grid.
    """
    inner = best.clamp(1, values.shape[-1] - 2).unsqueeze(-1)
    left, middle, right = (
        values.gather(-1, inner + shift).squeeze(-1) for shift in (-1, 0, 1)
    )
    bend = left - 2.0 * middle + right
    vertex = 0.5 * (left - right) / torch.where(bend > 0, bend, torch.inf)
    return torch.where(inner.squeeze(-1) == best, vertex, 0.0).clamp(-1.0, 1.0)


def _bracketing_grid(design: RidgeState, constraints: Constraints) -> tuple[Tensor, float]:
    r"""Regularisers from round-off to where only the norm counts, and their log step."""
    scale = constraints.radius.squared(design) / constraints.norm**2
    largest = float(design.eigenvalues[-1])
    lower, upper = regularizer_range(scale, largest, design.eigenvalue_cutoff)
    grid = torch.logspace(
        math.log10(lower), math.log10(upper), _GRID_SIZE, dtype=torch.float64
    )
    return grid, math.log(upper / lower) / (_GRID_SIZE - 1)
