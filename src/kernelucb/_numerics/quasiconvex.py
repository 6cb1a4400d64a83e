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
        gap: Slope times the next step at that point: twice the decrease that one more
            Newton step promises.
        converged: Whether the slope or the bracket met the tolerance.
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
    r"""Minimise quasi-convex functions by Newton's method inside a shrinking bracket.

    The sign of the slope says on which side of a point the minimum of a quasi-convex
    function lies, so every evaluation shrinks the bracket; a Newton step that would
    leave it is replaced by a bisection.

    Args:
        slopes: Maps ``n`` arguments to ``n`` first and ``n`` second derivatives.
        lower: ``n`` left ends of brackets that hold the minima.
        upper: ``n`` right ends.
        start: ``n`` first guesses inside the brackets.
        tolerance: ``n`` values; a search stops when the decrease that the next step
            promises is below it.
    """
    position, previous_width = start, upper - lower
    done = torch.zeros_like(start, dtype=torch.bool)
    gap = torch.full_like(start, torch.inf)
    for _ in range(_MAX_STEPS):
        first, second = slopes(position)
        lower = torch.where(first < 0, position, lower)
        upper = torch.where(first > 0, position, upper)
        width = upper - lower
        newton = position - first / second
        # A bracket that Newton's steps shrink too slowly is cut in half instead.
        moves_well = (width < 0.5 * previous_width) | (
            (newton - position).abs() < 0.1 * width
        )
        usable = (second > 0) & (newton > lower) & (newton < upper) & moves_well
        proposal = torch.where(usable, newton, 0.5 * (lower + upper))
        gap = torch.where(done, gap, first.abs() * (proposal - position).abs())
        done = done | (usable & (gap <= tolerance)) | (width <= 1e-12) | (first == 0)
        if bool(done.all()):
            break
        position = torch.where(done, position, proposal)
        previous_width = width
    return Minimum(position, gap, done)
