r"""Training tasks and the functions to optimise, from data or from named random streams."""

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from benchmarks.papers.wang_2018.configuration import Domain, Setting, Task
from benchmarks.runner import load_data, stream

SPAN = 10.0  # the synthetic domain is [-SPAN, SPAN]^2
_WAVES = 1000  # random Fourier features of one synthetic function


@lru_cache(maxsize=1)
def grasp_data() -> tuple[Tensor, Tensor]:
    r"""Rewards (problems x grasps) and grasp parameters (grasps x 58)."""
    data = load_data("metabo_ag")
    return torch.from_numpy(data["rewards"]), torch.from_numpy(data["thetas"])


def grasp_tasks(seed: int, setting: Setting, problem: int) -> Tensor:
    r"""Training rewards of one problem, NaN where missing.

    The problem and those that share its prior are left out.
    """
    rewards, _ = grasp_data()
    first = problem - problem % setting.held_out
    kept = torch.ones(len(rewards), dtype=torch.bool)
    kept[first : first + setting.held_out] = False
    values = rewards[kept]
    random = stream(seed, "training", setting.name, first)
    if setting.share < 1.0:
        number = round(setting.share * len(values))
        values = values[torch.from_numpy(random.permutation(len(values))[:number])]
    gone = torch.from_numpy(random.random(values.shape) < setting.missing)
    return values.masked_fill(gone, torch.nan)


def synthetic_function(
    seed: int, domain: Domain, *names: str | int
) -> Callable[[Tensor], Tensor]:
    r"""A sample of a GP with a squared-exponential kernel, by random Fourier features."""
    random = stream(seed, "function", *names)
    waves = torch.from_numpy(random.standard_normal((2, _WAVES)) / domain.lengthscale)
    phases = torch.from_numpy(random.uniform(0.0, 2.0 * np.pi, _WAVES))
    weights = torch.from_numpy(random.standard_normal(_WAVES) * np.sqrt(2.0 / _WAVES))
    return lambda X: torch.cos(X @ waves + phases) @ weights


def new_function(task: Task) -> Callable[[Tensor], Tensor]:
    r"""The function that a problem asks to maximise."""
    return synthetic_function(task.seed, task.domain, "new", task.problem)


@lru_cache(maxsize=1)
def synthetic_tasks(seed: int, domain: Domain, setting: Setting) -> tuple[Tensor, Tensor]:
    r"""Inputs (points x 2) that all tasks share, and noisy values (tasks x points)."""
    random = stream(seed, "inputs")
    inputs = torch.from_numpy(random.uniform(-SPAN, SPAN, (domain.points, 2)))
    inputs = inputs[: round(setting.share * domain.points)]
    rows = []
    for number in range(domain.tasks):
        noise = stream(seed, "noise", number).standard_normal(domain.points)
        f = synthetic_function(seed, domain, "training", number)
        rows.append(f(inputs) + domain.noise_std * torch.from_numpy(noise)[: len(inputs)])
    return inputs, torch.stack(rows)


def own_stream(task: Task) -> np.random.Generator:
    r"""Noise and random choices of one method on one problem."""
    return stream(task.seed, "own", task.domain.name, task.method.name, task.problem)
