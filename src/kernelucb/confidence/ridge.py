r"""Bands of the form: ridge estimate plus or minus a width times its deviation.

Also the two theorems whose width is a function of the log-determinant alone, which
``KernelBandit`` keeps from round to round: Abbasi-Yadkori (2012) and Chowdhury & Gopalan
(2017). Norm bounds are in prior units here. Their acquisition functions, and the theorems
that need more than that, are in ``kernelucb.papers``.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from kernelucb._numerics.arrays import safe_sqrt
from kernelucb._numerics.checks import probability
from kernelucb.confidence.assumptions import (
    Assumption,
    Assumptions,
    Knowledge,
    rkhs_assumptions,
)
from kernelucb.confidence.norm import (
    NormBound,
    NormBoundLike,
    norm_bound_under_prior,
)
from kernelucb.confidence.sets import QueryPoints, RidgeT_co, StateSet
from kernelucb.data import KernelRegression, Projection, RidgeState
from kernelucb.data.exact import Regressed
from kernelucb.data.from_model import NoiseStd

_ABBASI_YADKORI_SOURCE = (
    "Abbasi-Yadkori (2012), Theorem 3.11 (Durand, Maillard & Pineau (2018), Theorem 1)"
)
_IGP_UCB_SOURCE = "Chowdhury & Gopalan (2017), Theorem 2"


class RidgeBand(StateSet[RidgeT_co, Projection]):
    r"""``mean_tau(x) +- width * sqrt(var_tau(x))`` at one regulariser ``tau``.

    ``width`` is dimensionless; ``tau = alpha / noise_std^2``.
    """

    has_hessian = True

    def __init__(
        self,
        regression: RidgeT_co,
        regularizer: float,
        width: float,
        assumptions: Assumptions,
    ) -> None:
        super().__init__(regression, assumptions)
        self.regularizer, self.width = regularizer, width

    def support(self, points: QueryPoints, sign: int) -> Tensor:
        r"""``sign (mean_tau - baseline) + width sd_tau``, ``b`` values."""
        tau = points.centre.baseline.new_tensor(self.regularizer)
        deviation = self.regression.deviation_at(points.centre, tau)
        radius = self.width * safe_sqrt(self.design.variance_at(points.design, tau))
        return sign * deviation + radius


def check_resolved(tau: float, noise_std: Tensor | float, variance: Tensor) -> None:
    r"""Raise ``ValueError`` where the rounding of kernel values hides a ridge parameter.

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
) -> RidgeBand[KernelRegression]:
    r"""The band of a theorem that fixes ``tau``.

    Raises:
        ValueError: If the kernel's rounding hides this ``tau``; see ``check_resolved``.
    """
    check_resolved(regularizer, regression.noise_scales, regression.distinct_variance)
    return RidgeBand(regression, regularizer, width, assumptions)


class RidgeTheorem(NamedTuple):
    r"""An anytime theorem of one ``tau``, where a log-determinant gives the width."""

    source: str
    delta: float
    regularizer: float  # `tau`
    width: Callable[[float, float], float]  # of `ln det(I + K_w / tau)` and the norm bound
    horizon: int | None = None  # number of rounds that the theorem covers; None for all

    def assumptions(self, known: RidgeState | Knowledge, norm: Assumption) -> Assumptions:
        r"""Assumptions of the band, from the status of the data's prior and noise."""
        horizon = self.horizon
        return rkhs_assumptions(self.source, known, self.delta, norm, horizon=horizon)

    def band(
        self, regression: KernelRegression, norm: NormBound
    ) -> RidgeBand[KernelRegression]:
        r"""The band of the data; raises ``ValueError`` as ``check_resolved``."""
        width = self.width(float(regression.log_det(self.regularizer)), norm.value)
        assumptions = self.assumptions(regression, norm.assumption)
        return fixed_ridge_band(regression, self.regularizer, width, assumptions)


def abbasi_yadkori_theorem(delta: float, regularizer: float) -> RidgeTheorem:
    r"""The self-normalised bound at any ``tau``."""
    width = partial(abbasi_yadkori_width, delta=delta, regularizer=regularizer)
    return RidgeTheorem(_ABBASI_YADKORI_SOURCE, delta, regularizer, width)


def abbasi_yadkori_width(
    log_det: float, norm: float, delta: float, regularizer: float
) -> float:
    r"""``norm + sqrt(log_det + 2 ln(1/delta)) / sqrt(tau)``, ``log_det`` at ``tau``.

    Source: Abbasi-Yadkori (2012), Theorem 3.11, for kernels Durand, Maillard & Pineau
    (2018), Theorem 1, in whitened form.
    """
    return norm + math.sqrt((log_det + 2.0 * math.log(1.0 / delta)) / regularizer)


def igp_ucb_theorem(delta: float, noise_std: float, horizon: int) -> RidgeTheorem:
    r"""Improved GP-UCB, for the ridge parameter ``1 + eta`` with ``eta = 2 / horizon``."""
    regularizer = (1.0 + 2.0 / horizon) / noise_std**2
    width = partial(igp_ucb_width, delta=delta, noise_std=noise_std)
    return RidgeTheorem(_IGP_UCB_SOURCE, delta, regularizer, width, horizon)


def igp_ucb_width(log_det: float, norm: float, delta: float, noise_std: float) -> float:
    r"""``norm + noise_std sqrt(log_det + t eta + 2 ln(1/delta))``, ``t eta`` at most 2.

    Source: Chowdhury & Gopalan (2017), Theorem 2.
    """
    return norm + noise_std * math.sqrt(log_det + 2.0 + 2.0 * math.log(1.0 / delta))


def ridge_inputs(
    model: Regressed,
    norm_bound: NormBoundLike,
    noise_std: NoiseStd,
    delta: float,
    one_scale: bool,
) -> tuple[KernelRegression, NormBound]:
    r"""The data, at their largest noise scale for ``one_scale``, and the norm bound."""
    probability("delta", delta)
    state = KernelRegression.of(model, noise_std)
    # Noise of a smaller scale is sub-Gaussian of the largest one as well.
    state = state.with_largest_noise() if one_scale else state
    return state, norm_bound_under_prior(norm_bound, state, delta)
