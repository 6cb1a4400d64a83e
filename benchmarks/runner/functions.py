r"""Kernels that are fixed before the data, and functions whose norm is known."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from botorch.utils.sampling import draw_sobol_samples
from gpytorch.kernels import Kernel, MaternKernel, RBFKernel
from scipy.optimize import minimize
from torch import Tensor

_SEARCHED, _REFINED = 4096, 5  # points at which the largest value is looked for


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
    cube = torch.zeros(2, known.shape[-1], dtype=torch.float64)
    cube[1] = 1.0
    points = draw_sobol_samples(cube, n=_SEARCHED, q=1, seed=0).squeeze(-2)
    points = torch.cat([points, known])
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
