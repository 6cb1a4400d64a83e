r"""Regret balancing over the kernels of a family."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor


class Play(NamedTuple):
    r"""An arm that was selected for a kernel and not yet observed.

    Attributes:
        kernel: Index of the kernel.
        arm: Its ``d`` coordinates.
        width: Width of the kernel's band there, outcome units.
    """

    kernel: int
    arm: Tensor
    width: float


class Balance(NamedTuple):
    r"""Which kernels were played, with what outcome, and which of them play on.

    Source: Ziomek, Adachi & Osborne (2024), Algorithm 1, for a family that is fixed, with
    three departures. The width of a play is that of our band. The average of the kernel
    that may be dropped counts with its deviation added, as in their code; in print it is
    subtracted, and then chance alone drops a true one. The suspected regret has the
    information gain of all observations in place of a bound on that of its own, so that
    any kernel can be taken.

    Attributes:
        plays: How often each kernel was played.
        outcomes: Sums of the outcomes of its plays, outcome units.
        widths: Sums of the widths of its band at the arms played, outcome units.
        dropped: Whether it was dropped, for good.
        pending: The play whose outcome is awaited.
    """

    plays: tuple[int, ...]
    outcomes: tuple[float, ...]
    widths: tuple[float, ...]
    dropped: tuple[bool, ...]
    pending: Play | None = None

    @classmethod
    def fresh(cls, count: int) -> "Balance":
        r"""Before any play of ``count`` kernels."""
        return cls((0,) * count, (0.0,) * count, (0.0,) * count, (False,) * count)

    def playing(self, consistent: Sequence[bool]) -> list[int]:
        r"""Indices of the kernels that may be played; all consistent ones if none else."""
        kept = [index for index, own in enumerate(consistent) if own]
        return [index for index in kept if not self.dropped[index]] or kept

    def credited(self, x: Tensor, outcome: float) -> "Balance":
        r"""With an outcome, which counts as a play if it is of the arm selected last."""
        if self.pending is None:
            return self
        (index, arm, width), own = self.pending, self._replace(pending=None)
        if not torch.equal(arm.to(x), x):
            return own
        return own._replace(
            plays=tuple(n + (i == index) for i, n in enumerate(own.plays)),
            outcomes=_added(own.outcomes, index, outcome),
            widths=_added(own.widths, index, width),
        )

    def judged(
        self, consistent: Sequence[bool], noise_std: float, delta: float
    ) -> "Balance":
        r"""Drop kernels whose outcomes are too low for their bands to be true.

        Once each has been played, after ``t`` plays in all: where
        ``mean + mean width + sqrt(xi / n) < max (mean' - sqrt(xi / n'))`` over the others,
        with ``xi = 2 noise_std^2 ln(m pi^2 t^2 / (3 delta))`` for ``m`` kernels.
        """
        playing, total = self.playing(consistent), sum(self.plays)
        if not playing or any(self.plays[index] == 0 for index in playing):
            return self
        count = len(self.plays)
        logarithm = math.log(count * (math.pi * total) ** 2 / (3.0 * delta))
        rows = {index: self._averages(index) for index in playing}
        errors = {
            index: noise_std * math.sqrt(2.0 * logarithm / self.plays[index])
            for index in playing
        }
        best = max(mean - errors[index] for index, (mean, _) in rows.items())
        dropped = list(self.dropped)
        for index, (mean, width) in rows.items():
            if mean + width + errors[index] < best:
                dropped[index] = True
        return self._replace(dropped=tuple(dropped))

    def _averages(self, index: int) -> tuple[float, float]:
        r"""Average outcome and width of the plays of a kernel."""
        plays = self.plays[index]
        return self.outcomes[index] / plays, self.widths[index] / plays


def suspected_regret(plays: int, norm_bound: float, information_gain: float) -> float:
    r"""Bound on the regret of so many plays if the kernel is true, up to one factor.

    ``sqrt(T gamma) (B + sqrt(gamma))`` for ``T`` plays, from the information gain ``gamma``
    of all observations.

    Source: Ziomek, Adachi & Osborne (2024), Theorem 2.3.
    """
    root = math.sqrt(information_gain)
    return math.sqrt(plays) * root * (norm_bound + root)


def _added(values: Sequence[float], index: int, amount: float) -> tuple[float, ...]:
    return (*values[:index], values[index] + amount, *values[index + 1 :])
