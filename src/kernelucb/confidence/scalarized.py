r"""The band of a weighted sum of outcomes from a band of each."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import ModuleList

from kernelucb.confidence.assumptions import Assumptions
from kernelucb.confidence.base import ConfidenceSet, Support
from kernelucb.regression.outcome_map import IDENTITY
from kernelucb.regression.state import Points, State


class WeightedPoints(NamedTuple):
    r"""Query points of the sum: ``b`` baselines, and the points as each set sees them."""

    baseline: Tensor
    parts: tuple[Points, ...]

    def detach(self) -> "WeightedPoints":
        r"""The same points without gradients."""
        parts = tuple(part.detach() for part in self.parts)
        return WeightedPoints(self.baseline.detach(), parts)


class WeightedStates:
    r"""The states of several outcomes, as one state of ``offset + sum_j w_j f_j``."""

    outcome_map = IDENTITY

    def __init__(
        self, states: Sequence[State], weights: Sequence[float], offset: float
    ) -> None:
        self.states, self.weights, self.offset = tuple(states), tuple(weights), offset
        self.dimension = self.states[0].dimension
        self.num_observations = max(state.num_observations for state in states)

    @property
    def prior_std(self) -> float:
        r"""Root of the weighted sum of the outcomes' prior variances, outcome units."""
        pairs = zip(self.weights, self.states, strict=True)
        return math.hypot(*(weight * state.prior_std for weight, state in pairs))

    def mean(self, X: Tensor) -> Tensor:
        r"""Estimate of the sum at ``b x d`` points, ``b`` values."""
        return self._sum([state.mean(X) for state in self.states])

    def project(self, X: Tensor) -> WeightedPoints:
        r"""``b x d`` raw query points as each state sees them."""
        return self.joined([state.project(X) for state in self.states])

    def joined(self, parts: Sequence[Points]) -> WeightedPoints:
        r"""Points of the sum from those of each outcome."""
        return WeightedPoints(self._sum([part.baseline for part in parts]), tuple(parts))

    def with_pending(self, X_pending: Tensor) -> "WeightedStates":
        r"""Each state with variances conditioned on pending points as well."""
        states = [state.with_pending(X_pending) for state in self.states]
        return WeightedStates(states, self.weights, self.offset)

    def _sum(self, values: Sequence[Tensor]) -> Tensor:
        pairs = zip(self.weights, values, strict=True)
        return torch.stack([weight * value for weight, value in pairs]).sum(0) + self.offset


class ScalarizedSet(ConfidenceSet[WeightedStates, WeightedPoints]):
    r"""All functions ``offset + sum_j w_j f_j`` with every ``f_j`` in its own set.

    Its support function is ``sum_j |w_j|`` times that of the ``j``-th set, on the other
    side where ``w_j`` is negative. It holds the true sum whenever all sets hold theirs, so
    by the union bound with one minus the sum of their failure probabilities; the outcomes
    and their noises may depend on each other in any way. No weight may be zero; the offset
    is in outcome units.
    """

    def __init__(
        self,
        sets: Sequence[ConfidenceSet[Any, Any]],
        weights: Sequence[float],
        assumptions: Assumptions,
        offset: float = 0.0,
    ) -> None:
        states = WeightedStates([part.regression for part in sets], weights, offset)
        super().__init__(states, assumptions)
        self.sets = ModuleList(sets)
        self.weights = tuple(weights)

    @property
    def model_error(self) -> float:
        r"""Weighted sum of the sets' own; see ``ConfidenceSet``."""
        pairs = zip(self.parts, self.weights, strict=True)
        return sum(abs(weight) * part.model_error for part, weight in pairs)

    def project(self, X: Tensor) -> WeightedPoints:
        r"""Project ``b x d`` raw points, once for each distinct state of each set."""
        return self.regression.joined([part.project(X) for part in self.parts])

    def support(self, points: WeightedPoints, sign: int) -> Support:
        r"""Weighted sum of the supports; ``regularizer`` has one column for each set."""
        values, regularizers, gaps = [], [], []
        for part, weight, own in zip(self.parts, self.weights, points.parts, strict=True):
            support = part.support(own, sign if weight > 0 else -sign)
            values.append(abs(weight) * support.value)
            regularizers.append(support.regularizer)
            gaps.append(abs(weight) * support.gap)
        value, gap = torch.stack(values).sum(0), torch.stack(gaps).sum(0)
        return Support(value, torch.stack(regularizers, dim=-1), gap)

    def with_pending(self, X_pending: Tensor) -> "ScalarizedSet":
        r"""The set with variances conditioned on pending points of every outcome."""
        sets = [part.with_pending(X_pending) for part in self.parts]
        return ScalarizedSet(sets, self.weights, self.assumptions, self.regression.offset)

    def max_gain_over(
        self, X: Tensor, reference: Tensor, sign: int = 1, cheap: bool = False
    ) -> Tensor:
        r"""Sum of the sets' own bounds on differences; see ``ConfidenceSet``."""
        excess = [
            abs(weight)
            * part.max_gain_over(X, reference, sign if weight > 0 else -sign, cheap)
            for part, weight in zip(self.parts, self.weights, strict=True)
        ]
        return torch.stack(excess).sum(0)

    @property
    def parts(self) -> list[ConfidenceSet[Any, Any]]:
        r"""The sets of the outcomes, in the order of the weights."""
        return [part for part in self.sets if isinstance(part, ConfidenceSet)]
