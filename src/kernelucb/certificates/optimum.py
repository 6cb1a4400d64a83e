r"""How large the optimum is, and where it may lie."""

from typing import NamedTuple

import torch
from torch import Tensor

from kernelucb._numerics.parts import in_parts
from kernelucb.certificates.boxes import cover, largest_in_region
from kernelucb.certificates.recommended import best_points
from kernelucb.certificates.regions import Region
from kernelucb.certificates.regret import RegretCertificate
from kernelucb.certificates.task import Task, worst_value

_SCAN = 1024


class PossibleMaximisers(NamedTuple):
    r"""Points that were looked at, and those among them that may be an optimum.

    Attributes:
        points: ``n x d`` points of the domain.
        mask: ``n`` booleans.
        lower, upper: ``m x d`` limits of boxes which hold all that may be an optimum;
            points are boxes without sides.
        sizes: ``m`` shares that these take of the box of the region that they lie in;
            infinite where nothing is known, and zero for points of such a box.
        share_at_most: Upper bound on their share of the domain.
    """

    points: Tensor
    mask: Tensor
    lower: Tensor
    upper: Tensor
    sizes: Tensor
    share_at_most: float

    @property
    def box(self) -> Tensor:
        r"""``2 x d`` limits of all that may be an optimum."""
        return torch.stack([self.lower.amin(0), self.upper.amax(0)])


def interval(
    task: Task,
    domain: Tensor | Region,
    certificate: RegretCertificate,
    tolerance: float,
    max_evaluations: int,
) -> tuple[float, float]:
    r"""Two numbers between which the optimum lies, outcome units.

    The near one is the largest pessimistic value of the points of the domain that were
    looked at, whichever of them is recommended. The certificate is on the scale of the
    objective's set.
    """
    region = domain if isinstance(domain, Region) else None
    points = domain.sample(_SCAN) if isinstance(domain, Region) else domain
    best = certificate.recommended.unsqueeze(0)
    known = torch.cat([best, best_points(torch.cat([points, best]), task, region)])
    least = float(worst_value(task.confidence_set, task.sign, known).max())
    most = float(task.where_possible(points, in_parts(points, task.optimistic)).max())
    if isinstance(domain, Region):
        search = task.optimistic_in(domain, least)
        if search is not None:
            result = largest_in_region(search, tolerance, max_evaluations)
            most = max(most, least + max(result.upper, result.value))
    # By the gap at the recommended point, which may be worth more than its least value.
    largest = float(task.optimistic(best)) + certificate.gap
    most = min(most, largest) if certificate.rigorous else most
    most = max(most, least)
    ends = (least, most) if task.sign == 1 else (-most, -least)
    lower, upper = task.outcome_map.inverse(best.new_tensor(ends)).tolist()
    return lower, upper


def possible_maximisers(
    task: Task, domain: Tensor | Region, recommended: Tensor, max_evaluations: int
) -> PossibleMaximisers:
    r"""Where some function of the set is at least as good as at the recommended point."""
    points = domain.sample(_SCAN) if isinstance(domain, Region) else domain
    gains = task.where_possible(points, in_parts(points, task.gain(recommended)))
    itself = (points == recommended).all(-1)
    mask = (gains >= 0.0) | itself
    known = torch.cat([points[mask], recommended.unsqueeze(0)])
    sizes = torch.zeros_like(known[:, 0])
    if not isinstance(domain, Region):
        sizes[:-1] = 1.0  # each point alone; the recommended one is among them, or no point
        share = float(mask.double().mean())
        return PossibleMaximisers(points, mask, known, known, sizes, share)
    search = task.gains_in(domain, recommended)
    if search is None:
        return PossibleMaximisers(points, mask, known, known, sizes + torch.inf, 1.0)
    cells = cover(search, max_evaluations)
    lower = torch.cat([known, cells.centres - cells.halves])
    upper = torch.cat([known, cells.centres + cells.halves])
    sizes = torch.cat([sizes, _shares(cells.halves, domain)])
    share = min(float(sizes.sum()) / len(domain.lower), 1.0)
    return PossibleMaximisers(points, mask, lower, upper, sizes, share)


def _shares(halves: Tensor, region: Region) -> Tensor:
    r"""Volumes of cells over those of the boxes that they were cut from."""
    if region.constraints:
        return torch.full_like(halves[:, 0], torch.inf)
    sides = (region.upper - region.lower).amax(0)
    open_columns = sides > 0.0
    return (2.0 * halves[:, open_columns] / sides[open_columns]).prod(-1)
