r"""From data, kernels and norm bounds to a family: what is known before, then its sets."""

import warnings
from collections.abc import Callable, Sequence, Set
from dataclasses import replace
from functools import cache, partial
from itertools import repeat
from typing import Any, NamedTuple

from gpytorch.kernels import Kernel
from torch import Tensor

from kernelucb._numerics.checks import positive_scalar
from kernelucb._numerics.digits import assumed, at_least
from kernelucb._numerics.estimates import estimated_parts, is_estimate
from kernelucb.confidence.assumptions import (
    Assumption,
    Assumptions,
    Knowledge,
    Status,
)
from kernelucb.confidence.base import ConfidenceSet
from kernelucb.confidence.combined import CombinedSet, Intersection, Union
from kernelucb.confidence.family.data import FamilyData
from kernelucb.confidence.family.kernels import Combine, KernelFamily
from kernelucb.confidence.family.tracker import FamilyRound, FamilyTracker, in_plain_values
from kernelucb.exceptions import InconsistentConfidenceSetWarning
from kernelucb.regression.kernel_family import Cover, LengthscaleFamily
from kernelucb.regression.named import kernel_in_words

_SOURCES = {
    "any": "Union over a family of kernels (ours)",
    "all": "Intersection over a family of kernels (ours)",
}


class Member(NamedTuple):
    r"""One kernel of a family, its least consistent norm and its set.

    Attributes:
        kernel: The kernel in words.
        norm_bound: Bound on the norm of ``f - mean`` under the covering kernel, outcome
            units.
        least_consistent_norm: Lower bound on the norm of ``f - mean`` under the covering
            kernel, outcome units.
        confidence_set: The functions that are consistent with the data; None if the data
            contradict the kernel, so that there are no such functions.
        norm_factor: Norm bound under the covering kernel over the user's norm bound.
    """

    kernel: str
    norm_bound: float
    least_consistent_norm: float
    confidence_set: ConfidenceSet[Any, Any] | None = None
    norm_factor: float = 1.0


class _Candidate(NamedTuple):
    r"""One kernel of a family before the data are looked at."""

    member: Member  # with the largest least consistent norm of earlier rounds
    state: Callable[[], Any]  # makes the regression under it; the same each time

    @property
    def is_contradicted(self) -> bool:
        r"""Whether an earlier round contradicted the kernel."""
        return self.member.least_consistent_norm > self.member.norm_bound

    def examined(self, data: FamilyData) -> Member:
        r"""The kernel after a look at the data; norms of earlier rounds count as well."""
        bound, before = self.member.norm_bound, self.member.least_consistent_norm
        appraised = data.appraised(self.state(), bound)
        least, found = max(before, appraised.least_norm), None
        if least <= bound:
            found, now = appraised.confidence_set()
            least = max(before, now)
        return self.member._replace(least_consistent_norm=least, confidence_set=found)

    def widened(self, data: FamilyData) -> tuple[ConfidenceSet[Any, Any], float]:
        r"""The kernel's set, widened if the data contradict the kernel; its least norm."""
        return data.appraised(self.state(), self.member.norm_bound).confidence_set()


def family_of(
    family: KernelFamily, data: FamilyData, norm_bounds: Sequence[float]
) -> tuple[list[Member], CombinedSet]:
    r"""The kernels after a look at the data, and the union or intersection of their sets.

    The tracker is updated before a contradiction is announced or raised. ``norm_bounds``
    are those of the user, one for each kernel, outcome units.

    Raises:
        ValueError: If the tracker is of another family.
    """
    covers = family.covering(data.data.train_inputs.shape[-1])
    priors = [data.prior(cover.kernel, family.prior_mean) for cover in covers]
    parts = [estimated_parts(kernel, family.prior_mean) for kernel in family.kernels]
    estimated = data.data.estimated_anyway.union(*parts)
    if any(map(is_estimate, norm_bounds)):
        estimated |= {"norm"}
    norm_bounds = [float(bound) for bound in norm_bounds]
    used = in_use(norm_bounds, covers)
    key = data.key([*map(in_plain_values, priors)], used)
    current = FamilyRound(key, data.precision, estimated)
    tracker = FamilyTracker() if family.tracker is None else family.tracker
    names = map(kernel_in_words, family.kernels)
    factors = [cover.norm_factor for cover in covers]
    before = map(Member, names, used, tracker.recall(current), repeat(None), factors)
    states = [cache(partial(data.state, prior, estimated)) for prior in priors]
    candidates = [*map(_Candidate, before, states)]
    known = Knowledge(estimated, data.precision, data.data.prior.outcome_map)
    member = data.assumptions(known, max(norm_bounds))
    told = estimated, family.combine, data.model_error, data.is_tied
    assumptions = of_family(member, family.kernels, norm_bounds, *told)
    for name in sorted(tracker.estimated - estimated):
        statement = f"{assumptions[name].statement}; in an earlier round it was estimated"
        assumptions = assumptions.with_item(Assumption(name, statement, Status.ESTIMATED))
    if family.combine == "all":
        return _intersection(candidates, data, assumptions)
    members = _examined(candidates, data)
    tracker.update(current, [member.least_consistent_norm for member in members])
    sets = [member.confidence_set for member in members if member.confidence_set]
    if not sets:
        nearest = _nearest(members)
        contradiction = _none_left(members[nearest], len(members), data.doubt)
        assumptions = assumptions.with_item(contradiction)
        with warnings.catch_warnings():  # said already, of all kernels
            warnings.simplefilter("ignore", InconsistentConfidenceSetWarning)
            sets = [candidates[nearest].widened(data)[0]]
    return members, CombinedSet(sets, Union(), assumptions)


def _examined(candidates: Sequence[_Candidate], data: FamilyData) -> list[Member]:
    r"""Each kernel after a look at the data.

    Kernels that an earlier round contradicted are examined again only if no kernel is left.
    """
    members = [
        each.member if each.is_contradicted else each.examined(data) for each in candidates
    ]
    if any(member.confidence_set for member in members):
        return members
    pairs = zip(candidates, members, strict=True)
    return [e.examined(data) if e.is_contradicted else member for e, member in pairs]


def _nearest(members: Sequence[Member]) -> int:
    r"""The kernel that needs the smallest multiple of its norm bound."""
    ratios = [member.least_consistent_norm / member.norm_bound for member in members]
    return ratios.index(min(ratios))


def _none_left(nearest: Member, count: int, doubt: str) -> Assumption:
    least, bound = nearest.least_consistent_norm, nearest.norm_bound
    needed, given = (norm / nearest.norm_factor for norm in (least, bound))
    statement = (
        f"The data contradict all {count} kernels at this delta. The nearest, "
        f"{nearest.kernel}, needs a norm of at least {at_least(needed)}, and its bound is "
        f"{assumed(given)}. The norm bound is too small, the right kernel is not among "
        f"them, or {doubt}."
    )
    warnings.warn(statement, InconsistentConfidenceSetWarning, stacklevel=4)
    return Assumption("kernel", statement, Status.VIOLATED)


def _intersection(
    candidates: Sequence[_Candidate], data: FamilyData, assumptions: Assumptions
) -> tuple[list[Member], CombinedSet]:
    r"""The functions in the sets of all kernels; the sets' fits hold together."""
    data, members = data.each_of(len(candidates)), list[Member]()
    sets: list[ConfidenceSet[Any, Any]] = []
    for candidate in candidates:
        own, least = candidate.widened(data)
        sets.append(own)
        kept = None if own.assumptions.violated else own
        member = candidate.member._replace(least_consistent_norm=least)
        members.append(member._replace(confidence_set=kept))
        if kept is None:
            assumptions = assumptions.with_item(own.assumptions["norm"])
    # Widened sets need not meet: where one is contradicted, no part is cut by another.
    agree = all(member.confidence_set for member in members)
    rule = Intersection() if agree else Union()
    return members, CombinedSet(sets, rule, assumptions)


def in_use(norm_bounds: Sequence[float], covers: Sequence[Cover]) -> list[float]:
    r"""The norm bounds under the covering kernels."""
    pairs = zip(norm_bounds, covers, strict=True)
    return [bound * cover.norm_factor for bound, cover in pairs]


def per_kernel(
    norm_bound: float | Sequence[float], kernels: Sequence[Kernel]
) -> list[float]:
    r"""A norm bound for each kernel, from one for all or one for each.

    Raises:
        ValueError: If the number differs, or a bound is not above zero.
    """
    given: Any = norm_bound  # a tensor too, where one number was estimated
    one = given.dim() == 0 if isinstance(given, Tensor) else isinstance(given, float | int)
    bounds: list[Any] = [given] * len(kernels) if one else [*given]
    if len(bounds) != len(kernels):
        raise ValueError(
            f"norm_bound has {len(bounds)} entries for {len(kernels)} kernels."
        )
    return [positive_scalar("norm_bound", bound) for bound in bounds]


def of_family(
    member: Assumptions,
    kernels: Sequence[Kernel],
    norm_bounds: Sequence[float],
    estimated: Set[str],
    combine: Combine,
    model_error: float = 0.0,
    is_tied: bool = False,
) -> Assumptions:
    r"""The assumptions of a family's band, from those of one member.

    ``norm_bounds`` are those of the user, to which the sets' event ``is_tied`` or not.
    """
    source = f"{_SOURCES[combine]}, each by {member.source}"
    kernel = _kernel(kernels, combine, "kernel" in estimated)
    norm = _norm(norm_bounds, combine, "norm" in estimated, model_error)
    if is_tied and norm.status is Status.GIVEN:
        norm = replace(norm, statement=f"{norm.statement}, fixed before the data")
    return replace(member, source=source).with_item(kernel).with_item(norm)


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
    numbers = assumed(most)
    if least != most:
        numbers = f"{assumed(least)} to {numbers}, by kernel"
    under = "that kernel" if combine == "any" else "every kernel"
    statement = f"the RKHS norm of f - mean under {under} is at most {numbers}"
    if model_error > 0.0:
        nearby = statement.replace("f - mean", "g - mean")
        statement = (
            f"f is everywhere within {assumed(model_error)} of a function g; {nearby}"
        )
    if estimated:
        return Assumption("norm", f"{statement}, which was estimated", Status.ESTIMATED)
    return Assumption("norm", statement, Status.GIVEN)


def family_report(
    kernels: Sequence[Kernel],
    verdicts: Sequence[str],
    contradicted: Sequence[bool],
    num_observations: int,
    assumptions: Assumptions,
) -> str:
    r"""A report in words: contradicted kernels, one line each, and the assumptions."""
    lines = [
        f"Of {len(contradicted)} kernels, {num_observations} observations contradict "
        f"{sum(contradicted) or 'none'} at level {assumptions.delta:.6g}."
    ]
    if isinstance(kernels, LengthscaleFamily):
        ranges = kernels.ranges_in_words(contradicted)
        lines += [f"Contradicted: {ranges}, at their norm bound."] if ranges else []
    pairs = zip(map(kernel_in_words, kernels), verdicts, strict=True)
    lines += [f"  {kernel}: {verdict}" for kernel, verdict in pairs]
    return "\n".join([*lines, str(assumptions)])
