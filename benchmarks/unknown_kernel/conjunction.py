r"""Functions of known norm under two kernels: the band of both against that of each."""

import math
import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from botorch.utils.sampling import draw_sobol_samples

from benchmarks.runner import KnownFunction, fixed_kernel, stream
from kernelucb import KernelFamily, KernelFamilyUCB, KernelRegression, regret_certificate
from kernelucb.exceptions import InconsistentConfidenceSetWarning

_JITTER = 1e-10
WHICH = {"smooth": slice(0, 1), "rough": slice(1, 2), "both": slice(0, 2)}


class _Problem:
    r"""A function on Sobol points, and its norm bound under each kernel."""

    def __init__(self, task: SimpleNamespace, points: int, trial: int) -> None:
        self.task, d = task, task.dimension
        unit = math.sqrt(0.5 * d)
        smooth = fixed_kernel("rbf", task.smooth * unit)
        self.kernels = [smooth, fixed_kernel("matern52", task.rough * unit)]
        box = torch.stack([torch.zeros(d), torch.ones(d)]).double()
        self.X = draw_sobol_samples(box, n=points, q=1, seed=trial).squeeze(-2)
        random = stream(task.seed, "function", d, trial)
        self.values = KnownFunction.draw(random, smooth, task.norm, d, 20)(self.X)
        # The norm of the smoothest function with these values on the domain.
        gram = self.kernels[1](self.X).to_dense() + _JITTER * torch.eye(len(self.X))
        rough = float((self.values @ torch.linalg.solve(gram, self.values)).sqrt())
        self.norm_bounds = [task.norm_factor * norm for norm in (task.norm, rough)]

    def band(self, indices: list[int], noise: np.ndarray, which: slice) -> KernelFamilyUCB:
        r"""The band of some of the kernels from outcomes at some points."""
        outcomes = self.values[indices] + torch.from_numpy(noise[: len(indices)])
        data = self.X[indices], outcomes
        return KernelFamilyUCB(
            KernelRegression(*data, self.kernels[0], self.task.noise_std),
            KernelFamily(self.kernels[which], combine="all"),
            norm_bound=self.norm_bounds[which],
            delta=self.task.delta,
        )


def certify_or_cover(settings: dict[str, Any]) -> dict[str, Any]:
    r"""Certified gaps of a function, or the sequences of a block that failed.

    Returns:
        ``gaps`` under the kernels of ``WHICH`` at each number of observations, or
        ``missed``: for each sequence, whether the band of both missed in any round.
    """
    task = SimpleNamespace(**settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InconsistentConfidenceSetWarning)
        if task.asked == "gaps":
            return {"gaps": _gaps(task)}
        first = task.block * task.size
        return {"missed": [_misses(task, first + number) for number in range(task.size)]}


def _gaps(task: SimpleNamespace) -> dict[str, list[float]]:
    problem, most = _Problem(task, task.candidates, task.trial), max(task.observations)
    drawn = stream(task.seed, "outcomes", task.dimension, task.trial)
    indices = drawn.integers(task.candidates, size=most).tolist()
    noise = task.noise_std * drawn.standard_normal(most)

    def gap(count: int, which: slice) -> float:
        return regret_certificate(
            problem.band(indices[:count], noise, which), problem.X
        ).gap

    return {k: [gap(count, w) for count in task.observations] for k, w in WHICH.items()}


def _misses(task: SimpleNamespace, number: int) -> bool:
    r"""Whether the band of both misses the function in any round of a sequence."""
    problem = _Problem(task, task.arms, number)
    drawn = stream(task.seed, "sequence", number)
    noise = task.noise_std * drawn.standard_normal(task.rounds)
    indices = [int(drawn.integers(task.arms))]
    for _ in range(task.rounds):
        band = problem.band(indices, noise, WHICH["both"])
        lower, upper = band.bounds(problem.X)
        outside = (problem.values < lower - 1e-9) | (problem.values > upper + 1e-9)
        if bool(outside.any()) or band.assumptions.violated:
            return True
        indices.append(int(upper.argmax()))
    return False
