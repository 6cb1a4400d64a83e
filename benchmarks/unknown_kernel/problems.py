r"""Functions of known norm on a finite set of arms, and noise; all from named streams."""

import math
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from gpytorch.kernels import Kernel
from scipy.integrate import quad
from torch import Tensor

from benchmarks.runner import KnownFunction, fixed_kernel, stream
from kernelucb import lengthscale_family
from kernelucb.regression.kernel_family import LengthscaleFamily

# Least distance of the two hills' centres, of the largest in the unit cube.
_APART = 0.4


def function_name(task: Any) -> str:
    r"""Names the random streams of a kind of function."""
    return f"{task.function}_{task.kernel}_d{task.dimension}_l{task.lengthscale:g}"


def family_of(task: Any) -> LengthscaleFamily:
    r"""The kernels that a learner believes possible, the longest first."""
    kernel = fixed_kernel(task.kernel, task.longest)
    return lengthscale_family(kernel, task.shortest, task.longest, task.ratio)


def lengthscales(task: Any) -> list[float]:
    r"""Of the members, the longest first."""
    whole = task.longest / task.shortest
    steps = math.ceil(math.log(whole) / math.log(task.ratio) - 1e-9)
    return [task.longest * whole ** (-i / max(steps, 1)) for i in range(steps + 1)]


def covering(task: Any) -> int | None:
    r"""Index of the longest member that must hold the function; None where none must."""
    lengths, most = lengthscales(task), task.lengthscale * (1 + 1e-9)
    return next((i for i, own in enumerate(lengths) if own <= most), None)


@dataclass(frozen=True)
class Problem:
    r"""A function on arms, and what learners are told.

    Attributes:
        task: Settings; the length scale is for the oracle only.
        kernel: That the norm is known under; for the oracle only.
        arms: ``n x d`` points of the unit cube.
        values: Of the function on the arms, ``n``.
    """

    task: SimpleNamespace
    kernel: Kernel
    arms: Tensor
    values: Tensor

    @classmethod
    def draw(cls, task: SimpleNamespace, trial: int) -> "Problem":
        r"""The problem of a trial, the same for all methods."""
        names, seed = (function_name(task), trial), task.seed
        kernel = fixed_kernel(task.kernel, task.lengthscale)
        drawn = stream(seed, "arms", *names)
        arms = torch.from_numpy(drawn.random((task.arms, task.dimension)))
        random = stream(seed, "function", *names)
        if task.function == "spike":
            return cls(task, kernel, arms, _spike(task, kernel, arms, random))
        shape = task.norm, task.dimension, task.centres
        function = KnownFunction.draw(random, kernel, *shape)
        return cls(task, kernel, arms, function(arms))

    @property
    def norm_bound(self) -> float:
        r"""Under the function's own kernel."""
        return self.task.norm_factor * self.task.norm

    @property
    def optimum(self) -> float:
        return float(self.values.max())


def start_arms(task: SimpleNamespace, trial: int) -> list[int]:
    r"""Indices of the arms that are played first."""
    drawn = stream(task.seed, "starts", function_name(task), trial)
    return drawn.integers(task.arms, size=task.starts).tolist()


def noise_of(task: SimpleNamespace, trial: int) -> np.ndarray:
    r"""The noise of every round, the same for all methods."""
    drawn = stream(task.seed, "noise", function_name(task), trial)
    return task.noise_std * drawn.standard_normal(task.starts + task.rounds)


def _spike(
    task: SimpleNamespace, kernel: Kernel, arms: Tensor, random: np.random.Generator
) -> Tensor:
    r"""A wide hill of height 1 and a narrow one of height 2 on an arm, scaled to the norm.

    By the reproducing property their inner product under the narrow kernel is the wide
    one's value at the centre of the narrow one.
    """
    wide_kernel = fixed_kernel(task.kernel, task.longest)
    least = _APART * math.sqrt(task.dimension)
    while True:
        pair = arms[torch.from_numpy(random.integers(task.arms, size=2))]
        if float((pair[0] - pair[1]).norm()) >= least:
            break
    wide, narrow = pair[:1], pair[1:]
    between = float(wide_kernel(wide, narrow).to_dense())
    squared = squared_section_norm(task, task.longest) + 4.0 * between + 4.0
    low, high = wide_kernel(arms, wide).to_dense(), kernel(arms, narrow).to_dense()
    return (low + 2.0 * high).squeeze(-1) * (task.norm / math.sqrt(squared))


def squared_section_norm(task: Any, longer: float) -> float:
    r"""Squared norm, under the task's kernel, of a section of one with a longer scale.

    The integral of the squared spectral density of the longer over that of the shorter.
    """
    d, short = task.dimension, task.lengthscale

    def log_density(frequency: float, length: float) -> float:
        squared = (length * frequency) ** 2
        if task.kernel == "rbf":
            return d * math.log(length) - 0.5 * squared
        return d * math.log(length) - (2.5 + 0.5 * d) * math.log1p(squared / 5.0)

    def integral(power: int) -> float:
        def integrand(frequency: float) -> float:
            long = power * log_density(frequency, longer)
            log_value = long - (power - 1) * log_density(frequency, short)
            return frequency ** (d - 1) * math.exp(log_value)

        return quad(integrand, 0.0, math.inf)[0]

    return integral(2) / integral(1)
