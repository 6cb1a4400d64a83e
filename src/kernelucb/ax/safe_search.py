r"""The best safe point of an Ax search space: choices enumerated, numbers searched."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import torch
from ax.core.search_space import SearchSpaceDigest
from botorch.acquisition import AcquisitionFunction
from torch import Tensor

from kernelucb._numerics.arrays import in_parts
from kernelucb._numerics.domains import LinearConstraints
from kernelucb.ax.spaces import choices_of
from kernelucb.safety import SafeSet
from kernelucb.safety.safe_set import no_safe_point
from kernelucb.safety.search import SafeSearch, feasible

# Combinations of integers and choices: how many may be compared, and in how many of them
# the numbers are searched.
MOST_COMBINATIONS = 10_000
_SEARCHED = 4

# What Ax does to a point that it hands out, and the point that this makes of it.
Rounding = Callable[[Tensor], Tensor] | None


@dataclass(frozen=True)
class SafeSpace:
    r"""Where a trial may lie, in the inputs of the bands.

    Attributes:
        bounds: ``2 x d`` ranges.
        combinations: Values of the integer and choice columns, one mapping for each
            combination; of none, one empty mapping.
        fixed: Columns that are given for this trial, and their values.
        inequalities: Linear constraints, as BoTorch takes them.
        rounding: See ``Rounding``.
    """

    bounds: Tensor
    combinations: list[dict[int, float]]
    fixed: Mapping[int, float]
    inequalities: LinearConstraints | None
    rounding: Rounding

    def rounded(self, point: Tensor) -> Tensor:
        r"""What Ax makes of a point, ``1 x d``."""
        return point if self.rounding is None else self.rounding(point)

    def feasible(self, X: Tensor) -> Tensor:
        r"""``n x d`` points with their fixed columns set, without those not allowed."""
        return feasible(X, self.bounds, self.fixed, self.inequalities)


def combinations(
    digest: SearchSpaceDigest, fixed: Mapping[int, float]
) -> list[dict[int, float]]:
    r"""All combinations of the integer and choice columns that are not fixed."""
    groups = [each for each in choices_of(digest) if not each[0].keys() <= fixed.keys()]
    return [
        {column: value for part in parts for column, value in part.items()}
        for parts in product(*groups)
    ]


def best_safe_point(
    acqf: AcquisitionFunction,
    safe_set: SafeSet,
    space: SafeSpace,
    options: dict[str, Any],
    batch: Sequence[Tensor] = (),
) -> tuple[Tensor, Tensor] | None:
    r"""The safe point of largest value that is still safe once Ax has handed it out.

    Args:
        acqf: What is maximised, one point at a time.
        safe_set: The safe set, with all safe points.
        space: Where to search.
        options: Those of ``optimize_acqf_safely``.
        batch: Points of the same trial, each ``1 x d``. Another one that Ax would hand out
            as one of these is passed over: of two equal arms of a trial Ax makes one.

    Returns:
        The point, ``1 x d``, and its value; None if every safe point is in the batch.

    Raises:
        NoSafePointError: If no point is known to be safe.
    """
    rows = [{**row, **space.fixed} for row in space.combinations]
    box = space.bounds, rows, space.inequalities
    found = [SafeSearch(acqf, safe_set, *box, **options).finalists(_SEARCHED)]
    if safe_set.safe_points is not None:
        found.append(safe_set.safe_points.to(space.bounds))
    finalists = space.feasible(torch.cat(found))
    finalists = finalists[safe_set.is_safe(finalists)]
    with torch.no_grad():
        values = in_parts(finalists.unsqueeze(-2), acqf)
    taken = [space.rounded(point) for point in batch]
    repeats = False
    for index in values.argsort(descending=True):
        point = finalists[index].unsqueeze(0)
        image = space.rounded(point)
        if any(torch.equal(image, other) for other in taken):
            repeats = True
        elif bool(safe_set.is_safe(image).all()):
            return point, values[index]
    if repeats:
        return None
    raise no_safe_point("no point that fits the trial")
