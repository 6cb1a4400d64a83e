r"""Where a random problem is observed and looked at."""

import numpy as np
import torch
from torch import Tensor


def count_of(random: np.random.Generator) -> int:
    r"""Number of observations, more often few."""
    return int(random.integers(1, 13) if random.random() < 0.6 else random.integers(1, 61))


def drawn_inputs(random: np.random.Generator, n: int, dimension: int, spread: float):
    r"""Uniform inputs with duplicates, near-duplicates, lines, outliers and offsets."""
    X = random.random((n, dimension)) * spread
    kind = random.random()
    if kind < 0.15:
        X = X[random.integers(0, max(1, n // 2), n)]
    elif kind < 0.3:
        near = random.standard_normal((n, dimension)) * decades(random, -14, -3)
        X = X[random.integers(0, max(1, n // 2), n)] * (1.0 + near)
    elif kind < 0.4:
        X = random.random((n, 1)) * X[:1]
    elif kind < 0.5:
        X[random.integers(0, n)] *= decades(random, 2, 6)
    elif kind < 0.6:
        X += spread * decades(random, 0, 5)
    elif kind < 0.65:
        X = np.round(X / spread * 4) / 4 * spread
    return X


def drawn_queries(random: np.random.Generator, X: Tensor, spread: float):
    r"""Points at, near, between and away from the data; and some very far ones."""
    n, dimension = X.shape

    def pick(count: int) -> Tensor:
        return X[torch.from_numpy(random.integers(0, n, count))]

    def noise(count: int) -> Tensor:
        return torch.from_numpy(random.standard_normal((count, dimension)))

    near = pick(3) + spread * noise(3) * 10.0 ** torch.tensor([[-12.0], [-7.0], [-3.0]])
    away = pick(2) + spread * noise(2) * torch.tensor([[3.0], [100.0]])
    fresh = X.min(0).values + spread * torch.from_numpy(random.random((4, dimension)))
    queries = [pick(3), near, 0.5 * (pick(2) + pick(2)), fresh, away]
    return torch.cat(queries).double(), (1e8 * spread * noise(3)).double()


def decades(random: np.random.Generator, low: float, high: float) -> float:
    r"""Ten to a uniform power."""
    return 10.0 ** float(random.uniform(low, high))
