r"""An upper bound on how far a recommended point is from the optimum."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter, itemgetter
from typing import Protocol, cast

import torch
from botorch.utils.sampling import draw_sobol_samples
from torch import Tensor

from kernelucb._numerics.arguments import checked
from kernelucb._numerics.checks import positive_scalar, tensor, whole_number
from kernelucb._numerics.domains import check_one_domain, checked_box, checked_points
from kernelucb._numerics.parts import in_parts
from kernelucb.certificates.boxes import CellFunction, largest_change, largest_on_box
from kernelucb.confidence.assumptions import Assumptions
from kernelucb.confidence.base import ConfidenceSet
from kernelucb.confidence.family.sets import FamilySet, IntersectionSet
from kernelucb.regression import RidgeState

_MOST_DIMENSIONS = 3
_SCAN = 1024


class Bound(Protocol):
    r"""What a certificate needs of an acquisition function: its set and its direction."""

    @property
    def confidence_set(self) -> ConfidenceSet:
        r"""The set of functions that explain the data."""
        ...

    @property
    def direction(self) -> int:
        r"""1 where large outcomes are sought, -1 where small ones are."""
        ...


@dataclass(frozen=True)
class RegretCertificate:
    r"""How much better than the recommended point any other can be.

    If it is ``certified`` and what was given is true, the optimum over the domain exceeds
    the value at the recommended point by at most ``gap``, with the probability of the
    bound, in whatever round this is acted on if the bound is anytime. Otherwise ``summary``
    says what is missing.

    Attributes:
        gap: Upper bound on ``max f - f(recommended)`` (``f(recommended) - min f`` where
            small outcomes are sought), at least 0; units of the model's outcome, before
            any posterior transform.
        recommended: ``d`` coordinates of the recommended point.
        challenger: ``d`` coordinates of the point that may be better by ``gap``.
        rigorous: Whether ``gap`` is at least the maximum over the domain: on finite sets,
            checked point by point, and on boxes of up to 3 dimensions, by branch and
            bound. Otherwise it comes from a search and may be too small.
        resolution: How far ``gap`` may lie above the exact maximum over the domain,
            outcome units; 0 on finite sets, infinite where the maximum is not rigorous.
        assumptions: What the probability rests on.
    """

    gap: float
    recommended: Tensor
    challenger: Tensor
    rigorous: bool
    resolution: float
    assumptions: Assumptions

    @property
    def certified(self) -> bool:
        r"""Whether the maximum is rigorous, the band for all points, and all given."""
        return self.rigorous and self.assumptions.all_points and self.assumptions.certified

    @property
    def summary(self) -> str:
        r"""``"certified"``, or what keeps it from being that."""
        if self.certified:
            return "certified"
        lacking = [] if self.assumptions.certified else [self.assumptions.summary]
        if not self.assumptions.all_points:
            lacking.append("heuristic: the band does not hold at all points at once")
        if not self.rigorous:
            lacking.append("heuristic: the maximum over the domain comes from a search")
        return "; ".join(lacking)

    def __str__(self) -> str:
        gap = f"at most {self.gap:.4g} from the optimum"
        return f"{self.summary}: {gap}\n{self.assumptions}"


@checked
@torch.no_grad()
def regret_certificate(
    acqf: Bound,
    candidates: Tensor | None = None,
    *,
    bounds: Tensor | None = None,
    recommended: Tensor | None = None,
    tolerance: float = 0.05,
    max_evaluations: int = 100_000,
) -> RegretCertificate:
    r"""Bound the regret of a recommended point, at any time if the bound is anytime.

    The martingale-mixture sets bound the difference ``f(x) - f(recommended)`` itself, over
    all functions in the set at once, which is tighter than the difference of an upper and
    a lower bound; the other bounds give the latter.

    Source: the confidence set's own theorem; on boxes
    ``|f(x) - f(x')| <= B d_k(x, x') + |m(x) - m(x')|`` where ``||f - m|| <= B``, with
    ``d_k`` the kernel metric. That needs an RBF, Matern or rational quadratic kernel and a
    constant or linear prior mean; elsewhere the maximum is not ``rigorous``.

    Args:
        acqf: An acquisition function of this package.
        candidates: ``n x d`` points, the whole domain. Either these or ``bounds``.
        bounds: ``2 x d`` lower and upper limits of a box.
        recommended: ``d`` or ``1 x d`` point; by default the one whose lower bound is
            best (upper bound, if small outcomes are sought), on a box among Sobol points.
            Where bands of several kernels are intersected, the one with the least gap among
            the best by each of them.
        tolerance: On a box, the share of the gap that branch and bound may leave open.
        max_evaluations: On a box, the largest number of points looked at; when they are
            used up the certificate is valid but looser (see ``resolution``).

    Raises:
        ValueError: If not exactly one of ``candidates`` and ``bounds`` is given, or a
            scalar is out of its range.
        BotorchTensorDimensionError: If a tensor has the wrong shape.
        InputDataError: If a value is not finite or ``candidates`` is empty.
    """
    check_one_domain(candidates, bounds)
    positive_scalar("tolerance", tolerance)
    whole_number("max_evaluations", max_evaluations)
    confidence_set, sign = acqf.confidence_set, acqf.direction
    dimension = confidence_set.regression.dimension
    box = None if bounds is None else checked_box(bounds, dimension)
    if box is not None:
        candidates = draw_sobol_samples(box, n=_SCAN, q=1, seed=0).squeeze(-2)
    points = checked_points("candidates", cast(Tensor, candidates), dimension)
    proposed = _recommended(points, recommended, confidence_set, sign)
    finite_set = min(
        (_on_points(points, best, confidence_set, sign) for best in proposed),
        key=attrgetter("gap"),
    )
    if box is None:
        return finite_set
    return _on_box(finite_set, confidence_set, sign, box, tolerance, max_evaluations)


def _on_points(
    points: Tensor, recommended: Tensor, confidence_set: ConfidenceSet, sign: int
) -> RegretCertificate:
    r"""The certificate for ``d`` coordinates of a point over ``n x d`` points."""
    best = recommended.unsqueeze(0)
    values = in_parts(points, lambda X: confidence_set.max_gain_over(X, best, sign))
    # A point gains nothing over itself, however wrong the model is there.
    itself = (points == best).all(-1).to(values)
    values = values - 2.0 * confidence_set.model_error * itself
    gap, index = values.max(0)
    return RegretCertificate(
        gap=max(float(gap), 0.0),
        recommended=recommended,
        challenger=points[index],
        rigorous=True,
        resolution=0.0,
        assumptions=confidence_set.assumptions,
    )


def _on_box(
    scan: RegretCertificate,
    confidence_set: ConfidenceSet,
    sign: int,
    box: Tensor,
    tolerance: float,
    max_evaluations: int,
) -> RegretCertificate:
    r"""From Sobol points to the whole box."""
    best = scan.recommended.unsqueeze(0)
    gain = _gain(confidence_set, best, sign)
    if gain is None or box.shape[1] > _MOST_DIMENSIONS:
        return replace(scan, rigorous=False, resolution=float("inf"))
    result = largest_on_box(gain, box, tolerance, max_evaluations)
    challenger = result.argument if result.value > scan.gap else scan.challenger
    attained = max(result.value, scan.gap)
    upper = max(result.upper, attained)
    return replace(scan, gap=upper, challenger=challenger, resolution=upper - attained)


def _gain(
    confidence_set: ConfidenceSet, reference: Tensor, sign: int
) -> CellFunction | None:
    r"""The largest gain over a point, on cells; None where its change is not known.

    The point stays, so only ``f(x)`` changes within a cell.
    """
    family = confidence_set if isinstance(confidence_set, FamilySet) else None
    values: list[Callable[[Tensor], Tensor]] = []
    changes: list[Callable[[Tensor, Tensor], Tensor]] = []
    for part in [confidence_set] if family is None else family.parts:
        norm, state, change = part.norm, part.regression, None
        if norm is not None and isinstance(state, RidgeState):
            change = largest_change(state, norm)
        if change is None:
            return None
        values.append(partial(part.max_gain_over, reference=reference, sign=sign))
        changes.append(change)
    return CellFunction(values, changes, itemgetter(0) if family is None else family.joined)


def _recommended(
    points: Tensor, given: Tensor | None, confidence_set: ConfidenceSet, sign: int
) -> Tensor:
    r"""``k x d``: the point given, or that whose pessimistic value is best.

    For an intersection of several sets also the best by each of them.
    """
    if given is not None:
        given = tensor("recommended", given).reshape(1, -1)
        dimension = confidence_set.regression.dimension
        return checked_points("recommended", given, dimension)
    sets = [confidence_set]
    if isinstance(confidence_set, IntersectionSet):
        sets += confidence_set.parts

    def pessimistic(X: Tensor) -> Tensor:
        bands = [each.bounds(X) for each in sets]
        return torch.stack([lower if sign == 1 else -upper for lower, upper in bands])

    return points[in_parts(points, pessimistic).argmax(-1).unique()]
