r"""Kernels whose norm balls hold those of every length scale in a range."""

import math
from typing import Any, NamedTuple

import numpy as np
from gpytorch.kernels import AdditiveKernel, Kernel, ScaleKernel
from scipy.special import expit
from torch import Tensor

from kernelucb._numerics.checks import as_double

# A grid of log odds, and what the maximum over it is raised by: more than its step, which
# is the most that the function rises between two of its points.
_REACH, _GRID, _MARGIN = 40.0, 100_000, 1e-3


class Cover(NamedTuple):
    r"""What covers a range of length scales.

    Attributes:
        kernel: The kernel.
        norm_factor: What the norm bound is to be multiplied by, at least 1.
    """

    kernel: Kernel
    norm_factor: float


def cover_of_all(shorter: Kernel, longer: Kernel, ratio: float, dimension: int) -> Cover:
    r"""Covers the length scales between those of two kernels, ``ratio`` times apart.

    ``k_s + c k_l`` at the same norm bound, or by a larger one as ``cover_of_shortest``:
    whichever has the smaller prior variance.

    Source: ours; ``docs/mathematics.md``.

    Args:
        shorter: Kernel of the shortest length scale.
        longer: Of the longest, ``ratio`` times that in every coordinate.
        ratio: At least 1.
        dimension: Number of coordinates.
    """
    log_nested = dimension * math.log(ratio)
    log_share = _log_weight(ratio, dimension) - log_nested
    if np.logaddexp(0.0, log_share) >= log_nested:
        return Cover(shorter, math.exp(0.5 * log_nested))
    scaled = ScaleKernel(longer).double().to(next(longer.parameters()).device)
    scaled.outputscale = as_double(math.exp(log_share))
    both: Any = AdditiveKernel(shorter, scaled)
    return Cover(both.requires_grad_(False), 1.0)


def cover_of_shortest(shorter: Kernel, steps: Tensor) -> Cover:
    r"""Covers the length scales up to ``steps`` times those of a kernel, each on its own.

    By a larger norm bound: ``||f||_{l'} <= prod_i (l_i / l'_i)^{1/2} ||f||_l``.

    Source: ours; ``docs/mathematics.md``.
    """
    return Cover(shorter, math.sqrt(float(steps.prod())))


def _log_weight(ratio: float, dimension: int) -> float:
    r"""``ln C``: smallest ``C`` with ``1 + C h >= (1 + t p)^(d/2) h^t`` on the unit square.

    With ``p = ratio^2 - 1``; ``t`` stands for the length scale, ``h`` for the frequency.
    For each ``t`` the worst ``h`` is known. Sufficient where ``dimension p^2`` is at most
    ``4 exp(40)``: see ``docs/mathematics.md``.
    """
    odds = np.linspace(-_REACH, _REACH, _GRID + 1)
    t, rest, log_rest = expit(odds), expit(-odds), -np.logaddexp(0.0, odds)
    log_values = 0.5 * dimension * np.log1p(t * (ratio**2 - 1.0))
    inside = log_values + log_rest >= 0.0
    needed = np.log(t) + (log_values + rest * log_rest) / t
    log_nested = dimension * math.log(ratio)
    at_zero = log_nested + math.log(-math.expm1(-log_nested))
    largest = max(needed[inside], default=-math.inf)
    return max(at_zero, float(largest)) + math.log1p(_MARGIN)
