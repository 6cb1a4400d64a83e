r"""Squared radii of the fit: how far the data may lie from the function, anytime.

Two sources: the martingale mixture, which depends on the kernel, and the energy of the
noise, which does not.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from kernelucb._numerics.arrays import Array
from kernelucb._numerics.checks import positive_scalar
from kernelucb._numerics.estimates import Number, plain
from kernelucb.confidence.assumptions import Assumption
from kernelucb.data import KernelRegression, NystromRegression, RidgeState
from kernelucb.data.nystrom import DTCRegression

CovarianceScale = float | Sequence[float] | Tensor | Literal["mixture"]

# Fourth powers over those of norm bounds down to 1e-40 are then finite numbers.
_LARGEST_MISFIT = 1e30
_UNSEEN = 0.01  # squared noise units that change delta by a factor of exp(0.005) at most

# Powers of two around the prior as it stands; all of them together cost 2 ln 17 = 5.7.
# Half a factor of two away from the best scale, each resolved direction costs 0.06.
DEFAULT_SCALES = tuple(2.0**power for power in range(-8, 9))

# Chernoff parameters of the noise energy: near 1 they serve the first rounds, near 0 the
# thousandth. All of them together cost 2 ln 23 = 6.3 in the squared radius, once.
_CHERNOFF = 1.0 / (1.0 + 2.0 ** (0.5 * np.arange(-6.0, 17.0)))
_TOLERANCE = 1e-13  # relative, of the energy; the next step of Newton is far below
# Share of the predictions where they are mixed with the energy alone: the squared radius is
# at most 2 ln(1/0.8) = 0.45 above theirs.
_PREDICTION_SHARE = 0.8


class Radius(NamedTuple):
    r"""A squared radius in noise units, ``quadratic_form(tau_ref) + slack``.

    Kept in two parts because the differences that the bounds need,
    ``radius^2 - quadratic_form(tau)``, would otherwise cancel at small noise.
    """

    tau_ref: float
    slack: float

    @classmethod
    def of(cls, squared: float, regression: RidgeState, tau_ref: float) -> "Radius":
        r"""A squared radius for these data."""
        return cls(tau_ref, squared - float(regression.quadratic_form(tau_ref)))

    def squared(self, regression: RidgeState) -> float:
        r"""The squared radius, a multiple of the noise variance."""
        return float(regression.quadratic_form(self.tau_ref)) + self.slack

    def beside_hidden(self, hidden: float) -> "Radius":
        r"""The radius of a published set, plus ``hidden`` for round-off if above 0.01.

        A smaller ``hidden`` is left out, which changes ``delta`` by a factor of at most
        ``exp(0.005)``; the set then agrees with the published set to the last digit. See
        ``KernelRegression.hidden_part``.
        """
        return self if hidden <= _UNSEEN else Radius(self.tau_ref, self.slack + hidden)

    def widened(self, regression: RidgeState, length: float) -> "Radius":
        r"""The radius plus a length, noise units."""
        root = math.sqrt(self.squared(regression)) if length else 0.0
        return Radius(self.tau_ref, self.slack + length * (2.0 * root + length))


@dataclass(frozen=True)
class Constraints:
    r"""``{ f : ||f_w - y_w|| <= radius, ||f - m||_H <= norm }``.

    Source: Flynn & Reeb (2024), Lemma 4.2; ``excess`` is the squared radius of Corollary
    4.3, in noise units.

    Attributes:
        radius: Squared radius of the fit, noise units.
        norm: Norm bound, prior units; an estimate where it was estimated or raised.
        contradiction: The assumption that was relaxed because the set was empty, or None.
    """

    radius: Radius
    norm: Number
    contradiction: Assumption | None

    @cached_property
    def ball(self) -> float:
        r"""The norm bound, to compute with."""
        return plain(self.norm)

    def excess(self, regression: RidgeState, regularizer: Tensor) -> Tensor:
        r"""``radius^2 + tau norm^2 - quadratic_form(tau)``, one value for each ``tau``.

        ``Rtilde^2 / noise_std^2``. Negative for some ``tau`` exactly when the set is
        empty.
        """
        drop = regression.quadratic_form_drop(self.radius.tau_ref, regularizer)
        return self.excess_from(regularizer, drop)

    def excess_from(self, regularizer: Array, drop: Array) -> Array:
        r"""``excess`` from ``quadratic_form(tau_ref) - quadratic_form(tau)``."""
        return self.radius.slack + regularizer * self.ball**2 + drop


def covariance_scales(value: CovarianceScale) -> tuple[float, ...]:
    r"""The scales that ``value`` names; ``"mixture"`` is the default grid."""
    if isinstance(value, str):
        if value == "mixture":
            return DEFAULT_SCALES
        raise ValueError(
            f'covariance_scale must be a number, several or "mixture", got {value!r}.'
        )
    if isinstance(value, Tensor):
        value = value.detach().reshape(-1).tolist()
    if not isinstance(value, Sequence):
        return (positive_scalar("covariance_scale", value),)
    if len(value) == 0:
        raise ValueError("covariance_scale must hold at least one number.")
    return tuple(positive_scalar("covariance_scale", scale) for scale in value)


def misfit_of_error(regression: RidgeState, model_error: Number) -> float:
    r"""Extra distance from the data of a function near ``f``, noise units.

    ``sqrt(sum_s model_error^2 / noise_s^2)`` over all observations, for a function within
    ``model_error`` (outcome units) of ``f`` at every point.

    Source: ours; see ``docs/mathematics.md``.

    Raises:
        ValueError: If the distance is so large that squares would overflow.
    """
    if not model_error > 0.0:
        return 0.0
    misfit = plain(model_error) * float(regression.noise_scales.reciprocal().norm())
    if misfit > _LARGEST_MISFIT:
        raise ValueError(
            f"model_error is {model_error:.4g}, too large beside a noise scale of "
            f"{float(regression.noise_scales.min()):.4g}: squares would overflow. The data "
            "then say nothing; give a smaller one."
        )
    return misfit


def mixture_source(scales: Sequence[float]) -> str:
    r"""The theorem of ``mixture_radius``."""
    if len(scales) == 1:
        return "Flynn & Reeb (2024), Eq. (8)"
    return "Flynn & Reeb (2024), Theorem 4.1, for a mixture over scales (ours)"


def mixture_radius(
    regression: KernelRegression, delta: float, scales: float | Sequence[float]
) -> Radius:
    r"""Squared radius of the martingale mixture, anytime.

    With probability ``1 - delta``, for all rounds at once, the true function's values at
    the inputs lie within this distance of the outcomes, for any input rule that uses the
    past only and conditionally sub-Gaussian noise. ``scales`` are one or several ``c`` of
    the mixture ``N(0, c K)``.

    Source: see ``combined_radius``.
    """
    taus = _regularizers(regression, scales)
    log_dets = regression.log_det(taus)
    return combined_radius(
        taus, log_dets, lambda tau: -regression.quadratic_form_drop(tau, taus), delta
    )


def sketched_radius(
    regression: NystromRegression | DTCRegression,
    delta: float,
    scales: float | Sequence[float],
) -> Radius:
    r"""Upper bound on ``mixture_radius`` that needs no kernel matrix, anytime.

    The inducing points may depend on all data, since the mixture uses the kernel itself:
    each quadratic form and log-determinant is replaced by an upper bound, and the radius
    increases in both.
    """
    taus = _regularizers(regression, scales)
    forms, log_dets = regression.evidence_terms(taus)
    tau_ref, slack = combined_radius(
        taus, log_dets, lambda tau: forms - forms[taus == tau], delta
    )
    wider = float(forms[taus == tau_ref][0] - regression.quadratic_form(tau_ref))
    return Radius(tau_ref, slack + wider)


def _regularizers(regression: RidgeState, scales: float | Sequence[float]) -> Tensor:
    r"""``tau = 1 / c`` for each scale."""
    taus = 1.0 / torch.as_tensor(scales, dtype=torch.float64).reshape(-1)
    return taus.to(regression.eigenvalues)


def combined_radius(
    taus: Tensor,
    log_dets: Tensor,
    differences: Callable[[float], Tensor],
    delta: float,
) -> Radius:
    r"""Squared radius of an equal mixture over scales, referred to its largest term.

    With ``a_j = quadratic_form(tau_j) + log_det(tau_j)`` it is
    ``-2 ln mean_j exp(-a_j / 2) + 2 ln(1/delta)``.

    Source: Flynn & Reeb (2024), Eq. (8), in noise units, for one scale. For several, their
    Eq. (7) with the mixture ``1/J sum_j N(0, c_j K)`` (ours), whose squared radius is at
    most ``2 ln J`` above that of the best scale in hindsight. ``taus`` are the ``1 / c_j``,
    ``log_dets`` the ``ln det(I + c_j K_w)``, and ``differences`` maps one ``tau`` of these
    to the ``J`` values ``quadratic_form(tau_j) - quadratic_form(tau)``.
    """
    tau_ref, confidence = float(taus[0]), 2.0 * math.log(1.0 / delta)
    if len(taus) == 1:
        return Radius(tau_ref, float(log_dets) + confidence)
    tau_ref = float(taus[(log_dets + differences(tau_ref)).argmin()])
    evidence = log_dets + differences(tau_ref)  # without the form at tau_ref
    mixed = -2.0 * torch.logsumexp(-0.5 * evidence, dim=0) + 2.0 * math.log(len(taus))
    return Radius(tau_ref, float(mixed) + confidence)


def energy_ball(
    count: int,
    delta: float,
    predicted: float = math.inf,
    shares: tuple[float, float] = (0.0, 1.0),
    noise_factor: float = 1.0,
) -> tuple[float, float]:
    r"""Squared radius, noise units, of the true residuals by their energy, anytime.

    With ``E = sum_s eps_s^2 / noise_s^2`` over ``n = count`` observations the mixture
    ``p exp((E - price) / 2) + q mean_l (1 - l)^(n/2) exp(l E / 2)`` over 23 values of ``l``
    in (0, 1) needs no kernel. The first term is that of predictions made before their
    outcomes (Flynn & Reeb 2024, Theorem 4.1, whose squared radius is ``price +
    2 ln(1/delta)``), the others are supermartingales for conditionally sub-Gaussian noise:
    with ``h`` standard normal, ``exp(l e^2 / 2) = E exp(sqrt(l) h e)``. By Ville's
    inequality it stays below ``1 / delta`` at every round at once with probability
    ``1 - delta``.

    Member ``l`` mixes over residuals of variance ``noise_s^2 l / (1 - l)``. If these
    variances were fixed for smaller noise scales, ``l`` is smaller (``energy_levels``).

    Source: ours; see ``docs/mathematics.md``.

    Args:
        count: Number of observations.
        delta: Failure probability.
        predicted: Squared radius of the predictions, with its ``2 ln(1/delta)``; infinite
            where there are none.
        shares: ``p`` and ``q``, at most one together.
        noise_factor: Noise scale over the scale that the guesses were fixed for.

    Returns:
        The squared radius; and twice the derivative in ``E`` of the mixture's logarithm.
    """
    log_level, (predictive, energy) = math.log(1.0 / delta), shares
    slopes = np.append(energy_levels(_CHERNOFF, noise_factor), 1.0)
    # Logarithms of the members at E = 0; their slopes are those in E / 2.
    offsets = np.append(0.5 * count * np.log1p(-slopes[:-1]), 0.0)
    offsets[:-1] += math.log(energy / len(_CHERNOFF))
    price = predicted - 2.0 * log_level
    offsets[-1] = math.log(predictive) - 0.5 * price if predictive else -math.inf
    # A single component reaches the level at a larger energy than the mixture, whose
    # logarithm is convex and increases: Newton's method falls from there to the root.
    squared = float((2.0 * (log_level - offsets) / slopes).min())
    while True:
        terms = 0.5 * squared * slopes + offsets
        largest = float(terms.max())
        weights = np.exp(terms - largest)
        total = float(weights.sum())
        slope = float(slopes @ weights) / total
        step = 2.0 * (largest + math.log(total) - log_level) / slope
        squared -= step
        if not step > _TOLERANCE * squared:
            return squared, slope


def energy_levels(levels: Array, noise_factor: float) -> Array:
    r"""Levels ``l`` of guesses that were fixed for a smaller noise scale, by its factor.

    A level stands for guesses of variance ``v = noise^2 l / (1 - l)``. With ``v`` fixed and
    the noise scale ``noise_factor`` times as large it is ``l / (l + factor^2 (1 - l))``.
    Array in, array out.
    """
    return levels / (levels + noise_factor**2 * (1.0 - levels))


def noise_energy_bound(count: int, delta: float) -> float:
    r"""Upper bound on ``sum_s eps_s^2 / sigma_s^2`` of ``count`` observations, anytime.

    Ours: ``energy_ball`` without predictions. Assumes conditionally sub-Gaussian noise.
    """
    return energy_ball(count, delta)[0]


def energy_source(source: str) -> str:
    r"""The theorem of ``with_energy``, from that of the predictions."""
    return f"{source}, with the energy of the noise (ours)"


def with_energy(squared_radius: float, count: int, delta: float) -> float:
    r"""The squared radius of predictions, mixed with the energy of the noise, anytime.

    At most 0.45 above ``squared_radius``, which includes ``2 ln(1/delta)``, and smaller
    where the predictions of the ``count`` outcomes were bad. Source: ours; see
    ``energy_ball``.
    """
    shares = (_PREDICTION_SHARE, 1.0 - _PREDICTION_SHARE)
    return energy_ball(count, delta, squared_radius, shares)[0]
