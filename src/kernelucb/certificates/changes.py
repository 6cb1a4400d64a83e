r"""How far the functions of a confidence set change within a cell."""

from collections.abc import Callable, Collection, Sequence
from functools import partial
from operator import itemgetter

from torch import Tensor

from kernelucb.certificates.boxes import CellFunction
from kernelucb.confidence.base import ConfidenceSet
from kernelucb.confidence.combined import CombinedSet, Intersection, Union
from kernelucb.regression import RidgeState

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
        changes = _changes_in(confidence_set.parts, fixed)
        if changes is None:
            return None
        joined = confidence_set.rule.joined
        return lambda centres, halves: joined([each(centres, halves) for each in changes])
    norm, state = confidence_set.norm, confidence_set.regression
    if norm is None or not isinstance(state, RidgeState):
        return None
    return largest_change(state, norm, fixed)


def _changes_in(
    parts: Sequence[ConfidenceSet], fixed: Collection[int]
) -> list[_Change] | None:
    changes = [change_in(part, fixed) for part in parts]
    known = [change for change in changes if change is not None]
    return known if len(known) == len(changes) else None


def gain_over(
    confidence_set: ConfidenceSet, reference: Tensor, sign: int, fixed: Collection[int]
) -> CellFunction | None:
    r"""The largest gain over a ``1 x d`` point, on cells; None where it is not known.

    The point stays, so only ``f(x)`` changes within a cell.
    """
    return _on_cells(
        confidence_set,
        fixed,
        lambda part: partial(part.max_gain_over, reference=reference, sign=sign),
    )


def upper_bound(
    confidence_set: ConfidenceSet, sign: int, fixed: Collection[int], level: float
) -> CellFunction | None:
    r"""The upper bound of ``sign * f - level``, on cells; None where it is not known."""
    return _on_cells(
        confidence_set,
        fixed,
        lambda part: lambda X: upper_values(part, sign, X) - level,
    )


def upper_values(confidence_set: ConfidenceSet, sign: int, X: Tensor) -> Tensor:
    r"""The upper bound of ``sign * f`` at ``n x d`` points, on the scale of the set."""
    points = confidence_set.project(X)
    return sign * points.baseline + confidence_set.support(points, sign).value


def _on_cells(
    confidence_set: ConfidenceSet,
    fixed: Collection[int],
    values: Callable[[ConfidenceSet], Callable[[Tensor], Tensor]],
) -> CellFunction | None:
    r"""Of a family each member by itself, which is tighter than all together."""
    parts, joined = [confidence_set], itemgetter(0)
    is_combined = isinstance(confidence_set, CombinedSet)
    if is_combined and isinstance(confidence_set.rule, Union | Intersection):
        parts, joined = confidence_set.parts, confidence_set.rule.joined
    changes = _changes_in(parts, fixed)
    if changes is None:
        return None
    return CellFunction([values(part) for part in parts], changes, joined)
