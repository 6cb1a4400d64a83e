r"""What the next evaluation would tell: advice, not a guarantee."""

from warnings import catch_warnings, simplefilter

import torch
from botorch.models.model import Model
from botorch.utils.sampling import manual_seed
from linear_operator.utils.warnings import NumericalWarning
from torch import Tensor

from kernelucb.certificates.optimum import PossibleMaximisers
from kernelucb.certificates.regret import RegretCertificate
from kernelucb.certificates.task import Task, worst_value

_TRIED, _LOOKED_AT, _DRAWS = 12, 256, 128


def next_point(
    task: Task, certificate: RegretCertificate, possible: PossibleMaximisers
) -> tuple[Tensor, float]:
    r"""The point whose evaluation would leave the fewest possible maximisers.

    Tried are the recommended point, its challenger, and the widest and the most promising
    possible maximisers. An outcome as expected leaves the middle of the band and narrows
    it, as a pending point narrows it. Where none of them would leave fewer, it is the
    possible maximiser with the widest band: of what may be best, the least is known there.

    Returns:
        ``d`` coordinates, and the share of the possible maximisers that would be left: 1
        if none would go.
    """
    points = _thinned(possible)
    upper, width = task.optimistic(points), _width(task, points)
    count = min(_TRIED // 2, len(points))
    ranked = [points[values.topk(count).indices] for values in (upper, width)]
    proposed = [certificate.recommended.unsqueeze(0), certificate.challenger.unsqueeze(0)]
    tried = torch.cat([*proposed, *ranked]).unique(dim=0)
    left = [_left(task, certificate.recommended, points, x) for x in tried]
    # Of equal shares the one after which the largest advantage is smallest.
    index = min(range(len(tried)), key=left.__getitem__)
    if left[index][0] < 1.0:
        return tried[index], left[index][0]
    return points[width.argmax()], 1.0


def expected_gain(
    task: Task, recommended: Tensor, possible: PossibleMaximisers
) -> float | None:
    r"""Mean of the optimum's advantage over draws from the model's posterior, if any."""
    model = getattr(task.bound, "model", None)
    if not isinstance(model, Model):
        return None
    points = torch.cat([_thinned(possible), recommended.unsqueeze(0)])
    if task.constraints is not None:
        points = points[task.constraints.may_be_feasible(points)]
    with manual_seed(0), catch_warnings():
        simplefilter("ignore", NumericalWarning)  # about jitter, which a mean can bear
        posterior = model.posterior(points)
        draws = posterior.rsample(torch.Size([_DRAWS])).squeeze(-1)
    # Below the image of an outcome transform, as of Power, BoTorch gives no number.
    draws = task.sign * draws.nan_to_num(nan=task.outcome_map.least_outcome)
    return float((draws.amax(-1) - draws[:, -1]).mean())


def _left(
    task: Task, recommended: Tensor, points: Tensor, x: Tensor
) -> tuple[float, float]:
    r"""Share of possible maximisers, and largest advantage, after an evaluation."""
    known = torch.cat([points, recommended.unsqueeze(0)])
    lower, upper = task.confidence_set.bounds(known)
    middle = 0.5 * task.sign * (lower + upper)
    lower, upper = task.confidence_set.with_pending(x.unsqueeze(0)).bounds(known)
    # The sides of a band with pending points are found one by one, and may cross.
    half = 0.5 * (upper - lower).clamp_min(0.0)
    advantage = (middle + half)[:-1] - (middle - half).max()
    return float((advantage >= 0.0).double().mean()), float(advantage.max())


def _width(task: Task, X: Tensor) -> Tensor:
    return task.optimistic(X) - worst_value(task.confidence_set, task.sign, X)


def _thinned(possible: PossibleMaximisers) -> Tensor:
    r"""At most 256 of the points that may be an optimum."""
    points = possible.points[possible.mask]
    if len(points) == 0:
        return possible.box[:1]
    step = -(-len(points) // _LOOKED_AT)
    return points[::step]
