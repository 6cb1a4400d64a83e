r"""The exact bound of many arms: every regulariser between two ends at once."""

import math
from collections.abc import Sequence
from copy import copy

import torch
from torch import Tensor
from torch.linalg import vecdot

from kernelucb._numerics.arrays import safe_sqrt
from kernelucb._numerics.chebyshev import SINGULARITY, ChebyshevInterval, node_count
from kernelucb._numerics.quasiconvex import minimize_quasiconvex
from kernelucb.bandit.consistency import CurrentSet
from kernelucb.bandit.history import Moments
from kernelucb.bandit.observations import Arms, Signs
from kernelucb.bandit.resolvents import Ratio, Resolvents
from kernelucb.bandit.spectral import SpectralHistory
from kernelucb.confidence.martingale_mixture.regularizers import regularizer_range

_INTERPOLATION_ERROR = 1e-13
_FILTERED_ERROR = 1e-10  # each node costs twice as much
_REFINEMENT = 6
_MARGIN, _FIRST_HALF_WIDTH = 0.7, 2.5
# ``ln`` of the range of regularisers worth trying: 1e8 over a few eps, at the most.
LONGEST_INTERVAL = 60.0
_SCHUR_ERROR = 1e-10
_RELATIVE_TOLERANCE = 1e-13
# Share of both constraints that a function in a filtered set must leave.
_ROOM = 1e-6
_TINY = torch.finfo(torch.float64).tiny
Interval = tuple[float, float]  # in ln(tau)
_NONE_SEEN = (math.inf, -math.inf)


class ExactSearch:
    r"""Minimises ``sign * mean_tau + sqrt(excess_tau var_tau / tau)`` for every arm.

    As a function of ``ln(tau)`` each term is known at Chebyshev nodes on an interval that
    holds the minimisers of all arms and moves with them.
    """

    def __init__(self, history: SpectralHistory) -> None:
        self.history = history
        self.interval: Interval | None = None  # of the search before, if there was one
        self.seen = _NONE_SEEN  # extreme minimisers since the last eigenbasis
        self._basis_count = history.basis.num_observations
        self._chebyshev: ChebyshevInterval | None = None
        self._resolvents: tuple[Ratio, Resolvents] | None = None

    def fork(self, history: SpectralHistory) -> "ExactSearch":
        r"""A search that goes on on its own, with a fork of its history."""
        new = copy(self)
        new.history = history
        return new

    def resume(self, interval: Sequence[float], seen: Sequence[float] | None) -> None:
        r"""Continue with the ``interval`` and ``seen`` of an earlier search."""
        self.interval = (interval[0], interval[1])
        self.seen = _NONE_SEEN if seen is None else (seen[0], seen[1])
        self._basis_count = self.history.basis.num_observations

    def support(self, arms: Arms, current: CurrentSet, signs: Signs) -> list[Tensor]:
        r"""Largest value of ``sign * (f(x) - m(x))`` at each arm, for each sign."""
        norm, squared = current.constraints.norm, current.squared_radius
        ball = norm * safe_sqrt(arms.prior_variance)
        limits = self._limits(squared / norm**2)
        fragile = self._fragile(arms, norm, squared)
        interval = self._place(math.log(squared / norm**2), limits)
        while True:
            if self.history.newest > 0 and interval[0] < fragile:
                self.history.renew()
            self.interval = interval
            profile = self._profile(interval, arms, current)
            if current.filtered is not None and not profile.is_consistent(norm, squared):
                return self.support(arms, current._replace(filtered=None), signs)
            found = [profile.minimize(sign, ball) for sign in signs]
            positions = torch.stack([position for position, _ in found])
            first, last = (float(end) for end in positions.aminmax())
            interval = _widened(interval, first, last, limits)
            if interval == self.interval:
                break
        self.seen = (min(self.seen[0], first), max(self.seen[1], last))
        return [torch.minimum(value, ball) for _, value in found]

    def _profile(self, interval: Interval, arms: Arms, current: CurrentSet) -> "_Profile":
        filtered = current.filtered is not None
        error = _FILTERED_ERROR if filtered else _INTERPOLATION_ERROR
        chebyshev = self._nodes(*interval, error)
        taus = chebyshev.nodes.exp()
        if current.filtered is None:
            systems = self.history.systems("bound", taus)
            form = systems.fit().quadratic_form
        else:
            systems = self._filtered(taus, current.filtered.ratio).systems(self.history)
            form = systems.quadratic_form()
        moments = systems.moments(self.history.project(arms))
        shift = current.squared_radius / current.constraints.norm**2
        excess = current.excess(taus, form) / (taus + shift)
        return _Profile(chebyshev, moments, excess, shift)

    def _filtered(self, taus: Tensor, ratio: Ratio) -> Resolvents:
        known = self._resolvents
        if (
            known is None
            or known[0] != ratio
            or not torch.equal(known[1].regularizers, taus)
        ):
            self._resolvents = known = (ratio, Resolvents.of(ratio, taus))
        return known[1]

    def _fragile(self, arms: Arms, norm: float, squared: float) -> float:
        r"""``ln(tau)`` below which the Schur complements lose the promised accuracy.

        Their round-off is that of the prior variances, ``eps k``, next to variances of
        ``noise^2 tau``; it enters the width, ``sqrt(variance * excess / tau)``, and is
        compared with ``norm``.
        """
        variance = max(float(arms.prior_variance.max()), _TINY)
        scale = norm * self.history.noise_std
        relative = torch.finfo(torch.float64).eps / _SCHUR_ERROR
        return math.log(relative * variance * math.sqrt(squared) / scale)

    def _limits(self, squared_ratio: float) -> Interval:
        r"""``ln(tau)`` beyond which one constraint alone matters."""
        basis = self.history.basis
        largest = float(basis.eigenvalues[-1]) if len(basis.eigenvalues) else 0.0
        lower, upper = regularizer_range(squared_ratio, largest, basis.eigenvalue_cutoff)
        return math.log(lower), math.log(upper)

    def _place(self, centre: float, limits: Interval) -> Interval:
        r"""The interval, moved after the minimisers seen since the last eigenbasis."""
        count = self.history.basis.num_observations
        known = self.interval
        if known is None or known[0] > limits[1] or known[1] < limits[0]:
            lower, upper = centre - _FIRST_HALF_WIDTH, centre + _FIRST_HALF_WIDTH
        elif count != self._basis_count and self.seen[0] <= self.seen[1]:
            lower, upper = self.seen[0] - _MARGIN, self.seen[1] + _MARGIN
            self.seen = _NONE_SEEN
        else:
            return known
        self._basis_count = count
        lower = max(lower, limits[0])
        return lower, max(min(upper, limits[1]), lower + 1.0)

    def _nodes(self, lower: float, upper: float, error: float) -> ChebyshevInterval:
        known, half = self._chebyshev, 0.5 * (upper - lower)
        count = node_count(half, SINGULARITY, error)
        if known is None or (known.lower, known.upper, known.count) != (
            lower,
            upper,
            count,
        ):
            like = self.history.basis.basis
            known = ChebyshevInterval(lower, upper, count, _REFINEMENT, like)
            self._chebyshev = known
        return known


def _widened(interval: Interval, first: float, last: float, limits: Interval) -> Interval:
    r"""The interval, longer where a minimiser lies at an end that can move."""
    lower, upper = interval
    step, edge = max(0.5 * (upper - lower), 1.0), 1e-9 * (upper - lower)
    if first <= interval[0] + edge and lower > limits[0]:
        lower = max(lower - step, limits[0])
    if last >= interval[1] - edge and upper < limits[1]:
        upper = min(upper + step, limits[1])
    return lower, upper


class _Profile:
    r"""Ellipsoid bounds of ``a`` arms as functions of ``u = ln(tau)``.

    Interpolated are the deviation, ``ln(variance)`` and ``excess / (tau + shift)``: all of
    them analytic near the real axis and, over many decades of ``tau``, of one order.
    """

    def __init__(
        self, chebyshev: ChebyshevInterval, moments: Moments, excess: Tensor, shift: float
    ) -> None:
        self.chebyshev, self.shift = chebyshev, shift
        self.deviation = chebyshev.coefficients(moments.deviation.contiguous())
        self.log_variance = chebyshev.coefficients(moments.variance.clamp_min(_TINY).log())
        self.excess = chebyshev.coefficients(excess.unsqueeze(0))
        self._grid_deviation = chebyshev.on_grid(self.deviation[:, 0])
        excess = chebyshev.on_grid(self.excess[:, 0]).clamp_min(0.0)
        factor = excess * (1.0 + shift * (-chebyshev.grid).exp())
        variance = chebyshev.on_grid(self.log_variance[:, 0]).exp_()
        self._grid_width = (variance * factor).sqrt_()

    def is_consistent(self, norm: float, squared_radius: float) -> bool:
        r"""Whether a ridge estimate on the grid satisfies both constraints with some room.

        With ``e`` the excess and ``e'`` its derivative in ``ln(tau)``, its squared norm is
        ``norm^2 - e' / tau`` and its squared misfit ``squared_radius - e + e'``.
        """
        excess, slope = self.chebyshev.on_grid(self.excess[0, :2])  # over tau + shift
        tau = self.chebyshev.grid.exp()
        slope = slope * (tau + self.shift) + excess * tau
        room = excess * (tau + self.shift) - slope
        inside = (slope >= _ROOM * tau * norm**2) & (room >= _ROOM * squared_radius)
        return bool(inside.any())

    def minimize(self, sign: int, ball: Tensor) -> tuple[Tensor, Tensor]:
        r"""Minimising ``u`` and the minimum, for each arm."""
        grid = self.chebyshev.grid
        best = (self._grid_width + sign * self._grid_deviation).argmin(dim=-1)
        minimum = minimize_quasiconvex(
            lambda arguments: self._parts(arguments, sign)[1:],
            lower=grid[(best - 1).clamp_min(0)],
            upper=grid[(best + 1).clamp_max(len(grid) - 1)],
            start=grid[best],
            tolerance=_RELATIVE_TOLERANCE * ball,
        )
        return minimum.argument, self._parts(minimum.argument, sign)[0]

    def _parts(self, arguments: Tensor, sign: int) -> tuple[Tensor, Tensor, Tensor]:
        r"""Value, slope and curvature at one argument for each arm."""
        polynomials = self.chebyshev.polynomials(arguments).unsqueeze(-2)
        mean, mean1, mean2 = (vecdot(self.deviation, polynomials) * sign).unbind(-1)
        log, log1, log2 = vecdot(self.log_variance, polynomials).unbind(-1)
        excess, excess1, excess2 = vecdot(self.excess, polynomials).unbind(-1)
        excess = excess.clamp_min(_TINY)
        excess1, excess2 = excess1 / excess, excess2 / excess
        odds = self.shift * (-arguments).exp()  # shift / tau
        share = odds / (1.0 + odds)
        width = (excess * (1.0 + odds) * log.exp()).sqrt()
        slope = 0.5 * (log1 + excess1 - share)  # of ln(width)
        bend = 0.5 * (log2 + excess2 - excess1.square() + share * (1.0 - share))
        curvature = mean2 + width * (slope.square() + bend)
        return mean + width, mean1 + width * slope, curvature
