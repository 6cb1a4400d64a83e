r"""Kernels that are fixed before the data, and the norm of functions under them."""

import torch
from gpytorch.kernels import Kernel, MaternKernel, RBFKernel
from torch import Tensor


def fixed_kernel(name: str, lengthscale: float) -> Kernel:
    r"""``"rbf"`` or ``"matern52"`` of unit variance, double precision."""
    kernel = {"rbf": RBFKernel, "matern52": MaternKernel}[name]()
    # GPyTorch's setters would round a number to single precision.
    kernel.double().lengthscale = torch.tensor(lengthscale, dtype=torch.float64)
    return kernel.requires_grad_(False)


def rkhs_norm(kernel: Kernel, centres: Tensor, weights: Tensor) -> Tensor:
    r"""Norm of ``sum_i weights_i k(., centres_i)``."""
    return (weights @ kernel(centres).to_dense() @ weights).sqrt()
