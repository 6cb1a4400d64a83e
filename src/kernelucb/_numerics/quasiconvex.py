r"""A batch of one-dimensional minimisations, solved side by side."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from kernelucb._numerics.arrays import Array, library_of

_MAX_STEPS = 60


class Minimum(NamedTuple):
    r"""Result of ``minimize_quasiconvex``, one entry per problem."""

    argument: Array  # where the search stopped
    gap: Array  # an estimate of how far the value there is above the minimum
    converged: Array  # whether the gap met the tolerance


def minimize_quasiconvex(
    slopes: Callable[[Array], tuple[Array, Array]],
    lower: Array,
    upper: Array,
    start: Array,
    tolerance: Array,
) -> Minimum:
    r"""Minimise ``n`` quasi-convex functions by Newton's method inside a shrinking bracket.

    The sign of the slope says on which side of a point the minimum of a quasi-convex
    function lies, so every evaluation shrinks the bracket. A Newton step that would leave
    it, or that is not half as long as the one before, is replaced by a bisection.

    A step promises at most its length times the slope. Newton's method squares an error, so
    two of its steps in a row, ``s`` after ``t``, say how much the next would be: ``s^3 /
    t^2``. Then what is left to gain is only ``(s / t)^4`` times what the step promised.

    ``slopes`` maps ``n`` arguments to first and second derivatives; ``lower`` and ``upper``
    bracket the minima. A search ends with the step that leaves at most ``tolerance`` to
    gain. All are tensors, or all NumPy arrays.
    """
    xp = library_of(start)
    position, last_step = start, upper - lower
    gap = xp.full_like(start, xp.inf)
    done = in_a_row = gap < 0.0
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
            gap = xp.where(done, gap, left)
            position = xp.where(done, position, proposal)
            done = done | (gap <= tolerance)
            if done.all():
                break
            last_step, in_a_row = step, usable
    return Minimum(position, gap, done)
