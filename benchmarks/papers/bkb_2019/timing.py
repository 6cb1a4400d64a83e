r"""Processor time of a round against a straightforward BKB in NumPy.

In each of its rounds the inducing arms' kernel matrix is decomposed (SVD), all arms are
embedded again, and mean and variance of all arms are computed from that.
"""

import math
from time import process_time
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from benchmarks.papers.bkb_2019.problems import bandit_of, rows_of
from benchmarks.runner import stream


class NumpyBKB:
    r"""BKB with the practical radius, unit prior variance and kernel of one lengthscale."""

    def __init__(
        self,
        arms: np.ndarray,
        lengthscale: float,
        noise_std: float,
        norm_bound: float,
        delta: float,
        qbar: float,
        seed: int,
    ) -> None:
        self.arms, self.lengthscale = arms, lengthscale
        self.noise_std, self.lam = noise_std, noise_std**2
        self.norm_bound, self.delta, self.qbar = norm_bound, delta, qbar
        self.random = np.random.default_rng(seed)
        self.counts, self.sums = np.zeros(len(arms)), np.zeros(len(arms))
        self.inducing = np.zeros(0, dtype=int)

    def kernel(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        squared = (left**2).sum(1)[:, None] + (right**2).sum(1) - 2.0 * left @ right.T
        return np.exp(-np.maximum(squared, 0.0) / (2.0 * self.lengthscale**2))

    def embed(self) -> np.ndarray:
        r"""``z(a) = (K_SS^{1/2})^+ k_S(a)`` of all arms."""
        points = self.arms[self.inducing]
        left, values, _ = np.linalg.svd(self.kernel(points, points))
        kept = values > 1e-10 * values[0]
        return self.kernel(self.arms, points) @ (left[:, kept] / np.sqrt(values[kept]))

    def posterior(self) -> tuple[np.ndarray, np.ndarray]:
        r"""Mean, and variance in units of ``lam``, of all arms."""
        features = self.embed()
        seen = np.flatnonzero(self.counts)
        weighted = self.counts[seen, None] * features[seen]
        gram = features[seen].T @ weighted + self.lam * np.eye(features.shape[1])
        inverse = np.linalg.inv(gram)
        mean = features @ (inverse @ (features[seen].T @ self.sums[seen]))
        residual_variance = (1.0 - (features**2).sum(1)) / self.lam
        return mean, residual_variance + ((features @ inverse) * features).sum(1)

    def step(self, play) -> int:
        r"""One round: choose an arm, play it, draw the inducing arms."""
        if len(self.inducing) == 0:
            arm, variance = 0, np.full(len(self.arms), 1.0 / self.lam)
        else:
            mean, variance = self.posterior()
            gain = math.log(self.counts.sum()) * float(self.counts @ variance)
            noise = self.noise_std * math.sqrt(gain + math.log(1.0 / self.delta))
            beta = math.sqrt(self.lam) * self.norm_bound + noise
            arm = int((mean + beta * np.sqrt(np.maximum(variance, 0.0))).argmax())
        self.counts[arm] += 1.0
        self.sums[arm] += play(arm)
        seen = np.flatnonzero(self.counts)
        probability = np.minimum(1.0, self.qbar * self.counts[seen] * variance[seen])
        drawn = seen[self.random.random(len(seen)) < probability]
        self.inducing = drawn if len(drawn) else np.array([arm])
        return arm


@threadpool_limits.wrap(limits=1)
def play_rounds(settings: dict[str, Any]) -> dict[str, Any]:
    r"""Mean time of the five rounds up to each of ``shown``, and of all of them.

    Processor time of one thread, the two in turn: other work hardly shows.
    """
    task = SimpleNamespace(**settings)
    features, rewards = rows_of(task.data)
    bandit = bandit_of(task, torch.from_numpy(features), "practical")
    scales = task.lengthscale, task.noise_std, task.norm_bound
    yardstick = NumpyBKB(features, *scales, task.delta, task.qbar, seed=0)
    noise = stream(task.seed, "time")

    def play(arm: int) -> float:
        return float(rewards[arm] + task.noise_std * noise.standard_normal())

    ours, theirs, rows = [], [], []
    for number in range(1, max(task.shown) + 1):
        start = process_time()
        arm = bandit.select()
        bandit.observe(arm, play(arm))
        ours.append(process_time() - start)
        start = process_time()
        yardstick.step(play)
        theirs.append(process_time() - start)
        sizes = {"inducing": len(bandit.inducing)}
        sizes |= {"inducing_yardstick": len(yardstick.inducing)}
        if number in task.shown:
            rows.append({"round": str(number)} | sizes | _times(ours[-5:], theirs[-5:]))
    rows.append({"round": f"1 to {number}"} | sizes | _times(ours, theirs))
    return {"rows": rows}


def _times(ours: list[float], theirs: list[float]) -> dict[str, str]:
    own, other = float(np.mean(ours)), float(np.mean(theirs))
    return {
        "milliseconds": f"{1e3 * own:.3g}",
        "milliseconds_yardstick": f"{1e3 * other:.3g}",
        "ratio": f"{other / own:.3g}",
    }
