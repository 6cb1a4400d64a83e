r"""What a family of kernels rests on, and what the data say of it, in words."""

from collections.abc import Sequence, Set
from dataclasses import replace
from typing import Any, Literal

from gpytorch.kernels import Kernel
from torch import Tensor

from kernelucb._numerics.checks import positive_scalar
from kernelucb.confidence.assumptions import Assumption, Assumptions, Status
from kernelucb.confidence.family.members import Family
from kernelucb.confidence.family.settings import Settings
from kernelucb.confidence.statements import PriorKnowledge
from kernelucb.regression.kernel_family import LengthscaleFamily
from kernelucb.regression.named import kernel_in_words

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
