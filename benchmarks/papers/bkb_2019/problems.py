r"""Arms and rewards: rows of regression data, or functions of known norm on them."""

from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from gpytorch.kernels import Kernel
from torch import Tensor

from benchmarks.papers.bkb_2019.configuration import Setting
from benchmarks.runner import fixed_kernel, load_data, rkhs_norm, stream


@dataclass(frozen=True)
class Problem:
    r"""Arms and their mean rewards."""

    arms: Tensor
    rewards: np.ndarray
    kernel: Kernel


@cache
def rows_of(data: str) -> tuple[np.ndarray, np.ndarray]:
    r"""All standardised features, and targets scaled to [0, 1]."""
    arrays = load_data(data)
    features, targets = arrays["X"].astype(float), arrays["y"].astype(float)
    features = (features - features.mean(0)) / features.std(0)
    return features, (targets - targets.min()) / np.ptp(targets)


def problem_of(setting: Setting, trial: int) -> Problem:
    r"""A random subset of the rows."""
    features, targets = rows_of(setting.data)
    arms = min(setting.arms, len(features))
    chosen = stream(setting.seed, "arms", setting.data, trial).choice(
        len(features), arms, replace=False
    )
    kernel = fixed_kernel("rbf", setting.lengthscale)
    return Problem(torch.from_numpy(features[chosen]), targets[chosen], kernel)


def function_of(setting: Setting, trial: int) -> Problem:
    r"""A random function of norm ``norm_bound`` on a random subset of the rows."""
    problem = problem_of(setting, trial)
    random = stream(setting.seed, "function", setting.data, trial)
    centres = problem.arms[random.choice(len(problem.arms), 20, replace=False)]
    weights = torch.from_numpy(random.standard_normal(20))
    norm = rkhs_norm(problem.kernel, centres, weights)
    values = problem.kernel(problem.arms, centres).to_dense() @ weights
    values = values * (setting.norm_bound / norm)
    return Problem(problem.arms, values.numpy(), problem.kernel)
