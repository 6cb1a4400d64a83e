r"""Functions over pools of 512 settings, tables, and what is known of some of them."""

from typing import NamedTuple

import numpy as np
import torch
from botorch.test_functions import Ackley, Branin, Hartmann
from gpytorch.kernels import Kernel
from scipy.stats import qmc
from torch import Tensor

from benchmarks.runner import KnownFunction, fixed_kernel, sobol_points
from benchmarks.runner.files import table_of
from benchmarks.runner.simulators import SIMULATORS

POOL = 512
FUNCTIONS = {
    "Branin": Branin(negate=True),
    "Hartmann 3": Hartmann(3, negate=True),
    "Hartmann 6": Hartmann(6, negate=True),
}
# In no group: their optimum is a peak of one or a few settings, which no model foresees.
NEEDLES = {"Ackley 2": Ackley(2, negate=True)}
TABLES = "crossed_barrel", "agnp"
# Kernel, its length and the dimension; a norm of 3 is told, or that of the sample drawn.
KNOWN = {"known-rbf-2d": ("rbf", 0.4, 2), "known-matern52-1d": ("matern52", 0.4, 1)}
DRAWN = {"drawn-rbf-1d": ("rbf", 0.2, 1), "drawn-matern52-2d": ("matern52", 0.4, 2)}
NORM = 3.0
GROUPS = (
    {name: "simulators" for name in SIMULATORS}
    | {name: "test functions" for name in FUNCTIONS}
    | {name: "laboratory tables" for name in TABLES}
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
    r"""A problem by its name in ``GROUPS`` or ``NEEDLES``."""
    if name in TABLES:
        X, values = table_of(name)
        return Target(X, -values if name == "agnp" else values)  # agnp is a loss
    if name in SIMULATORS:
        simulator = SIMULATORS[name]
        draws = qmc.Sobol(simulator.dimension, seed=seed).random(POOL)
        values = torch.from_numpy(simulator(draws)).double()
        return Target(torch.from_numpy(draws).double(), values, simulator.outcome_range)
    if name in FUNCTIONS | NEEDLES:
        function = (FUNCTIONS | NEEDLES)[name]
        lower, upper = function.bounds.double()
        draws = qmc.Sobol(function.dim, seed=seed).random(POOL)
        pool = torch.from_numpy(draws).double()
        return Target(pool, function(lower + (upper - lower) * pool).double())
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
