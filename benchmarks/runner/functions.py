r"""Random streams, kernels fixed before the data, and functions whose norm is known."""

import math
import warnings
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import torch
from botorch.utils.sampling import draw_sobol_samples, manual_seed
from gpytorch.kernels import Kernel, MaternKernel, RBFKernel
from scipy.optimize import minimize
from torch import Tensor

_SEARCHED, _REFINED = 4096, 5  # points at which the largest value is looked for


def stream(seed: int, *names: str | int) -> np.random.Generator:
    r"""A generator of its own for every list of names.

    Problems, arms and noise do not share a stream, so that a run's first rounds are the
    same however many rounds follow, and a problem the same whoever plays it.
    """
    words = [n if isinstance(n, int) else zlib.crc32(n.encode()) for n in names]
    return np.random.default_rng([seed, *words])


@contextmanager
def seeded(seed: int, *names: str | int) -> Iterator[None]:
    r"""Torch's global generator seeded from a stream, and as it was afterwards.

    What is played inside depends on nothing else that was drawn in this process.
    """
    with manual_seed(int(stream(seed, *names).integers(2**31))):
        yield


@contextmanager
def quiet(*categories: type[Warning]) -> Iterator[None]:
    r"""Without these warnings; without any where none is named."""
    with warnings.catch_warnings():
        for category in categories or (Warning,):
            warnings.simplefilter("ignore", category)
        yield


def unit_cube(dimension: int) -> Tensor:
    r"""``2 x d`` limits."""
    zero = torch.zeros(dimension, dtype=torch.float64)
    return torch.stack([zero, zero + 1.0])


def sobol_points(count: int, dimension: int, seed: int) -> Tensor:
    r"""``n x d`` points of a scrambled Sobol sequence in the unit cube."""
    return draw_sobol_samples(unit_cube(dimension), count, 1, seed=seed).squeeze(-2)


def line(count: int) -> Tensor:
    r"""``n x 1`` points of the unit interval."""
    return torch.linspace(0.0, 1.0, count, dtype=torch.float64).unsqueeze(-1)


def outside(truth: Tensor, lower: Tensor, upper: Tensor, slack: float) -> Tensor:
    r"""Where a function leaves its band by more than round-off."""
    return (truth < lower - slack) | (truth > upper + slack)


def fixed_kernel(name: str, lengthscale: float) -> Kernel:
    r"""``"rbf"``, ``"matern52"`` or ``"matern32"``, unit variance, double precision."""
    smoothness = {"rbf": None, "matern52": 2.5, "matern32": 1.5}[name]
    kernel = RBFKernel() if smoothness is None else MaternKernel(nu=smoothness)
    # GPyTorch's setters would round a number to single precision.
    kernel.double().lengthscale = torch.tensor(lengthscale, dtype=torch.float64)
    return kernel.requires_grad_(False)


def rkhs_norm(kernel: Kernel, centres: Tensor, weights: Tensor) -> Tensor:
    r"""Norm of ``sum_i weights_i k(., centres_i)``."""
    return (weights @ kernel(centres).to_dense() @ weights).sqrt()


@dataclass(frozen=True)
class KnownFunction:
    r"""``sum_i weights_i k(., centres_i)``."""

    kernel: Kernel
    centres: Tensor
    weights: Tensor

    @classmethod
    def draw(
        cls,
        random: np.random.Generator,
        kernel: Kernel,
        norm: float,
        dimension: int,
        centres: int,
        sign: int = 0,
    ) -> "KnownFunction":
        r"""Uniform centres in the unit cube and normal weights, scaled to the norm.

        With a ``sign`` all weights have this sign.
        """
        places = torch.from_numpy(random.random((centres, dimension)))
        weights = torch.from_numpy(random.standard_normal(centres))
        weights = sign * weights.abs() if sign else weights
        return cls(kernel, places, weights).scaled(norm)

    @property
    def norm(self) -> Tensor:
        r"""In the space of the kernel."""
        return rkhs_norm(self.kernel, self.centres, self.weights)

    def scaled(self, norm: float) -> "KnownFunction":
        r"""The multiple that has this norm; its sign is that of the number."""
        return replace(self, weights=self.weights * (norm / self.norm))

    def __call__(self, X: Tensor) -> Tensor:
        r"""From ``n x d`` points to ``n`` values."""
        return self.kernel(X, self.centres).to_dense() @ self.weights


def largest_value(function: Callable[[Tensor], Tensor], known: Tensor) -> float:
    r"""Largest value in the unit cube: the best of many points, and of a search from a few.

    Among the many are the ``known`` ones, ``n x d``.
    """
    points = torch.cat([sobol_points(_SEARCHED, known.shape[-1], 0), known])
    values = function(points)

    def objective(point: np.ndarray) -> tuple[float, np.ndarray]:
        X = torch.from_numpy(point).requires_grad_(True)
        value = -function(X[None])[0]
        (gradient,) = torch.autograd.grad(value, X)
        return value.item(), gradient.numpy()

    best = float(values.max())
    for point in points[values.topk(_REFINED).indices]:
        limits = [(0.0, 1.0)] * len(point)
        found = minimize(objective, point.numpy(), jac=True, bounds=limits)
        best = max(best, -float(found.fun)) if math.isfinite(found.fun) else best
    return best
