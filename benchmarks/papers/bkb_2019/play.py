r"""One run of the regret comparison, and one sequence of sketched variances."""

import math
from dataclasses import replace
from time import process_time
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from benchmarks.papers.bkb_2019.problems import Problem, bandit_of, function_of, problem_of
from benchmarks.runner import outside, stream
from kernelucb import BKBBandit

CHECKED = ("smallest", "largest", "inducing", "distinct", "dimension", "covered")


class Learner:
    r"""Plays a ``BKBBandit``; the exact bounds replace its radius.

    With every observed arm inducing, its posterior is the exact one, and repeated arms cost
    nothing.
    """

    def __init__(self, problem: Problem, task: SimpleNamespace) -> None:
        self.task = task
        regularizer = task.regularizer
        if task.rule == "igp":  # Chowdhury & Gopalan (2017), Theorem 2: 1 + 2 / T
            regularizer = 1.0 + 2.0 / task.rounds
        options = {"alpha": regularizer, "batch_growth": task.batch_growth}
        options |= {"epsilon": task.epsilon, "seed": task.trial}
        self.bandit = bandit_of(task, problem.arms, task.radius, **options)
        self.random = np.random.default_rng(task.trial)

    def select(self) -> list[int]:
        if self.task.rule == "uniform":
            return [int(self.random.integers(len(self.bandit.candidates)))]
        if self.task.rule == "bbkb":
            left = self.task.rounds - self.bandit.num_observations
            return self.bandit.batch_select(left)
        if self.task.rule == "bkb":
            return [self.bandit.select()]
        arms = self.bandit.arms
        return [int((arms.mean + self.exact_width() * arms.variance.sqrt()).argmax())]

    def exact_width(self) -> float:
        r"""Multiplier of the standard deviation in the exact bounds."""
        task, lam = self.task, self.bandit.alpha
        gain = self.log_det() + 2.0 * math.log(1.0 / task.delta)
        if task.rule == "mixture":  # Flynn & Reeb (2024), Corollary 4.6
            return math.sqrt(gain * task.noise_std**2 / lam + task.norm_bound**2)
        # Chowdhury & Gopalan (2017), Theorem 2, with t eta taken as 2.
        return task.norm_bound + task.noise_std * math.sqrt(gain + 2.0)

    def log_det(self) -> float:
        r"""``ln det(I + K / lam)`` of all observations."""
        arms = self.bandit.arms
        seen = arms.observed
        rows = arms.counts[seen].sqrt().unsqueeze(-1) * arms.features[seen]
        eye = torch.eye(rows.shape[1], dtype=rows.dtype)
        return float(torch.logdet(eye + rows.mT @ rows / self.bandit.alpha))

    def observe(self, arms: list[int], outcomes: list[float]) -> None:
        if self.task.rule != "uniform":
            self.bandit.observe(arms, outcomes)


def play(settings: dict[str, Any]) -> dict[str, Any]:
    r"""First arm and noise of each round are the same for all methods.

    Returns:
        The ``regret`` of each round, the number of ``updates`` of the posterior, that of
        ``inducing`` arms at the end, and the processor ``seconds`` of all rounds.
    """
    task = SimpleNamespace(**settings)
    problem = problem_of(task)
    first = stream(task.seed, "first", task.data, task.trial)
    noise = stream(task.seed, "noise", task.data, task.trial)
    learner = Learner(problem, task)
    best, regret, updates, seconds = problem.rewards.max(), [], 0, 0.0
    while len(regret) < task.rounds:
        start = process_time()
        arms = learner.select() if updates else [int(first.integers(len(problem.arms)))]
        seconds += process_time() - start
        rewards = problem.rewards[arms]
        outcomes = rewards + task.noise_std * noise.standard_normal(len(arms))
        start = process_time()
        learner.observe(arms, outcomes.tolist())
        seconds += process_time() - start
        regret.extend((best - rewards).tolist())
        updates += 1
    inducing = len(learner.bandit.inducing)
    return {"regret": regret, "updates": updates, "inducing": inducing, "seconds": seconds}


def play_sequence(settings: dict[str, Any]) -> dict[str, list]:
    r"""Sketched variances against exact ones, and the band of Theorem 2.

    Returns:
        An entry for each round of ``checks``: ``smallest`` and ``largest`` ratio of
        sketched to exact variance of all arms, the number of ``inducing`` and of
        ``distinct`` arms, the effective ``dimension`` from exact variances, and whether the
        band ``covered`` the function at all arms.
    """
    task = SimpleNamespace(**settings)
    problem = function_of(task)
    truth = torch.from_numpy(problem.rewards)
    noise = stream(task.seed, "noise", task.data, task.trial)
    options = {"epsilon": task.epsilon, "seed": task.trial}
    bandit, found = bandit_of(task, problem.arms, "theorem2", **options), []
    order = stream(task.seed, "first", task.trial).permutation(len(truth))
    while (seen := bandit.num_observations) < task.rounds:
        if task.play == "random":
            following = min(check for check in task.checks if check > seen)
            arms = order[seen : min(following, seen + max(1, seen // 10))]
        else:
            arms = np.array([bandit.select()]) if seen else order[:1]
        outcomes = problem.rewards[arms]
        outcomes = outcomes + task.noise_std * noise.standard_normal(len(arms))
        bandit.observe(torch.from_numpy(arms), outcomes)
        if bandit.num_observations in task.checks:
            found.append(_check(bandit, truth))
    return {name: [each[name] for each in found] for name in CHECKED}


def _check(bandit: BKBBandit, truth: torch.Tensor) -> dict[str, Any]:
    state = bandit.arms
    exact = replace(state, inducing=state.observed)
    ratio = state.variance / exact.variance
    lower, upper = bandit.bounds()
    counts = len(bandit.inducing), len(state.observed)
    dimension = float(state.counts @ exact.variance) / bandit.alpha
    covered = not bool(outside(truth, lower, upper, 0.0).any())
    values = float(ratio.min()), float(ratio.max()), *counts, dimension, covered
    return dict(zip(CHECKED, values, strict=True))
