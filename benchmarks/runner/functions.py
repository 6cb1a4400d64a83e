r"""Kernels that are fixed before the data, and the norm of functions under them."""

import torch
from gpytorch.kernels import Kernel, MaternKernel, RBFKernel
from torch import Tensor


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
