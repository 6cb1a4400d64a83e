r"""The bound of Wang & de Freitas (2014)."""

import math

from kernelucb.confidence.assumptions import Assumption, Assumptions, Status
from kernelucb.confidence.ridge_band import RidgeBand, fixed_ridge_band
from kernelucb.regression import KernelRegression

WANG_DE_FREITAS_SOURCE = (
    "Wang & de Freitas (2014), Proposition 1 (Durand, Maillard & Pineau (2018), Lemma 3), "
    "its last term in noise units (ours)"
)
FIXED_DESIGN = Assumption(
    "design", "the inputs were fixed before any outcome was seen", Status.GIVEN
)


def wang_de_freitas_band(
    regression: KernelRegression, norm: float, delta: float, assumptions: Assumptions
) -> RidgeBand[KernelRegression]:
    r"""Posterior band of width ``l``, for fixed inputs and each round alone.

    ``l^2 = B^2 + sqrt(8 g ln(2/delta)) + sqrt(2 ln(4/delta)) B + 2 g + 2 ln(2/delta)`` with
    ``g`` half the log-determinant and ``B`` the norm bound in prior units, for one noise
    scale for all observations.

    Source: Wang & de Freitas (2014), Proposition 1, as Lemma 3 of Durand, Maillard &
    Pineau (2018), whose last term is printed as ``2 noise_std ln(2/delta)``. In the units
    of its other terms it is ``2 ln(2/delta)``; with the printed one the band fails far
    more often than ``delta`` where ``noise_std`` is below one. It rests on the
    concentration of a quadratic form of the noise, for inputs that do not depend on the
    noise and one round at a time.
    """
    gain = 0.5 * float(regression.log_det(1.0))
    squared = (
        norm**2
        + math.sqrt(8.0 * gain * math.log(2.0 / delta))
        + math.sqrt(2.0 * math.log(4.0 / delta)) * norm
        + 2.0 * gain
        + 2.0 * math.log(2.0 / delta)
    )
    return fixed_ridge_band(regression, 1.0, math.sqrt(squared), assumptions)
