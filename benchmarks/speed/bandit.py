r"""Seconds a round of the exact kernel bandit, as the observations add up."""

import time
from types import SimpleNamespace
from typing import Any

import torch

from benchmarks.runner import KnownFunction, fixed_kernel, quiet, stream
from kernelucb import KernelBandit
from kernelucb.exceptions import InconsistentConfidenceSetWarning

FACTORS = {"ordinary": 1.0, "contradicted": 0.2}  # of the function's norm
_ARMS, _DIMENSION, _NORM, _NOISE_STD = 100, 3, 5.0, 0.1


@torch.no_grad()
@quiet(InconsistentConfidenceSetWarning)
def play_rounds(settings: dict[str, Any]) -> dict[str, float]:
    r"""Each round scores fresh arms and takes one outcome.

    From one eigenbasis to the next, so that its share is in the mean; processor seconds.
    """
    task = SimpleNamespace(**settings)
    random, kernel = stream(0, "bandit"), fixed_kernel("matern52", 0.3)
    truth = KnownFunction.draw(random, kernel, _NORM, _DIMENSION, 12)

    def points(count: int) -> torch.Tensor:
        return torch.from_numpy(random.random((count, _DIMENSION)))

    def outcomes(X: torch.Tensor) -> torch.Tensor:
        return truth(X) + _NOISE_STD * torch.from_numpy(random.standard_normal(len(X)))

    norm_bound, rounds = FACTORS[task.setting] * _NORM, max(task.n // 16, 1)
    bandit = KernelBandit(kernel, norm_bound=norm_bound, noise_std=_NOISE_STD, fit=task.fit)
    X = points(task.n)
    for x, y in zip(X, outcomes(X), strict=True):
        bandit.observe(x, y)
    bandit.select(points(_ARMS))
    start = time.process_time()
    for _ in range(rounds):
        arms = points(_ARMS)
        x = arms[bandit.select(arms)].unsqueeze(0)
        bandit.observe(x, float(outcomes(x)))
    return {"rounds": rounds, "seconds": (time.process_time() - start) / rounds}
