r"""The noise scale from the residuals: Durand, Maillard & Pineau (2018), Theorem 3.

The theorem rests on three events, each of probability ``1 - level``: the squared noise is
not too large, not too small, and its self-normalised sum at ``lambda_* = sigma^2 / C^2`` is
not too large. None depends on the regulariser ``lambda`` in use. On these events the bounds
hold in every round and for *every* ``lambda >= lambda_*`` at once (the lower one for every
``lambda``), even if it was chosen after looking at the data.

Two departures from the printed formulas, which their proofs ask for: ``c_t`` has the
squared logarithm of Lemma 6, with ``ln(t)`` replaced by 1 where it is smaller, and the last
term of the lower bound goes without a factor below one that the proof does not support.
"""

import math
from typing import NamedTuple

from kernelucb.regression import KernelRegression


class NoiseInterval(NamedTuple):
    r"""Bounds on the noise scale, outcome units; ``upper`` may be infinite."""

    lower: float
    upper: float


def refined_interval(
    regression: KernelRegression,
    norm_bound: float,
    level: float,
    interval: NoiseInterval,
) -> NoiseInterval:
    r"""One step of Corollary 1: Theorem 3 at ``lambda = upper^2 / C^2``.

    While the upper bound is infinite, the lower one is taken at ``lower^2 / C^2``.
    """
    t = regression.num_observations
    norm = regression.norm_in_prior_units(norm_bound)
    bounded = math.isfinite(interval.upper)
    guess = interval.upper if bounded else interval.lower
    constant = _deviation_constant(t, level)
    residual_std = _residual_std(regression, norm, guess)
    lower = max(interval.lower, _lower_bound(residual_std, guess, constant, t))
    log_det = float(regression.log_det(ridge_regularizer(regression, norm, lower)))
    information = 2.0 * math.log(1.0 / level) + log_det
    if bounded:
        upper = _upper_bound(residual_std, guess, constant, information, t)
    else:
        residual_std = _residual_std(regression, norm, math.inf)
        upper = _first_upper_bound(residual_std, constant, information, t)
    return NoiseInterval(lower, min(interval.upper, upper))


def _deviation_constant(t: int, level: float) -> float:
    r"""``C_t`` of Lemma 6, with ``c_t = ln(pi^2 max(ln t, 1)^2 / 6)``."""
    rounds = math.log(math.pi**2 * max(math.log(t), 1.0) ** 2 / 6.0)
    return math.log(math.e / level) * (1.0 + rounds / math.log(1.0 / level))


def _lower_bound(residual_std: float, guess: float, constant: float, t: int) -> float:
    r"""Case 2 at ``sqrt(lambda) = guess / C``.

    Case 1, ``s - noise_upper sqrt(2 C_t / t) - guess / sqrt(t)``, is larger only where case
    2 is above ``noise_upper``.
    """
    return (residual_std - guess / math.sqrt(t)) / (1.0 + math.sqrt(2.0 * constant / t))


def _upper_bound(
    residual_std: float, guess: float, constant: float, information: float, t: int
) -> float:
    r"""Case 2 at ``sqrt(lambda) = guess / C``; infinite where the data are too few.

    It solves ``sigma = s + sigma (1 - alpha) + 2 sqrt(b sigma)``. Case 1 is the right side
    at ``noise_upper``, which lies above the solution wherever ``noise_upper`` does.
    """
    alpha = _alpha(constant, information, t)
    if alpha <= 0.0:
        return math.inf
    b = guess * math.sqrt(information) / (2.0 * t)
    return ((math.sqrt(residual_std * alpha + b) + math.sqrt(b)) / alpha) ** 2


def _first_upper_bound(
    residual_std: float, constant: float, information: float, t: int
) -> float:
    r"""Case 2 without a guess, from the residuals of the prior mean.

    Theorem 6 at ``lambda_*`` itself, where ``C sqrt(lambda_*) = sigma``:
    ``s >= sigma (alpha - sqrt(2 sqrt(D) / t))``, and the residuals at an infinite
    ``lambda`` are no smaller than ``s``.
    """
    alpha = _alpha(constant, information, t) - math.sqrt(2.0 * math.sqrt(information) / t)
    return residual_std / alpha if alpha > 0.0 else math.inf


def _alpha(constant: float, information: float, t: int) -> float:
    return 1.0 - math.sqrt(constant / t) - math.sqrt((constant + 2.0 * information) / t)


def _residual_std(regression: KernelRegression, norm: float, scale: float) -> float:
    r"""Root mean square of ``y - f_lambda`` on the data at ``lambda = scale^2 / C^2``."""
    tau = ridge_regularizer(regression, norm, scale)
    residuals = regression.targets / (1.0 + regression.eigenvalues / tau)
    mean_square = residuals.square().sum() / regression.num_observations
    return float(mean_square.sqrt() * regression.noise_scales[0])


def ridge_regularizer(regression: KernelRegression, norm: float, scale: float) -> float:
    r"""``tau`` of ``lambda = scale^2 / C^2``, Eq. (1); ``norm`` in prior units."""
    return (scale / (norm * float(regression.noise_scales[0]))) ** 2
