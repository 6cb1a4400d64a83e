r"""Kernels and means from names and numbers, which can be stored; kernels in words."""

from collections.abc import Sequence
from typing import Any

from botorch.exceptions import BotorchTensorDimensionError
from gpytorch.kernels import Kernel, MaternKernel, RBFKernel, RQKernel, ScaleKernel
from gpytorch.means import ConstantMean, Mean
from torch import Tensor

from kernelucb._numerics.checks import (
    as_double,
    finite_scalar,
    positive_scalar,
    positive_values,
)
from kernelucb._numerics.estimates import is_estimate, remember_trained

_SMOOTHNESS = {"matern12": 0.5, "matern32": 1.5, "matern52": 2.5}
KERNELS = ("rbf", *_SMOOTHNESS)
# Their spectral densities are mixtures of centred Gaussians, so they fall along rays.
NESTED = (RBFKernel, MaternKernel, RQKernel)


def named_kernel(name: str, lengthscales: Tensor, outputscale: float) -> ScaleKernel:
    r"""A frozen kernel by name, with ``1 x 1`` or ``1 x d`` length scales, a variance."""
    if name not in KERNELS:
        raise ValueError(f"kernel must be one of {', '.join(KERNELS)}, got {name!r}.")
    columns = lengthscales.shape[1] if lengthscales.shape[1] > 1 else None
    base: Kernel = RBFKernel(ard_num_dims=columns)
    if name in _SMOOTHNESS:
        base = MaternKernel(nu=_SMOOTHNESS[name], ard_num_dims=columns)
    scaled = ScaleKernel(base).double()
    base.lengthscale = lengthscales
    scaled.outputscale = as_double(positive_scalar("outputscale", outputscale))
    if is_estimate(outputscale):
        remember_trained(scaled, frozenset({"raw_outputscale"}))
    return scaled.requires_grad_(False)


def fixed_kernel(
    name: str, lengthscale: float | Sequence[float] | Tensor | None, outputscale: float
) -> ScaleKernel:
    r"""A frozen kernel from its name and one length scale, or one for each column."""
    if lengthscale is None:
        raise ValueError(f'kernel="{name}" needs the option `lengthscale`.')
    lengths = as_double(lengthscale).reshape(1, -1)
    if lengths.numel() == 0:
        raise ValueError("lengthscale is empty; give one number, or one for each input.")
    positive_values("lengthscale", lengths.reshape(-1), lengths.numel())
    return named_kernel(name, lengths, outputscale)


def check_lengths(
    lengthscale: float | Sequence[float] | Tensor | None, inputs: Tensor
) -> None:
    r"""Refuse another number of length scales than ``n x d'`` inputs have columns."""
    columns = inputs.shape[-1]
    count = 1 if lengthscale is None else as_double(lengthscale).numel()
    if count not in (1, columns):
        raise BotorchTensorDimensionError(
            f"lengthscale has {count} entries; the kernel's inputs have {columns} columns."
        )


def fixed_mean(value: float | Mean | None) -> Mean | None:
    r"""A mean as given, or a constant one, estimated if ``value`` is; zero is None."""
    if value is None or isinstance(value, Mean):
        return value
    if value == 0.0 and not is_estimate(value):
        return None
    module = ConstantMean().double()
    module.constant = as_double(finite_scalar("mean", value))
    if is_estimate(value):
        remember_trained(module, frozenset({"raw_constant"}))
    return module.requires_grad_(False)


def kernel_in_words(kernel: Kernel) -> str:
    r"""``"RBF, length scale 0.4"``, or the name of the class."""
    base: Any = unscaled(kernel)
    if type(base) not in NESTED:
        return type(kernel).__name__
    return f"{kind_of(base)}, length scale {in_words(base.lengthscale.reshape(-1))}"


def unscaled(kernel: Any) -> Any:
    r"""The kernel without its output scales."""
    while type(kernel) is ScaleKernel:
        kernel = kernel.base_kernel
    return kernel


def kind_of(base: Any) -> str:
    r"""``"RBF"``, ``"Matern 5/2"`` or ``"rational quadratic"``."""
    if type(base) is MaternKernel:
        return f"Matern {int(2 * base.nu)}/2"
    return "RBF" if type(base) is RBFKernel else "rational quadratic"


def in_words(values: Tensor) -> str:
    r"""One number where all are the same, otherwise ``"(0.1, 0.2)"``."""
    texts = [f"{value:.4g}" for value in values.tolist()]
    return texts[0] if len(set(texts)) == 1 else f"({', '.join(texts)})"
