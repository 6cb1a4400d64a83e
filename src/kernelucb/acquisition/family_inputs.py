r"""A family of kernels described by names and numbers, which Ax can store."""

from collections.abc import Sequence
from inspect import signature
from typing import Any

import torch
from botorch.models.model import Model
from gpytorch.kernels import Kernel

from kernelucb._numerics.arguments import checked
from kernelucb.regression import KernelRegression
from kernelucb.regression.kernel_family import (
    Lengths,
    LengthscaleFamily,
    lengthscale_family,
)
from kernelucb.regression.named import fixed_mean, named_kernel

_ENDS = ("shortest", "longest")


@checked
def family_inputs(
    model: Model | KernelRegression,
    *,
    kernels: Sequence[Kernel] | None = None,
    shortest: Lengths | None = None,
    longest: Lengths | None = None,
    kernel: str | Sequence[str] = "rbf",
    ratio: float = 2.0,
    each_coordinate: bool = False,
    outputscale: float = 1.0,
    mean: float = 0.0,
    **options: Any,
) -> dict[str, Any]:
    r"""Arguments of ``KernelFamilyUCB`` from the kernels, or from their description.

    Args:
        model: See ``KernelFamilyUCB``.
        kernels: The family, instead of all that describes it.
        shortest: See ``KernelFamilyUCB.from_lengthscales``, as for all that follow.
        longest: Longest length scale.
        kernel: Names.
        ratio: Largest ratio between neighbours.
        each_coordinate: Whether each coordinate has a length scale of its own.
        outputscale: Prior variance.
        mean: Prior mean, instead of ``mean_module``.
        options: Further arguments of ``KernelFamilyUCB``.

    Raises:
        ValueError: If there are both kernels and a description, or neither; a mean and a
            ``mean_module``; or a name or number is out of its range.
    """
    if kernels is None:
        kernels = _described(shortest, longest, kernel, ratio, each_coordinate, outputscale)
    else:
        described = {"shortest": shortest, "longest": longest, "kernel": kernel}
        described |= {"ratio": ratio, "each_coordinate": each_coordinate}
        _refuse_both(described | {"outputscale": outputscale})
    arguments = {"model": model, "kernels": kernels, **options}
    if mean != 0.0:
        if options.get("mean_module") is not None:
            raise ValueError("Both mean and mean_module are given; leave one of them out.")
        arguments["mean_module"] = fixed_mean(mean)
    return arguments


def _described(
    shortest: Lengths | None,
    longest: Lengths | None,
    kernel: str | Sequence[str],
    ratio: float,
    each_coordinate: bool,
    outputscale: float,
) -> LengthscaleFamily:
    if shortest is None or longest is None:
        raise ValueError(
            "KernelFamilyUCB needs the option `kernels`, or `shortest` and `longest`."
        )
    names = [kernel] if isinstance(kernel, str) else kernel
    one = torch.ones(1, 1, dtype=torch.float64)
    bases = [named_kernel(name, one, outputscale) for name in names]
    return lengthscale_family(
        bases, shortest, longest, ratio, each_coordinate=each_coordinate
    )


def _refuse_both(described: dict[str, Any]) -> None:
    r"""What describes a family would be ignored where the kernels are there."""
    defaults = signature(family_inputs).parameters
    for name, value in described.items():
        given = value is not None if name in _ENDS else value != defaults[name].default
        if given:
            raise ValueError(
                f"Both kernels and {name} are given; leave out `kernels`, or all that "
                "describes them (shortest, longest, kernel, ratio, each_coordinate, "
                "outputscale)."
            )
