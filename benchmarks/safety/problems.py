r"""Objectives and constraints of known RKHS norm on a grid."""

from typing import NamedTuple

import torch
from gpytorch.kernels import Kernel
from torch import Tensor

from benchmarks.runner import fixed_kernel, rkhs_norm

NOISE_STD, DELTA = 0.2, 0.1


class Outcome(NamedTuple):
    kernel: Kernel
    values: Tensor
    norm: float


class Problem(NamedTuple):
    arms: Tensor
    objective: Outcome
    constraint: Outcome
    seed_arm: int


def line(points: int) -> Tensor:
    return torch.linspace(0.0, 1.0, points, dtype=torch.float64).unsqueeze(-1)


def outcome(kernel: Kernel, centres: Tensor, weights: Tensor, arms: Tensor) -> Outcome:
    norm = float(rkhs_norm(kernel, centres, weights))
    return Outcome(kernel, kernel(arms, centres).to_dense() @ weights, norm)


def random_outcome(seed: int, arms: Tensor, norm: float, lengthscale: float) -> Outcome:
    r"""Of that norm, with the sign that makes its largest value the larger one."""
    random = torch.Generator().manual_seed(seed)
    kernel = fixed_kernel("matern52", lengthscale)
    centres = torch.rand(12, 1, dtype=torch.float64, generator=random)
    weights = torch.randn(12, dtype=torch.float64, generator=random)
    drawn = outcome(kernel, centres, weights, arms)
    sign = 1.0 if drawn.values.max() > -drawn.values.min() else -1.0
    return outcome(kernel, centres, weights * (sign * norm / drawn.norm), arms)


def random_problem(seed: int, points: int = 40) -> Problem:
    arms = line(points)
    objective = random_outcome(2 * seed, arms, 2.0, 0.2)
    constraint = random_outcome(2 * seed + 1, arms, 2.0, 0.2)
    return Problem(arms, objective, constraint, int(constraint.values.argmax()))


def two_hills(points: int = 60) -> Problem:
    r"""A low hill at the seed, a high one beyond a valley, and nothing unsafe between."""
    arms, kernel = line(points), fixed_kernel("matern52", 0.12)
    hills = torch.tensor([[0.2], [0.5], [0.8]], dtype=torch.float64)
    heights = torch.tensor([1.0, -1.0, 2.0], dtype=torch.float64)
    ground = torch.tensor([[0.1], [0.4], [0.7], [1.0]], dtype=torch.float64)
    levels = torch.tensor([0.8, 0.3, 0.3, 0.5], dtype=torch.float64)
    objective = outcome(kernel, hills, heights, arms)
    constraint = outcome(fixed_kernel("matern52", 0.3), ground, levels, arms)
    return Problem(arms, objective, constraint, round(0.15 * points))
