r"""Branch and bound over a region, and how far functions of a set change in a cell.

A cell is a box. The value at the centre plus the largest change within the cell is an upper
bound on the whole cell: cells whose upper bound lies below a value already found are
dropped, the others are cut in two. So upper bounds are rigorous at any time, and the
evaluations decide only how sharp they are.
"""

import logging
import math
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import NamedTuple, Self

import torch
from torch import Tensor

from kernelucb._numerics.arrays import in_parts
from kernelucb._numerics.digits import between
from kernelucb.certificates.spaces import Region
from kernelucb.confidence.sets import Change, ConfidenceSet, changes_in

_LOG = logging.getLogger(__name__)
_BATCH = 2048  # cells that are cut at once
ACCURACY = 0.05  # share of a maximum that branch and bound may leave open


class SetFunction(NamedTuple):
    r"""A function of points that follows from a confidence set, or from a part of one."""

    values: Callable[[ConfidenceSet, Tensor], Tensor]  # of `n x d` points, `n` values
    limit: Callable[[ConfidenceSet], float]  # what no value exceeds

    def __call__(self, functions: ConfidenceSet, X: Tensor) -> Tensor:
        r"""``n`` values at ``n x d`` points."""
        return self.values(functions, X)


class Maximum(NamedTuple):
    r"""Largest value found, the ``d`` coordinates where, and an upper bound on all."""

    value: float
    argument: Tensor
    upper: float


class Cells(NamedTuple):
    r"""``m`` boxes: centres and half sides (``m x d``), and ``m`` upper bounds."""

    centres: Tensor
    halves: Tensor
    uppers: Tensor

    @classmethod
    def of(cls, region: Region) -> Self:
        r"""The boxes of a region."""
        centres = 0.5 * (region.lower + region.upper)
        halves = 0.5 * (region.upper - region.lower)
        return cls(centres, halves, centres.new_full((len(centres),), torch.inf))

    def where(self, mask: Tensor) -> Self:
        r"""The boxes at which a mask is true."""
        return type(self)(*(part[mask] for part in self))

    def joined(self, other: Self) -> Self:
        r"""These boxes, then the others."""
        return type(self)(*(torch.cat(pair) for pair in zip(self, other, strict=True)))


class CellFunction(NamedTuple):
    r"""A function of points, and how far the function rises within a cell.

    The function is one part, or the largest or the smallest of several parts.
    """

    # For each part what maps `m x d` points to `2 x m` values: at the points, and the least
    # from which the function rises as `changes` say
    values: Sequence[Callable[[Tensor], Tensor]]
    # For each part what maps `m x d` centres and half sides of cells to `m` upper bounds on
    # how far it rises in the cell
    changes: Sequence[Change]
    # From `m` values of each part to those of the function; increasing in each
    joined: Callable[[Sequence[Tensor]], Tensor]
    limits: Sequence[float]  # what no value of each part exceeds

    def bounds(self, centres: Tensor, halves: Tensor) -> tuple[Tensor, Tensor]:
        r"""Values at the centres, and upper bounds on the cells."""
        values = [in_parts(centres, value) for value in self.values]
        parts = zip(values, self.changes, self.limits, strict=True)
        uppers = [
            (value[1] + change(centres, halves)).clamp_max(limit)
            for value, change, limit in parts
        ]
        return self.joined([value[0] for value in values]), self.joined(uppers)

    def largest_change(self, centres: Tensor, halves: Tensor) -> Tensor:
        r"""The largest of the parts' changes, by which cells are cut."""
        return torch.stack([change(centres, halves) for change in self.changes]).amax(0)


class Search(NamedTuple):
    r"""A function over the points of a region at which some limits are at least 0."""

    function: CellFunction
    region: Region  # the boxes and the linear constraints
    limits: Sequence[CellFunction] = ()  # a point counts where all of these are at least 0

    def evaluated(self, cells: Cells) -> tuple[Tensor, Cells]:
        r"""Values at the centres (minus infinity at excluded points) and upper bounds."""
        values, uppers = self.function.bounds(cells.centres, cells.halves)
        counts = self.region.allows(cells.centres)
        possible = self.region.may_allow(cells.centres, cells.halves)
        for limit in self.limits:
            inside, largest = limit.bounds(cells.centres, cells.halves)
            counts, possible = counts & (inside >= 0.0), possible & (largest >= 0.0)
        uppers = torch.minimum(uppers, cells.uppers).masked_fill(~possible, -torch.inf)
        return values.masked_fill(~counts, -torch.inf), cells._replace(uppers=uppers)

    def cut(
        self, cells: Cells, priority: Tensor, waiting: Tensor, evaluations: int
    ) -> tuple[Cells, Tensor] | None:
        r"""Cut the waiting cells of highest priority in two, best first.

        ``priority`` and ``waiting`` are ``m`` numbers and booleans of the cells. The halves
        cost one evaluation each: at most ``evaluations``. Second the mask of the cells that
        stay whole; None where nothing waits or no evaluations are left.
        """
        count = min(_BATCH, int(waiting.sum()), evaluations // 2)
        if count <= 0:
            return None
        stay = torch.ones_like(waiting)
        stay[priority.masked_fill(~waiting, -torch.inf).topk(count).indices] = False
        return self.halved(cells.where(~stay)), stay

    def halved(self, cells: Cells) -> Cells:
        r"""Every cell cut in two along the side over which the functions change most."""
        sides = torch.eye(cells.halves.shape[1]).to(cells.halves)
        along = torch.zeros_like(cells.halves.mT)
        for function in (self.function, *self.limits):
            change = function.largest_change
            each = [change(cells.centres, cells.halves * side) for side in sides]
            whole = change(cells.centres, cells.halves)
            along = torch.maximum(along, torch.stack(each) / whole)
        # A side without length changes nothing, but for round-off.
        side = sides[along.mT.where(cells.halves > 0.0, -1.0).argmax(-1)]
        halves = cells.halves * (1.0 - 0.5 * side)
        shift = 0.5 * cells.halves * side
        centres = torch.cat([cells.centres - shift, cells.centres + shift])
        return Cells(centres, halves.repeat(2, 1), cells.uppers.repeat(2))


def largest_in_region(
    search: Search,
    tolerance: float,
    max_evaluations: int,
    found: tuple[float, Tensor] | None = None,
    enough: float = math.inf,
) -> Maximum:
    r"""Maximise a function over a region.

    ``tolerance`` is the share of the maximum by which ``upper`` may exceed ``value``; if
    the evaluations are used up, or no positive value is found, ``upper`` is the bound
    reached. ``found`` is a value already found and the ``d`` coordinates of its point. The
    search ends at a value above ``enough``. Both values are minus infinity where no point
    satisfies the limits.
    """
    cells = Cells.of(search.region)
    best, argument = found or (-torch.inf, cells.centres[0])
    waiting, settled, evaluations = cells.where(cells.uppers < 0.0), -torch.inf, 0
    while True:
        values, new = search.evaluated(cells)
        evaluations += len(values)
        if float(values.max()) > best:
            best, argument = float(values.max()), cells.centres[values.argmax()]
        waiting = waiting.joined(new)
        keep = waiting.uppers > best + tolerance * max(best, 0.0)
        # A cell without sides holds its centre alone, which has been looked at.
        keep &= (waiting.halves > 0.0).any(-1)
        # Dropped cells count by their upper bounds: the tolerance is in the result.
        settled = max([settled, *waiting.uppers[~keep].tolist()])
        waiting = waiting.where(keep)
        if len(waiting.uppers) == 0:
            _LOG.debug("Branch and bound ended after %d points.", evaluations)
            return Maximum(best, argument, settled)
        left = max_evaluations - evaluations if best <= enough else 0
        every = waiting.uppers > -torch.inf
        if (cut := search.cut(waiting, waiting.uppers, every, left)) is None:
            upper = max(settled, float(waiting.uppers.max()))
            _LOG.info(
                "Branch and bound ended after %d of %d points: the maximum is between %s "
                "and %s, with %d cells open.",
                *(evaluations, max_evaluations, *between(best, upper)),
                len(waiting.uppers),
            )
            return Maximum(best, argument, upper)
        cells, waiting = cut[0], waiting.where(cut[1])


def cover(search: Search, max_evaluations: int) -> Cells:
    r"""Cells that hold every point of a region at which a function is at least 0.

    Cells over which the function changes most are cut first, until the evaluations are
    used up.
    """
    cells = Cells.of(search.region)
    kept, evaluations = cells.where(cells.uppers < 0.0), 0
    while True:
        _, new = search.evaluated(cells)
        evaluations += len(new.uppers)
        kept = kept.joined(new.where(new.uppers >= 0.0))
        open_cells = (kept.halves > 0.0).any(-1)
        change = search.function.largest_change(kept.centres, kept.halves)
        cut = search.cut(kept, change, open_cells, max_evaluations - evaluations)
        if cut is None:
            return kept
        cells, kept = cut[0], kept.where(cut[1])


def upper_side(sign: int, level: float = 0.0) -> SetFunction:
    r"""The upper bound of ``sign * f - level``, on the scale of the set."""

    def values(functions: ConfidenceSet, X: Tensor) -> Tensor:
        points = functions.project(X)
        return sign * points.baseline + functions.support(points, sign) - level

    return SetFunction(values, lambda functions: functions.limit(sign) - level)


def on_cells(
    confidence_set: ConfidenceSet, fixed: Collection[int], function: SetFunction
) -> CellFunction | None:
    r"""A function of a set on cells, with bounds on its changes; None if unknown.

    For a union each part by itself, which is tighter than the whole.
    """
    parts = confidence_set.alternatives
    changes = changes_in(parts, fixed)
    values = [partial(_at_and_beside, function, part) for part in parts]
    limits = [function.limit(part) for part in parts]
    return None if changes is None else CellFunction(values, changes, _largest, limits)


def _largest(values: Sequence[Tensor]) -> Tensor:
    return torch.stack([*values]).amax(0)


def _at_and_beside(function: SetFunction, part: ConfidenceSet, X: Tensor) -> Tensor:
    r"""Values at ``m x d`` points, and those that hold next to them, ``2 x m``."""
    here, beside = function(part, X), part.beside
    return torch.stack([here, here if beside is part else function(beside, X)])
