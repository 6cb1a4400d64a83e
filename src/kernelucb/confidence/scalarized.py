r"""The band of a weighted sum of outcomes from a band of each."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import ModuleList

from kernelucb.confidence.assumptions import Assumptions
from kernelucb.confidence.base import ConfidenceSet, QueryPoints, Support


class WeightedStates:
    r"""The states of several outcomes, as one state."""

    def __init__(self, states: Sequence[Any], weights: Sequence[float]) -> None:
        self.states, self.weights = tuple(states), tuple(weights)
        self.dimension: int = self.states[0].dimension

    @property
    def prior_std(self) -> float:
        r"""Root of the weighted sum of the outcomes' prior variances, outcome units."""
        pairs = zip(self.weights, self.states, strict=True)
        return math.hypot(*(weight * state.prior_std for weight, state in pairs))

    def project(self, X: Tensor) -> Any:
        r"""Query points as each state sees them."""
        return tuple(state.project(X) for state in self.states)

    def with_pending(self, X_pending: Tensor) -> "WeightedStates":
        r"""Each state with variances conditioned on pending points as well."""
        states = [state.with_pending(X_pending) for state in self.states]
        return WeightedStates(states, self.weights)


class _Centre(NamedTuple):
    prior_mean: Tensor


class _Points(NamedTuple):
    r"""Query points of the sum, in the place of ``QueryPoints``."""

    centre: _Centre
    parts: tuple[QueryPoints, ...]


class ScalarizedSet(ConfidenceSet[WeightedStates]):
    r"""All functions ``offset + sum_j w_j f_j`` with every ``f_j`` in its own set.

    Its support function is ``sum_j |w_j|`` times that of the ``j``-th set, on the other
    side where ``w_j`` is negative. It holds the true sum whenever all sets hold theirs, so
    by the union bound with one minus the sum of their failure probabilities; the outcomes
    and their noises may depend on each other in any way.

    Args:
        sets: A confidence set for each outcome.
        weights: One for each, none of them zero.
        assumptions: What the sets rest on together.
        offset: Outcome units.
    """

    def __init__(
        self,
        sets: Sequence[ConfidenceSet[Any]],
        weights: Sequence[float],
        assumptions: Assumptions,
        offset: float = 0.0,
    ) -> None:
        states = WeightedStates([part.regression for part in sets], weights)
        designs = WeightedStates([part.design for part in sets], weights)
        super().__init__(states, assumptions, designs)
        self.sets = ModuleList(sets)
        self.weights = tuple(weights)
        self.offset = offset

    def project(self, X: Tensor) -> Any:
        r"""Project ``b x d`` raw points, once for each distinct state of each set."""
        parts = tuple(part.project(X) for part in self._sets())
        means = [
            weight * points.centre.prior_mean
            for weight, points in zip(self.weights, parts, strict=True)
        ]
        return _Points(_Centre(torch.stack(means).sum(0) + self.offset), parts)

    def support(self, points: Any, sign: int) -> Support:
        r"""Weighted sum of the supports; ``regularizer`` has one column for each set."""
        values, regularizers, gaps = [], [], []
        for part, weight, own in zip(self._sets(), self.weights, points.parts, strict=True):
            support = part.support(own, sign if weight > 0 else -sign)
            values.append(abs(weight) * support.value)
            regularizers.append(support.regularizer)
            gaps.append(abs(weight) * support.gap)
        return Support(
            torch.stack(values).sum(0),
            torch.stack(regularizers, dim=-1),
            torch.stack(gaps).sum(0),
        )

    def with_design(self, design: WeightedStates) -> "ScalarizedSet":
        r"""The set with variances conditioned on other designs."""
        sets = [
            part.with_design(own)
            for part, own in zip(self._sets(), design.states, strict=True)
        ]
        return ScalarizedSet(sets, self.weights, self.assumptions, self.offset)

    def max_gain_over(self, X: Tensor, reference: Tensor, sign: int = 1) -> Tensor:
        r"""Sum of the sets' own bounds on differences; see ``ConfidenceSet``."""
        excess = [
            abs(weight) * part.max_gain_over(X, reference, sign if weight > 0 else -sign)
            for part, weight in zip(self._sets(), self.weights, strict=True)
        ]
        return torch.stack(excess).sum(0)

    def _sets(self) -> list[ConfidenceSet[Any]]:
        return list(self.sets)  # pyright: ignore[reportReturnType]
