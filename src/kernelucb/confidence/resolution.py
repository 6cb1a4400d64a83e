r"""Which ridge parameters 64-bit kernel values resolve."""

import math

import torch
from torch import Tensor


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
