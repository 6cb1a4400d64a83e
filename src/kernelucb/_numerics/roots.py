r"""Roots of increasing functions of one number."""

from collections.abc import Callable
from typing import Any

from scipy.optimize import brentq

_LONGEST_STEP = 8.0


def increasing_root(
    function: Callable[[float], float], start: float, lowest: float, tolerance: float
) -> float | None:
    r"""Where an increasing function is zero; None if it is not below zero at ``lowest``.

    It is above zero for arguments that are large enough. The search begins at ``start``,
    with steps that double, and ends within ``tolerance`` of the argument.
    """
    lower = upper = start
    lowest, step = min(lowest, start), 1.0
    if function(start) < 0.0:
        while function(upper) < 0.0:
            lower, upper, step = upper, upper + step, min(2.0 * step, _LONGEST_STEP)
    else:
        while function(lower) >= 0.0:
            if lower == lowest:
                return None
            lower, upper = max(lower - step, lowest), lower
            step = min(2.0 * step, _LONGEST_STEP)
    root: Any = brentq(function, lower, upper, xtol=tolerance)
    return root
