r"""From data, kernels and norm bounds to a family: what is known before, then its sets."""

import warnings
from collections.abc import Sequence, Set
from dataclasses import replace
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
from kernelucb.confidence.combined import CombinedSet, Union
from kernelucb.confidence.family.data import Appraisal, FamilyData
from kernelucb.confidence.family.kernels import KernelFamily
from kernelucb.confidence.sets import ConfidenceSet
from kernelucb.exceptions import InconsistentConfidenceSetWarning
from kernelucb.regression.kernel_family import Cover, LengthscaleFamily
from kernelucb.regression.named import kernel_in_words


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
    confidence_set: ConfidenceSet | None
    norm_factor: float


def family_of(
    family: KernelFamily, data: FamilyData, norm_bounds: Sequence[float]
) -> tuple[list[Member], CombinedSet]:
    r"""The kernels after a look at the data, and the union of their sets.

    ``norm_bounds`` are those of the user, one for each kernel, outcome units.
    """
    covers = family.covering(data.data.train_inputs.shape[-1])
    priors = [data.prior(cover.kernel, family.prior_mean) for cover in covers]
    parts = [estimated_parts(kernel, family.prior_mean) for kernel in family.kernels]
    estimated = data.data.estimated_anyway.union(*parts)
    if any(map(is_estimate, norm_bounds)):
        estimated |= {"norm"}
    norm_bounds = [float(bound) for bound in norm_bounds]
    known = Knowledge(estimated, data.precision, data.data.prior.outcome_map)
    member = data.assumptions(known, max(norm_bounds))
    told = estimated, data.model_error, data.is_tied
    assumptions = of_family(member, family.kernels, norm_bounds, *told)
    used = in_use(norm_bounds, covers)
    states: list[Any] = [data.state(prior, estimated) for prior in priors]
    appraisals = [data.appraised(*each) for each in zip(states, used, strict=True)]
    names = map(kernel_in_words, family.kernels)
    factors = [cover.norm_factor for cover in covers]
    members = [*map(_examined, appraisals, used, names, factors)]
    sets = [member.confidence_set for member in members if member.confidence_set]
    if not sets:
        nearest = _nearest(members)
        contradiction = _none_left(members[nearest], len(members), data.doubt)
        assumptions = assumptions.with_item(contradiction)
        with warnings.catch_warnings():  # said already, of all kernels
            warnings.simplefilter("ignore", InconsistentConfidenceSetWarning)
            sets = [appraisals[nearest].confidence_set()[0]]
    return members, CombinedSet(sets, Union(), assumptions)


def _examined(
    appraisal: Appraisal, norm_bound: float, kernel: str, norm_factor: float
) -> Member:
    r"""A kernel after a look at the data."""
    least, found = appraisal.least_norm, None
    if least <= norm_bound:
        found, least = appraisal.confidence_set()
    return Member(kernel, norm_bound, least, found, norm_factor)


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
    model_error: float = 0.0,
    is_tied: bool = False,
) -> Assumptions:
    r"""The assumptions of a family's band, from those of one member.

    ``norm_bounds`` are those of the user, to which the sets' event ``is_tied`` or not.
    """
    source = f"Union over a family of kernels (ours), each by {member.source}"
    kernel = _kernel(kernels, "kernel" in estimated)
    norm = _norm(norm_bounds, "norm" in estimated, model_error)
    if is_tied and norm.status is Status.GIVEN:
        norm = replace(norm, statement=f"{norm.statement}, fixed before the data")
    return replace(member, source=source).with_item(kernel).with_item(norm)


def _kernel(kernels: Sequence[Kernel], estimated: bool) -> Assumption:
    covered = "; ".join(dict.fromkeys(map(kernel_in_words, kernels)))
    if isinstance(kernels, LengthscaleFamily):
        covered = kernels.covers
    statement = f"f - mean has the stated norm under one of these: {covered}"
    if not estimated:
        fixed = f"{statement}; they were fixed before the data"
        return Assumption("kernel", fixed, Status.GIVEN)
    fitted = (
        f"{statement}; their hyper-parameters are or were trainable, or the scaling of the "
        "inputs was learned, so they may have been fitted to these data"
    )
    return Assumption("kernel", fitted, Status.ESTIMATED)


def _norm(norm_bounds: Sequence[float], estimated: bool, model_error: float) -> Assumption:
    least, most = min(norm_bounds), max(norm_bounds)
    numbers = assumed(most)
    if least != most:
        numbers = f"{assumed(least)} to {numbers}, by kernel"
    statement = f"the RKHS norm of f - mean under that kernel is at most {numbers}"
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
