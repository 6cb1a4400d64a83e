r"""Wang, Kim & Kaelbling (2018), finite domain, for many training sets at once."""

import math

import torch
from torch import Tensor


def posterior(tasks: Tensor, index: list[int], outcomes: Tensor, at: int):
    r"""Unbiased estimates of mean and variance at one input, Eqs. 3 and 4.

    Args:
        tasks: ``R x N x M`` values of training functions.
        index: ``t`` evaluated inputs.
        outcomes: ``R x t`` outcomes there.
        at: The input.
    """
    count, t = tasks.shape[1], len(index)
    mean = tasks.mean(1)
    centred = tasks - mean.unsqueeze(1)
    covariance = centred.mT @ centred / (count - 1)
    seen = covariance[:, index][:, :, index]
    cross = covariance[:, index, at].unsqueeze(-1)
    gain = torch.linalg.solve(seen, cross)
    left = covariance[:, at, at] - (cross * gain).sum((1, 2))
    deviation = (gain.squeeze(-1) * (outcomes - mean[:, index])).sum(-1)
    return mean[:, at] + deviation, (count - 1) / (count - t - 1) * left


def zeta(count: int, t: int, delta: float) -> float:
    r"""Eq. 12 at evaluation ``t``, with ``count`` training functions."""
    log = math.log(6.0 / delta)
    first = 6.0 * (count - 3 + t + 2.0 * math.sqrt(t * log) + 2.0 * log)
    first /= delta * count * (count - t - 1)
    numerator = math.sqrt(first) + math.sqrt(2.0 * math.log(3.0 / delta))
    return numerator / math.sqrt(1.0 - 2.0 * math.sqrt(log / (count - t)))
