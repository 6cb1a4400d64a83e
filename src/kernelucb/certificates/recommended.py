r"""Which point a certificate is for."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from kernelucb._numerics.checks import tensor
from kernelucb._numerics.domains import FixedFeatures, checked_fixed, checked_points
from kernelucb._numerics.parts import in_parts
from kernelucb.certificates.climbing import climbed
from kernelucb.certificates.regions import Region
from kernelucb.certificates.task import Task, worst_value
from kernelucb.confidence.base import ConfidenceSet
from kernelucb.confidence.combined import CombinedSet, Intersection
from kernelucb.exceptions import NoSafePointError

Values = Callable[[Tensor], Tensor]
# Of coordinates, relative: single precision, and decimals that were printed.
_ROUND_OFF = 1e-6
_TINY = torch.finfo(torch.float64).tiny


def point_of_domain(
    name: str,
    given: Tensor,
    domain: Tensor | Region,
    task: Task,
    fixed_features: FixedFeatures | None = None,
) -> Tensor:
    r"""The point that a user gives, in the domain, ``1 x d``.

    Elsewhere a function may be larger than anywhere in the domain: an interval that begins
    there need not hold the optimum, nor need what may be better than that point.

    Args:
        name: Of the argument.
        given: ``d`` or ``1 x d`` point.
        domain: All points of it, ``n x d``, or a region.
        task: With constraints, the point must be certainly feasible.
        fixed_features: The context into which the point is moved.

    Raises:
        ValueError: If it lies outside, by more than round-off.
        NoSafePointError: If it is not certainly feasible.
    """
    dimension = task.confidence_set.regression.dimension
    row = tensor(name, given).reshape(1, -1)
    point = checked_points(name, row, dimension)[0].clone()
    for column, value in checked_fixed(fixed_features, dimension).items():
        point[column] = value
    region = domain if isinstance(domain, Region) else Region(domain, domain, [])
    inside = _without_round_off(point.to(region.lower), region)
    if inside is None:
        raise ValueError(
            f"{name} lies outside the domain: {point.tolist()}. What it is worth says "
            "nothing of the optimum there. Give a point of the domain (add this one to "
            f"candidates, widen bounds, loosen constraints), or leave {name} out."
        )
    row = inside.unsqueeze(0)
    if len(_feasible(row, task)) == 0:
        raise NoSafePointError(
            f"{name} is not certainly feasible: the bands do not show that it satisfies "
            "every constraint. Leave it out, or observe them there."
        )
    return row


def _without_round_off(point: Tensor, region: Region) -> Tensor | None:
    r"""The ``d`` coordinates of a point of a region, exactly; None if it is outside.

    Round-off may be a millionth of a column's largest limit: it is moved into the nearest
    box, and along each constraint to what that allows.
    """
    size = torch.maximum(region.lower.abs(), region.upper.abs()).amax(0)
    near = point.clamp(region.lower, region.upper)
    index = ((near - point).abs() / size.clamp_min(_TINY)).amax(-1).argmin()
    lower, upper, near = region.lower[index], region.upper[index], near[index]
    for columns, coefficients, limit in region.constraints:
        weights = coefficients.to(near) * (lower < upper)[columns]
        missing = (limit - near[columns] @ coefficients.to(near)).clamp_min(0.0)
        near[columns] += weights * missing / (weights @ weights).clamp_min(_TINY)
    near = near.clamp(lower, upper)
    close = bool(((near - point).abs() <= _ROUND_OFF * size).all())
    return near if close and bool(region.allows(near.unsqueeze(0))) else None


def best_points(points: Tensor, task: Task, region: Region | None) -> Tensor:
    r"""``k x d``: the point whose pessimistic value is best.

    Args:
        points: ``n x d`` points of the domain.
        task: With constraints, only certainly feasible points are taken.
        region: Where a local search may find better ones.

    For an intersection of several sets also the best by each of them.
    """
    points = _feasible(points, task)
    if len(points) == 0:
        raise NoSafePointError(
            "No point that was tried is certainly feasible, so none can be recommended: "
            "observe the constraints near points that may be feasible, or loosen them."
        )
    whole = task.confidence_set
    parts: list[ConfidenceSet] = []
    if isinstance(whole, CombinedSet) and isinstance(whole.rule, Intersection):
        parts = whole.parts
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
