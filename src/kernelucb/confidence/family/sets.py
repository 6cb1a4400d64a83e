r"""The union and the intersection of the sets of several kernels."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor
from torch.nn import ModuleList

from kernelucb.confidence.assumptions import Assumptions
from kernelucb.confidence.base import ConfidenceSet, Support
from kernelucb.regression.state import State


class FamilyPoints(NamedTuple):
    r"""Query points as each member of a family sees them."""

    parts: tuple[Any, ...]

    @property
    def baseline(self) -> Tensor:
        r"""The prior mean, which all members share, ``b`` values."""
        return self.parts[0].baseline

    def detach(self) -> "FamilyPoints":
        r"""The same points without gradients."""
        return FamilyPoints(tuple(part.detach() for part in self.parts))


class FamilyStates:
    r"""The same data under several kernels, the simplest first, as one state."""

    def __init__(self, states: Sequence[State], prior_std: float) -> None:
        self.states, self.prior_std = tuple(states), prior_std
        self.dimension = self.states[0].dimension
        self.outcome_map = self.states[0].outcome_map
        self.num_observations = self.states[0].num_observations

    def mean(self, X: Tensor) -> Tensor:
        r"""Estimate under the simplest kernel at ``b x d`` points, ``b`` values."""
        return self.states[0].mean(X)

    def project(self, X: Tensor) -> FamilyPoints:
        r"""``b x d`` raw query points as each state sees them."""
        return FamilyPoints(tuple(state.project(X) for state in self.states))

    def with_pending(self, X_pending: Tensor) -> "FamilyStates":
        r"""Each state with variances conditioned on pending points as well."""
        states = [state.with_pending(X_pending) for state in self.states]
        return FamilyStates(states, self.prior_std)


class FamilySet(ConfidenceSet[FamilyStates, FamilyPoints]):
    r"""A set made of one set for each of several kernels, with the same data and mean.

    Args:
        parts: The sets, that of the simplest kernel first.
        prior_std: Prior standard deviation of the outcome, outcome units.
        assumptions: What the whole rests on.
    """

    def __init__(
        self,
        parts: Sequence[ConfidenceSet[Any, Any]],
        prior_std: float,
        assumptions: Assumptions,
    ) -> None:
        states = FamilyStates([part.regression for part in parts], prior_std)
        super().__init__(states, assumptions)
        self._parts = ModuleList(parts)

    @property
    def parts(self) -> list[ConfidenceSet[Any, Any]]:
        r"""The sets, that of the simplest kernel first."""
        return [part for part in self._parts if isinstance(part, ConfidenceSet)]

    @property
    def model_error(self) -> float:
        r"""See ``ConfidenceSet``."""
        return max(part.model_error for part in self.parts)

    @abstractmethod
    def joined(self, values: Sequence[Tensor]) -> Tensor:
        r"""Upper bounds of the whole from those of each part, ``b`` values each."""

    def project(self, X: Tensor) -> FamilyPoints:
        r"""See ``ConfidenceSet``."""
        return FamilyPoints(tuple(part.project(X) for part in self.parts))

    def majorant(self, points: FamilyPoints, sign: int) -> Support:
        r"""From the majorants of the parts."""
        pairs = zip(self.parts, points.parts, strict=True)
        return self._joined([part.majorant(own, sign) for part, own in pairs])

    def with_pending(self, X_pending: Tensor) -> Self:
        r"""The set with variances conditioned on pending points under every kernel."""
        parts = [part.with_pending(X_pending) for part in self.parts]
        return type(self)(parts, self.regression.prior_std, self.assumptions)

    def max_gain_over(
        self, X: Tensor, reference: Tensor, sign: int = 1, cheap: bool = False
    ) -> Tensor:
        r"""From the maximum over each part; see ``ConfidenceSet``."""
        gains = [part.max_gain_over(X, reference, sign, cheap) for part in self.parts]
        return self.joined(gains)

    def _joined(self, supports: Sequence[Support]) -> Support:
        value, regularizer, gap = (
            torch.stack(part) for part in zip(*supports, strict=True)
        )
        index = (value == self.joined(list(value))).int().argmax(0, keepdim=True)
        return Support(*(part.gather(0, index)[0] for part in (value, regularizer, gap)))


class UnionSet(FamilySet):
    r"""All functions that lie in the set of at least one kernel, anytime.

    It holds the true function where the set of the true kernel does, so at that set's
    failure probability: which of the others were left out does not count.

    Source: ours; ``docs/mathematics.md``.
    """

    def joined(self, values: Sequence[Tensor]) -> Tensor:
        r"""The largest."""
        return torch.stack(list(values)).amax(0)

    def support(self, points: FamilyPoints, sign: int) -> Support:
        r"""Largest support, searched only where a part's cheap bound leaves it open."""
        if len(self.parts) == 1:
            return self.parts[0].support(points.parts[0], sign)
        with torch.no_grad():
            pairs = zip(self.parts, points.parts, strict=True)
            limits = torch.stack([part.majorant(own, sign).value for part, own in pairs])
        promising, best = limits.argmax(0), torch.full_like(limits[0], -torch.inf)
        found: list[Support] = []
        for first in (True, False):
            for index, part in enumerate(self.parts):
                own = promising == index
                rows = own if first else ~own & (limits[index] > best)
                if bool(rows.any()):
                    support = part.support(points.parts[index].rows(rows), sign)
                    found.append(_at(rows, support))
                    best = torch.maximum(best, found[-1].value.detach())
        return self._joined(found)


def _at(rows: Tensor, support: Support) -> Support:
    r"""Supports of some of ``b`` points as those of all, minus infinity elsewhere."""
    nothing = torch.full_like(rows, -torch.inf, dtype=support.value.dtype)
    return Support(*(nothing.masked_scatter(rows, part) for part in support))


class IntersectionSet(FamilySet):
    r"""All functions that lie in the sets of every kernel, or a larger set, anytime.

    Its bounds are the least of those of the sets, so a lower one may lie above an upper one
    where the sets contradict each other. It holds the true function where all of them do:
    their failure probabilities add up.

    Source: ours, the union bound; ``docs/mathematics.md``.
    """

    def joined(self, values: Sequence[Tensor]) -> Tensor:
        r"""The smallest."""
        return torch.stack(list(values)).amin(0)

    def support(self, points: FamilyPoints, sign: int) -> Support:
        r"""Smallest support of the parts."""
        pairs = zip(self.parts, points.parts, strict=True)
        return self._joined([part.support(own, sign) for part, own in pairs])
