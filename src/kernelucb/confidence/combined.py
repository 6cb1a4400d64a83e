r"""Confidence sets made of others: union, weighted sum, error, limits.

A combined set says how bounds of the whole follow from bounds of its parts. A new kind of
combination is a new class.
"""

import math
from collections.abc import Collection, Sequence
from functools import partial
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor
from torch.nn import ModuleList

from kernelucb._numerics.estimates import Number, draft_of
from kernelucb.confidence.assumptions import Assumptions
from kernelucb.confidence.pointwise import Limits, Pointwise
from kernelucb.confidence.sets import (
    Change,
    ConfidenceSet,
    Cut,
    Gains,
    Pairs,
    changes_in,
)
from kernelucb.data.state import State


class CombinedPoints(NamedTuple):
    r"""Query points as each part sees them, with ``b`` baselines of the whole."""

    baseline: Tensor
    parts: tuple[Any, ...]

    def rows(self, mask: Tensor) -> "CombinedPoints":
        r"""The points where ``mask`` is true."""
        parts = tuple(part.rows(mask) for part in self.parts)
        return CombinedPoints(self.baseline[mask], parts)


class CombinedState:
    r"""The states of several sets as one: like the first of them, or a weighted sum.

    Args:
        states: One state for each part.
        weights: One weight for each part; of a union 1 for the first part alone.
        offset: Constant added to the sum, outcome units.
    """

    def __init__(
        self, states: Sequence[State], weights: Sequence[float], offset: float = 0.0
    ) -> None:
        self.states, self.weights, self.offset = tuple(states), tuple(weights), offset
        self.dimension = self.states[0].dimension
        self.outcome_map = self.states[0].outcome_map
        self.num_observations = max(state.num_observations for state in states)
        pairs = zip(self.weights, states, strict=False)  # a union has one weight
        self.prior_std = math.hypot(*(weight * state.prior_std for weight, state in pairs))

    def total(self, values: Sequence[Tensor]) -> Tensor:
        r"""Baseline, or estimate, of the whole."""
        pairs = zip(self.weights, values, strict=False)
        return torch.stack([weight * each for weight, each in pairs]).sum(0) + self.offset

    def mean(self, X: Tensor) -> Tensor:
        r"""Estimate at ``b x d`` points, ``b`` values."""
        return self.total([state.mean(X) for state in self.states])


class CombinedSet(ConfidenceSet):
    r"""A set that combines several sets; bounds are those of its first part by default.

    Args:
        parts: The combined sets; for a family of kernels, the simplest kernel first.
        assumptions: The assumptions of the whole.
        state: The data of the whole; by default those of the first part.
    """

    # Added to every bound on a value, twice to every bound on a difference; outcome units.
    error: float = 0.0

    def __init__(
        self,
        parts: Sequence[ConfidenceSet],
        assumptions: Assumptions,
        state: State | None = None,
    ) -> None:
        super().__init__(parts[0].regression if state is None else state, assumptions)
        self._parts = ModuleList(parts)

    def joined(self, values: Sequence[Tensor]) -> Tensor:
        r"""Bound on the whole, without ``error``, from ``b`` values of each part."""
        return values[0]

    def side(self, index: int, sign: int) -> int:
        r"""Side of a part's band that side ``sign`` of the whole asks for."""
        return sign

    def baseline(self, values: Sequence[Tensor]) -> Tensor:
        r"""Baseline of the whole, from ``b`` values of each part."""
        return values[0]

    @property
    def parts(self) -> list[ConfidenceSet]:
        r"""The sets that this set combines."""
        parts: Any = self._parts  # torch's list holds modules of any class
        return [*parts]

    def with_parts(self, parts: Sequence[ConfidenceSet]) -> Self:
        r"""The same combination of other sets of the same data."""
        whole = draft_of(self)
        whole._parts = ModuleList(parts)
        return whole

    def with_pending(self, X_pending: Tensor) -> Self:
        r"""Each part with variances conditioned on pending points as well."""
        return self.with_parts([part.with_pending(X_pending) for part in self.parts])

    @property
    def model_error(self) -> float:
        return max(part.model_error for part in self.parts) + self.error

    @property
    def beside(self) -> ConfidenceSet:
        parts = [part.beside for part in self.parts]
        return self if parts == self.parts else self.with_parts(parts)

    def to_search(self) -> ConfidenceSet:
        return self.with_parts([part.to_search() for part in self.parts])

    def change_in(self, fixed: Collection[int]) -> Change | None:
        changes = changes_in(self.parts, fixed)
        if changes is None:
            return None
        return lambda centres, halves: self.joined([f(centres, halves) for f in changes])

    def project(self, X: Tensor) -> CombinedPoints:
        r"""Project ``b x d`` raw points, once for each distinct state of each part."""
        parts = tuple(part.project(X) for part in self.parts)
        return CombinedPoints(self.baseline([part.baseline for part in parts]), parts)

    def _sides(self, sign: int) -> list[tuple[ConfidenceSet, int]]:
        r"""Each part, and the side of its band that side ``sign`` of the whole asks for."""
        return [(part, self.side(index, sign)) for index, part in enumerate(self.parts)]

    def support(self, points: CombinedPoints, sign: int) -> Tensor:
        pairs = zip(self._sides(sign), points.parts, strict=True)
        values = [part.support(seen, side) for (part, side), seen in pairs]
        return self.joined(values) + self.error

    def majorant(self, points: CombinedPoints, sign: int) -> Tensor:
        r"""From the majorants of the parts."""
        pairs = zip(self._sides(sign), points.parts, strict=True)
        values = [part.majorant(seen, side) for (part, side), seen in pairs]
        return self.joined(values) + self.error

    def max_gain_over(
        self, X: Tensor, reference: Tensor, sign: int = 1, cheap: bool = False
    ) -> Tensor:
        r"""From the maximum over each part."""
        sides = self._sides(sign)
        gains = [part.max_gain_over(X, reference, side, cheap) for part, side in sides]
        return self.joined(gains) + 2.0 * self.error

    def gains_among(self, X: Tensor, sign: int = 1) -> Gains:
        r"""From the gains over each part."""
        parts = [part.gains_among(X, side) for part, side in self._sides(sign)]

        def joined(pairs: Sequence[Pairs]) -> Pairs:
            return lambda first, second: (
                self.joined([each(first, second) for each in pairs]) + 2.0 * self.error
            )

        most, least = zip(*parts, strict=True)
        return Gains(joined(most), joined(least))

    def limit(self, sign: int) -> float:
        limits = [part.limit(side) for part, side in self._sides(sign)]
        return self._of_limits(limits) + self.error

    def gain_limit(self, reference: Tensor, sign: int) -> float:
        limits = [part.gain_limit(reference, side) for part, side in self._sides(sign)]
        return self._of_limits(limits) + 2.0 * self.error

    def _of_limits(self, limits: Sequence[float]) -> float:
        # Tensors of float64: `joined` takes them, and an infinite limit stays one.
        values = [torch.tensor(each, dtype=torch.float64) for each in limits]
        return float(self.joined(values))


class Union(CombinedSet):
    r"""All functions that lie in at least one of the parts.

    The union holds the true function whenever the true kernel's part does, so the failure
    probability is that part's alone. Parts of other kernels may be left out at no cost.

    Source: ours; ``docs/mathematics.md``.
    """

    def __init__(self, parts: Sequence[ConfidenceSet], assumptions: Assumptions) -> None:
        state = CombinedState([part.regression for part in parts], (1.0,))
        super().__init__(parts, assumptions, state)

    def cut(self, kind: Cut, assumptions: Assumptions) -> "Union":
        r"""Each part by itself: branch and bound works part by part."""
        parts = [part.cut(kind, part.assumptions) for part in self.parts]
        return Union(parts, assumptions)

    @property
    def alternatives(self) -> list[ConfidenceSet]:
        return self.parts

    def joined(self, values: Sequence[Tensor]) -> Tensor:
        r"""The largest."""
        return torch.stack(list(values)).amax(0)

    def most_beyond(self, X: Tensor, level: float, sign: int) -> int:
        r"""The most in any part: the function lies in one of them."""
        return max(part.most_beyond(X, level, sign) for part in self.parts)

    def support(self, points: CombinedPoints, sign: int) -> Tensor:
        r"""Largest support, searched only where a part's cheap bound leaves it open."""
        parts = self.parts
        if len(parts) == 1 or points.baseline.numel() == 0:
            return parts[0].support(points.parts[0], sign)
        # The most promising part at each point is searched first; another part is searched
        # only where its cheap bound exceeds the value found.
        with torch.no_grad():
            pairs = zip(parts, points.parts, strict=True)
            limits = torch.stack([part.majorant(seen, sign) for part, seen in pairs])
        promising, best = limits.argmax(0), torch.full_like(limits[0], -torch.inf)
        found: list[Tensor] = []
        for first in (True, False):
            for index, part in enumerate(parts):
                here = promising == index
                rows = here if first else ~here & (limits[index] > best)
                if bool(rows.any()):
                    support = part.support(points.parts[index].rows(rows), sign)
                    # Minus infinity at the other points
                    nothing = torch.full_like(rows, -torch.inf, dtype=support.dtype)
                    found.append(nothing.masked_scatter(rows, support))
                    best = torch.maximum(best, found[-1].detach())
        return self.joined(found)


class WeightedSum(CombinedSet):
    r"""All functions ``offset + sum_j w_j f_j`` with every ``f_j`` in its own part.

    The support is ``sum_j |w_j|`` times the support of part ``j``, of the other side where
    ``w_j`` is negative. The set holds the true sum whenever all parts hold their functions;
    by the union bound the failure probabilities add up. The outcomes and their noises may
    depend on each other in any way.

    Args:
        parts: The sets of the terms.
        weights: One weight for each part, none of them zero.
        offset: Constant added to the sum, outcome units.
        assumptions: The assumptions of the whole.
    """

    def __init__(
        self,
        parts: Sequence[ConfidenceSet],
        weights: Sequence[float],
        offset: float,
        assumptions: Assumptions,
    ) -> None:
        state = CombinedState([part.regression for part in parts], weights, offset)
        super().__init__(parts, assumptions, state)
        self.state, self.weights, self.offset = state, state.weights, offset

    def joined(self, values: Sequence[Tensor]) -> Tensor:
        r"""The sum, weighted by ``|w_j|``."""
        pairs = zip(self.weights, values, strict=True)
        return torch.stack([abs(weight) * each for weight, each in pairs]).sum(0)

    def side(self, index: int, sign: int) -> int:
        r"""The other side where the weight is negative."""
        return sign if self.weights[index] > 0 else -sign

    def baseline(self, values: Sequence[Tensor]) -> Tensor:
        r"""The weighted sum, plus the offset."""
        return self.state.total(values)

    @property
    def model_error(self) -> float:
        r"""The sum, weighted by ``|w_j|``."""
        pairs = zip(self.weights, self.parts, strict=True)
        return sum(abs(weight) * part.model_error for weight, part in pairs)

    def limit(self, sign: int) -> float:
        return super().limit(sign) + sign * self.offset


class PlusError(CombinedSet):
    r"""All functions within ``error``, at every point, of a function of a single part.

    A part whose radius allows for residuals larger by ``misfit_of_error`` holds some ``g``
    near ``f`` whenever the fit holds ``f``. So values of ``f`` are bounded by values of
    ``g`` plus ``error``, and differences of two values by differences of ``g`` plus twice
    ``error``. Twice ``error`` is added at the reference as well: the gain there is zero,
    but branch and bound needs the largest gain of points next to it, and the error may
    change by any amount from point to point.

    Source: ours; see ``docs/mathematics.md``.

    Args:
        part: The set of ``g``.
        error: Largest distance at any point, outcome units.
    """

    def __init__(self, part: ConfidenceSet, error: float) -> None:
        super().__init__([part], part.assumptions)
        self.error = error

    @property
    def norm(self) -> Number | None:
        r"""Largest norm of ``g``, prior units."""
        return self.parts[0].norm

    def most_beyond(self, X: Tensor, level: float, sign: int) -> int:
        r"""Where ``f`` is beyond the level, ``g`` is beyond it or short by the error."""
        return self.parts[0].most_beyond(X, level - sign * self.error, sign)


class Within(CombinedSet):
    r"""All functions of a single part that keep to limits on their values.

    Bounds on a value are clipped. A gain over a reference is at most what the limits leave
    between both points: ``f(x) - f(r) <= min(gain, U(x) - L(r))`` with the clipped sides.

    Source: ours, the intersection of the set with the functions within the limits, or a
    larger set: imposing limits at every point at once narrows the band a little more.

    Args:
        part: The set that is cut.
        limits: The limits, on the scale of the set.
        assumptions: The assumptions of the whole.
    """

    room = 0.0  # by how much a value may be outside the limits, unless at a reference
    _seen: tuple[Any, ...] = (None, 0, None, None)  # part, sign, reference, its `_least`

    def __init__(
        self, part: ConfidenceSet, limits: Pointwise, assumptions: Assumptions
    ) -> None:
        super().__init__([part], assumptions)
        self.limits = limits

    @property
    def beside(self) -> ConfidenceSet:
        r"""With limits that are wider by what ``f`` may jump from point to point."""
        part, room = self.parts[0].beside, 2.0 * self.model_error * self.limits.alone
        if part is self.parts[0] and room == 0.0:
            return self
        whole = Within(part, self.limits, self.assumptions)
        vars(whole)["room"] = room
        return whole

    def to_search(self) -> ConfidenceSet:
        return super().to_search() if self.limits.searched else self.parts[0].to_search()

    def _limits(self, X: Tensor) -> Limits:
        lower, upper = self.limits.limits(X)
        return Limits(lower - self.room, upper + self.room)

    @property
    def norm(self) -> Number | None:
        return self.parts[0].norm

    def most_beyond(self, X: Tensor, level: float, sign: int) -> int:
        r"""At most as many as of the part, which holds these functions and others."""
        return self.parts[0].most_beyond(X, level, sign)

    def project(self, X: Tensor) -> CombinedPoints:
        r"""Points as the part sees them, and the limits there."""
        points = self.parts[0].project(X)
        return CombinedPoints(points.baseline, (points, self._limits(X)))

    def support(self, points: CombinedPoints, sign: int) -> Tensor:
        return self._clipped(self.parts[0].support(points.parts[0], sign), points, sign)

    def majorant(self, points: CombinedPoints, sign: int) -> Tensor:
        return self._clipped(self.parts[0].majorant(points.parts[0], sign), points, sign)

    def _clipped(self, support: Tensor, points: CombinedPoints, sign: int) -> Tensor:
        # Both limits clip both sides, so that the sides never swap: where the part lies
        # outside, data and limits contradict each other.
        baseline, limits = points.baseline, points.parts[1]
        side = torch.maximum(baseline + sign * support, limits.lower)
        side = torch.minimum(side, limits.upper)
        return sign * (side - baseline)

    def max_gain_over(
        self, X: Tensor, reference: Tensor, sign: int = 1, cheap: bool = False
    ) -> Tensor:
        r"""The part's gain, at most what the limits leave above the reference."""
        (part,) = self.parts
        gain = part.max_gain_over(X, reference, sign, cheap)
        end = self._limits(X).oriented(sign).upper
        least, is_limit = self._least(reference, sign)
        gain = torch.minimum(gain, end - least)
        if not is_limit:  # else the part's own side at `x` may be nearer than its gain
            return gain
        points = part.project(X)
        side = part.majorant if cheap else part.support
        above = sign * points.baseline + side(points, sign)
        return torch.minimum(gain, torch.minimum(above, end) - least)

    def gains_among(self, X: Tensor, sign: int = 1) -> Gains:
        r"""The part's gains, at most what sides and limits leave between two points."""
        gains, limits = self.parts[0].gains_among(X, sign), self._limits(X).oriented(sign)
        part = Limits(*self.parts[0].bounds(X)).oriented(sign)
        upper = torch.minimum(part.upper, limits.upper)
        lower = torch.minimum(part.lower, limits.upper).maximum(limits.lower)

        def within(pairs: Pairs) -> Pairs:
            def clipped(first: Tensor, second: Tensor) -> Tensor:
                return torch.minimum(pairs(first, second), upper[first] - lower[second])

            return clipped

        return Gains(*map(within, gains))

    def limit(self, sign: int) -> float:
        r"""Upper bound on ``sign * f`` everywhere, by the limits and by the part."""
        return min(self.limits.end(sign), self.parts[0].limit(sign))

    def gain_limit(self, reference: Tensor, sign: int) -> float:
        r"""Largest gain over the reference that the limits allow anywhere."""
        room = self.limits.end(sign) - float(self._least(reference, sign)[0])
        return min(room, self.parts[0].gain_limit(reference, sign))

    def _least(self, reference: Tensor, sign: int) -> tuple[Tensor, bool]:
        r"""Least value of ``sign * f`` at the reference; whether the limits give it."""
        (part,), (of, side, at, found) = self.parts, self._seen
        # A search asks for one reference at many points, a few at a time.
        same = of is part and side == sign and at.device == reference.device
        if same and torch.equal(at, reference):
            return found
        sides = Limits(*part.bounds(reference)).oriented(sign)
        limits = self.limits.limits(reference).oriented(sign)
        least = torch.maximum(torch.minimum(sides.lower, limits.upper), limits.lower)
        found = least, bool((limits.lower > sides.lower).any())
        self._seen = part, sign, reference.detach().clone(), found
        return found


def within(
    whole: ConfidenceSet, limits: Pointwise, assumptions: Assumptions
) -> ConfidenceSet:
    r"""The functions of a set that keep to limits on values, on the scale of the set.

    In a union the limits are put on each part, since branch and bound works part by part.
    """
    return whole.cut(partial(Within, limits=limits), assumptions)
