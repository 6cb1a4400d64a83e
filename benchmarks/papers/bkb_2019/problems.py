r"""Arms and rewards: rows of regression data, or functions of known norm on them."""

from dataclasses import dataclass
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from gpytorch.kernels import Kernel
from torch import Tensor

from benchmarks.runner import KnownFunction, fixed_kernel, load_data, stream
from kernelucb import BKBBandit
from kernelucb.papers.bkb import required_qbar

ALL = 1e12  # the oversampling with which every observed arm is inducing


@dataclass(frozen=True)
class Problem:
    r"""Arms and their mean rewards."""

    arms: Tensor
    rewards: np.ndarray
    kernel: Kernel


def oversampling(task: SimpleNamespace) -> float:
    r"""The number that ``"theorem"`` and ``"all"`` stand for."""
    if task.qbar == "theorem":
        return required_qbar(task.rounds, task.delta, task.epsilon)
    return ALL if task.qbar == "all" else float(task.qbar)


def bandit_of(
    task: SimpleNamespace, arms: Tensor, radius: str, **options: Any
) -> BKBBandit:
    r"""With a radius by its name."""
    return BKBBandit(
        arms,
        fixed_kernel("rbf", task.lengthscale),
        norm_bound=task.norm_bound,
        noise_std=task.noise_std,
        delta=task.delta,
        qbar=oversampling(task),
        radius=radius,
        **options,
    )


@cache
def rows_of(data: str) -> tuple[np.ndarray, np.ndarray]:
    r"""All standardised features, and targets scaled to [0, 1]."""
    arrays = load_data(data)
    features, targets = arrays["X"].astype(float), arrays["y"].astype(float)
    features = (features - features.mean(0)) / features.std(0)
    return features, (targets - targets.min()) / np.ptp(targets)


def problem_of(task: SimpleNamespace) -> Problem:
    r"""A random subset of the rows."""
    features, targets = rows_of(task.data)
    arms = min(task.arms, len(features))
    chosen = stream(task.seed, "arms", task.data, task.trial).choice(
        len(features), arms, replace=False
    )
    kernel = fixed_kernel("rbf", task.lengthscale)
    return Problem(torch.from_numpy(features[chosen]), targets[chosen], kernel)


def function_of(task: SimpleNamespace) -> Problem:
    r"""A random function of norm ``norm_bound`` on a random subset of the rows."""
    problem = problem_of(task)
    random = stream(task.seed, "function", task.data, task.trial)
    centres = problem.arms[random.choice(len(problem.arms), 20, replace=False)]
    weights = torch.from_numpy(random.standard_normal(20))
    function = KnownFunction(problem.kernel, centres, weights)
    values = function(problem.arms) * (task.norm_bound / function.norm)
    return Problem(problem.arms, values.numpy(), problem.kernel)
