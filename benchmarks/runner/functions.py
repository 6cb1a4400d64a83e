r"""Random streams, kernels fixed before the data, and functions whose norm is known."""

import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import torch
from botorch.utils.sampling import draw_sobol_samples
from gpytorch.kernels import Kernel, MaternKernel, RBFKernel
from torch import Tensor


def stream(seed: int, *names: str | int) -> np.random.Generator:
    r"""A generator of its own for every list of names.

    Problems, arms and noise do not share a stream, so that a run's first rounds are the
    same however many rounds follow, and a problem the same whoever plays it.
    """
    words = [n if isinstance(n, int) else zlib.crc32(n.encode()) for n in names]
    return np.random.default_rng([seed, *words])


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
    ) -> "KnownFunction":
        r"""Uniform centres in the unit cube and normal weights, scaled to the norm."""
        places = torch.from_numpy(random.random((centres, dimension)))
        weights = torch.from_numpy(random.standard_normal(centres))
        return cls(kernel, places, weights).scaled(norm)

    @property
    def norm(self) -> Tensor:
        r"""In the space of the kernel."""
        gram = self.kernel(self.centres).to_dense()
        return (self.weights @ gram @ self.weights).sqrt()

    def scaled(self, norm: float) -> "KnownFunction":
        r"""The multiple that has this norm; its sign is that of the number."""
        return replace(self, weights=self.weights * (norm / self.norm))

    def __call__(self, X: Tensor) -> Tensor:
        r"""From ``n x d`` points to ``n`` values."""
        return self.kernel(X, self.centres).to_dense() @ self.weights
