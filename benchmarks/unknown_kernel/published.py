r"""LB-GP-UCB and A-GP-UCB where Ziomek et al. (2024) play them first."""

import math
from dataclasses import dataclass
from pathlib import PurePath

import numpy as np
import torch
from scipy.stats import norm
from torch import Tensor

from benchmarks import runner
from benchmarks.runner import Moments, RunStore, fixed_kernel, markdown_table, stream
from benchmarks.unknown_kernel.balancing import (
    LengthscaleBalancing,
    MaximumLikelihood,
    ShrinkingLengthscale,
    likeliest,
)
from benchmarks.unknown_kernel.configuration import Published
from benchmarks.unknown_kernel.learners import Learner
from benchmarks.unknown_kernel.problems import Problem
from benchmarks.unknown_kernel.settings import Family

LEARNERS = {"balancing": "LB-GP-UCB", "shrinking": "A-GP-UCB", "likelihood": "MLE"}
_KERNEL, _SMOOTHNESS = "matern52", 2.5
# Simple regret below which the narrow hill was found: the other hill's is 0.14.
_FOUND = 0.05


@dataclass(frozen=True)
class Task(runner.Task):
    r"""One learner with one seed."""

    part: Published
    learner: str
    seed: int

    @property
    def location(self) -> PurePath:
        r"""One folder for each learner."""
        return PurePath(self.learner, f"seed-{self.seed:03d}.json")


@dataclass(frozen=True)
class Run:
    r"""Regret, in the function's own units, of every point that was chosen."""

    regret: list[float]


def function(points: np.ndarray) -> np.ndarray:
    r"""The function of Berkenkamp et al. (2019): a slope, and a narrow hill at 0.2."""
    return 0.6 * points + norm.pdf(points, 0.2, 0.08) / 8.0


def play(task: Task) -> Run:
    r"""Play one task; outcomes are standardised over the grid."""
    part, grid = task.part, np.linspace(0.0, 1.0, task.part.points)
    values = function(grid)
    spread = float(values.std())
    standard = torch.from_numpy((values - values.mean()) / spread)
    drawn = stream(part.seed, "starts", task.seed)
    starts = drawn.integers(part.points, size=part.starts).tolist()
    arms = torch.from_numpy(grid)[:, None]
    longest = likeliest(_KERNEL, arms[starts], standard[starts], part.noise_std)
    learner = _learner(task, _problem(part, arms, standard, longest))
    for arm in starts:
        learner.observe(arm, float(standard[arm]))
    regret = []
    for _ in range(part.rounds):
        arm = learner.select()
        learner.observe(arm, float(standard[arm]))
        regret.append(float(values.max() - values[arm]))
    return Run(regret)


def _problem(part: Published, arms: Tensor, values: Tensor, longest: float) -> Problem:
    shortest = longest / _growth(part, part.rounds)
    family = Family(shortest, longest, 2.0)
    kernel = fixed_kernel(_KERNEL, longest)
    told = part.norm_bound, family, part.noise_std, part.failure
    return Problem(kernel, _KERNEL, *told, arms, lambda X: values)


def _step() -> float:
    r"""Logarithm of the ratio of neighbours in their code, for a Matérn kernel, d = 1."""
    return 1.0 / (1.0 + 2.0 * _SMOOTHNESS)


def _growth(part: Published, number: int) -> float:
    return max(math.exp(part.candidates * _step()), number**part.exponent)


def _learner(task: Task, problem: Problem) -> Learner:
    if task.learner == "balancing":
        return LengthscaleBalancing(
            problem, _step(), lambda number: _growth(task.part, number)
        )
    if task.learner == "shrinking":
        return ShrinkingLengthscale(problem, task.part.exponent, _growth(task.part, 1))
    return MaximumLikelihood(problem)


def rows(store: RunStore[Run], part: Published, seeds: int) -> list[dict]:
    r"""Cumulative regret of every run, and the least of its regrets."""
    return [
        {
            "learner": name,
            "seed": seed,
            "cumulative": f"{sum(run.regret):.4g}",
            "best": f"{min(run.regret):.4g}",
        }
        for name in LEARNERS
        for seed in range(seeds)
        for run in [store.load(Task(part, name, seed))]
    ]


def table(part: Published, found: list[dict]) -> list[str]:
    r"""Means over the seeds."""
    cells = []
    for name, label in LEARNERS.items():
        own = [row for row in found if row["learner"] == name]
        total = Moments.of(float(row["cumulative"]) for row in own)
        best = [float(row["best"]) for row in own]
        count = sum(value < _FOUND for value in best)
        cells.append(
            [
                label,
                f"{total.mean:.2f} ± {total.standard_error:.2f}",
                f"{np.mean(best):.3f}",
                f"{count} of {len(own)}",
            ]
        )
    header = ["learner", "cumulative regret", "best regret", "found the narrow hill"]
    return [
        f"{part.rounds} rounds after {part.starts} random points, mean ± standard error.",
        "",
        *markdown_table(header, cells),
    ]
