r"""Arrays of numbers beyond what torch has, and searches in one dimension.

An operation of torch on a few numbers costs several microseconds, one of NumPy less than
one. Code that takes its functions from ``library_of`` its arrays runs with both: on NumPy
arrays that share the memory of tensors on the processor, on tensors elsewhere.
"""

from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
import torch
from scipy.optimize import brentq
from torch import Tensor

# A NumPy array or a tensor.
Array = Any

# Points that are evaluated together: memory does not grow with their number, and most
# intermediate results stay in the processor's cache.
_TOGETHER = 512
_MAX_STEPS = 60  # of a search for a minimum: halvings of a bracket, to 1e-18 of it
_LONGEST_STEP = 8.0  # of a search for a root, in the logarithm of the argument


def as_array(tensor: Tensor) -> Array:
    r"""The numbers of a tensor, without gradient: a NumPy array where torch allows it."""
    return tensor.detach().numpy() if tensor.device.type == "cpu" else tensor.detach()


def library_of(array: Array) -> ModuleType:
    r"""``torch`` for a tensor, otherwise ``numpy``."""
    return torch if isinstance(array, Tensor) else np


def safe_sqrt(value: Array) -> Array:
    r"""Square root with gradient zero instead of infinity at zero."""
    xp, positive = library_of(value), value > 0
    return xp.where(positive, xp.sqrt(xp.where(positive, value, 1.0)), 0.0)


def in_parts(X: Tensor, evaluate: Callable[[Tensor], Tensor]) -> Tensor:
    r"""Evaluate ``n x d`` points a few at a time, by a map to ``... x m`` values.

    The ``... x n`` values are written to one tensor: small results that stay alive between
    large intermediate ones would fragment the memory.
    """
    if len(X) <= _TOGETHER:
        return evaluate(X)
    start, results = 0, X.new_empty(0)
    for part in X.split(_TOGETHER):
        values = evaluate(part)
        if start == 0:
            results = values.new_empty(*values.shape[:-1], len(X))
        results[..., start : start + len(part)] = values
        start += len(part)
    return results


def minimize_quasiconvex(
    slopes: Callable[[Array], tuple[Array, Array]],
    lower: Array,
    upper: Array,
    start: Array,
    tolerance: Array,
) -> Array:
    r"""Minimise ``n`` quasi-convex functions by Newton's method inside a shrinking bracket.

    The sign of the slope says on which side of a point the minimum of a quasi-convex
    function lies, so every evaluation shrinks the bracket. A Newton step that would leave
    it, or that is not half as long as the one before, is replaced by a bisection.

    A step promises at most its length times the slope. Newton's method squares an error, so
    two of its steps in a row, ``s`` after ``t``, say how much the next would be: ``s^3 /
    t^2``. Then what is left to gain is only ``(s / t)^4`` times what the step promised.

    ``slopes`` maps ``n`` arguments to first and second derivatives; ``lower`` and ``upper``
    bracket the minima. A search ends with the step that leaves at most ``tolerance`` to
    gain. All are tensors, or all NumPy arrays, as are the ``n`` arguments where they ended.
    """
    xp = library_of(start)
    position, last_step = start, upper - lower
    done = in_a_row = xp.zeros_like(start) > 0.0
    with np.errstate(all="ignore"):  # steps that are not finite are not usable
        for _ in range(_MAX_STEPS):
            first, second = slopes(position)
            lower = xp.where(first < 0, position, lower)
            upper = xp.where(first > 0, position, upper)
            newton = position - first / second
            newton_step = abs(newton - position)
            usable = newton_step <= 0.5 * last_step
            usable &= (newton >= lower) & (newton <= upper)
            proposal = xp.where(usable, newton, 0.5 * (lower + upper))
            step = abs(proposal - position)
            left = abs(first) * step
            left = xp.where(in_a_row & usable, left * (step / last_step) ** 4, left)
            # A problem that is done stays where it is: none moves another.
            position = xp.where(done, position, proposal)
            done = done | (left <= tolerance)
            if done.all():
                break
            last_step, in_a_row = step, usable
    return position


def increasing_root(
    function: Callable[[float], float], start: float, lowest: float, tolerance: float
) -> float | None:
    r"""Where an increasing function is zero; None if it is not below zero at ``lowest``.

    It is above zero for arguments that are large enough. The search begins at ``start``,
    with steps that double, and ends within ``tolerance`` of the argument.
    """
    function = cache(function)  # both ends are asked for again by `brentq`
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
