r"""What is optimised: the bound of an objective, and constraints on other outcomes."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Protocol, Self

import torch
from botorch.exceptions import UnsupportedError
from torch import Tensor

from kernelucb.certificates.boxes import CellFunction, Search
from kernelucb.certificates.changes import gain_over, upper_bound
from kernelucb.certificates.regions import Region
from kernelucb.confidence.assumptions import Assumptions
from kernelucb.confidence.base import ConfidenceSet
from kernelucb.confidence.joined import joined_assumptions
from kernelucb.confidence.outcome_constraints import (
    Band,
    OutcomeConstraints,
    check_dimensions,
)
from kernelucb.regression.outcome_map import OutcomeMap


class Bound(Band, Protocol):
    r"""What a certificate needs of an acquisition function: a band with a direction."""

    @property
    def confidence_set(self) -> ConfidenceSet:
        r"""The set of functions that explain the data."""
        ...

    @property
    def direction(self) -> int:
        r"""1 where large outcomes are sought, -1 where small ones are."""
        ...


def worst_value(confidence_set: ConfidenceSet, sign: int, X: Tensor) -> Tensor:
    r"""What ``n x d`` points are worth at least by a set, large values being good."""
    points = confidence_set.project(X)
    return sign * points.baseline - confidence_set.support(points, -sign).value


class Task(NamedTuple):
    r"""An objective and its constraints, as certificates see them.

    Attributes:
        bound: The bound of the objective.
        constraints: What a point must satisfy; None where all points count.
    """

    bound: Bound
    constraints: OutcomeConstraints | None

    @classmethod
    def of(cls, acqf: Bound, constraints: OutcomeConstraints | None) -> Self:
        r"""From what users give: a bound with constraints of its own, or beside it."""
        own: OutcomeConstraints | None = getattr(acqf, "outcome_constraints", None)
        if own is None:
            if constraints is not None:
                check_dimensions("bands", [acqf, *constraints.bands.values()])
            return cls(acqf, constraints)
        if constraints is not None:
            raise UnsupportedError(
                f"{type(acqf).__name__} has constraints of its own; leave out constraints, "
                "or give its band."
            )
        return cls(getattr(acqf, "band", acqf), own)

    @property
    def confidence_set(self) -> ConfidenceSet[Any, Any]:
        r"""The objective's set of functions."""
        return self.bound.confidence_set

    @property
    def sign(self) -> int:
        r"""1 where large outcomes are sought, -1 where small ones are."""
        return self.bound.direction

    @property
    def assumptions(self) -> Assumptions:
        r"""What all bands together rest on."""
        if self.constraints is None:
            return self.confidence_set.assumptions
        bands = {"objective": self.bound, **self.constraints.bands}
        return joined_assumptions(bands, "all bands hold")

    def gain(self, reference: Tensor) -> Callable[[Tensor], Tensor]:
        r"""The largest gain over ``d`` coordinates of a point, for ``n x d`` others."""
        other = reference.unsqueeze(0)
        find = self.confidence_set.max_gain_over
        return partial(find, reference=other, sign=self.sign)

    @property
    def outcome_map(self) -> OutcomeMap:
        r"""From outcomes to the scale of the objective's set, on which tasks are solved."""
        return self.confidence_set.regression.outcome_map

    def optimistic(self, X: Tensor) -> Tensor:
        r"""What ``n x d`` points are worth at most, large values being good."""
        points = self.confidence_set.project(X)
        upper = self.confidence_set.support(points, self.sign).value
        return self.sign * points.baseline + upper

    def where_possible(self, X: Tensor, values: Tensor) -> Tensor:
        r"""``n`` values, minus infinity at those of ``n x d`` points that do not count."""
        if self.constraints is None:
            return values
        return values.masked_fill(~self.constraints.may_be_feasible(X), -torch.inf)

    def gains_in(self, region: Region, reference: Tensor) -> Search | None:
        r"""The gain over a point in a region; None where its change is not known."""
        other, fixed = reference.unsqueeze(0), region.fixed
        gain = gain_over(self.confidence_set, other, self.sign, fixed)
        return self._search(gain, region)

    def optimistic_in(self, region: Region, level: float) -> Search | None:
        r"""What points are worth at most, above a level, in a region; None as above."""
        own = upper_bound(self.confidence_set, self.sign, region.fixed, level)
        return self._search(own, region)

    def _search(self, function: CellFunction | None, region: Region) -> Search | None:
        limits = self._limits(region)
        known = [limit for limit in limits if limit is not None]
        if function is None or len(known) < len(limits):
            return None
        return Search(function, region, known)

    def _limits(self, region: Region) -> list[CellFunction | None]:
        limits: list[CellFunction | None] = []
        for each in [] if self.constraints is None else self.constraints.constraints:
            own, unit = each.confidence_set, each.band.prior_std
            level = each.sign * each.level
            limits.append(
                None
                if own is None
                else upper_bound(own, each.sign, region.fixed, level, unit)
            )
        return limits
