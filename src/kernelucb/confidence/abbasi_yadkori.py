r"""The self-normalised bound of Abbasi-Yadkori (2012)."""

import math

from kernelucb.confidence.assumptions import Assumptions
from kernelucb.confidence.ridge_band import RidgeBand, fixed_ridge_band
from kernelucb.regression import KernelRegression

ABBASI_YADKORI_SOURCE = (
    "Abbasi-Yadkori (2012), Theorem 3.11 (Durand, Maillard & Pineau (2018), Theorem 1)"
)


def abbasi_yadkori_band(
    regression: KernelRegression,
    norm: float,
    delta: float,
    regularizer: float,
    assumptions: Assumptions,
) -> RidgeBand[KernelRegression]:
    r"""Width ``norm + sqrt(log_det + 2 ln(1/delta)) / sqrt(tau)``, anytime; prior units."""
    log_det = float(regression.log_det(regularizer))
    width = abbasi_yadkori_width(log_det, norm, delta, regularizer)
    return fixed_ridge_band(regression, regularizer, width, assumptions)


def abbasi_yadkori_width(
    log_det: float, norm: float, delta: float, regularizer: float
) -> float:
    r"""The width of ``abbasi_yadkori_band`` from the log-determinant at ``tau``.

    Source: Abbasi-Yadkori (2012), Theorem 3.11, for kernels Durand, Maillard & Pineau
    (2018), Theorem 1, in whitened form.
    """
    return norm + math.sqrt((log_det + 2.0 * math.log(1.0 / delta)) / regularizer)
