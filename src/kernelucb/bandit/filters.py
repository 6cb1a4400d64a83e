r"""The mixture of filters in a bandit: the first member and one hybrid.

A filter multiplies the eigenvalues of all data, whose spectrum a bandit does not have. With
one hybrid its estimates are sums of ordinary ridge estimates at two other regularisers.
"""

import math
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from kernelucb.bandit.spectral import Moments, Points, SchurSystems, Spectrum
from kernelucb.confidence.filters import HYBRID_PRIOR, PRIOR_WEIGHTS, FilterMixture
from kernelucb.confidence.norm import least_norm
from kernelucb.confidence.radius import KernelFree

# A filter costs a fifth of a round, so it must narrow the band by so much beside the ball.
_LEAST_GAIN = 0.01
# Of the norm bound, that the filtered set must leave when the filter is chosen.
_MOST_NEEDED = 0.99
_FEWEST = 32  # observations; with fewer it gains nothing
# Eigenvalues that count as zero, at most in corners of the filter.
_SMALL = 1e-5
# Roots that nearly agree are kept apart by the square root of this, relative: the sums then
# lose as much by cancelling as by having moved.
_APART = 1e-11


class Ratio(NamedTuple):
    r"""The filter ``a(lam) = (top lam + foot) / (lam + corner)``.

    It rises, from above zero: ``0 < foot <= top corner``.
    """

    top: float
    foot: float
    corner: float

    @property
    def at_zero(self) -> float:
        r"""``a(0)``."""
        return self.foot / self.corner


class TwoFilters(NamedTuple):
    r"""Weights of the first member and of one hybrid; see ``FilterMixture``.

    Weights may depend on the data and change at any time: chosen where the whole spectrum
    is at hand, they are kept until it is again. So is the slope of the first member's
    tangent. Prices are those of all observations.

    Source: ours; see ``docs/mathematics.md``.

    Attributes:
        share: Weight of the first member, between 0 and 1; the hybrid has the rest.
        slope: Of its tangent, at most 1.
        hybrid: Its index in the grid.
        corner: Its ``g``.
        floor: Its ``l``.
    """

    share: float
    slope: float
    hybrid: int
    corner: float
    floor: float

    @classmethod
    def of(cls, mixture: FilterMixture, norm: float) -> "TwoFilters | None":
        r"""The weights of a narrow band, for a norm bound in prior units.

        None where the first member alone is about as good, as it is early, where the data
        nearly contradict the norm bound, or where what counts as zero is not small beside
        the hybrid's corner.
        """
        if mixture.regression.num_observations < _FEWEST:
            return None
        weights, gain = two_for_band(mixture, norm)
        if gain < _LEAST_GAIN:
            return None
        if least_norm(*mixture.constraint(weights)) > _MOST_NEEDED * norm:
            return None
        index = int(weights[1:].argmax())
        corner = float(mixture.hybrids.corners[index])
        if mixture.regression.eigenvalue_cutoff > _SMALL * corner:
            return None
        floor = float(mixture.hybrids.floors[index])
        return cls(float(weights[0]), mixture.level, index, corner, floor)

    @property
    def ratio(self) -> Ratio:
        r"""The filter of both."""
        level, rest = self.share * self.slope, 1.0 - self.share
        foot = (level + rest * self.floor) * self.corner
        return Ratio(level + rest, foot, self.corner)

    def squared_radius(
        self, predicted: float, log_det: float, count: int, delta: float
    ) -> float:
        r"""``b + 2 ln(1/delta)`` after ``count`` observations.

        Args:
            predicted: Squared radius of Flynn & Reeb's member.
            log_det: ``ln det(I + K_w / g)`` at the ``corner``.
            count: Number of observations.
            delta: Failure probability.
        """
        mixed = KernelFree.of(count, delta, predicted, PRIOR_WEIGHTS)
        first = tangent_price(mixed, self.slope)
        hybrid = log_det - count * math.log1p(-self.floor) + HYBRID_PRIOR
        rest = 1.0 - self.share
        entropy = self.share * math.log(self.share) + rest * math.log(rest)
        mixed = self.share * first + rest * hybrid + 2.0 * entropy
        return mixed + 2.0 * math.log(1.0 / delta)


class Terms(NamedTuple):
    r"""Estimates at ``k`` regularisers, as they count for those at ``m`` values of ``tau``.

    Only real parts count.
    """

    roots: Tensor  # k regularisers rho, positive or complex with a positive real part
    owners: Tensor  # k positions of the tau that each belongs to
    variance: Tensor  # k weights of the variances at rho
    mean: Tensor  # k weights of the ridge estimates at rho
    form: Tensor  # k weights of the quadratic forms at rho, over tau

    @classmethod
    def of(
        cls, ratio: Ratio, roots: Tensor, others: Tensor, owners: Tensor, times: float
    ) -> "Terms":
        r"""The terms of one root of each pair, each counted so many times."""
        gap = (others - roots) / times
        variance = others * (ratio.corner - roots) / (ratio.corner * gap)
        mean = (ratio.foot / ratio.top - roots) / gap
        return cls(roots, owners, variance, mean, mean / roots)

    def summed(self, values: Tensor, weights: Tensor, count: int) -> Tensor:
        r"""``... x m`` sums of the weighted ``... x k`` values of each ``tau``."""
        values = values * weights
        values = values.real if values.is_complex() else values
        return values.new_zeros(*values.shape[:-1], count).index_add_(
            -1, self.owners, values
        )


def partial_fractions(ratio: Ratio, regularizers: Tensor) -> dict[str, Terms]:
    r"""Filtered ridge estimates as sums of unfiltered ones, real and complex apart.

    With ``a(lam)`` a ``Ratio``, ``a lam + tau = top (lam + rho1)(lam + rho2) / (lam + g)``
    with two positive or two conjugate numbers ``rho`` of positive real part, so that

        ``tau / (a lam + tau) = sum_k v_k rho_k / (lam + rho_k)``,   ``v_1 + v_2 = 1``,
        ``a / (a lam + tau)   = sum_k w_k / (lam + rho_k)``,         ``w_1 + w_2 = 1``.

    The first turns variances, the second estimates and quadratic forms at the ``rho`` into
    those of the filtered data at ``tau``. Of two conjugates one is enough.

    Source: ours; see ``docs/mathematics.md``.
    """
    half = 0.5 * (ratio.foot + regularizers) / ratio.top
    product = regularizers * (ratio.corner / ratio.top)
    square = half.square() - product
    least = _APART * product
    square = torch.where(square < 0, square.minimum(-least), square.maximum(least))
    real, terms = square > 0, dict[str, Terms]()
    if bool(real.any()):
        larger = half[real] + square[real].sqrt()
        smaller = product[real] / larger
        roots, others = torch.cat([smaller, larger]), torch.cat([larger, smaller])
        owners = real.nonzero()[:, 0].repeat(2)
        terms["pairs"] = Terms.of(ratio, roots, others, owners, 1.0)
    if not bool(real.all()):
        root, owners = torch.complex(half, (-square).sqrt())[~real], (~real).nonzero()[:, 0]
        terms["conjugates"] = Terms.of(ratio, root, root.conj(), owners, 2.0)
    return terms


class FilteredSystems:
    r"""The systems of the filtered data at ``m`` regularisers."""

    def __init__(self, spectrum: Spectrum, ratio: Ratio, regularizers: Tensor) -> None:
        self.regularizers = regularizers
        terms = partial_fractions(ratio, regularizers)
        self._parts: list[tuple[Terms, SchurSystems]] = [
            (own, spectrum.systems(name, own.roots)) for name, own in terms.items()
        ]

    def quadratic_form(self) -> Tensor:
        r"""``tau y_w^T A (A K_w + tau)^-1 y_w`` for each ``tau``, with ``A = a(K_w)``."""
        tau, total = self.regularizers, torch.zeros_like(self.regularizers)
        for terms, systems in self._parts:
            form = systems.fit().quadratic_form
            total = total + terms.summed(form, terms.form, len(tau))
        return tau * total

    def moments(self, points: Points) -> Moments:
        r"""Ridge estimates at arms."""
        count = len(self.regularizers)
        deviation = variance = points.features.new_zeros(len(points.features), count)
        for terms, systems in self._parts:
            found = systems.moments(points)
            deviation = deviation + terms.summed(found.deviation, terms.mean, count)
            variance = variance + terms.summed(found.variance, terms.variance, count)
        return Moments(deviation, variance)


# Shares of the first member that are tried beside one hybrid.
_SHARES = (1.0, 0.9, 0.8, 0.65, 0.5, 0.35, 0.2, 0.1, 0.03)
_TOLERANCE = 1e-13  # of the energy
_MOST_STEPS, _SMALLEST_CHANGE = 60, 1e-30  # of a search for a slope


def two_for_band(mixture: FilterMixture, norm: float) -> tuple[NDArray[np.float64], float]:
    r"""As ``for_band`` with the first member and a single hybrid: weights, and gain.

    The hybrid has the largest weight in the whole mixture; its share is the best of
    nine. The gain is the relative reduction of the mean half-width by the hybrid.
    """
    appraise = mixture.widths(norm)
    largest = 1 + int(mixture.search(appraise)[0][1:].argmax())
    tried = np.zeros((len(_SHARES), len(mixture.prices)))
    tried[:, 0], tried[:, largest] = _SHARES, 1.0 - np.array(_SHARES)
    losses = [appraise(weights).loss for weights in tried]
    best = int(np.argmin(losses))
    return tried[best], 1.0 - losses[best] / losses[0]


def tangent_price(mixture: KernelFree, slope: float) -> float:
    r"""The least ``b`` with ``slope E - b <= 2 ln(mixture)`` for all ``E`` in the ball."""
    largest, own = mixture.ball
    lower, energy, upper = 0.0, largest, largest
    for _ in range(_MOST_STEPS if slope < own else 0):
        _, here, change = mixture.at(energy)
        lower, upper = (lower, energy) if here > slope else (energy, upper)
        energy -= (here - slope) / max(change, _SMALLEST_CHANGE)
        if not lower <= energy <= upper:
            energy = 0.5 * (lower + upper)
        if abs(here - slope) * (upper - lower) <= _TOLERANCE * largest:
            break
    log_value, here, _ = mixture.at(energy)
    rest = abs(here - slope) * (upper - lower)  # by concavity
    return slope * energy - 2.0 * log_value + (rest if slope < own else 0.0)
