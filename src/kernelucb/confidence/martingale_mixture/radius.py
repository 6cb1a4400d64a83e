r"""How far the data may lie from the function: the squared radius of the fit."""

import math
from typing import NamedTuple

from kernelucb.regression import KernelRegression


class Radius(NamedTuple):
    r"""A squared radius in noise units, ``quadratic_form(reference) + surplus``.

    Kept in two parts because the differences that the bounds need,
    ``radius^2 - quadratic_form(tau)``, would otherwise cancel at small noise.

    Attributes:
        reference: Regulariser ``tau`` of the quadratic form.
        surplus: What is added to it.
    """

    reference: float
    surplus: float

    def squared(self, regression: KernelRegression) -> float:
        r"""The squared radius, a multiple of the noise variance."""
        return float(regression.quadratic_form(self.reference)) + self.surplus


def mixture_radius(
    regression: KernelRegression, delta: float, covariance_scale: float
) -> Radius:
    r"""Squared radius of the martingale mixture, anytime.

    With probability ``1 - delta``, for all rounds at once, the true function's values at
    the inputs lie within this distance of the outcomes, for any input rule that uses the
    past only and conditionally sub-Gaussian noise.

    Source: Flynn & Reeb (2024), Eq. (8), divided by ``noise_std^2``.

    Args:
        regression: The data.
        delta: Failure probability.
        covariance_scale: Scale ``c`` of the mixture ``N(0, c K)``.
    """
    reference = 1.0 / covariance_scale
    surplus = float(regression.log_det(reference)) + 2.0 * math.log(1.0 / delta)
    return Radius(reference, surplus)
