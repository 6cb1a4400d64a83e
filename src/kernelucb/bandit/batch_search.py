r"""Arms that a budgeted kernel bandit plays together."""

import torch
from torch import Tensor

from kernelucb.regression.lowrank.arms import SketchedArms

# Arms whose hallucinated variances are brought up to date together.
_BLOCK = 64


def pick_batch(arms: SketchedArms, width: float, growth: float, largest: int) -> list[int]:
    r"""The arms with the largest upper bounds, each after the ones before.

    Variances only fall while the batch is picked, and means stay, so an arm whose bound is
    up to date and larger than all others', up to date or not, is the best. The ``p``-th
    arm costs ``O(r p)`` for each bound that is brought up to date, with ``r`` features.

    Source: Calandriello et al. (2020), Algorithm 1.

    Args:
        arms: Posterior of the arms.
        width: Multiplier of the latent standard deviation.
        growth: Factor by which the arms picked may have changed a variance.
        largest: Largest batch.

    Returns:
        At least one index.
    """
    mean, start, quadratic = arms.mean, arms.variance, arms.quadratic.clone()
    upper = mean + width * start.sqrt()
    applied = torch.zeros(len(mean), dtype=torch.long, device=mean.device)
    columns = mean.new_zeros(arms.features.shape[1], 0)
    picked: list[int] = []
    reached = 1.0
    while len(picked) < largest and reached <= growth:
        best = int(upper.argmax())
        while int(applied[best]) < len(picked):
            stale = _stale(upper, applied, best, len(picked))
            quadratic[stale] = _fallen(arms, stale, columns)
            variance = arms.residual_variance[stale] + arms.alpha * quadratic[stale]
            upper[stale] = mean[stale] + width * variance.sqrt()
            applied[stale] = len(picked)
            best = int(upper.argmax())
        picked.append(best)
        reached += float(start[best]) / arms.alpha
        column = arms.hallucination(best, columns)
        columns = torch.cat([columns, column.unsqueeze(-1)], dim=1)
    return picked


def _stale(upper: Tensor, applied: Tensor, best: int, picked: int) -> Tensor:
    r"""Arms with large bounds, the best among them, that are not up to date."""
    top = upper.topk(min(_BLOCK, len(upper))).indices
    top[-1] = best  # among equals it may be missing
    return top[applied[top] < picked]


def _fallen(arms: SketchedArms, index: Tensor, columns: Tensor) -> Tensor:
    r"""Quadratic forms of a few arms after hallucinated observations."""
    products = arms.features[index] @ columns
    return (arms.quadratic[index] - products.square().sum(-1)).clamp(min=0.0)
