r"""Constraints of known RKHS norm on a grid."""

from typing import NamedTuple

import torch
from gpytorch.kernels import Kernel
from torch import Tensor

from benchmarks.runner import KnownFunction, fixed_kernel

NOISE_STD, DELTA = 0.2, 0.1


class Outcome(NamedTuple):
    kernel: Kernel
    values: Tensor
    norm: float


class Problem(NamedTuple):
    arms: Tensor
    constraint: Outcome
    seed_arm: int


def line(points: int) -> Tensor:
    return torch.linspace(0.0, 1.0, points, dtype=torch.float64).unsqueeze(-1)


def random_outcome(seed: int, arms: Tensor, norm: float, lengthscale: float) -> Outcome:
    r"""Of that norm, with the sign that makes its largest value the larger one."""
    random = torch.Generator().manual_seed(seed)
    kernel = fixed_kernel("matern52", lengthscale)
    centres = torch.rand(12, 1, dtype=torch.float64, generator=random)
    weights = torch.randn(12, dtype=torch.float64, generator=random)
    drawn = KnownFunction(kernel, centres, weights)
    values = drawn(arms)
    sign = 1.0 if values.max() > -values.min() else -1.0
    function = drawn.scaled(sign * norm)
    return Outcome(kernel, function(arms), float(function.norm))


def random_problem(seed: int, points: int = 40) -> Problem:
    arms = line(points)
    constraint = random_outcome(2 * seed + 1, arms, 2.0, 0.2)
    return Problem(arms, constraint, int(constraint.values.argmax()))
