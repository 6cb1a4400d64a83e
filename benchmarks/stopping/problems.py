r"""Functions over pools of 512 settings, tables, and what is known of some of them."""

from typing import NamedTuple

import numpy as np
import torch
from gpytorch.kernels import Kernel
from torch import Tensor

from benchmarks.reliability.claims import problem_of
from benchmarks.runner import KnownFunction, fixed_kernel, sobol_points
from benchmarks.runner.simulators import SIMULATORS

POOL = 512
# Kernel, its length and the dimension; a norm of 3 is told, or that of the sample drawn.
KNOWN = {"known-rbf-2d": ("rbf", 0.4, 2), "known-matern52-1d": ("matern52", 0.4, 1)}
DRAWN = {"drawn-rbf-1d": ("rbf", 0.2, 1), "drawn-matern52-2d": ("matern52", 0.4, 2)}
NORM = 3.0
GROUPS = (
    {name: "simulators" for name in SIMULATORS}
    | {name: "test functions" for name in ("Branin", "Hartmann 3", "Hartmann 6")}
    | {name: "laboratory tables" for name in ("crossed_barrel", "agnp")}
    | {name: "known norm" for name in KNOWN}
    | {name: "known prior" for name in DRAWN}
)


class Known(NamedTuple):
    r"""What is told of a function that a kernel made."""

    kernel: Kernel
    norm: float


class Target(NamedTuple):
    r"""A function over a pool.

    Attributes:
        pool: ``N x d`` settings in the unit cube.
        values: ``N`` values.
        outcome_range: Least and largest outcome that is possible, if that is known.
        known: Of functions that a kernel made.
    """

    pool: Tensor
    values: Tensor
    outcome_range: tuple[float, float] | None = None
    known: Known | None = None

    @property
    def spread(self) -> float:
        return float(self.values.max() - self.values.min())


def target_of(name: str, seed: int) -> Target:
    r"""A problem by its name in ``GROUPS``."""
    if name not in KNOWN | DRAWN:
        problem = problem_of(name, seed)
        ends = SIMULATORS[name].outcome_range if name in SIMULATORS else None
        kept = len(problem.pool) if problem.function is None else POOL  # tables stay whole
        return Target(problem.pool[:kept], problem.values[:kept], ends)
    kernel_name, length, dimension = (KNOWN | DRAWN)[name]
    kernel, random = fixed_kernel(kernel_name, length), np.random.default_rng(seed)
    pool = sobol_points(POOL, dimension, seed)
    if name in KNOWN:
        function = KnownFunction.draw(random, kernel, NORM, dimension, centres=20)
        return Target(pool, function(pool), known=Known(kernel, NORM))
    # In the directions that are kept, a sample of the prior on the pool has a finite norm.
    size, directions = torch.linalg.eigh(kernel(pool).to_dense())
    kept = size > 1e-10
    weights = torch.from_numpy(random.standard_normal(int(kept.sum())))
    values = directions[:, kept] @ (size[kept].sqrt() * weights)
    return Target(pool, values, known=Known(kernel, float(weights.norm())))
