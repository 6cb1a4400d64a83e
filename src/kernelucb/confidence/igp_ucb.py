r"""The bound of Improved GP-UCB (Chowdhury & Gopalan 2017)."""

import math

from kernelucb.confidence.assumptions import Assumptions
from kernelucb.confidence.ridge_band import RidgeBand, fixed_ridge_band
from kernelucb.regression import KernelRegression

IGP_UCB_SOURCE = "Chowdhury & Gopalan (2017), Theorem 2"


def igp_ucb_band(
    regression: KernelRegression,
    norm: float,
    delta: float,
    horizon: int,
    assumptions: Assumptions,
) -> RidgeBand[KernelRegression]:
    r"""Width ``norm + noise_std sqrt(log_det + t eta + 2 ln(1/delta))``.

    Ridge parameter ``1 + eta`` in the units of the model's kernel, ``eta = 2 / horizon``,
    and ``t eta`` taken as its largest value 2. Holds for all rounds up to ``horizon``, for
    one noise scale for all observations. ``norm`` is in prior units.
    """
    noise_std = float(regression.noise_scales[0]) / regression.outcome_scale
    regularizer = igp_ucb_regularizer(noise_std, horizon)
    width = igp_ucb_width(float(regression.log_det(regularizer)), norm, delta, noise_std)
    return fixed_ridge_band(regression, regularizer, width, assumptions)


def igp_ucb_regularizer(noise_std: float, horizon: int) -> float:
    r"""``tau`` of the ridge parameter ``1 + 2 / horizon``."""
    return (1.0 + 2.0 / horizon) / noise_std**2


def igp_ucb_width(log_det: float, norm: float, delta: float, noise_std: float) -> float:
    r"""The width of ``igp_ucb_band`` from the log-determinant at its regulariser.

    Source: Chowdhury & Gopalan (2017), Theorem 2.
    """
    return norm + noise_std * math.sqrt(log_det + 2.0 + 2.0 * math.log(1.0 / delta))
