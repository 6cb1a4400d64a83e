r"""Functions of known norm, starts and noise, all from named streams."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from types import SimpleNamespace

import numpy as np
import torch
from gpytorch.kernels import Kernel
from torch import Tensor

from benchmarks.runner import KnownFunction, fixed_kernel, largest_value, stream
from kernelucb.regression.prior import Prior


@dataclass(frozen=True)
class Problem:
    r"""A function on finitely many arms or on the unit cube.

    Attributes:
        task: The settings of the run.
        kernel: That the norm is known under.
        function: From ``n x d`` points to ``n`` values.
        arms: ``n x d``; in the cube the starting points.
        is_box: Whether the whole unit cube is the domain.
        starts: ``s x d`` points that are played first.
        noise: Of every round.
    """

    task: SimpleNamespace
    kernel: Kernel
    function: Callable[[Tensor], Tensor]
    arms: Tensor
    is_box: bool
    starts: Tensor
    noise: Tensor

    @cached_property
    def prior(self) -> Prior:
        r"""What all states are made from."""
        return Prior(self.kernel, None)

    @cached_property
    def optimum(self) -> float:
        r"""Largest value in the domain."""
        if self.is_box:
            return largest_value(self.function, self.arms)
        return float(self.function(self.arms).max())

    @classmethod
    def draw(cls, task: SimpleNamespace, seed: int) -> "Problem":
        r"""The problem of a seed, the same for all rules."""

        def drawn(what: str) -> np.random.Generator:
            return stream(task.stream, what, task.setting, seed)

        kernel, d = fixed_kernel(task.kernel, task.lengthscale), task.dimension
        function = KnownFunction.draw(drawn("function"), kernel, task.norm, d, task.centres)
        is_box = task.arms == 0
        count = task.starts if is_box else task.arms
        arms = torch.from_numpy(drawn("arms").random((count, d)))
        first = drawn("starts").permutation(count)[: task.starts]
        rounds = task.starts + task.rounds
        noise = torch.from_numpy(drawn("noise").standard_normal(rounds))
        starts = arms[torch.from_numpy(first)]
        return cls(task, kernel, function, arms, is_box, starts, task.noise_std * noise)
