r"""Random kernels, frozen as if fixed before the data, and where a problem is observed."""

from typing import Any

import numpy as np
import torch
from gpytorch import kernels
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


_STATIONARY = ("rbf", "matern12", "matern32", "matern52", "rq")
_OTHERS = ("linear", "polynomial", "periodic")
_SMOOTHNESS = {"matern12": 0.5, "matern32": 1.5, "matern52": 2.5}


def random_kernel(
    random: np.random.Generator, dimension: int, length: float, depth: int = 1
) -> kernels.Kernel:
    r"""A base kernel, or with some probability a sum, a product or a scaled one.

    Args:
        random: Where everything is drawn from.
        dimension: Number of columns of the inputs.
        length: Typical length scale.
        depth: How deep sums and products may be nested.
    """
    if depth and random.random() < 0.25:
        parts = [random_kernel(random, dimension, length, depth - 1) for _ in range(2)]
        kernel = parts[0] + parts[1] if random.random() < 0.6 else parts[0] * parts[1]
    else:
        kernel = _base(random, dimension, length)
    if random.random() < 0.4:
        kernel = kernels.ScaleKernel(kernel).double()
        kernel.outputscale = torch.tensor(decades(random, -4, 4)).double()
    return kernel.double().requires_grad_(False)


def _base(random: np.random.Generator, dimension: int, length: float) -> kernels.Kernel:
    family = _STATIONARY if random.random() < 0.8 else _OTHERS
    name = family[random.integers(len(family))]
    active = None
    if dimension > 1 and random.random() < 0.2:
        size = int(random.integers(1, dimension))
        active = tuple(sorted(random.choice(dimension, size, replace=False).tolist()))
    columns = dimension if active is None else len(active)
    ard = columns if random.random() < 0.3 else None
    lengths = length * 10.0 ** random.uniform(-0.5, 0.5, (1, ard or 1))
    return _named(name, random, active, ard, torch.from_numpy(lengths))


def _named(
    name: str,
    random: np.random.Generator,
    active: tuple[int, ...] | None,
    ard: int | None,
    lengths: torch.Tensor,
) -> kernels.Kernel:
    if name == "linear":
        kernel = kernels.LinearKernel(active_dims=active).double()
        kernel.variance = torch.tensor([[decades(random, -2, 2)]]).double()
        return kernel
    if name == "polynomial":
        kernel = kernels.PolynomialKernel(
            int(random.integers(1, 4)), active_dims=active
        ).double()
        kernel.offset = torch.tensor([decades(random, -1, 1)]).double()
        return kernel
    options: dict[str, Any] = {"active_dims": active} | (
        {"ard_num_dims": ard} if ard else {}
    )
    if name == "periodic":
        kernel = kernels.PeriodicKernel(**options).double()
        kernel.period_length = lengths
        kernel.lengthscale = torch.full_like(lengths, decades(random, -0.5, 0.5))
        return kernel
    if name in _SMOOTHNESS:
        kernel = kernels.MaternKernel(nu=_SMOOTHNESS[name], **options).double()
    else:
        kernel = (kernels.RQKernel if name == "rq" else kernels.RBFKernel)(
            **options
        ).double()
    if name == "rq":
        kernel.alpha = torch.tensor([decades(random, -0.5, 1)]).double()
    kernel.lengthscale = lengths
    return kernel


def smallest_length(kernel: kernels.Kernel) -> float:
    r"""The smallest length scale or period anywhere in a kernel; infinite without any."""
    lengths = [
        float(getattr(part, "period_length", part.lengthscale).min())
        for part in kernel.modules()
        if isinstance(part, kernels.Kernel) and part.has_lengthscale
    ]
    return min(lengths, default=float("inf"))
