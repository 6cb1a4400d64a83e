r"""The mixture of filters: its e-processes, their weights, and the ellipsoid they make."""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import NamedTuple

import numpy as np
import torch
from scipy.special import xlogy
from torch import Tensor

from kernelucb.confidence.least_norm import (
    Array,
    FitConstraint,
    NormedFit,
    Ridge,
    least_norm,
    resolved,
)
from kernelucb.confidence.radius import (
    Radius,
    energy_ball,
    energy_levels,
    mixture_radius,
)
from kernelucb.data import KernelRegression
from kernelucb.data.exact import FilteredRegression, SpectralFilter, filter_values

FILTERS_SOURCE = "Mixture of filters (ours; docs/mathematics.md)"

# Hybrids: c over the squared norm, and l. Finer grids and longer ones gain below 0.2 %.
_SCALES = tuple(4.0**-power for power in range(1, 9))
_FLOORS = (0.0, 0.1, 0.3, 0.6)
_NUM_HYBRIDS = len(_SCALES) * len(_FLOORS)
# In place of the norm in the grid that is tied to the prior alone: c is 4 to 1/4096.
_UNIT_NORM = 4.0
# In a second one, for norm bounds that are chosen afterwards: c is 262,144 to 16.
_LARGE_NORM = 4.0**5
_LARGEST = 1e150  # size of a norm and of a scale: their squares and quotients are finite
_LARGEST_PRICE = 1e12  # of a member: times the least weight, exp(-50), it is nothing
# Steps towards the best weights, each by a share of the way in ln(w). More of them, or
# gradient descent until nothing changes, narrow the band by less than 0.1 %.
_STEPS = (1.0, 0.5, 0.5)
_FEW_STEPS = 2  # for the least norm, which more of them raise by less than 0.1 %
_NEAR = 1e-3  # of the regulariser for it, in ln(tau): any weights are valid
_UNUSED = -50.0  # ln of a weight that does not count
# Widths are compared at so many observed inputs; at others too, nothing is gained.
_POINTS = 16
# Regularisers for that, in units of the squared radius over the squared norm.
_REGULARIZERS = np.logspace(-4.0, 2.0, 12)
_TINY = 1e-150  # instead of zero below a fraction whose numerator is then zero too
_SMALLEST = 1e-12  # share of the squared radius that an excess counts at least
# Prior weights of Flynn & Reeb's member and of the energy of the noise; the hybrids share
# 0.2. The squared radius is at most 2 ln(1/0.7) = 0.71 above that of Flynn & Reeb's alone.
# Half for it narrows bands by 0.6 % on average and widens some by 3 to 8 %, of much noise.
PRIOR_WEIGHTS = 0.7, 0.1
# `-2 ln` of the prior weight of each hybrid in two grids, a part of `b`.
HYBRID_PRIOR = 2.0 * math.log(2.0 * _NUM_HYBRIDS / 0.2)


class Hybrids(NamedTuple):
    r"""A grid of e-processes between self-normalisation and the energy of the noise.

    With ``g = (1 - l) / c`` and residuals ``eps`` of a function in the eigenbasis of the
    whitened kernel matrix, member ``j`` is ``exp((sum_i a_ij eps_i^2 - b_j) / 2)``,

        ``a_ij = (lam_i + l_j g_j) / (lam_i + g_j)``,
        ``b_j = sum_i ln(1 + lam_i / g_j) - n ln(1 - l_j)``,

    at the true function a supermartingale of mean at most one, for conditionally
    sub-Gaussian noise and inputs chosen from the past. The grid must not depend on the
    data. ``l = 0`` is the self-normalised bound.

    Source: ours; derived in ``docs/mathematics.md``.
    """

    scales: Tensor  # `J` values `c` above zero, relative to the prior
    floors: Tensor  # `J` values `l` in `[0, 1)`
    corners: Tensor  # `J` values `g`

    @classmethod
    @lru_cache(maxsize=128)
    def for_norm(cls, norm: float, noise_factor: float = 1.0) -> "Hybrids":
        r"""The grid for a norm in prior units.

        A kernel ``s^2 k`` with the norm ``B / s`` gives the same e-processes. A member is
        ``E_h exp(<h, e> - |h|^2 / 2)`` for residuals ``e`` and guesses ``h``, in noise
        units, of covariance ``c' K + v I``, where ``l = v / (1 + v)`` and
        ``g = (1 + v) / c'``. ``noise_factor`` is the noise scale over the scale that these
        guesses were fixed for, in outcome units: it makes ``v`` smaller.
        """
        unit = min(norm, _LARGEST) ** 2
        scales = unit * torch.tensor(_SCALES, dtype=torch.float64)
        floors = torch.tensor(_FLOORS, dtype=torch.float64)
        grid = torch.cartesian_prod(scales.clamp(1.0 / _LARGEST, _LARGEST), floors)
        scales, floors = grid.unbind(-1)
        corners = (1.0 - floors) / scales
        if noise_factor != 1.0:
            fewer = energy_levels(floors, noise_factor)
            corners = corners * (1.0 - floors) / (1.0 - fewer)
            floors = fewer
        return cls(scales, floors, corners)

    def filters(self, eigenvalues: Tensor) -> Tensor:
        r"""``a`` at ``r`` eigenvalues, ``J x r``."""
        return filter_values(self.floors, self.corners, eigenvalues)

    def prices(self, eigenvalues: Tensor, count: int) -> Tensor:
        r"""``J`` values ``b`` after ``count`` observations."""
        corners = self.corners.to(eigenvalues).unsqueeze(-1)
        log_dets = torch.log1p(eigenvalues / corners).sum(-1)
        return log_dets - count * torch.log1p(-self.floors.to(eigenvalues))


class Ellipsoid(NamedTuple):
    r"""``sum_i a_i eps_i^2 <= squared_radius`` for the residuals, of one weighting.

    At the boundary a change of the weights narrows the set as without a ``misfit``, if
    ``eps^2`` is multiplied by the ``decisive_share``.
    """

    weights: Array  # `J` values `w`
    values: Array  # `r` values `a`, increasing
    squared_radius: float
    decisive_share: float  # radius without `misfit` over the radius


class Appraisal(NamedTuple):
    r"""The loss of one weighting, and the residuals that decide it."""

    loss: float  # to be minimised
    residuals: Array  # `r` values `eps^2`
    tau_ref: float  # regulariser at which the ellipsoid is described
    ellipsoid: Ellipsoid


Appraise = Callable[[Ellipsoid], Appraisal]


class FilterMixture:
    r"""The fit by a mixture of e-processes, whose weights follow the purpose, anytime.

    Member ``j`` is ``exp((sum_i a_ij eps_i^2 - b_j) / 2)``, with its prior weight in
    ``b_j``. The first member stands for Flynn & Reeb's martingale mixture and the energy of
    the noise, which bound ``|eps|^2`` alone: it is the tangent of the logarithm of their
    sum at the point where this sum reaches ``1/delta``. The other members are ``Hybrids``:
    a grid tied to the prior, and a grid tied to the norm bound. By Ville's inequality the
    sum of all members stays below ``1/delta`` at every round at once with probability
    ``1 - delta``. By the variational formula of the log-sum-exp (Donsker & Varadhan 1975)
    so does ``exp((sum_i a_i eps_i^2 - b) / 2)`` with ``a = sum_j w_j a_j`` and
    ``b = sum_j w_j b_j + 2 sum_j w_j ln(w_j)``, for all weights ``w`` at once: the weights
    may be chosen after the data.

    Source: ours; proven in ``docs/mathematics.md``.

    Attributes:
        prices: ``J`` values ``b``, with the prior weights.
        filters: ``J x r`` values ``a``.
        num_untied: Number of members that are not tied to the norm bound; these come first.
        predicted: Radius of Flynn & Reeb's member alone.
        level: ``a`` of the first member.

    Args:
        regression: The data.
        delta: Failure probability.
        scales: Covariance scales of Flynn & Reeb's member, one or several.
        norm: Norm bound in prior units; with None no members are tied to a norm bound.
        misfit: Length by which the residuals of the functions of bounded norm may exceed
            those of the true function, noise units; see ``misfit_of_error``.
        every_norm: Whether a second grid for the prior replaces the grid that is tied to
            the norm bound: one mixture, and one event, for all norm bounds.
        noise_factor: Noise scale over the scale that the mixture was fixed for: the sets
            of all factors with a large enough scale are one event, and nested.
    """

    def __init__(
        self,
        regression: KernelRegression,
        delta: float,
        scales: float | Sequence[float],
        norm: float | None,
        misfit: float = 0.0,
        every_norm: bool = False,
        noise_factor: float = 1.0,
    ) -> None:
        self.regression, self.misfit = regression, misfit
        # Tables of the members are small, and NumPy's calls cost half of torch's.
        self.spectrum = Ridge.of(regression)
        self.confidence = 2.0 * math.log(1.0 / delta)
        count = regression.num_observations
        radius = mixture_radius(regression, delta, scales)
        alone = radius.slack + 2.0 * math.log(1.0 / PRIOR_WEIGHTS[0])
        self.predicted = Radius(radius.tau_ref, alone).widened(regression, misfit)
        squared = radius.squared(regression)
        given = count, delta, squared, PRIOR_WEIGHTS, noise_factor
        energy, self.level = energy_ball(*given)
        # The grid for the prior, with its covariance times the mean scale; then the norm's.
        mean_scale = float(np.exp(np.mean(np.log(scales))))
        unit = math.sqrt(mean_scale)
        second = _LARGE_NORM * unit if every_norm else norm
        self.hybrids = Hybrids.for_norm(_UNIT_NORM * unit, noise_factor)
        # Members tied to the prior come first: only these have weight without a norm bound.
        if second is not None:
            other = Hybrids.for_norm(second, noise_factor)
            self.hybrids = Hybrids(*map(torch.cat, zip(self.hybrids, other, strict=True)))
        # What counts as zero may be as large as the cut-off; less would be too cheap.
        lam = regression.eigenvalues
        largest = torch.where(lam > 0, lam, regression.eigenvalue_cutoff)
        prices = self.hybrids.prices(largest, count).clamp_max(_LARGEST_PRICE)
        prices = prices + HYBRID_PRIOR
        first_price = self.level * energy - self.confidence
        self.prices = np.append(first_price, prices.cpu().numpy())
        filters = self.hybrids.filters(lam).cpu().numpy()
        self.filters = np.insert(filters, 0, self.level, axis=0)  # the same at every lam
        self.num_untied = len(self.prices) if every_norm else 1 + _NUM_HYBRIDS

    def ellipsoid(self, weights: Array) -> Ellipsoid:
        r"""The ellipsoid of the residuals for ``J`` weights that sum up to one.

        The squared radius is ``b + 2 ln(1/delta)``; beside a ``misfit`` its root is larger
        by ``misfit sqrt(max a)``.
        """
        values = weights @ self.filters
        price = weights @ self.prices + 2.0 * xlogy(weights, weights).sum()
        alone = math.sqrt(float(price) + self.confidence)
        radius = alone + self.misfit * math.sqrt(float(values[-1]))
        return Ellipsoid(weights, values, radius**2, alone / radius)

    def search(
        self, appraise: Appraise, steps: Sequence[float], num_members: int
    ) -> FitConstraint[FilteredRegression]:
        r"""The best constraint on the way of a fixed-point iteration.

        For given residuals ``eps`` the best weights are proportional to the members,
        ``exp((sum_i a_i eps_i^2 - b) / 2)``; but the decisive residuals depend on the
        weights. Starts with Flynn & Reeb's member and the energy of the noise; members
        after the first ``num_members`` get no weight. Any result is valid: the search
        decides only how narrow the set is.
        """
        log_weights = np.full(len(self.prices), _UNUSED)
        log_weights[0] = 0.0
        found: list[Appraisal] = []
        for step in (*steps, 0.0):
            shares = np.exp(log_weights - log_weights.max())
            found.append(appraise(self.ellipsoid(shares / shares.sum())))
            target = 0.5 * (self.filters @ found[-1].residuals - self.prices)
            target[num_members:] = -math.inf
            target = np.maximum(target - target.max(), _UNUSED)
            log_weights = (1.0 - step) * log_weights + step * target
        _, _, tau_ref, best = min(found, key=attrgetter("loss"))
        level, shares = float(best.weights[0]) * self.level, best.weights[1:]
        grid = torch.from_numpy(shares), self.hybrids.floors, self.hybrids.corners
        state = FilteredRegression(self.regression, SpectralFilter(level, *grid))
        return FitConstraint(state, Radius.of(best.squared_radius, state, tau_ref))

    def for_least_norm(self) -> tuple[FitConstraint, float]:
        r"""The constraint whose least consistent norm is large, and this norm.

        The weights are chosen by the residuals of the function of least norm. Members that
        are tied to a norm bound get none: the least norm is to be compared with it.
        """
        lam, squares, cutoff = self.spectrum
        start = cutoff

        def appraise(ellipsoid: Ellipsoid) -> Appraisal:
            nonlocal start
            _, values, squared_radius, decisive_share = ellipsoid
            counted = Ridge(values * lam, values * squares, cutoff)
            found = counted.least_regularizer(squared_radius, start, _NEAR)
            tau = cutoff if found is None else found
            least = math.inf if found is None else counted.norm(tau)
            start = start if math.isinf(tau) else tau
            residuals = decisive_share * squares * (values * lam / tau + 1.0) ** -2
            tau_ref = 1.0 if math.isinf(tau) else tau
            return Appraisal(-least, residuals, tau_ref, ellipsoid)

        return resolved(self.search(appraise, _STEPS[:_FEW_STEPS], self.num_untied))

    def for_norm(self, norm: float, sharpest: FitConstraint, least: float) -> NormedFit:
        r"""The constraint whose band is narrow at a norm bound, prior units.

        Flynn & Reeb's member alone where some function of this norm satisfies it, but none
        the constraint whose least norm is large.
        """
        if least > norm:
            alone = FitConstraint(self.regression, self.predicted)
            if least_norm(*alone) <= norm:
                return NormedFit(alone, least, relaxed=True)
            return NormedFit(sharpest, least)
        band = self.search(self.widths(norm), _STEPS, len(self.prices))
        band = band.beside_hidden(norm)
        # Weights for a narrow band may exclude what those for the least norm allow.
        if least_norm(*band) > norm:
            return NormedFit(sharpest.beside_hidden(norm), least)
        return NormedFit(band, least)

    def widths(self, norm: float) -> Appraise:
        r"""Appraises ellipsoids by the mean half-width of the band at observed inputs.

        For a norm bound in prior units. The half-width is the least over 12 regularisers of
        ``sqrt(excess var / tau)``, and at most the half-width of the norm ball.
        """
        state, squared_norm = self.regression, norm**2
        hidden_part, count = state.hidden_part(norm), len(state.distinct_variance)
        rows = torch.linspace(0, count - 1, min(count, _POINTS)).long()
        lam, squared_targets, _ = self.spectrum
        squared_features = state.observed_features(rows).cpu().numpy() ** 2
        largest = squared_norm * state.distinct_variance[rows].cpu().numpy()

        def appraise(ellipsoid: Ellipsoid) -> Appraisal:
            _, values, squared_radius, decisive_share = ellipsoid
            squared_radius += float(values[0]) * hidden_part
            tau = _REGULARIZERS * (squared_radius / squared_norm)
            inverse = 1.0 / (values * lam + tau[:, None])  # t x r
            form = tau * (inverse @ (values * squared_targets))
            excess = squared_radius + tau * squared_norm - form
            excess = np.maximum(excess, _SMALLEST * squared_radius)[:, None]
            variance = inverse @ squared_features.T  # over tau, t x b
            squares = excess * variance
            index, columns = squares.argmin(0), np.arange(squares.shape[1])
            least = squares[index, columns]
            widths = np.sqrt(np.minimum(least, largest))
            # Derivatives of their sum where the fit decides, by excess and by variance.
            inside = least < largest
            share = np.zeros_like(squares)
            share[index[inside], columns[inside]] = 1.0 / widths[inside]
            by_excess = (share * variance).sum(-1)
            by_variance = (share * excess) @ squared_features
            inverse *= inverse
            pull = (by_excess * tau**2) @ inverse * squared_targets
            pull += (by_variance * inverse).sum(0) * lam
            residuals = decisive_share / max(float(by_excess.sum()), _TINY) * pull
            best = int(np.sqrt(squares).sum(-1).argmin())
            loss, tau_ref = float(widths.mean()), float(tau[best])
            return Appraisal(loss, residuals, tau_ref, ellipsoid)

        return appraise
