r"""Branch and bound: the maximum of a function over a box, bounded from above."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from kernelucb.regression import RidgeState

_BATCH = 2048


class BoxMaximum(NamedTuple):
    r"""Largest value found, the ``d`` coordinates where, and an upper bound on all."""

    value: float
    argument: Tensor
    upper: float


class _Cells(NamedTuple):
    r"""``m`` boxes: centres and half sides (``m x d``), and ``m`` upper bounds."""

    centres: Tensor
    halves: Tensor
    uppers: Tensor

    def where(self, mask: Tensor) -> "_Cells":
        return _Cells(*(part[mask] for part in self))


class CellFunction(NamedTuple):
    r"""A function of points, and how far it rises within a cell.

    The function is made of some parts: of one, or it is the largest or the smallest of
    several.

    Attributes:
        values: For each part what maps ``m x d`` points to ``m`` values.
        changes: For each part what maps ``m x d`` centres and half sides of cells to ``m``
            upper bounds on how far it rises above its value at the centre.
        joined: From ``m`` values of each part to those of the function; increasing in each.
    """

    values: Sequence[Callable[[Tensor], Tensor]]
    changes: Sequence[Callable[[Tensor, Tensor], Tensor]]
    joined: Callable[[Sequence[Tensor]], Tensor]

    def bounds(self, centres: Tensor, halves: Tensor) -> tuple[Tensor, Tensor]:
        r"""Values at the centres, and upper bounds on the cells."""
        values = [value(centres) for value in self.values]
        uppers = [
            value + change(centres, halves)
            for value, change in zip(values, self.changes, strict=True)
        ]
        return self.joined(values), self.joined(uppers)

    def largest_change(self, centres: Tensor, halves: Tensor) -> Tensor:
        r"""The largest of the parts' changes, by which cells are cut."""
        return torch.stack([change(centres, halves) for change in self.changes]).amax(0)


def largest_on_box(
    function: CellFunction, box: Tensor, tolerance: float, max_evaluations: int
) -> BoxMaximum:
    r"""Maximise a function over a ``2 x d`` box.

    ``tolerance`` is the share of the maximum by which ``upper`` may exceed ``value``; if
    the evaluations are used up, or no positive value is found, ``upper`` is the bound
    reached.
    """
    whole = box.new_full((1,), torch.inf)
    cells = _Cells(box.mean(0, keepdim=True), 0.5 * (box[1:] - box[:1]), whole)
    best, argument, settled = -torch.inf, cells.centres[0], -torch.inf
    waiting, evaluations = cells.where(whole < 0.0), 0
    while True:
        values, uppers = function.bounds(cells.centres, cells.halves)
        evaluations += len(values)
        if float(values.max()) > best:
            best, argument = float(values.max()), cells.centres[values.argmax()]
        new = cells._replace(uppers=uppers)
        waiting = _Cells(*(torch.cat(pair) for pair in zip(waiting, new, strict=True)))
        keep = waiting.uppers > best + tolerance * max(best, 0.0)
        settled = max([settled, *waiting.uppers[~keep].tolist()])
        waiting = waiting.where(keep)
        if len(waiting.uppers) == 0:
            return BoxMaximum(best, argument, settled)
        count = min(_BATCH, len(waiting.uppers), (max_evaluations - evaluations) // 2)
        if count <= 0:
            return BoxMaximum(best, argument, max(settled, float(waiting.uppers.max())))
        chosen = torch.zeros_like(waiting.uppers, dtype=torch.bool)
        chosen[waiting.uppers.topk(count).indices] = True
        cells, waiting = _halved(waiting.where(chosen), function), waiting.where(~chosen)


def _halved(cells: _Cells, function: CellFunction) -> _Cells:
    r"""Every cell cut in two along the side over which the function changes most."""
    change = function.largest_change
    sides = torch.eye(cells.halves.shape[1]).to(cells.halves)
    along = [change(cells.centres, cells.halves * side) for side in sides]
    side = sides[torch.stack(along).argmax(0)]
    halves = cells.halves * (1.0 - 0.5 * side)
    shift = 0.5 * cells.halves * side
    centres = torch.cat([cells.centres - shift, cells.centres + shift])
    return _Cells(centres, halves.repeat(2, 1), cells.uppers.repeat(2))


def largest_change(
    regression: RidgeState, norm: float
) -> Callable[[Tensor, Tensor], Tensor] | None:
    r"""How much a function with ``||f - m|| <= B = norm`` (prior units) changes in a cell.

    Ours: ``|f(x) - f(x')| <= B d_k(x, x') + |m(x) - m(x')|`` (Cauchy-Schwarz), with
    ``d_k`` the kernel metric, largest at the corners of a cell where the kernel falls with
    the distance along each coordinate. None where a part is not known: for other kernels
    than RBF, Matern and rational quadratic, input transforms other than ``Normalize``, and
    prior means other than constant and linear ones.
    """
    prior = regression.prior
    if not (prior.falls_with_distance and prior.mean_is_linear):
        return None

    def change(centres: Tensor, halves: Tensor) -> Tensor:
        middle = prior.transform(centres.to(regression.eigenvalues))
        corner = prior.transform((centres + halves).to(regression.eigenvalues))
        return norm * prior.metric(middle, corner) + prior.mean_change(middle, corner)

    return change
