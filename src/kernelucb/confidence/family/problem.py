r"""From data, kernels and norm bounds to a family: what is known before, then the sets."""

from collections.abc import Sequence
from functools import cache, partial

from gpytorch.kernels import Kernel
from gpytorch.means import Mean

from kernelucb._numerics.checks import instance_of
from kernelucb._numerics.estimates import estimated_parts, is_estimate
from kernelucb._numerics.saving import digest
from kernelucb.confidence.assumptions import Assumption, Assumptions, Status
from kernelucb.confidence.family.members import (
    Candidate,
    Family,
    intersection_of,
    members_of,
    union_of,
)
from kernelucb.confidence.family.settings import Settings
from kernelucb.confidence.family.statements import Combine, family_assumptions
from kernelucb.confidence.family.tracker import FamilyRound, FamilyTracker
from kernelucb.confidence.statements import Knowledge
from kernelucb.regression.family_data import FamilyData
from kernelucb.regression.kernel_family import Cover, LengthscaleFamily
from kernelucb.regression.named import kernel_in_words


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
