r"""From data, kernels and norm bounds to a family: what is known before, then its sets."""

import warnings
from collections.abc import Callable, Sequence, Set
from dataclasses import replace
from functools import cache, partial
from typing import Any, Literal, NamedTuple

from gpytorch.kernels import Kernel
from gpytorch.means import Mean
from torch import Tensor

from kernelucb._numerics.checks import instance_of, positive_scalar
from kernelucb._numerics.estimates import estimated_parts, is_estimate
from kernelucb._numerics.saving import digest
from kernelucb.confidence.assumptions import (
    Assumption,
    Assumptions,
    Knowledge,
    PriorKnowledge,
    Status,
)
from kernelucb.confidence.base import ConfidenceSet
from kernelucb.confidence.combined import CombinedSet, Intersection, Union
from kernelucb.confidence.family.settings import Settings
from kernelucb.confidence.family.tracker import FamilyRound, FamilyTracker
from kernelucb.exceptions import InconsistentConfidenceSetWarning
from kernelucb.regression.family_data import FamilyData
from kernelucb.regression.kernel_family import Cover, LengthscaleFamily
from kernelucb.regression.named import kernel_in_words


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


Combine = Literal["any", "all"]
_SOURCES = {
    "any": "Union over a family of kernels (ours)",
    "all": "Intersection over a family of kernels (ours)",
}


def family_assumptions(
    kernels: Sequence[Kernel],
    norm_bounds: Sequence[float],
    known: PriorKnowledge,
    settings: Settings,
    combine: Combine,
) -> Assumptions:
    r"""What the band of a family rests on; ``norm_bounds`` are as given by the user."""
    member = settings.assumptions(known, max(norm_bounds))
    estimated, error = known.estimated, settings.model_error
    return of_family(member, kernels, norm_bounds, estimated, combine, error)


def of_family(
    member: Assumptions,
    kernels: Sequence[Kernel],
    norm_bounds: Sequence[float],
    estimated: Set[str],
    combine: Combine,
    model_error: float = 0.0,
) -> Assumptions:
    r"""What the band of a family rests on, from what that of one member does."""
    source = f"{_SOURCES[combine]}, each by {member.source}"
    kernel = _kernel(kernels, combine, "kernel" in estimated)
    norm = _norm(norm_bounds, combine, "norm" in estimated, model_error)
    return replace(member, source=source).with_item(kernel).with_item(norm)


def per_kernel(
    norm_bound: float | Sequence[float], kernels: Sequence[Kernel]
) -> list[float]:
    r"""A norm bound for each kernel, from one for all or one for each.

    Raises:
        ValueError: If there is no kernel, the number differs, or a bound is not above zero.
    """
    if len(kernels) == 0:
        raise ValueError("kernels is empty; a family needs at least one kernel.")
    given: Any = norm_bound  # a tensor too, where one number was estimated
    one = given.dim() == 0 if isinstance(given, Tensor) else isinstance(given, float | int)
    bounds: list[Any] = [given] * len(kernels) if one else [*given]
    if len(bounds) != len(kernels):
        raise ValueError(
            f"norm_bound has {len(bounds)} entries for {len(kernels)} kernels."
        )
    return [positive_scalar("norm_bound", bound) for bound in bounds]


def _kernel(kernels: Sequence[Kernel], combine: Combine, estimated: bool) -> Assumption:
    covered = "; ".join(dict.fromkeys(map(kernel_in_words, kernels)))
    if combine == "any" and isinstance(kernels, LengthscaleFamily):
        covered = kernels.covers
    each = "one of these" if combine == "any" else "every one of these"
    statement = f"f - mean has the stated norm under {each}: {covered}"
    if not estimated:
        fixed = f"{statement}; they were fixed before the data"
        return Assumption("kernel", fixed, Status.GIVEN)
    fitted = (
        f"{statement}; their hyper-parameters are or were trainable, or the scaling of the "
        "inputs was learned, so they may have been fitted to these data"
    )
    return Assumption("kernel", fitted, Status.ESTIMATED)


def _norm(
    norm_bounds: Sequence[float], combine: Combine, estimated: bool, model_error: float
) -> Assumption:
    least, most = min(norm_bounds), max(norm_bounds)
    numbers = f"{most:.6g}" if least == most else f"{least:.6g} to {most:.6g}, by kernel"
    under = "that kernel" if combine == "any" else "every kernel"
    statement = f"the RKHS norm of f - mean under {under} is at most {numbers}"
    if model_error > 0.0:
        nearby = statement.replace("f - mean", "g - mean")
        statement = f"f is everywhere within {model_error:.6g} of a function g; {nearby}"
    if estimated:
        return Assumption("norm", f"{statement}, which was estimated", Status.ESTIMATED)
    return Assumption("norm", statement, Status.GIVEN)


def family_report(
    family: Family, kernels: Sequence[Kernel], num_observations: int, delta: float
) -> str:
    r"""Which kernels the data contradict, a line for each, and what the band rests on."""
    contradicted = [not consistent for consistent in family.consistent]
    lines = contradicted_in_words(kernels, contradicted, num_observations, delta)
    for member, wrong in zip(family.members, contradicted, strict=True):
        verdict = "contradicted" if wrong else "consistent"
        lines.append(
            f"  {member.kernel}: {verdict} (norm at least "
            f"{member.least_consistent_norm:.4g}, bound {member.norm_bound:.4g})"
        )
    return "\n".join([*lines, str(family.confidence_set.assumptions)])


def contradicted_in_words(
    kernels: Sequence[Kernel],
    contradicted: Sequence[bool],
    num_observations: int,
    delta: float,
) -> list[str]:
    r"""How many kernels the data contradict and, of length scales, which; a line each."""
    lines = [
        f"Of {len(contradicted)} kernels, {num_observations} observations contradict "
        f"{sum(contradicted) or 'none'} at level {delta:.6g}."
    ]
    if isinstance(kernels, LengthscaleFamily):
        ranges = kernels.ranges_in_words(contradicted)
        lines += [f"Contradicted: {ranges}, at their norm bound."] if ranges else []
    return lines


def family_of(
    data: FamilyData,
    kernels: Sequence[Kernel],
    mean_module: Mean | None,
    norm_bounds: Sequence[float],
    settings: Settings,
    combine: Combine,
    tracker: FamilyTracker | None,
) -> Family:
    r"""The sets of all kernels and their union or intersection.

    The tracker is updated before a contradiction is announced or raised.

    Args:
        data: The data.
        kernels: The family.
        mean_module: Prior mean, outcome units; zero when absent.
        norm_bounds: As given by the user, one for each kernel, outcome units.
        settings: What all members share.
        combine: Union or intersection.
        tracker: Of the rounds before, or None.

    Raises:
        ValueError: If the tracker is for another family, or for an intersection.
    """
    if tracker is not None and combine == "all":
        raise ValueError(
            'tracker is for combine="any": with "all" a contradicted kernel is not left '
            "out, it contradicts the whole. Leave it out."
        )
    if tracker is not None:
        instance_of("tracker", tracker, FamilyTracker)
    union = combine == "any"
    covers = covering(kernels, data.inputs.shape[-1]) if union else alone(kernels)
    priors = [data.prior(cover.kernel, mean_module) for cover in covers]
    parts = [estimated_parts(kernel, mean_module) for kernel in kernels]
    estimated = data.estimated.union(*parts)
    if any(map(is_estimate, norm_bounds)):
        estimated |= {"norm"}
    norm_bounds = [float(bound) for bound in norm_bounds]
    used = in_use(norm_bounds, covers)
    key = settings.key([digest(prior) for prior in priors], used)
    current = FamilyRound(key, data.precision, estimated)
    tracker = FamilyTracker() if tracker is None else tracker
    before = tracker.recall(current)
    names = map(kernel_in_words, kernels)
    same = estimated, data.pooled(priors[0])
    states = [cache(partial(data.under, prior, *same)) for prior in priors]
    candidates = [*map(Candidate, names, used, before, states)]
    known = Knowledge(estimated, data.precision, data.outcome_map)
    assumptions = family_assumptions(kernels, norm_bounds, known, settings, combine)
    assumptions = _tainted(assumptions, tracker.estimated - estimated)
    if combine == "all":
        return intersection_of(candidates, settings, assumptions)
    members = members_of(candidates, settings)
    tracker.update(current, [member.least_consistent_norm for member in members])
    return union_of(candidates, members, settings, assumptions)


def covering(kernels: Sequence[Kernel], dimension: int) -> list[Cover]:
    r"""What covers each kernel of a family, and the length scales between them."""
    if isinstance(kernels, LengthscaleFamily):
        return kernels.covering(dimension)
    return alone(kernels)


def alone(kernels: Sequence[Kernel]) -> list[Cover]:
    r"""The kernels themselves."""
    return [Cover(kernel, 1.0) for kernel in kernels]


def in_use(norm_bounds: Sequence[float], covers: Sequence[Cover]) -> list[float]:
    r"""The norm bounds under the covering kernels."""
    pairs = zip(norm_bounds, covers, strict=True)
    return [bound * cover.norm_factor for bound, cover in pairs]


def _tainted(assumptions: Assumptions, names: frozenset[str]) -> Assumptions:
    r"""Those that were estimated in an earlier round stay so."""
    for name in sorted(names):
        statement = f"{assumptions[name].statement}; in an earlier round it was estimated"
        assumptions = assumptions.with_item(Assumption(name, statement, Status.ESTIMATED))
    return assumptions
