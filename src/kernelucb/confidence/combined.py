r"""Confidence sets made of others: union, weighted sum, error, limits.

A combination is a list of sets and a rule, which says how bounds of the whole follow from
bounds of the parts. A new kind of combination is a new rule.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import ModuleList

from kernelucb.confidence.assumptions import Assumptions
from kernelucb.confidence.pointwise import Limits, Pointwise
from kernelucb.confidence.sets import ConfidenceSet
from kernelucb.data.exact import State

Part = ConfidenceSet


class CombinedPoints(NamedTuple):
    r"""Query points as each part sees them, with ``b`` baselines of the whole."""

    baseline: Tensor
    parts: tuple[Any, ...]

    def rows(self, mask: Tensor) -> "CombinedPoints":
        r"""The points where ``mask`` is true."""
        parts = tuple(part.rows(mask) for part in self.parts)
        return CombinedPoints(self.baseline[mask], parts)


class Rule:
    r"""How bounds of a whole follow from bounds of its parts.

    By default the whole is like its first part, and bounds are those of the part that
    decides at each point.

    Attributes:
        error: Added to every bound on a value, and twice to every bound on a difference,
            outcome units.
    """

    error: float = 0.0
    of_one: bool = False  # whether the whole is made of a single part

    def located(self, X: Tensor) -> tuple[Any, ...]:
        r"""Data of the rule itself at ``b x d`` raw points, such as limits."""
        return ()

    def joined(self, values: Sequence[Tensor]) -> Tensor:
        r"""Bound on the whole, without ``error``, from ``b`` values of each part."""
        return values[0]

    def side(self, index: int, sign: int) -> int:
        r"""Side of a part's band that side ``sign`` of the whole asks for."""
        return sign

    def baseline(self, values: Sequence[Tensor]) -> Tensor:
        r"""Baseline, or estimate, of the whole."""
        return values[0]

    def prior_std(self, values: Sequence[float]) -> float:
        r"""Prior standard deviation of the whole."""
        return values[0]

    def model_error(self, values: Sequence[float]) -> float:
        r"""Model error of the whole, from those of the parts."""
        return max(values) + self.error

    def support(self, parts: Sequence[Part], points: CombinedPoints, sign: int) -> Tensor:
        r"""Support of the whole at ``b`` points."""
        rows = enumerate(zip(parts, points.parts, strict=True))
        values = [part.support(own, self.side(i, sign)) for i, (part, own) in rows]
        return self.joined(values) + self.error

    def majorant(self, parts: Sequence[Part], points: CombinedPoints, sign: int) -> Tensor:
        r"""Cheap upper bound on ``support``, from those of the parts."""
        rows = enumerate(zip(parts, points.parts, strict=True))
        values = [part.majorant(own, self.side(i, sign)) for i, (part, own) in rows]
        return self.joined(values) + self.error

    def max_gain_over(
        self, parts: Sequence[Part], X: Tensor, reference: Tensor, sign: int, cheap: bool
    ) -> Tensor:
        r"""Upper bound on ``sign * (f(x) - f(reference))``, from those of the parts."""
        gains = [
            part.max_gain_over(X, reference, self.side(index, sign), cheap)
            for index, part in enumerate(parts)
        ]
        return self.joined(gains) + 2.0 * self.error

    def limit(self, parts: Sequence[Part], sign: int) -> float:
        limits = [part.limit(self.side(i, sign)) for i, part in enumerate(parts)]
        return self._of_limits(limits) + self.error

    def gain_limit(self, parts: Sequence[Part], reference: Tensor, sign: int) -> float:
        sides = [(part, self.side(i, sign)) for i, part in enumerate(parts)]
        limits = [part.gain_limit(reference, side) for part, side in sides]
        return self._of_limits(limits) + 2.0 * self.error

    def _of_limits(self, limits: Sequence[float]) -> float:
        values = [torch.tensor(each, dtype=torch.float64) for each in limits]
        return float(self.joined(values))


@dataclass(frozen=True)
class Union(Rule):
    r"""All functions that lie in at least one of the parts.

    The union holds the true function whenever the true kernel's part does, so the failure
    probability is that part's alone. Parts of other kernels may be left out at no cost.

    Source: ours; ``docs/mathematics.md``.
    """

    def joined(self, values: Sequence[Tensor]) -> Tensor:
        r"""The largest."""
        return torch.stack(list(values)).amax(0)

    def support(self, parts: Sequence[Part], points: CombinedPoints, sign: int) -> Tensor:
        r"""Largest support, searched only where a part's cheap bound leaves it open."""
        if len(parts) == 1 or points.baseline.numel() == 0:
            return parts[0].support(points.parts[0], sign)
        # The most promising part at each point is searched first; another part is searched
        # only where its cheap bound exceeds the value found.
        with torch.no_grad():
            pairs = zip(parts, points.parts, strict=True)
            limits = torch.stack([part.majorant(own, sign) for part, own in pairs])
        promising, best = limits.argmax(0), torch.full_like(limits[0], -torch.inf)
        found: list[Tensor] = []
        for first in (True, False):
            for index, part in enumerate(parts):
                own = promising == index
                rows = own if first else ~own & (limits[index] > best)
                if bool(rows.any()):
                    support = part.support(points.parts[index].rows(rows), sign)
                    # Minus infinity at the other points
                    nothing = torch.full_like(rows, -torch.inf, dtype=support.dtype)
                    found.append(nothing.masked_scatter(rows, support))
                    best = torch.maximum(best, found[-1].detach())
        return self.joined(found)


@dataclass(frozen=True)
class WeightedSum(Rule):
    r"""All functions ``offset + sum_j w_j f_j`` with every ``f_j`` in its own part.

    The support is ``sum_j |w_j|`` times the support of part ``j``, of the other side where
    ``w_j`` is negative. The set holds the
    true sum whenever all parts hold their functions; by the union bound the failure
    probabilities add up. The outcomes and their noises may depend on each other in any way.

    Attributes:
        weights: One weight for each part, none of them zero.
        offset: Constant added to the sum, outcome units.
    """

    weights: tuple[float, ...]
    offset: float = 0.0

    def joined(self, values: Sequence[Tensor]) -> Tensor:
        r"""The sum, weighted by ``|w_j|``."""
        return torch.stack([abs(w) * each for w, each in self._pairs(values)]).sum(0)

    def side(self, index: int, sign: int) -> int:
        r"""The other side where the weight is negative."""
        return sign if self.weights[index] > 0 else -sign

    def baseline(self, values: Sequence[Tensor]) -> Tensor:
        r"""The weighted sum, plus the offset."""
        sums = torch.stack([w * each for w, each in self._pairs(values)]).sum(0)
        return sums + self.offset

    def prior_std(self, values: Sequence[float]) -> float:
        r"""Root of the weighted sum of the parts' prior variances."""
        return math.hypot(*(w * each for w, each in self._pairs(values)))

    def model_error(self, values: Sequence[float]) -> float:
        r"""The sum, weighted by ``|w_j|``."""
        return sum(abs(w) * each for w, each in self._pairs(values))

    def limit(self, parts: Sequence[Part], sign: int) -> float:
        return super().limit(parts, sign) + sign * self.offset

    def _pairs(self, values: Sequence[Any]) -> Iterable[tuple[float, Any]]:
        return zip(self.weights, values, strict=True)


@dataclass(frozen=True)
class PlusError(Rule):
    r"""All functions within ``error``, at every point, of a function of a single part.

    A part whose radius allows for residuals larger by ``misfit_of_error`` holds some ``g``
    near ``f`` whenever the fit holds ``f``. So values of ``f`` are bounded by values of
    ``g`` plus ``error``, and differences of two values by differences of ``g`` plus twice
    ``error``. Twice ``error`` is added at the reference as well: the gain there is zero,
    but branch and bound needs the largest gain of points next to it, and the error may
    change by any amount from point to point.

    Source: ours; see ``docs/mathematics.md``.

    Attributes:
        error: Largest distance at any point, outcome units.
    """

    error: float
    of_one = True


@dataclass(frozen=True)
class Within(Rule):
    r"""All functions of a single part that keep to limits on their values.

    Bounds on a value are clipped. A gain over a reference is at most what the limits leave
    between both points: ``f(x) - f(r) <= min(gain, U(x) - L(r))`` with the clipped sides.

    Source: ours, the intersection of the set with the functions within the limits, or a
    larger set: imposing limits at every point at once narrows the band a little more.

    Attributes:
        known: The limits, on the scale of the set.
    """

    known: Pointwise
    of_one = True

    def located(self, X: Tensor) -> tuple[Any, ...]:
        r"""The limits at the points."""
        return (self.known.limits(X),)

    def support(self, parts: Sequence[Part], points: CombinedPoints, sign: int) -> Tensor:
        r"""Clipped support."""
        return _clipped(parts[0].support(points.parts[0], sign), points, sign)

    def majorant(self, parts: Sequence[Part], points: CombinedPoints, sign: int) -> Tensor:
        r"""Clipped majorant."""
        return _clipped(parts[0].majorant(points.parts[0], sign), points, sign)

    def max_gain_over(
        self, parts: Sequence[Part], X: Tensor, reference: Tensor, sign: int, cheap: bool
    ) -> Tensor:
        r"""The part's gain, at most what the limits leave above the reference."""
        (part,) = parts
        gain = part.max_gain_over(X, reference, sign, cheap)
        end = self.known.limits(X).oriented(sign).upper
        least, is_limit = self._least(part, reference, sign)
        gain = torch.minimum(gain, end - least)
        if not is_limit:  # else the part's own side at `x` may be nearer than its gain
            return gain
        points = part.project(X)
        side = part.majorant if cheap else part.support
        above = sign * points.baseline + side(points, sign)
        return torch.minimum(gain, torch.minimum(above, end) - least)

    def limit(self, parts: Sequence[Part], sign: int) -> float:
        r"""Upper bound on ``sign * f`` everywhere, by the limits and by the part."""
        return min(self.known.end(sign), parts[0].limit(sign))

    def gain_limit(self, parts: Sequence[Part], reference: Tensor, sign: int) -> float:
        r"""Largest gain over the reference that the limits allow anywhere."""
        least, _ = self._least(parts[0], reference, sign)
        own = self.known.end(sign) - float(least)
        return min(own, parts[0].gain_limit(reference, sign))

    def _least(self, part: Part, reference: Tensor, sign: int) -> tuple[Tensor, bool]:
        r"""Least value of ``sign * f`` at the reference; whether the limits give it."""
        sides = Limits(*part.bounds(reference)).oriented(sign)
        known = self.known.limits(reference).oriented(sign)
        least = torch.maximum(torch.minimum(sides.lower, known.upper), known.lower)
        return least, bool((known.lower > sides.lower).any())


class CombinedState:
    r"""The states of several sets, as one state: the same data, or several outcomes."""

    def __init__(self, states: Sequence[State], rule: Rule) -> None:
        self.states, self.rule = tuple(states), rule
        self.dimension = self.states[0].dimension
        self.outcome_map = self.states[0].outcome_map
        self.num_observations = max(state.num_observations for state in states)
        self.prior_std = rule.prior_std([state.prior_std for state in states])

    def mean(self, X: Tensor) -> Tensor:
        r"""Estimate at ``b x d`` points, ``b`` values."""
        return self.rule.baseline([state.mean(X) for state in self.states])

    def project(self, X: Tensor) -> CombinedPoints:
        r"""``b x d`` raw query points as each state sees them."""
        parts = tuple(state.project(X) for state in self.states)
        return CombinedPoints(self.rule.baseline([p.baseline for p in parts]), parts)

    def with_pending(self, X_pending: Tensor) -> "CombinedState":
        r"""Each state with variances conditioned on pending points as well."""
        states = [state.with_pending(X_pending) for state in self.states]
        return CombinedState(states, self.rule)


class CombinedSet(ConfidenceSet):
    r"""A set that combines several sets by a rule.

    Args:
        parts: The combined sets; for a family of kernels, the simplest kernel first.
        rule: How bounds of the whole follow from bounds of the parts.
        assumptions: The assumptions of the whole.
    """

    def __init__(self, parts: Sequence[Part], rule: Rule, assumptions: Assumptions) -> None:
        states = [part.regression for part in parts]
        state = states[0] if rule.of_one else CombinedState(states, rule)
        super().__init__(state, assumptions)
        self._parts, self.rule = ModuleList(parts), rule

    @property
    def parts(self) -> list[Part]:
        r"""The sets that this set combines."""
        return [part for part in self._parts if isinstance(part, ConfidenceSet)]

    @property
    def norm(self) -> float | None:
        r"""Norm of a single part (of ``g``, where an error is added); else None."""
        return self.parts[0].norm if self.rule.of_one else None

    @property
    def model_error(self) -> float:
        return self.rule.model_error([part.model_error for part in self.parts])

    def project(self, X: Tensor) -> CombinedPoints:
        r"""Project ``b x d`` raw points, once for each distinct state of each part."""
        parts = tuple(part.project(X) for part in self.parts)
        baseline = self.rule.baseline([p.baseline for p in parts])
        return CombinedPoints(baseline, (*parts, *self.rule.located(X)))

    def support(self, points: CombinedPoints, sign: int) -> Tensor:
        return self.rule.support(self.parts, points, sign)

    def majorant(self, points: CombinedPoints, sign: int) -> Tensor:
        r"""From the majorants of the parts."""
        return self.rule.majorant(self.parts, points, sign)

    def with_pending(self, X_pending: Tensor) -> "CombinedSet":
        r"""Each part with variances conditioned on pending points as well."""
        parts = [part.with_pending(X_pending) for part in self.parts]
        return CombinedSet(parts, self.rule, self.assumptions)

    def max_gain_over(
        self, X: Tensor, reference: Tensor, sign: int = 1, cheap: bool = False
    ) -> Tensor:
        r"""From the maximum over each part; see ``ConfidenceSet``."""
        return self.rule.max_gain_over(self.parts, X, reference, sign, cheap)

    def limit(self, sign: int) -> float:
        return self.rule.limit(self.parts, sign)

    def gain_limit(self, reference: Tensor, sign: int) -> float:
        return self.rule.gain_limit(self.parts, reference, sign)


def within(part: Part, known: Pointwise, assumptions: Assumptions) -> CombinedSet:
    r"""The functions of a set that keep to limits on values, on the scale of the set.

    In a union the limits are put on each part, since branch and bound works part by part.
    """
    if isinstance(part, CombinedSet) and isinstance(part.rule, Union):
        parts = [within(each, known, each.assumptions) for each in part.parts]
        return CombinedSet(parts, part.rule, assumptions)
    return CombinedSet([part], Within(known), assumptions)


def searched(part: Part) -> Part:
    r"""The set without the limits whose ``searched`` is False, at any depth."""
    if not isinstance(part, CombinedSet):
        return part
    if isinstance(part.rule, Within) and not part.rule.known.searched:
        return searched(part.parts[0])
    parts = [searched(each) for each in part.parts]
    if all(own is each for own, each in zip(parts, part.parts, strict=True)):
        return part
    return CombinedSet(parts, part.rule, part.assumptions)


def _clipped(support: Tensor, points: CombinedPoints, sign: int) -> Tensor:
    # Both limits clip both sides, so that the sides never swap: where the part lies
    # outside, data and limits contradict each other.
    baseline, limits = points.baseline, points.parts[1]
    side = torch.maximum(baseline + sign * support, limits.lower)
    side = torch.minimum(side, limits.upper)
    return sign * (side - baseline)
