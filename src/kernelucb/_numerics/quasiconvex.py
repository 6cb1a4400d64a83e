r"""A batch of one-dimensional minimisations, solved side by side."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

_MAX_STEPS = 60


class Minimum(NamedTuple):
    r"""Result of ``minimize_quasiconvex``, one entry per problem.

    Attributes:
        argument: Where the search stopped.
        gap: Twice the decrease that the last Newton step predicted: an upper estimate of
            how far the value at ``argument`` is above the minimum.
        converged: Whether ``gap`` met the tolerance.
    """

    argument: Tensor
    gap: Tensor
    converged: Tensor


def minimize_quasiconvex(
    slopes: Callable[[Tensor], tuple[Tensor, Tensor]],
    lower: Tensor,
    upper: Tensor,
    start: Tensor,
    tolerance: Tensor,
) -> Minimum:
    r"""Minimise ``n`` quasi-convex functions by Newton's method inside a shrinking bracket.

    The sign of the slope says on which side of a point the minimum of a quasi-convex
    function lies, so every evaluation shrinks the bracket. A Newton step that would leave
    it, or that is not half as long as the one before, is replaced by a bisection.

    Args:
        slopes: Maps ``n`` arguments to ``n`` first and ``n`` second derivatives.
        lower: Left ends of brackets that hold the minima.
        upper: Right ends.
        start: First guesses inside the brackets.
        tolerance: A search ends with the step whose predicted decrease is at most half
            of this.
    """
    position, last_step = start, upper - lower
    gap = torch.full_like(start, torch.inf)
    done = torch.zeros_like(start, dtype=torch.bool)
    for _ in range(_MAX_STEPS):
        first, second = slopes(position)
        lower = torch.where(first < 0, position, lower)
        upper = torch.where(first > 0, position, upper)
        newton = position - first / second
        newton_step = (newton - position).abs()
        usable = (newton >= lower) & (newton <= upper) & (newton_step <= 0.5 * last_step)
        proposal = torch.where(usable, newton, 0.5 * (lower + upper))
        step = (proposal - position).abs()
        gap = torch.where(done, gap, first.abs() * step)
        position = torch.where(done, position, proposal)
        done = done | (gap <= tolerance)
        if bool(done.all()):
            break
        last_step = step
    return Minimum(position, gap, done)
