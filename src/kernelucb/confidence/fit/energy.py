r"""Radii that need no kernel: predictions made in time, and the energy of the noise."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

# Chernoff parameters of the noise energy: near 1 they serve the first rounds, near 0 the
# thousandth. All of them together cost 2 ln 23 = 6.3 in the squared radius, once.
_CHERNOFF = 1.0 / (1.0 + 2.0 ** (0.5 * np.arange(-6.0, 17.0)))
_LOG_REST = np.append(np.log1p(-_CHERNOFF), 0.0)
_SLOPES = np.append(_CHERNOFF, 1.0)  # of the members' logarithms in E / 2
_TOLERANCE = 1e-13  # of the energy
_MOST_STEPS, _SMALLEST_CHANGE = 60, 1e-30  # of a search for a slope
# Share of the predictions where they are mixed with the energy alone: the squared radius is
# at most 2 ln(1/0.8) = 0.45 above theirs.
PREDICTION_SHARE = 0.8


class Ball(NamedTuple):
    r"""``{ eps : |eps|^2 <= squared_radius }`` for the residuals ``eps``, in noise units.

    Attributes:
        squared_radius: Largest ``E = |eps|^2``.
        slope: Twice the derivative in ``E`` of the logarithm of the mixture, there.
    """

    squared_radius: float
    slope: float


def noise_ball(
    count: int,
    log_level: float,
    price: float = math.inf,
    shares: tuple[float, float] = (0, 1),
) -> Ball:
    r"""The residuals at which a mixture of kernel-free e-processes stays below a level.

    With ``E = sum_s eps_s^2 / noise_s^2`` over ``n`` observations the mixture is
    ``p exp((E - price) / 2) + q mean_l (1 - l)^(n/2) exp(l E / 2)`` for 23 values of ``l``
    in (0, 1). The first term is that of predictions made before their outcomes (Flynn &
    Reeb 2024, Theorem 4.1, whose squared radius is ``price + 2 ln(1/delta)``), the
    others are supermartingales for conditionally sub-Gaussian noise: with ``h`` standard
    normal, ``exp(l e^2 / 2) = E exp(sqrt(l) h e)``. By Ville's inequality the true
    residuals lie in the ball at every round at once with probability ``1 - delta``.

    Source: ours; see ``docs/mathematics.md``.

    Args:
        count: Number of observations ``n``.
        log_level: ``ln(1/delta)``.
        price: Of the predictions; infinite where there are none.
        shares: ``p`` and ``q``, at most one together.
    """
    offsets = _offsets(count, price, shares)
    # A single component reaches the level at a larger energy than the mixture, whose
    # logarithm is convex and increases: Newton's method falls from there to the root.
    energy = float((2.0 * (log_level - offsets) / _SLOPES).min())
    while True:
        log_value, slope, _ = _mixture(energy, offsets)
        step = 2.0 * (log_value - log_level) / slope
        energy -= step
        if not step > _TOLERANCE * energy:
            return Ball(energy, slope)


def tangent_price(
    ball: Ball,
    slope: float,
    count: int,
    log_level: float,
    price: float = math.inf,
    shares: tuple[float, float] = (0, 1),
) -> float:
    r"""The least ``b`` with ``slope E - b <= 2 ln(mixture)`` for all ``E`` in the ball.

    Of a tangent whose slope stays the same as observations come in. ``ball`` is that of
    ``noise_ball`` for the other arguments, which are as there.
    """
    offsets, lower, upper = _offsets(count, price, shares), 0.0, ball.squared_radius
    energy = upper
    for _ in range(_MOST_STEPS if slope < ball.slope else 0):
        _, here, change = _mixture(energy, offsets)
        lower, upper = (lower, energy) if here > slope else (energy, upper)
        energy -= (here - slope) / max(change, _SMALLEST_CHANGE)
        if not lower <= energy <= upper:
            energy = 0.5 * (lower + upper)
        if abs(here - slope) * (upper - lower) <= _TOLERANCE * ball.squared_radius:
            break
    log_value, here, _ = _mixture(energy, offsets)
    rest = abs(here - slope) * (upper - lower)  # by concavity
    return slope * energy - 2.0 * log_value + (rest if slope < ball.slope else 0.0)


def _offsets(count: int, price: float, shares: tuple[float, float]) -> NDArray[np.float64]:
    r"""Logarithms of the mixture's members at ``E = 0``."""
    offsets = 0.5 * count * _LOG_REST
    offsets[:-1] += math.log(shares[1] / len(_CHERNOFF))
    offsets[-1] = math.log(shares[0]) - 0.5 * price if shares[0] else -math.inf
    return offsets


def _mixture(energy: float, offsets: NDArray[np.float64]) -> tuple[float, float, float]:
    r"""Logarithm of the mixture, and twice its first two derivatives in ``E``."""
    terms = 0.5 * energy * _SLOPES + offsets
    largest = float(terms.max())
    shares_there = np.exp(terms - largest)
    total = float(shares_there.sum())
    slope = float(_SLOPES @ shares_there) / total
    spread = float((_SLOPES - slope) ** 2 @ shares_there) / total
    return largest + math.log(total), slope, 0.5 * spread


def noise_energy_bound(count: int, delta: float) -> float:
    r"""Upper bound on ``E = sum_s eps_s^2 / sigma_s^2`` of ``count`` observations, anytime.

    Ours: ``noise_ball`` without predictions. Assumes conditionally sub-Gaussian noise.

    Args:
        count: Number of observations ``n``.
        delta: Failure probability.
    """
    return noise_ball(count, math.log(1.0 / delta)).squared_radius


def energy_source(source: str) -> str:
    r"""The theorem of ``with_energy``, from that of the predictions."""
    return f"{source}, with the energy of the noise (ours)"


def with_energy(squared_radius: float, count: int, delta: float) -> float:
    r"""The squared radius of predictions, mixed with the energy of the noise, anytime.

    Never more than 0.45 larger than the one given, and smaller where the predictions were
    bad. Source: ours; see ``noise_ball``.

    Args:
        squared_radius: Of the predictions, with its ``2 ln(1/delta)``; noise units.
        count: Number of observations ``n``.
        delta: Failure probability.
    """
    level = math.log(1.0 / delta)
    shares = (PREDICTION_SHARE, 1.0 - PREDICTION_SHARE)
    return noise_ball(count, level, squared_radius - 2.0 * level, shares).squared_radius
