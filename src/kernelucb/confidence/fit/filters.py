r"""The mixture of filters: its e-processes, their weights, and the ellipsoid they make."""

import math
from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import xlogy
from torch import Tensor

from kernelucb.confidence.fit.energy import Ball, noise_ball, tangent_price
from kernelucb.confidence.fit.mixture import (
    CovarianceScale,
    FitConstraint,
    Radius,
    covariance_scales,
    mixture_radius,
)
from kernelucb.regression import KernelRegression, RidgeState
from kernelucb.regression.filtered import (
    FilteredRegression,
    SpectralFilter,
    filter_values,
)

FILTERS_SOURCE = "Mixture of filters (ours; docs/mathematics.md)"

# Hybrids: c over the squared norm, and l. Finer grids and longer ones gain below 0.2 %.
_SCALES = tuple(4.0**-power for power in range(1, 9))
_FLOORS = (0.0, 0.1, 0.3, 0.6)
# In place of the norm in the grid that is tied to the prior alone: c is 4 to 1/4096.
_UNIT_NORM = 4.0
_LARGEST, _LARGEST_PRICE = 1e150, 1e12
# Steps towards the best weights, each by a share of the way in ln(w). More of them, or
# gradient descent until nothing changes, narrow the band by less than 0.1 %.
_STEPS = (1.0, 0.5, 0.5)
# Shares of the first member that are tried beside one hybrid.
_SHARES = (1.0, 0.9, 0.8, 0.65, 0.5, 0.35, 0.2, 0.1, 0.03)
_UNUSED = -50.0  # ln of a weight that does not count
# Widths are compared at so many observed inputs; at others too, nothing is gained.
_POINTS = 16
# Regularisers for that, in units of the squared radius over the squared norm.
_REGULARIZERS = np.logspace(-4.0, 2.0, 12)
_TINY = 1e-150
_SMALLEST = 1e-12  # share of the squared radius that an excess counts at least
# Tables of the members are small, and NumPy's calls cost half of torch's.
Array = NDArray[np.float64]


class Shares(NamedTuple):
    r"""Prior weights of a mixture, at most one together, fixed before the data.

    Source: ours; for several kernels derived in ``docs/mathematics.md``.

    Attributes:
        predicted: Of Flynn & Reeb's member.
        energy: Of the energy of the noise, which needs no kernel.
        hybrids: Of all hybrids.
    """

    predicted: float
    energy: float
    hybrids: float

    @property
    def hybrid_prior(self) -> float:
        r"""What the prior weight of each hybrid in either grid adds to its ``b``."""
        return 2.0 * math.log(2.0 * len(_SCALES) * len(_FLOORS) / self.hybrids)

    @classmethod
    def of_each(cls, count: int) -> "Shares":
        r"""For each of several kernels that share one mixture and the energy in it."""
        if count == 1:
            return ALONE
        return cls(_JOINT.predicted / count, _JOINT.energy, _JOINT.hybrids / count)


# The squared radius is at most 2 ln(1/0.7) = 0.71 above that of Flynn & Reeb's alone. Half
# for it narrows bands by 0.6 % on average and widens some by 3 to 8 %, of much noise.
ALONE = Shares(predicted=0.7, energy=0.1, hybrids=0.2)
# All kernels together: what they share costs nothing more for each of them.
_JOINT = Shares(predicted=0.2, energy=0.3, hybrids=0.5)


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

    Attributes:
        scales: ``J`` values ``c`` above zero, relative to the prior.
        floors: ``J`` values ``l`` in ``[0, 1)``.
    """

    scales: Tensor
    floors: Tensor

    @classmethod
    @lru_cache(maxsize=128)
    def for_norm(cls, norm: float) -> "Hybrids":
        r"""The grid for a norm in prior units.

        A kernel ``s^2 k`` with the norm ``B / s`` gives the same e-processes.
        """
        unit = min(norm, _LARGEST) ** 2
        scales = unit * torch.tensor(_SCALES, dtype=torch.float64)
        floors = torch.tensor(_FLOORS, dtype=torch.float64)
        grid = torch.cartesian_prod(scales.clamp(1.0 / _LARGEST, _LARGEST), floors)
        return cls(grid[:, 0], grid[:, 1])

    @classmethod
    def of(cls, scales: Sequence[float], norm: float | None) -> "Hybrids":
        r"""The grid for the prior, and then that for the norm bound, if there is one.

        The prior's has its covariance multiplied by the mean of ``scales``.
        """
        logs = [math.log(scale) for scale in scales]
        own = cls.for_norm(_UNIT_NORM * math.exp(0.5 * sum(logs) / len(logs)))
        if norm is None:
            return own
        both = zip(own, cls.for_norm(norm), strict=True)
        return cls(*(torch.cat(pair) for pair in both))

    @property
    def corners(self) -> Tensor:
        r"""``J`` values ``g = (1 - l) / c``."""
        return (1.0 - self.floors) / self.scales

    def filters(self, eigenvalues: Tensor) -> Tensor:
        r"""``a`` at ``r`` eigenvalues, ``J x r``."""
        return filter_values(self.floors, self.corners, eigenvalues)

    def prices(self, eigenvalues: Tensor, count: int) -> Tensor:
        r"""``J`` values ``b`` after ``count`` observations."""
        corners = self.corners.to(eigenvalues).unsqueeze(-1)
        log_dets = torch.log1p(eigenvalues / corners).sum(-1)
        return log_dets - count * torch.log1p(-self.floors.to(eigenvalues))


class Appraisal(NamedTuple):
    r"""What one weighting achieves.

    Attributes:
        loss: What is to be made small.
        log_weights: Best weights of the members for the residuals that decide the loss, up
            to a constant.
        tau_ref: Regulariser that the ellipsoid is described at.
    """

    loss: float
    log_weights: Array
    tau_ref: float


class FilterMixture:
    r"""The fit by a mixture of e-processes, whose weights follow the purpose, anytime.

    A member is ``exp((sum_i a_i eps_i^2 - b) / 2)``. The first stands for Flynn & Reeb's
    and for the energy of the noise, which all bound ``|eps|^2`` alone: the tangent of the
    logarithm of their sum where that alone reaches ``1/delta``. The others are ``Hybrids``:
    a grid that is tied to the prior, and one that is tied to the norm bound. Prior weights
    are in ``b``. Together they stay below ``1/delta`` at every round at once with
    probability ``1 - delta`` (Ville's inequality), and so does, by the variational formula
    of the log-sum-exp (Donsker & Varadhan 1975), ``exp((sum_i a_i eps_i^2 - b) / 2)`` with
    ``a = sum_j w_j a_j`` and ``b = sum_j w_j b_j + 2 sum_j w_j ln(w_j)`` for every
    weighting, whenever chosen and though it depends on the data.

    Source: ours; proven in ``docs/mathematics.md``.

    Attributes:
        prices: ``J`` values ``b``, with the prior weights.
        untied: How many members come before those that are tied to the norm bound.
        predicted: Radius of Flynn & Reeb's member alone.
        level: ``a`` of the first member.

    Args:
        regression: The data.
        delta: Failure probability.
        covariance_scale: Of Flynn & Reeb's member, one scale or several.
        norm: Norm bound in prior units; None where there is none, and the members that
            are tied to it are left out.
        misfit: How much larger the residuals may be of the functions whose norm is bounded,
            noise units; see ``misfit_of_error``.
        shares: Prior weights.
    """

    def __init__(
        self,
        regression: KernelRegression,
        delta: float,
        covariance_scale: CovarianceScale,
        norm: float | None,
        misfit: float = 0.0,
        shares: Shares = ALONE,
    ) -> None:
        self.regression, self.confidence = regression, 2.0 * math.log(1.0 / delta)
        self.misfit = misfit
        self.hybrids = Hybrids.of(covariance_scales(covariance_scale), norm)
        self.untied = 1 + len(_SCALES) * len(_FLOORS)
        count, lam = regression.num_observations, regression.eigenvalues
        radius = mixture_radius(regression, delta, covariance_scale)
        alone = radius.slack + 2.0 * math.log(1.0 / shares.predicted)
        self.predicted = Radius(radius.tau_ref, alone).widened(regression, misfit)
        ball = first_ball(radius.squared(regression), count, delta, shares)
        self.level = ball.slope
        own = ball.slope * ball.squared_radius - self.confidence
        # What counts as zero may be as large as the cut-off; less would be too cheap.
        largest = torch.where(lam > 0, lam, regression.eigenvalue_cutoff)
        prices = self.hybrids.prices(largest, count).clamp_max(_LARGEST_PRICE)
        prices = prices + shares.hybrid_prior
        self.prices = np.append(own, prices.cpu().numpy())

    @cached_property
    def filters(self) -> Array:
        r"""``J x r`` values ``a``."""
        values = self.hybrids.filters(self.regression.eigenvalues).cpu().numpy()
        first = np.full((1, values.shape[1]), self.level)
        return np.concatenate([first, values])

    def log_values(self, squared_residuals: Array) -> Array:
        r"""``(sum_i a_i eps_i^2 - b) / 2`` of each member for ``r`` values ``eps^2``."""
        return 0.5 * (self.filters @ squared_residuals - self.prices)

    def squared_radius(self, weights: Array) -> float:
        r"""``b + 2 ln(1/delta)`` for ``J`` weights that sum up to one.

        Beside a ``misfit`` its root is larger by ``misfit sqrt(max a)``.
        """
        squared = self._without_misfit(weights)
        if self.misfit == 0.0:
            return squared
        largest = float(weights @ self.filters[:, -1])  # filters increase
        return (math.sqrt(squared) + self.misfit * math.sqrt(largest)) ** 2

    def decisive_share(self, weights: Array) -> float:
        r"""The radius without ``misfit`` over the radius, for ``J`` weights.

        Where ``sqrt(sum_i a_i eps_i^2)`` equals the radius, other weights narrow the set as
        they would without ``misfit`` for ``eps^2`` times this share.
        """
        if self.misfit == 0.0:
            return 1.0
        return math.sqrt(self._without_misfit(weights) / self.squared_radius(weights))

    def _without_misfit(self, weights: Array) -> float:
        price = weights @ self.prices + 2.0 * xlogy(weights, weights).sum()
        return float(price) + self.confidence

    @property
    def alone(self) -> FitConstraint[RidgeState]:
        r"""The constraint of Flynn & Reeb's member."""
        return FitConstraint(self.regression, self.predicted)

    def for_band(self, norm: float) -> FitConstraint[FilteredRegression]:
        r"""The constraint of a narrow band, for a norm bound in prior units."""
        return self.best(_Widths(self, norm).appraise).beside_hidden(norm)

    def two_for_band(self, norm: float) -> tuple[Array, float]:
        r"""As ``for_band`` with the first member and one hybrid: weights, and their gain.

        The hybrid with the largest weight in the whole mixture; its share is the best of a
        few. The gain is the share of the mean half-width that it takes off.
        """
        appraise = _Widths(self, norm).appraise
        largest = 1 + int(self._search(appraise)[0][1:].argmax())
        tried = np.zeros((len(_SHARES), len(self.prices)))
        tried[:, 0], tried[:, largest] = _SHARES, 1.0 - np.array(_SHARES)
        losses = [appraise(weights).loss for weights in tried]
        best = int(np.argmin(losses))
        return tried[best], 1.0 - losses[best] / losses[0]

    def best(
        self, appraise: Callable[[Array], Appraisal], num_steps: int = len(_STEPS)
    ) -> FitConstraint[FilteredRegression]:
        r"""The constraint of the best weights, as ``appraise`` says."""
        return self.constraint(*self._search(appraise, num_steps))

    @torch.no_grad()
    def _search(
        self, appraise: Callable[[Array], Appraisal], num_steps: int = len(_STEPS)
    ) -> tuple[Array, float]:
        r"""The best weights on the way of a fixed-point iteration, and their ``tau_ref``.

        For residuals ``eps`` the least constraint is that of weights proportional to the
        members, ``exp((sum_i a_i eps_i^2 - b) / 2)``; but which residuals decide depends
        on the weights. Starts with Flynn & Reeb's member and the energy of the noise.
        """
        log_weights = np.full(len(self.prices), _UNUSED)
        log_weights[0] = 0.0
        chosen, least, tau_ref = _normalized(log_weights), math.inf, 1.0
        for step in (*_STEPS[:num_steps], 0.0):
            weights = _normalized(log_weights)
            found = appraise(weights)
            if found.loss < least:
                chosen, least, tau_ref = weights, found.loss, found.tau_ref
            target = np.maximum(found.log_weights - found.log_weights.max(), _UNUSED)
            log_weights = (1.0 - step) * log_weights + step * target
        return chosen, tau_ref

    def filtered(self, weights: Array) -> FilteredRegression:
        r"""The data, counted by the filter of ``J`` weights."""
        level, shares = float(weights[0]) * self.level, torch.from_numpy(weights[1:])
        grid = self.hybrids.floors, self.hybrids.corners
        return FilteredRegression(self.regression, SpectralFilter(level, shares, *grid))

    def constraint(
        self, weights: Array, tau_ref: float = 1.0
    ) -> FitConstraint[FilteredRegression]:
        r"""The constraint of ``J`` weights that sum up to one."""
        regression = self.filtered(weights)
        squared = self.squared_radius(weights)
        slack = squared - float(regression.quadratic_form(tau_ref))
        return FitConstraint(regression, Radius(tau_ref, slack))


class _Widths:
    r"""Mean half-width of the exact band at observed inputs, and what would narrow it.

    The half-width is the least over a few regularisers of ``sqrt(excess var / tau)``, at
    most that of the norm ball.
    """

    def __init__(self, mixture: FilterMixture, norm: float) -> None:
        self.mixture, self.squared_norm = mixture, norm**2
        state = mixture.regression
        self.hidden_part = state.hidden_part(norm)
        count = len(state.distinct_variance)
        rows = torch.linspace(0, count - 1, min(count, _POINTS)).long()
        features, variance = state.observed_features(rows), state.distinct_variance[rows]
        self.eigenvalues = state.eigenvalues.cpu().numpy()
        self.squared_targets = state.targets.cpu().numpy() ** 2
        self.squared_features = features.cpu().numpy() ** 2
        self.largest = self.squared_norm * variance.cpu().numpy()

    def appraise(self, weights: Array) -> Appraisal:
        r"""See ``FilterMixture.best``."""
        filters, lam = self.mixture.filters, self.eigenvalues
        values = weights @ filters
        squared_radius = self.mixture.squared_radius(weights)
        squared_radius += float(values[0]) * self.hidden_part
        tau = _REGULARIZERS * (squared_radius / self.squared_norm)
        inverse = 1.0 / (values * lam + tau[:, None])  # t x r
        form = tau * (inverse @ (values * self.squared_targets))
        excess = squared_radius + tau * self.squared_norm - form
        excess = np.maximum(excess, _SMALLEST * squared_radius)[:, None]
        variance = inverse @ self.squared_features.T  # over tau, t x b
        squares = excess * variance
        index, columns = squares.argmin(0), np.arange(squares.shape[1])
        least = squares[index, columns]
        widths = np.sqrt(np.minimum(least, self.largest))
        # Derivatives of their sum where the fit decides, by excess and by variance.
        inside = least < self.largest
        share = np.zeros_like(squares)
        share[index[inside], columns[inside]] = 1.0 / widths[inside]
        by_excess = (share * variance).sum(-1)
        by_variance = (share * excess) @ self.squared_features
        inverse *= inverse
        pull = (by_excess * tau**2) @ inverse * self.squared_targets
        pull += (by_variance * inverse).sum(0) * lam
        residuals = pull / max(float(by_excess.sum()), _TINY)
        best = int(np.sqrt(squares).sum(-1).argmin())
        residuals *= self.mixture.decisive_share(weights)
        log_weights = self.mixture.log_values(residuals)
        return Appraisal(float(widths.mean()), log_weights, float(tau[best]))


def _normalized(log_weights: Array) -> Array:
    weights = np.exp(log_weights - log_weights.max())
    return weights / weights.sum()


def first_ball(predicted: float, count: int, delta: float, shares: Shares = ALONE) -> Ball:
    r"""The ball of the first member alone, from Flynn & Reeb's squared radius."""
    level = math.log(1.0 / delta)
    return noise_ball(count, level, predicted - 2.0 * level, shares[:2])


def first_price(
    ball: Ball, slope: float, predicted: float, count: int, delta: float
) -> float:
    r"""``b`` of a tangent of the first member with another slope; see ``tangent_price``."""
    level = math.log(1.0 / delta)
    price = predicted - 2.0 * level
    return tangent_price(ball, slope, count, level, price, ALONE[:2])
