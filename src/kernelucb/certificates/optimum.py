r"""How large the optimum is, and where it may lie."""

from typing import NamedTuple

import torch
from torch import Tensor

from kernelucb._numerics.parts import in_parts
from kernelucb.certificates.boxes import cover, largest_in_region
from kernelucb.certificates.regions import Region
from kernelucb.certificates.regret import RegretCertificate
from kernelucb.certificates.task import Task, worst_value

_SCAN = 1024


class PossibleMaximisers(NamedTuple):
    r"""Points that were looked at, and those among them that may be an optimum.

    Attributes:
        points: ``n x d`` points of the domain.
        mask: ``n`` booleans.
        box: ``2 x d`` limits of all that may be an optimum.
        share_at_most: Upper bound on their share of the domain.
    """

    points: Tensor
    mask: Tensor
    box: Tensor
    share_at_most: float


def interval(
    task: Task,
    domain: Tensor | Region,
    certificate: RegretCertificate,
    tolerance: float,
    max_evaluations: int,
) -> tuple[float, float]:
    r"""Two numbers between which the optimum lies, outcome units.

    The certificate is on the scale of the objective's set.
    """
    best = certificate.recommended.unsqueeze(0)
    least = float(worst_value(task.confidence_set, task.sign, best))
    points = domain.sample(_SCAN) if isinstance(domain, Region) else domain
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
    box = torch.stack([known.amin(0), known.amax(0)])
    if not isinstance(domain, Region):
        return PossibleMaximisers(points, mask, box, float(mask.double().mean()))
    search = task.gains_in(domain, recommended)
    if search is None:
        return PossibleMaximisers(points, mask, box, 1.0)
    cells = cover(search, max_evaluations)
    lower = torch.minimum(box[0], (cells.centres - cells.halves).amin(0))
    upper = torch.maximum(box[1], (cells.centres + cells.halves).amax(0))
    box = torch.stack([lower, upper])
    share = 1.0 if domain.constraints else _share(cells.halves, domain)
    return PossibleMaximisers(points, mask, box, min(share, 1.0))


def _share(halves: Tensor, region: Region) -> float:
    r"""Volume of cells over that of the boxes that they were cut from."""
    sides = (region.upper - region.lower).amax(0)
    open_columns = sides > 0.0
    volumes = (2.0 * halves[:, open_columns] / sides[open_columns]).prod(-1)
    return float(volumes.sum()) / len(region.lower)
