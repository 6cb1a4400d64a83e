r"""How far the functions of a confidence set change within a cell."""

from collections.abc import Callable, Collection
from functools import partial
from operator import itemgetter

from torch import Tensor

from kernelucb.certificates.boxes import CellFunction
from kernelucb.confidence.base import ConfidenceSet
from kernelucb.confidence.combined import CombinedSet, Intersection, Union
from kernelucb.regression import RidgeState

_Values = Callable[[Tensor], Tensor]
_Change = Callable[[Tensor, Tensor], Tensor]


def largest_change(
    regression: RidgeState, norm: float, fixed: Collection[int] = ()
) -> _Change | None:
    r"""How much a function with ``||f - m|| <= B = norm`` (prior units) changes in a cell.

    Ours: ``|f(x) - f(x')| <= B d_k(x, x') + |m(x) - m(x')|`` (Cauchy-Schwarz), with
    ``d_k`` the kernel metric, largest at the corners of a cell where the kernel falls with
    the distance along each coordinate. None where a part is not known: for other kernels
    than RBF, Matern, rational quadratic and BoTorch's categorical one, sums and products of
    them, for input transforms that mix columns that are not ``fixed`` (which no cell gives
    room to), and for prior means other than constant and linear ones.
    """
    prior = regression.prior
    if not (prior.falls_with_distance(fixed) and prior.mean_is_linear):
        return None

    def change(centres: Tensor, halves: Tensor) -> Tensor:
        middle, corner = prior.cell(
            centres.to(regression.eigenvalues), halves.to(regression.eigenvalues)
        )
        return norm * prior.metric(middle, corner) + prior.mean_change(middle, corner)

    return change


def change_in(confidence_set: ConfidenceSet, fixed: Collection[int]) -> _Change | None:
    r"""How much any function of a set changes in a cell, outcome units; None if unknown."""
    if isinstance(confidence_set, CombinedSet):
        changes = [change_in(part, fixed) for part in confidence_set.parts]
        known = [change for change in changes if change is not None]
        if len(known) < len(changes):
            return None
        joined = confidence_set.rule.joined
        return lambda centres, halves: joined([each(centres, halves) for each in known])
    norm, state = confidence_set.norm, confidence_set.regression
    if norm is None or not isinstance(state, RidgeState):
        return None
    return largest_change(state, norm, fixed)


def gain_over(
    confidence_set: ConfidenceSet, reference: Tensor, sign: int, fixed: Collection[int]
) -> CellFunction | None:
    r"""The largest gain over a ``1 x d`` point, on cells; None where it is not known.

    The point stays, so only ``f(x)`` changes within a cell.
    """

    def values(part: ConfidenceSet) -> _Values:
        return partial(part.max_gain_over, reference=reference, sign=sign)

    return _on_cells(confidence_set, fixed, values)


def upper_bound(
    confidence_set: ConfidenceSet,
    sign: int,
    fixed: Collection[int],
    level: float = 0.0,
    scale: float = 1.0,
) -> CellFunction | None:
    r"""The upper bound of ``(sign * f - level) / scale``, on cells; None if not known."""

    def values(part: ConfidenceSet) -> _Values:
        def value(X: Tensor) -> Tensor:
            points = part.project(X)
            upper = sign * points.baseline + part.support(points, sign).value
            return (upper - level) / scale

        return value

    return _on_cells(confidence_set, fixed, values, scale)


def _on_cells(
    confidence_set: ConfidenceSet,
    fixed: Collection[int],
    values: Callable[[ConfidenceSet], _Values],
    scale: float = 1.0,
) -> CellFunction | None:
    r"""Of a family each member by itself, which is tighter than all together."""
    parts, joined = [confidence_set], itemgetter(0)
    is_combined = isinstance(confidence_set, CombinedSet)
    if is_combined and isinstance(confidence_set.rule, Union | Intersection):
        parts, joined = confidence_set.parts, confidence_set.rule.joined
    changes = []
    for part in parts:
        if (change := change_in(part, fixed)) is None:
            return None
        changes.append(partial(_scaled, change, scale))
    return CellFunction([values(part) for part in parts], changes, joined)


def _scaled(change: _Change, scale: float, centres: Tensor, halves: Tensor) -> Tensor:
    return change(centres, halves) / scale
