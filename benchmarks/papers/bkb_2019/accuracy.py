r"""One sequence: sketched variances against exact ones, and the band of Theorem 2."""

from dataclasses import dataclass

import numpy as np
import torch

from benchmarks.papers.bkb_2019.configuration import AccuracyTask
from benchmarks.papers.bkb_2019.problems import function_of
from benchmarks.runner import stream
from kernelucb import BKBBandit


@dataclass(frozen=True)
class Run:
    r"""Result of a task; one entry for each round that was checked.

    Attributes:
        smallest: Smallest ratio of sketched to exact variance, all arms.
        largest: Largest ratio.
        inducing: Number of inducing arms.
        distinct: Number of distinct arms played.
        dimension: Effective dimension, from exact variances.
        covered: Whether the band held the function at all arms.
    """

    smallest: list[float]
    largest: list[float]
    inducing: list[int]
    distinct: list[int]
    dimension: list[float]
    covered: list[bool]


def measure(task: AccuracyTask) -> Run:
    r"""Play one sequence, and look at the bandit in some rounds."""
    setting = task.setting
    problem = function_of(setting, task.trial)
    truth = torch.from_numpy(problem.rewards)
    noise = stream(setting.seed, "noise", setting.data, task.trial)
    bandit = BKBBandit(
        problem.arms,
        problem.kernel,
        norm_bound=setting.norm_bound,
        noise_std=setting.noise_std,
        delta=setting.delta,
        qbar=setting.oversampling(task.qbar),
        radius="theorem2",
        epsilon=setting.epsilon,
        seed=task.trial,
    )
    run = Run([], [], [], [], [], [])
    order = stream(setting.seed, "first", task.trial).permutation(len(truth))
    while (seen := bandit.num_observations) < setting.rounds:
        if task.play == "random":
            following = min(check for check in task.checks if check > seen)
            arms = order[seen : min(following, seen + max(1, seen // 10))]
        else:
            arms = np.array([bandit.select()]) if seen else order[:1]
        outcomes = problem.rewards[arms] + setting.noise_std * noise.standard_normal(
            len(arms)
        )
        bandit.observe(torch.from_numpy(arms), outcomes)
        if bandit.num_observations in task.checks:
            _check(bandit, truth, run)
    return run


def _check(bandit: BKBBandit, truth: torch.Tensor, run: Run) -> None:
    state = bandit.arms
    data = state.inputs, state.tally, state.observed
    exact = state.restored(*data, state.generator_state)
    ratio = state.variance / exact.variance
    lower, upper = bandit.bounds()
    run.smallest.append(float(ratio.min()))
    run.largest.append(float(ratio.max()))
    run.inducing.append(len(bandit.inducing))
    run.distinct.append(len(state.observed))
    run.dimension.append(float(state.counts @ exact.variance) / bandit.alpha)
    run.covered.append(bool(((lower <= truth) & (truth <= upper)).all()))
