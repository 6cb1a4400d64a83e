r"""Bands of the form: ridge estimate plus or minus a width times its deviation."""

import math

import torch
from torch import Tensor

from kernelucb._numerics.safe_math import safe_sqrt
from kernelucb.confidence.assumptions import Assumptions
from kernelucb.confidence.base import RidgePoints, RidgeSet, RidgeStateT, Support
from kernelucb.regression import KernelRegression, RidgeState


class RidgeBand(RidgeSet[RidgeStateT]):
    r"""``mean_tau(x) +- width * sqrt(var_tau(x))`` at one regulariser ``tau``.

    ``width`` is dimensionless; ``tau = alpha / noise_std^2``.
    """

    def __init__(
        self,
        regression: RidgeStateT,
        regularizer: float,
        width: float,
        assumptions: Assumptions,
        design: RidgeState | None = None,
    ) -> None:
        super().__init__(regression, assumptions, design)
        self.regularizer, self.width = regularizer, width

    def support(self, points: RidgePoints, sign: int) -> Support:
        r"""Ridge estimate plus width times standard deviation; see ``ConfidenceSet``."""
        tau = points.centre.prior_mean.new_tensor(self.regularizer)
        deviation = self.regression.deviation_at(points.centre, tau)
        radius = self.width * safe_sqrt(self.design.variance_at(points.design, tau))
        value = sign * deviation + radius
        return Support(value, tau.expand(value.shape), torch.zeros_like(value))

    def with_design(self, design: RidgeState) -> "RidgeBand[RidgeStateT]":
        r"""The band with variances of another state."""
        return RidgeBand(
            self.regression, self.regularizer, self.width, self.assumptions, design
        )


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
) -> RidgeBand[KernelRegression]:
    r"""The band of a theorem that fixes ``tau``.

    Raises:
        ValueError: If the kernel's rounding hides this ``tau``; see ``check_resolved``.
    """
    check_resolved(regularizer, regression.noise_scales, regression.distinct_variance)
    return RidgeBand(regression, regularizer, width, assumptions)
