r"""From data and a family of kernels to a confidence set for each of them."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from kernelucb.confidence.assumptions import Assumption, Assumptions, Status
from kernelucb.confidence.base import ConfidenceSet
from kernelucb.confidence.combined import CombinedSet, Intersection, Union
from kernelucb.confidence.family.settings import Settings
from kernelucb.exceptions import InconsistentConfidenceSetWarning


class Member(NamedTuple):
    r"""One kernel of a family, and what the data say of it.

    Attributes:
        kernel: In words.
        norm_bound: Bound on the norm of ``f - mean`` under it, outcome units.
        least_consistent_norm: Lower bound on that norm if the kernel is the true one,
            outcome units.
        confidence_set: The functions that are consistent with the data, or None where
            there are none: the kernel is contradicted.
    """

    kernel: str
    norm_bound: float
    least_consistent_norm: float
    confidence_set: ConfidenceSet[Any, Any] | None


class Family(NamedTuple):
    r"""A family of kernels with the data.

    Attributes:
        members: One for each kernel.
        confidence_set: Their union or intersection.
    """

    members: tuple[Member, ...]
    confidence_set: CombinedSet

    @property
    def consistent(self) -> tuple[bool, ...]:
        r"""Which kernels the data do not contradict."""
        return tuple(member.confidence_set is not None for member in self.members)


class Candidate(NamedTuple):
    r"""One kernel of a family before the data are looked at.

    Attributes:
        kernel: In words.
        norm_bound: Bound on the norm of ``f - mean`` under it, outcome units.
        least_norm: The largest least consistent norm of earlier rounds, outcome units.
        state: Makes the regression of the data under it; the same each time.
    """

    kernel: str
    norm_bound: float
    least_norm: float
    state: Callable[[], Any]

    def examined(self, settings: Settings) -> Member:
        r"""What the data say of it, in this round or an earlier one."""
        appraised = settings.appraised(self.state(), self.norm_bound)
        least, found = max(self.least_norm, appraised.least.norm), None
        if least <= self.norm_bound:
            found, now = settings.confidence_set(self.state(), self.norm_bound, appraised)
            least = max(self.least_norm, now)
        return Member(self.kernel, self.norm_bound, least, found)

    def left_out(self) -> Member:
        r"""One that was contradicted in an earlier round, without a look at the data."""
        return Member(self.kernel, self.norm_bound, self.least_norm, None)


def members_of(candidates: Sequence[Candidate], settings: Settings) -> tuple[Member, ...]:
    r"""What the data say of each kernel.

    Those that were contradicted in an earlier round are looked at only where none is left.
    """
    before = [each.least_norm > each.norm_bound for each in candidates]
    members = [
        each.left_out() if contradicted else each.examined(settings)
        for each, contradicted in zip(candidates, before, strict=True)
    ]
    if all(member.confidence_set is None for member in members):
        for index, contradicted in enumerate(before):
            if contradicted:
                members[index] = candidates[index].examined(settings)
    return tuple(members)


def union_of(
    candidates: Sequence[Candidate],
    members: tuple[Member, ...],
    settings: Settings,
    assumptions: Assumptions,
) -> Family:
    r"""The functions that lie in the set of at least one kernel, each at full ``delta``.

    Where the data contradict every kernel, the set is that of the one which needs the
    smallest multiple of its norm bound, with that norm.
    """
    parts = [member.confidence_set for member in members if member.confidence_set]
    if not parts:
        ratios = [member.least_consistent_norm / member.norm_bound for member in members]
        nearest = ratios.index(min(ratios))
        contradiction = _none_left(members[nearest], len(members), settings)
        assumptions = assumptions.with_item(contradiction)
        state, bound = candidates[nearest].state(), members[nearest].norm_bound
        appraised = settings.appraised(state, bound)
        with warnings.catch_warnings():  # said already, of all kernels
            warnings.simplefilter("ignore", InconsistentConfidenceSetWarning)
            parts = [settings.confidence_set(state, bound, appraised)[0]]
    return Family(members, CombinedSet(parts, Union(), assumptions))


def intersection_of(
    candidates: Sequence[Candidate], settings: Settings, assumptions: Assumptions
) -> Family:
    r"""The functions in the sets of all kernels, which hold together."""
    states = [candidate.state() for candidate in candidates]
    settings = settings.for_each_of(len(states))
    members: list[Member] = []
    parts: list[ConfidenceSet[Any, Any]] = []
    for (name, bound, *_), state in zip(candidates, states, strict=True):
        appraised = settings.appraised(state, bound)
        part, least = settings.confidence_set(state, bound, appraised)
        parts.append(part)
        kept = None if part.assumptions.violated else part
        members.append(Member(name, bound, least, kept))
        if kept is None:
            assumptions = assumptions.with_item(part.assumptions["norm"])
    whole = CombinedSet(parts, Intersection(), assumptions)
    return Family(tuple(members), whole)


def _none_left(nearest: Member, count: int, settings: Settings) -> Assumption:
    statement = (
        f"The data contradict all {count} kernels at this delta. The nearest, "
        f"{nearest.kernel}, needs a norm of at least {nearest.least_consistent_norm:.4g}, "
        f"and its bound is {nearest.norm_bound:.4g}. The norm bound is too small, the "
        f"right kernel is not among them, or {settings.doubt}."
    )
    warnings.warn(statement, InconsistentConfidenceSetWarning, stacklevel=4)
    return Assumption("kernel", statement, Status.VIOLATED)
