r"""The regularisers over which a bandit minimises: powers of 5/4."""

import math

import torch
from torch import Tensor

_STEP = math.log(1.25)
_FIRST_REACH, _MARGIN, _SHORTEST = 11, 3, 4  # powers
# Of an ellipsoid's half-width: what beyond an end of the window is not worth a step.
_FLAT = 1e-5


class RegularizerGrid:
    r"""The powers of 5/4, of which a window holds the minimisers of all arms.

    The bound of an arm is quasi-convex in ``tau``, so its least value in a window that has
    larger ones to both sides is the least over all powers. A band over them is at most
    0.3 % wider than over every ``tau``, unless the set holds hardly more than one function
    (measured; ``tests/unit/test_bandits.py``), and valid in any case. The window changes
    what a round costs, not what it gives.
    """

    def __init__(self) -> None:
        self.window: tuple[int, int] | None = None  # the least and the largest power
        self.seen: tuple[int, int] | None = None  # the powers that mattered
        self._limits = (0, 0)

    def restart(self) -> None:
        r"""With a new eigenbasis all is computed anew: go on with what mattered."""
        if self.seen is not None:
            first, last = sorted(self.seen)
            self.window, self.seen = (first - _MARGIN, last + _MARGIN), None

    def place(self, centre: float, lower: float, upper: float) -> None:
        r"""Begin near ``centre``, unless there was a window; stay between the limits."""
        least = math.ceil(math.log(lower) / _STEP)
        self._limits = least, max(math.floor(math.log(upper) / _STEP), least + 1)
        if self.window is None:
            middle = round(math.log(centre) / _STEP)
            self.window = middle - _FIRST_REACH, middle + _FIRST_REACH
        first = min(max(self.window[0], self._limits[0]), self._limits[1] - 1)
        self.window = first, max(min(self.window[1], self._limits[1]), first + 1)

    def regularizers(self, like: Tensor) -> Tensor:
        r"""The powers in the window, ascending."""
        assert self.window is not None
        powers = torch.arange(self.window[0], self.window[1] + 1).to(like)
        return (powers * _STEP).exp()

    def widened(self, values: Tensor, half_widths: Tensor) -> bool:
        r"""Make the window longer where bounds fall towards an end that can move.

        Args:
            values: ``s x a x m`` bounds of ``a`` arms at the powers in the window.
            half_widths: ``a x m`` half-widths of their ellipsoids.
        """
        assert self.window is not None
        (first, last), slack = self.window, _FLAT * half_widths
        step = max((last - first) // 2, _SHORTEST)
        if bool((values[..., 1] - values[..., 0] > slack[:, 0]).any()):
            first = max(first - step, self._limits[0])
        if bool((values[..., -2] - values[..., -1] > slack[:, -1]).any()):
            last = min(last + step, self._limits[1])
        if (first, last) != self.window:
            self.window = first, last
            return True
        positions = torch.arange(first, last + 1, device=values.device)
        near = values <= values.amin(-1, keepdim=True) + slack
        # Of the powers that are as good for an arm the one nearest to the others'.
        lowest = int(torch.where(near, positions, first - 1).amax(-1).min())
        highest = int(torch.where(near, positions, last + 1).amin(-1).max())
        seen = self.seen or (lowest, highest)
        self.seen = min(seen[0], lowest), max(seen[1], highest)
        return False
