r"""The exact bound of many arms: every regulariser between two ends at once."""

import math
from typing import Any

import torch
from torch import Tensor

from kernelucb._numerics.chebyshev import ChebyshevInterval, node_count
from kernelucb._numerics.quasiconvex import minimize_quasiconvex
from kernelucb.bandit.history import Moments
from kernelucb.bandit.spectral import SpectralHistory
from kernelucb.confidence.martingale_mixture import Constraints
from kernelucb.confidence.ridge_band import safe_sqrt

# Estimates are analytic in ln(tau) between the singularities of 1 / (lam + tau).
_SINGULARITY = math.pi
_INTERPOLATION_ERROR = 1e-12
_REFINEMENT = 6
_MARGIN, _FIRST_HALF_WIDTH = 0.7, 2.5
_RANGE_BELOW, _RANGE_ABOVE = 1e-12, 1e8
_RELATIVE_TOLERANCE = 1e-9
_TINY = torch.finfo(torch.float64).tiny


class ExactSearch:
    r"""Minimises ``sign * mean_tau + sqrt(excess_tau var_tau / tau)`` for every arm.

    As a function of ``ln(tau)`` each ingredient is known at Chebyshev nodes on an interval
    that holds the minimisers of all arms; it moves with them.

    Args:
        history: The observations.

    Attributes:
        interval: Ends of the interval in ``ln(tau)``; None before the first search.
        seen: Smallest and largest minimiser since the last eigenbasis.
    """

    def __init__(self, history: SpectralHistory) -> None:
        self.history = history
        self.interval: tuple[float, float] | None = None
        self.seen = (math.inf, -math.inf)
        self._basis_count = history.basis.count
        self._chebyshev: ChebyshevInterval | None = None

    def resume(self, interval: tuple[float, float], seen: tuple[float, float]) -> None:
        r"""Continue with the interval of an earlier search."""
        self.interval, self.seen = tuple(interval), tuple(seen)
        self._basis_count = self.history.basis.count

    def support(
        self,
        points: Any,
        half_width: Tensor,
        constraints: Constraints,
        squared: float,
        signs: tuple[int, ...],
    ) -> list[Tensor]:
        r"""Largest value of ``sign * (f(x) - m(x))`` at each arm.

        Args:
            points: ``a`` arms as projected by the history.
            half_width: ``a`` values ``norm * sqrt(k(x, x))``.
            constraints: Fit and norm constraint.
            squared: Squared radius of the fit.
            signs: Sides of the band, 1 or -1.
        """
        lowest, highest = self._limits(constraints, squared)
        self._place(squared / constraints.norm**2, lowest, highest)
        while True:
            chebyshev = self._nodes()
            tau = chebyshev.nodes.exp()
            systems = self.history.systems("bound", tau)
            excess = squared + tau * constraints.norm**2 - systems.fit().quadratic_form
            profile = _Profile(
                chebyshev, systems.moments(points), excess.clamp_min(0.0) / tau
            )
            found = [profile.minimize(sign, half_width) for sign in signs]
            positions = torch.stack([position for position, _ in found])
            if not self._widened(positions, lowest, highest):
                break
        self.seen = (
            min(self.seen[0], float(positions.min())),
            max(self.seen[1], float(positions.max())),
        )
        return [torch.minimum(value, half_width) for _, value in found]

    def _limits(self, constraints: Constraints, squared: float) -> tuple[float, float]:
        r"""``ln(tau)`` beyond which one of the constraints alone matters."""
        basis, scale = self.history.basis, squared / constraints.norm**2
        largest = float(basis.eigenvalues[-1]) if len(basis.eigenvalues) else 0.0
        lower = max(basis.resolution, _RANGE_BELOW * scale)
        upper = _RANGE_ABOVE * max(largest, scale, lower)
        return math.log(lower), math.log(upper)

    def _place(self, scale: float, lowest: float, highest: float) -> None:
        r"""Follow the minimisers of the rounds since the last eigenbasis."""
        count = self.history.basis.count
        if self.interval is None:
            centre = math.log(scale)
            lower, upper = centre - _FIRST_HALF_WIDTH, centre + _FIRST_HALF_WIDTH
        elif count != self._basis_count and self.seen[0] < self.seen[1]:
            lower, upper = self.seen[0] - _MARGIN, self.seen[1] + _MARGIN
            self.seen = (math.inf, -math.inf)
        else:
            return
        self._basis_count = count
        self.interval = (max(lower, lowest), min(upper, highest))

    def _nodes(self) -> ChebyshevInterval:
        lower, upper = self.interval
        known = self._chebyshev
        if known is None or (known.lower, known.upper) != (lower, upper):
            half = 0.5 * (upper - lower)
            count = node_count(half, _SINGULARITY, _INTERPOLATION_ERROR)
            like = self.history.basis.basis
            known = ChebyshevInterval(lower, upper, count, _REFINEMENT, like)
            self._chebyshev = known
        return known

    def _widened(self, positions: Tensor, lowest: float, highest: float) -> bool:
        r"""Whether minimisers lie beyond an end that can move; moves it."""
        lower, upper = self.interval
        step = max(0.5 * (upper - lower), 1.0)
        edge = 1e-9 * (upper - lower)
        new_lower, new_upper = lower, upper
        if float(positions.min()) <= lower + edge and lower > lowest:
            new_lower = max(lower - step, lowest)
        if float(positions.max()) >= upper - edge and upper < highest:
            new_upper = min(upper + step, highest)
        self.interval = (new_lower, new_upper)
        return self.interval != (lower, upper)


class _Profile:
    r"""Ellipsoid bounds of ``a`` arms as functions of ``ln(tau)``."""

    def __init__(
        self, chebyshev: ChebyshevInterval, moments: Moments, ratio: Tensor
    ) -> None:
        self.chebyshev = chebyshev
        self.deviation = chebyshev.coefficients(moments.deviation)
        self.variance = chebyshev.coefficients(moments.variance)
        self.ratio = chebyshev.coefficients(ratio.unsqueeze(0))
        grid = [
            chebyshev.on_grid(part[:, 0])
            for part in (self.deviation, self.variance, self.ratio)
        ]
        self._grid_deviation = grid[0]
        self._grid_width = (grid[1].clamp_min(0.0) * grid[2].clamp_min(0.0)).sqrt()

    def minimize(self, sign: int, half_width: Tensor) -> tuple[Tensor, Tensor]:
        r"""Minimising ``ln(tau)`` and the minimum, for each arm."""
        grid = self.chebyshev.grid
        best = (sign * self._grid_deviation + self._grid_width).argmin(dim=-1)
        minimum = minimize_quasiconvex(
            lambda arguments: self._parts(arguments, sign)[1:],
            lower=grid[(best - 1).clamp_min(0)],
            upper=grid[(best + 1).clamp_max(len(grid) - 1)],
            start=grid[best],
            tolerance=_RELATIVE_TOLERANCE * half_width,
        )
        return minimum.argument, self._parts(minimum.argument, sign)[0]

    def _parts(self, arguments: Tensor, sign: int) -> tuple[Tensor, Tensor, Tensor]:
        r"""Value, slope and curvature at one argument for each arm."""
        mean = sign * self.chebyshev.evaluate(self.deviation, arguments)
        variance = self.chebyshev.evaluate(self.variance, arguments)
        ratio = self.chebyshev.evaluate(self.ratio, arguments)
        width = safe_sqrt((variance[:, 0] * ratio[:, 0]).clamp_min(0.0))
        variance = variance / variance[:, :1].clamp_min(_TINY)
        ratio = ratio / ratio[:, :1].clamp_min(_TINY)
        slope = 0.5 * (variance[:, 1] + ratio[:, 1])  # of ln(width)
        bend = variance[:, 2] - variance[:, 1].square() + ratio[:, 2] - ratio[:, 1].square()
        return (
            mean[:, 0] + width,
            mean[:, 1] + width * slope,
            mean[:, 2] + width * (slope.square() + 0.5 * bend),
        )
