r"""How far the data may lie from the function: the squared radius of the fit."""

import math
from collections.abc import Callable, Sequence
from typing import Any, Generic, Literal, NamedTuple, TypeVar

import torch
from torch import Tensor

from kernelucb._numerics.checks import positive_scalar
from kernelucb.regression import KernelRegression, NystromRegression, RidgeState
from kernelucb.regression.lowrank.dtc import DTCRegression

_SOURCE = "Flynn & Reeb (2024), Eq. (8)"
_SEVERAL_SOURCE = "Flynn & Reeb (2024), Theorem 4.1, for a mixture over scales (ours)"

CovarianceScale = float | Sequence[float] | Tensor | Literal["mixture"]

StateT = TypeVar("StateT", bound=RidgeState, covariant=True)

# Fourth powers over those of norm bounds down to 1e-40 are then finite numbers.
_LARGEST_MISFIT = 1e30
_UNSEEN = 0.01  # of a squared radius, noise units

# Powers of two around the prior as it stands; all of them together cost 2 ln 17 = 5.7.
# Half a factor of two away from the best scale, each resolved direction costs 0.06.
DEFAULT_SCALES = tuple(2.0**power for power in range(-8, 9))


class Radius(NamedTuple):
    r"""A squared radius in noise units, ``quadratic_form(tau_ref) + slack``.

    Kept in two parts because the differences that the bounds need,
    ``radius^2 - quadratic_form(tau)``, would otherwise cancel at small noise.

    Attributes:
        tau_ref: Regulariser ``tau`` of the quadratic form.
        slack: What is added to it.
    """

    tau_ref: float
    slack: float

    def squared(self, regression: RidgeState) -> float:
        r"""The squared radius, a multiple of the noise variance."""
        return float(regression.quadratic_form(self.tau_ref)) + self.slack

    def beside_hidden(self, hidden: float) -> "Radius":
        r"""The radius of a published set, with what round-off hides where that shows.

        Less than 0.01 is left out, which changes ``delta`` by a factor of at most
        ``exp(0.005)``: wherever it can be told, the set is the published one to the digit.
        See ``spectral.hidden_part``.
        """
        return self if hidden <= _UNSEEN else Radius(self.tau_ref, self.slack + hidden)

    def widened(self, regression: RidgeState, length: float) -> "Radius":
        r"""The radius plus a length, noise units."""
        if length == 0.0:
            return self
        root = math.sqrt(self.squared(regression))
        return Radius(self.tau_ref, self.slack + length * (2.0 * root + length))


class FitConstraint(NamedTuple, Generic[StateT]):
    r"""How far the data may lie from the function, in the basis of a state.

    Attributes:
        regression: The data, as the fit counts them.
        radius: Their largest distance from the function.
    """

    regression: StateT
    radius: Radius

    @property
    def squared_radius(self) -> float:
        r"""The squared radius, noise units."""
        return self.radius.squared(self.regression)

    def beside_hidden(self, norm: float) -> "FitConstraint[StateT]":
        r"""With what round-off hides of the outcomes, for a norm bound in prior units."""
        state: Any = self.regression  # one that knows what it hides
        tau_ref, slack = self.radius
        return FitConstraint(state, Radius(tau_ref, slack + state.hidden_part(norm)))

    @property
    def alone(self) -> "FitConstraint[StateT]":
        r"""This one; of a mixture of filters, Flynn & Reeb's member."""
        return self

    def for_band(self, norm: float) -> "FitConstraint[StateT]":
        r"""This one, whatever the norm bound; others choose theirs."""
        return self


def covariance_scales(value: CovarianceScale) -> tuple[float, ...]:
    r"""The scales that ``value`` names; ``"mixture"`` is the default grid.

    Raises:
        ValueError: If a scale is not a finite number above zero, or there is none.
    """
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


def misfit_of_error(regression: RidgeState, model_error: float) -> float:
    r"""How much farther from the data than ``f`` a function near it may lie, noise units.

    ``sqrt(sum_s model_error^2 / noise_s^2)`` over all observations, for a function that is
    nowhere farther than ``model_error`` (outcome units) from ``f``.

    Source: ours; see ``docs/mathematics.md``.

    Raises:
        ValueError: If that is beyond ``_LARGEST_MISFIT``.
    """
    misfit = model_error * float(regression.noise_scales.reciprocal().norm())
    if misfit > _LARGEST_MISFIT:
        raise ValueError(
            f"model_error is {model_error:.4g}, too large beside a noise scale of "
            f"{float(regression.noise_scales.min()):.4g}: squares would overflow. The data "
            "then say nothing; give a smaller one."
        )
    return misfit


def _regularizers(regression: RidgeState, value: CovarianceScale) -> Tensor:
    r"""``tau = 1 / c`` for each scale that ``value`` names."""
    scales = torch.tensor(covariance_scales(value), dtype=torch.float64)
    return 1.0 / scales.to(regression.eigenvalues)


def mixture_source(value: CovarianceScale) -> str:
    r"""The theorem of ``mixture_radius``."""
    return _SOURCE if len(covariance_scales(value)) == 1 else _SEVERAL_SOURCE


def mixture_radius(
    regression: KernelRegression, delta: float, covariance_scale: CovarianceScale
) -> Radius:
    r"""Squared radius of the martingale mixture, anytime.

    With probability ``1 - delta``, for all rounds at once, the true function's values at
    the inputs lie within this distance of the outcomes, for any input rule that uses the
    past only and conditionally sub-Gaussian noise. ``covariance_scale`` is the ``c`` of
    the mixture ``N(0, c K)``, several, or ``"mixture"``.

    Source: see ``combined_radius``.
    """
    taus = _regularizers(regression, covariance_scale)

    def differences(tau_ref: float) -> Tensor:
        return -regression.quadratic_form_drop(tau_ref, taus)

    return combined_radius(taus, regression.log_det(taus), differences, delta)


def sketched_radius(
    regression: NystromRegression | DTCRegression,
    delta: float,
    covariance_scale: CovarianceScale,
) -> Radius:
    r"""Upper bound on ``mixture_radius`` that needs no kernel matrix, anytime.

    The inducing points may depend on all data: the mixture is that of the kernel itself.
    Each quadratic form and log-determinant is replaced by an upper bound, in which the
    radius increases.
    """
    taus = _regularizers(regression, covariance_scale)
    forms, log_dets = regression.evidence_terms(taus)

    def differences(tau_ref: float) -> Tensor:
        return forms - forms[taus == tau_ref]

    tau_ref, slack = combined_radius(taus, log_dets, differences, delta)
    wider = float(forms[taus == tau_ref][0] - regression.quadratic_form(tau_ref))
    return Radius(tau_ref, slack + wider)


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
    most ``2 ln J`` above that of the best scale in hindsight.

    Args:
        taus: ``J`` regularisers ``1 / c_j``.
        log_dets: ``J`` values ``ln det(I + c_j K_w)``.
        differences: Maps one of the ``taus`` to the ``J`` values
            ``quadratic_form(tau_j) - quadratic_form(tau)``.
        delta: Failure probability.
    """
    tau_ref, confidence = float(taus[0]), 2.0 * math.log(1.0 / delta)
    if len(taus) == 1:
        return Radius(tau_ref, float(log_dets) + confidence)
    tau_ref = float(taus[(log_dets + differences(tau_ref)).argmin()])
    evidence = log_dets + differences(tau_ref)  # without the form at tau_ref
    mixed = -2.0 * torch.logsumexp(-0.5 * evidence, dim=0) + 2.0 * math.log(len(taus))
    return Radius(tau_ref, float(mixed) + confidence)
