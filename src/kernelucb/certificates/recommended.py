r"""Which point a certificate is for."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from kernelucb._numerics.checks import tensor
from kernelucb._numerics.domains import checked_points
from kernelucb._numerics.parts import in_parts
from kernelucb.certificates.climbing import climbed
from kernelucb.certificates.regions import Region
from kernelucb.certificates.task import Task, worst_value
from kernelucb.confidence.family.sets import IntersectionSet
from kernelucb.exceptions import NoSafePointError

Values = Callable[[Tensor], Tensor]


def recommended_points(
    points: Tensor, given: Tensor | None, task: Task, region: Region | None
) -> Tensor:
    r"""``k x d``: the point given, or that whose pessimistic value is best.

    Args:
        points: ``n x d`` points of the domain.
        given: ``d`` or ``1 x d`` point.
        task: With constraints, only certainly feasible points are taken.
        region: Where a local search may find better ones.

    For an intersection of several sets also the best by each of them.
    """
    if given is not None:
        dimension = task.confidence_set.regression.dimension
        given = tensor("recommended", given).reshape(1, -1)
        point = checked_points("recommended", given, dimension)
        if len(_feasible(point, task)) == 0:
            raise NoSafePointError(
                "recommended is not certainly feasible: the bands do not show that it "
                "satisfies every constraint. Leave it out, or observe them there."
            )
        return point
    points = _feasible(points, task)
    if len(points) == 0:
        raise NoSafePointError(
            "No point that was tried is certainly feasible, so none can be recommended: "
            "observe the constraints near points that may be feasible, or loosen them."
        )
    whole = task.confidence_set
    parts = whole.parts if isinstance(whole, IntersectionSet) else []
    values = [partial(worst_value, each, task.sign) for each in (whole, *parts)]
    best = [_best(points, value, task, region) for value in values]
    return torch.stack(best).unique(dim=0)


def _best(points: Tensor, value: Values, task: Task, region: Region | None) -> Tensor:
    r"""``d`` coordinates of the best of some points, or of one that a search finds."""
    values = in_parts(points, value)
    if region is not None:
        found = _feasible(climbed(value, points, values, region), task)
        points = torch.cat([points, found])
        values = torch.cat([values, value(found)])
    return points[values.argmax()]


def _feasible(X: Tensor, task: Task) -> Tensor:
    r"""The certainly feasible ones of ``n x d`` points."""
    return X if task.constraints is None else X[task.constraints.is_feasible(X)]
