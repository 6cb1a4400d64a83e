r"""The exact bound (minimum over every regulariser) and the grid bound (DMM)."""

import math

import torch
from torch import Tensor

from kernelucb._numerics.quasiconvex import Minimum, minimize_quasiconvex
from kernelucb.confidence.assumptions import Assumptions
from kernelucb.confidence.base import ConfidenceSet, QueryPoints, Support
from kernelucb.confidence.martingale_mixture.constraints import Constraints
from kernelucb.confidence.ridge_band import safe_sqrt
from kernelucb.regression import KernelRegression

_GRID_SIZE = 64
# Multiples of the problem's own scale beyond which one constraint alone matters.
_RANGE_BELOW, _RANGE_ABOVE = 1e-12, 1e8
_RELATIVE_TOLERANCE = 1e-13


class GridSet(ConfidenceSet):
    r"""Minimum of the ellipsoid bounds over a grid of regularisers (DMM), anytime.

    Source: Flynn & Reeb (2024), Eq. (12) over a finite set. Valid for any grid, never
    tighter than ``ExactSet``.

    Args:
        regression: The data.
        constraints: Fit and norm constraint.
        regularizers: ``g`` values ``tau = alpha / noise_std^2``.
        assumptions: What the bound rests on.
    """

    def __init__(
        self,
        regression: KernelRegression,
        constraints: Constraints,
        regularizers: Tensor,
        assumptions: Assumptions,
        design: KernelRegression | None = None,
    ) -> None:
        super().__init__(regression, assumptions, design)
        self.constraints = constraints
        self.register_buffer("regularizers", regularizers.to(regression.eigenvalues))
        lam, tau = regression.eigenvalues, self.get_buffer("regularizers")
        self.register_buffer(
            "mean_weights", (regression.targets / (lam + tau.unsqueeze(-1))).mT
        )
        self.register_buffer(
            "variance_weights", self.design.variance_weights(tau.unsqueeze(-1)).mT
        )
        excess = constraints.excess(regression, tau).clamp_min(0.0)
        self.register_buffer("squared_widths", excess / tau)

    def support(self, points: QueryPoints, sign: int) -> Support:
        value, index = self.ellipsoid_bounds(points, sign).min(dim=-1)
        return Support(value, self.regularizers[index], torch.zeros_like(value))

    def with_design(self, design: KernelRegression) -> "GridSet":
        return GridSet(
            self.regression, self.constraints, self.regularizers, self.assumptions, design
        )

    def ellipsoid_bounds(self, points: QueryPoints, sign: int) -> Tensor:
        r"""``sign * mean_tau + width_tau * sd_tau`` for every ``tau``, ``b x g``."""
        deviation = points.centre.coordinates @ self.mean_weights
        unexplained = self.design.unexplained_variance(points.spread).unsqueeze(-1)
        resolved = points.spread.coordinates.square() @ self.variance_weights
        variance = unexplained + resolved
        return sign * deviation + safe_sqrt(variance * self.squared_widths)


class ExactSet(ConfidenceSet):
    r"""The exact bound: the maximum over the confidence set itself, anytime.

    Source: Flynn & Reeb (2024), Theorem 4.5 and Eq. (12); strong duality makes the minimum
    over every regulariser equal to the maximum over functions. The objective is
    quasi-convex in the regulariser (it is the partial minimum of the jointly convex
    Lagrange dual along rays), so a coarse grid brackets the minimum and safeguarded Newton
    steps find it. Gradients follow the envelope theorem.

    Args:
        regression: The data.
        constraints: Fit and norm constraint.
        assumptions: What the bound rests on.
        design: The inputs that variances are conditioned on.
    """

    def __init__(
        self,
        regression: KernelRegression,
        constraints: Constraints,
        assumptions: Assumptions,
        design: KernelRegression | None = None,
    ) -> None:
        super().__init__(regression, assumptions, design)
        self.constraints = constraints
        grid, self.log_step = _bracketing_grid(self.design, constraints)
        self.grid = GridSet(regression, constraints, grid, assumptions, self.design)

    def support(self, points: QueryPoints, sign: int) -> Support:
        with torch.no_grad():
            log_tau, gap, _ = self._search(points.detach(), sign)
            tau = log_tau.exp()
            squared_width = self.constraints.excess(self.regression, tau) / tau
        deviation = self.regression.deviation_at(points.centre, tau.unsqueeze(-1))
        variance = self.design.variance_at(points.spread, tau.unsqueeze(-1))
        finite = sign * deviation + safe_sqrt(squared_width.clamp_min(0.0) * variance)
        # The limit of an infinite regulariser: the ball of the norm constraint alone.
        ball = self.constraints.norm * safe_sqrt(points.centre.prior_variance)
        inside = ball <= finite
        return Support(
            value=torch.where(inside, ball, finite),
            regularizer=torch.where(inside, torch.inf, tau),
            gap=torch.where(inside, 0.0, gap),
        )

    def with_design(self, design: KernelRegression) -> "ExactSet":
        return ExactSet(self.regression, self.constraints, self.assumptions, design)

    def _search(self, points: QueryPoints, sign: int) -> Minimum:
        r"""The minimising ``log tau`` of each point."""
        start = self.grid.support(points, sign).regularizer.log()
        objective = EllipsoidObjective(
            self.regression, self.constraints, self.design, points, sign
        )
        half_width = self.constraints.norm * safe_sqrt(points.centre.prior_variance)
        return minimize_quasiconvex(
            objective.slopes,
            lower=start - self.log_step,
            upper=start + self.log_step,
            start=start,
            tolerance=_RELATIVE_TOLERANCE * half_width,
        )


class EllipsoidObjective:
    r"""``sign * mean_tau + sqrt(excess_tau var_tau / tau)`` as a function of ``log tau``.

    One function for each of ``b`` query points.
    """

    def __init__(
        self,
        regression: KernelRegression,
        constraints: Constraints,
        design: KernelRegression,
        points: QueryPoints,
        sign: int,
    ) -> None:
        self.regression, self.constraints, self.design = regression, constraints, design
        self.mean_terms = sign * points.centre.coordinates * regression.targets
        self.variance_terms = points.spread.coordinates.square()
        self.unexplained = design.unexplained_variance(points.spread)

    def slopes(self, log_tau: Tensor) -> tuple[Tensor, Tensor]:
        r"""First and second derivatives at ``b`` values of ``log tau``."""
        tau = log_tau.exp()
        mean_1, mean_2 = self._mean_slopes(tau)
        log_variance, variance_1, variance_2 = self._log_variance(tau)
        log_excess, excess_1, excess_2 = self._log_excess(tau)
        radius = (0.5 * (log_excess + log_variance - log_tau)).exp()
        slope = 0.5 * (excess_1 + variance_1 - 1.0)  # of ln(radius)
        first = mean_1 + radius * slope
        second = mean_2 + radius * (slope.square() + 0.5 * (excess_2 + variance_2))
        return first, second

    def _mean_slopes(self, tau: Tensor) -> tuple[Tensor, Tensor]:
        second, third = _inverse_power_sums(
            self.mean_terms, self.regression.eigenvalues, tau
        )
        first = -tau * second
        return first, first + 2.0 * tau.square() * third

    def _log_variance(self, tau: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        weights = self.design.variance_weights(tau.unsqueeze(-1))
        value = self.unexplained + (self.variance_terms * weights).sum(-1)
        second, third = _inverse_power_sums(
            self.variance_terms, self.design.eigenvalues, tau
        )
        return _log_slopes(tau, value, second, -2.0 * third)

    def _log_excess(self, tau: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        lam, norm = self.regression.eigenvalues, self.constraints.norm
        value = self.constraints.excess(self.regression, tau)
        terms = self.regression.targets.square() * lam
        second, third = _inverse_power_sums(terms, lam, tau)
        return _log_slopes(tau, value, norm**2 - second, 2.0 * third)


def _bracketing_grid(
    design: KernelRegression, constraints: Constraints
) -> tuple[Tensor, float]:
    r"""Regularisers from round-off to where only the norm counts, and their log step."""
    scale = constraints.radius.squared(design) / constraints.norm**2
    lower = max(design.num_observations * design.resolution, _RANGE_BELOW * scale)
    upper = _RANGE_ABOVE * max(float(design.eigenvalues[-1]), scale, lower)
    grid = torch.logspace(
        math.log10(lower), math.log10(upper), _GRID_SIZE, dtype=torch.float64
    )
    return grid, math.log(upper / lower) / (_GRID_SIZE - 1)


def _inverse_power_sums(
    terms: Tensor, eigenvalues: Tensor, tau: Tensor
) -> tuple[Tensor, Tensor]:
    r"""``sum terms / (lam + tau)^2`` and ``sum terms / (lam + tau)^3``, ``b`` values."""
    inverse = 1.0 / (eigenvalues + tau.unsqueeze(-1))
    weighted = terms * inverse.square()
    return weighted.sum(-1), (weighted * inverse).sum(-1)


def _log_slopes(
    tau: Tensor, value: Tensor, first: Tensor, second: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    r"""``ln(value)`` and its two derivatives in ``ln(tau)``, from those in ``tau``."""
    value = value.clamp_min(torch.finfo(tau.dtype).tiny)
    slope = tau * first / value
    curvature = slope + tau.square() * second / value - slope.square()
    return value.log(), slope, curvature
