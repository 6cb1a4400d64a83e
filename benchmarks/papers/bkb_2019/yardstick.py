r"""A straightforward BKB in NumPy, as the paper describes it: what ours is timed against.

In each round the inducing arms' kernel matrix is decomposed (SVD), all arms are embedded
again, and mean and variance of all arms are computed from that.
"""

import math

import numpy as np


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
        r"""Squared-exponential kernel."""
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
