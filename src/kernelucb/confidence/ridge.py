r"""Bands of the form: ridge estimate plus or minus a width times its deviation.

Three theorems fix regulariser and width: Abbasi-Yadkori (2012), Chowdhury & Gopalan (2017)
and Wang & de Freitas (2014). Norm bounds are in prior units here.
"""

import math

import torch
from torch import Tensor

from kernelucb._numerics.arrays import safe_sqrt
from kernelucb.confidence.assumptions import (
    Assumption,
    Assumptions,
    Status,
    rkhs_assumptions,
)
from kernelucb.confidence.norm import NormBound
from kernelucb.confidence.sets import ConfidenceSet, QueryPoints, Support
from kernelucb.regression import KernelRegression, RidgeState

ABBASI_YADKORI_SOURCE = (
    "Abbasi-Yadkori (2012), Theorem 3.11 (Durand, Maillard & Pineau (2018), Theorem 1)"
)
IGP_UCB_SOURCE = "Chowdhury & Gopalan (2017), Theorem 2"
_WANG_DE_FREITAS_SOURCE = (
    "Wang & de Freitas (2014), Proposition 1 (Durand, Maillard & Pineau (2018), Lemma 3), "
    "its last term in noise units (ours)"
)
FIXED_DESIGN = Assumption(
    "design", "the inputs were fixed before any outcome was seen", Status.GIVEN
)


class RidgeBand(ConfidenceSet):
    r"""``mean_tau(x) +- width * sqrt(var_tau(x))`` at one regulariser ``tau``.

    ``width`` is dimensionless; ``tau = alpha / noise_std^2``.
    """

    def __init__(
        self,
        regression: RidgeState,
        regularizer: float,
        width: float,
        assumptions: Assumptions,
    ) -> None:
        super().__init__(regression, assumptions)
        self.regularizer, self.width = regularizer, width

    def support(self, points: QueryPoints, sign: int) -> Support:
        r"""Ridge estimate plus width times standard deviation; see ``ConfidenceSet``."""
        tau = points.centre.baseline.new_tensor(self.regularizer)
        deviation = self.regression.deviation_at(points.centre, tau)
        radius = self.width * safe_sqrt(self.design.variance_at(points.design, tau))
        value = sign * deviation + radius
        return Support(value, tau.expand(value.shape), torch.zeros_like(value))


def check_resolved(tau: float, noise_std: Tensor | float, variance: Tensor) -> None:
    r"""Check that kernel values resolve the ridge parameter ``tau`` of a bound.

    Kernel values are rounded to ``eps k(x, x)``, which must be below ``tau noise_std^2``;
    otherwise the bound would depend on round-off. For theorems that fix ``tau``; the bounds
    of the martingale mixture hold at any ``tau``, and take a larger one. ``variance``
    holds prior variances at the observed inputs, outcome units squared.

    Raises:
        ValueError: If round-off is larger; names the smallest noise scale that works.
    """
    noise = float(torch.as_tensor(noise_std).min())
    largest = float(variance.max()) if variance.numel() else 0.0
    rounding = torch.finfo(torch.float64).eps * largest
    ridge = noise**2 * tau
    if not ridge >= rounding:
        smallest = noise * math.sqrt(rounding / ridge)
        raise ValueError(
            f"noise_std must be at least {smallest:.4g}, got {noise:.4g}: the smallest "
            f"ridge parameter, {ridge:.4g}, is lost in the rounding of a prior variance of "
            f"{largest:.4g}. Or use MartingaleMixtureUCB, which takes a larger one; where "
            "it does not follow the noise (IGP-UCB), divide the outcomes by their scale."
        )


def fixed_ridge_band(
    regression: KernelRegression,
    regularizer: float,
    width: float,
    assumptions: Assumptions,
) -> RidgeBand:
    r"""The band of a theorem that fixes ``tau``.

    Raises:
        ValueError: If the kernel's rounding hides this ``tau``; see ``check_resolved``.
    """
    check_resolved(regularizer, regression.noise_scales, regression.distinct_variance)
    return RidgeBand(regression, regularizer, width, assumptions)


def abbasi_yadkori_band(
    regression: KernelRegression, norm: NormBound, delta: float, regularizer: float
) -> RidgeBand:
    r"""The self-normalised bound at any ``tau``, anytime."""
    log_det = float(regression.log_det(regularizer))
    width = abbasi_yadkori_width(log_det, norm.value, delta, regularizer)
    source = ABBASI_YADKORI_SOURCE
    assumptions = rkhs_assumptions(source, regression, delta, norm.assumption)
    return fixed_ridge_band(regression, regularizer, width, assumptions)


def abbasi_yadkori_width(
    log_det: float, norm: float, delta: float, regularizer: float
) -> float:
    r"""``norm + sqrt(log_det + 2 ln(1/delta)) / sqrt(tau)``, ``log_det`` at ``tau``.

    Source: Abbasi-Yadkori (2012), Theorem 3.11, for kernels Durand, Maillard & Pineau
    (2018), Theorem 1, in whitened form.
    """
    return norm + math.sqrt((log_det + 2.0 * math.log(1.0 / delta)) / regularizer)


def igp_ucb_band(
    regression: KernelRegression, norm: NormBound, delta: float, horizon: int
) -> RidgeBand:
    r"""Improved GP-UCB for all rounds up to ``horizon``, at one noise scale."""
    noise_std = float(regression.noise_scales[0]) / regression.outcome_scale
    regularizer = igp_ucb_regularizer(noise_std, horizon)
    log_det = float(regression.log_det(regularizer))
    width = igp_ucb_width(log_det, norm.value, delta, noise_std)
    assumptions = rkhs_assumptions(
        IGP_UCB_SOURCE, regression, delta, norm.assumption, horizon=horizon
    )
    return fixed_ridge_band(regression, regularizer, width, assumptions)


def igp_ucb_regularizer(noise_std: float, horizon: int) -> float:
    r"""``tau`` of the ridge parameter ``1 + eta``, ``eta = 2 / horizon``."""
    return (1.0 + 2.0 / horizon) / noise_std**2


def igp_ucb_width(log_det: float, norm: float, delta: float, noise_std: float) -> float:
    r"""``norm + noise_std sqrt(log_det + t eta + 2 ln(1/delta))``, ``t eta`` at most 2.

    Source: Chowdhury & Gopalan (2017), Theorem 2.
    """
    return norm + noise_std * math.sqrt(log_det + 2.0 + 2.0 * math.log(1.0 / delta))


def wang_de_freitas_band(
    regression: KernelRegression, norm: NormBound, delta: float, fixed_design: bool
) -> RidgeBand:
    r"""Posterior band of width ``l``, for fixed inputs and each round alone.

    ``l^2 = B^2 + sqrt(8 g ln(2/delta)) + sqrt(2 ln(4/delta)) B + 2 g + 2 ln(2/delta)`` with
    ``g`` half the log-determinant and ``B`` the norm bound, for one noise scale.

    Source: Wang & de Freitas (2014), Proposition 1, as Lemma 3 of Durand, Maillard &
    Pineau (2018), whose last term is printed as ``2 noise_std ln(2/delta)``. In the units
    of its other terms it is ``2 ln(2/delta)``; with the printed one the band fails far
    more often than ``delta`` where ``noise_std`` is below one.
    """
    gain = 0.5 * float(regression.log_det(1.0))
    squared = (
        norm.value**2
        + math.sqrt(8.0 * gain * math.log(2.0 / delta))
        + math.sqrt(2.0 * math.log(4.0 / delta)) * norm.value
        + 2.0 * gain
        + 2.0 * math.log(2.0 / delta)
    )
    assumptions = rkhs_assumptions(
        _WANG_DE_FREITAS_SOURCE, regression, delta, norm.assumption, anytime=False
    )
    if fixed_design:
        assumptions = assumptions.with_extra(FIXED_DESIGN)
    else:
        assumptions = assumptions.without_guarantee(
            "the inputs must have been fixed before any outcome was seen, which an "
            "acquisition function does not do (fixed_design=True if they were)",
            name=FIXED_DESIGN.name,
        )
    return fixed_ridge_band(regression, 1.0, math.sqrt(squared), assumptions)
