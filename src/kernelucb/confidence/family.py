r"""A family of kernels: covers, the search rule, and what its union rests on."""

from collections.abc import Sequence, Set
from dataclasses import replace
from typing import Any

import numpy as np
from gpytorch.kernels import Kernel

from kernelucb._numerics.checks import positive_scalar
from kernelucb._numerics.digits import assumed
from kernelucb._numerics.estimates import Number, plain
from kernelucb._numerics.spread import place_at
from kernelucb.confidence.assumptions import Assumption, Assumptions, Status
from kernelucb.confidence.norm import near
from kernelucb.data.kernel_family import Cover, LengthscaleFamily, kernel_in_words

# The norm bound that covariance scale 1 goes with, prior units.
_UNIT_NORM = 10.0


def tied_scale(norm_bound: float) -> float:
    r"""The covariance scale of a kernel with a norm bound, where none is given.

    Kernel ``s^2 k`` with norm bound ``B / s`` then gives the same band as ``k`` with ``B``.
    """
    return (norm_bound / _UNIT_NORM) ** 2


def explores_for_all(count: int, widest_every: int | None) -> bool:
    r"""Whether the round after ``count`` observations explores for all kernels.

    The answer follows from the count alone, so nothing need be remembered between rounds.
    """
    return widest_every is not None and place_at(count, widest_every) == 0


def covering(kernels: Sequence[Kernel], dimension: int) -> list[Cover]:
    r"""Covers of kernels for ``dimension`` input columns.

    In a ``LengthscaleFamily`` each cover also holds the lengths up to the next kernel;
    otherwise each kernel is its own cover.
    """
    if isinstance(kernels, LengthscaleFamily):
        return kernels.covering(dimension)
    return [Cover(kernel, 1.0) for kernel in kernels]


def per_kernel(
    norm_bound: Number | Sequence[Number], kernels: Sequence[Kernel]
) -> list[Number]:
    r"""A norm bound for each kernel, from one for all or one for each.

    Raises:
        ValueError: If the number differs, or a bound is not above zero.
    """
    one: Any = norm_bound
    bounds = [one] * len(kernels) if np.ndim(plain(one)) == 0 else [*one]
    if len(bounds) != len(kernels):
        raise ValueError(
            f"norm_bound has {len(bounds)} entries for {len(kernels)} kernels."
        )
    for bound in bounds:
        positive_scalar("norm_bound", bound)
    return bounds


def of_family(
    member: Assumptions,
    kernels: Sequence[Kernel],
    norm_bounds: Sequence[Number],
    estimated: Set[str],
    model_error: Number = 0.0,
    is_tied: bool = False,
) -> Assumptions:
    r"""The assumptions of a family's band, from those of one member.

    ``norm_bounds`` are those of the user, to which the sets' event ``is_tied`` or not.
    """
    source = f"Union over a family of kernels (ours), each by {member.source}"
    kernel = _kernel(kernels, "kernel" in estimated)
    norm = _norm(norm_bounds, "norm" in estimated, model_error)
    if is_tied and norm.status is Status.GIVEN:
        # Else all norm bounds are one event, and they may be chosen afterwards.
        norm = replace(norm, text=f"{norm.text}, fixed before the data")
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


def _norm(
    norm_bounds: Sequence[Number], estimated: bool, model_error: Number
) -> Assumption:
    least, most = min(norm_bounds), max(norm_bounds)
    numbers = assumed(most)
    if least != most:
        numbers = f"{assumed(least)} to {numbers}, by kernel"
    function = "g" if model_error > 0.0 else "f"
    norm = f"the RKHS norm of {function} - mean under that kernel"
    statement = f"{norm} is at most {numbers}"
    item = Assumption("norm", statement, Status.GIVEN)
    if estimated:
        item = Assumption("norm", f"{statement}, which was estimated", Status.ESTIMATED)
    return near(item, model_error)


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
