r"""The methods of the comparison behind one interface."""

import math

import numpy as np
import torch

from benchmarks.papers.bkb_2019.configuration import Method, Setting
from benchmarks.papers.bkb_2019.problems import Problem
from kernelucb import BKBBandit


class Learner:
    r"""Plays a ``BKBBandit``; the exact bounds replace its radius.

    With every observed arm inducing, its posterior is the exact one, and repeated arms cost
    nothing.
    """

    def __init__(
        self, problem: Problem, method: Method, setting: Setting, seed: int
    ) -> None:
        self.method, self.setting = method, setting
        regularizer = method.regularizer
        if method.rule == "igp":  # Chowdhury & Gopalan (2017), Theorem 2: 1 + 2 / T
            regularizer = 1.0 + 2.0 / setting.rounds
        self.bandit = BKBBandit(
            problem.arms,
            problem.kernel,
            norm_bound=setting.norm_bound,
            noise_std=setting.noise_std,
            delta=setting.delta,
            qbar=setting.oversampling(method.qbar),
            radius=method.radius,
            epsilon=setting.epsilon,
            alpha=regularizer,
            batch_growth=method.batch_growth,
            seed=seed,
        )
        self.random = np.random.default_rng(seed)

    def select(self) -> list[int]:
        r"""The arms to play next."""
        if self.method.rule == "uniform":
            return [int(self.random.integers(len(self.bandit.candidates)))]
        if self.method.rule == "bbkb":
            left = self.setting.rounds - self.bandit.num_observations
            return self.bandit.batch_select(left)
        if self.method.rule == "bkb":
            return [self.bandit.select()]
        arms = self.bandit.arms
        return [int((arms.mean + self.exact_width() * arms.variance.sqrt()).argmax())]

    def exact_width(self) -> float:
        r"""Multiplier of the standard deviation in the exact bounds."""
        setting, lam = self.setting, self.bandit.alpha
        gain = self.log_det() + 2.0 * math.log(1.0 / setting.delta)
        if self.method.rule == "mixture":  # Flynn & Reeb (2024), Corollary 4.6
            return math.sqrt(gain * setting.noise_std**2 / lam + setting.norm_bound**2)
        # Chowdhury & Gopalan (2017), Theorem 2, with t eta taken as 2.
        return setting.norm_bound + setting.noise_std * math.sqrt(gain + 2.0)

    def log_det(self) -> float:
        r"""``ln det(I + K / lam)`` of all observations."""
        arms = self.bandit.arms
        seen = arms.observed
        rows = arms.counts[seen].sqrt().unsqueeze(-1) * arms.features[seen]
        eye = torch.eye(rows.shape[1], dtype=rows.dtype)
        return float(torch.logdet(eye + rows.mT @ rows / self.bandit.alpha))

    def observe(self, arms: list[int], outcomes: list[float]) -> None:
        r"""Learn from noisy outcomes."""
        if self.method.rule != "uniform":
            self.bandit.observe(arms, outcomes)
