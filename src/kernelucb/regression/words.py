r"""Kernels in words."""

from typing import Any

from gpytorch.kernels import Kernel, MaternKernel, RBFKernel, RQKernel, ScaleKernel
from torch import Tensor

# Their spectral densities are mixtures of centred Gaussians, so they fall along rays.
NESTED = (RBFKernel, MaternKernel, RQKernel)


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
