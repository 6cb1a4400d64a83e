r"""Kernels described by names and numbers, which Ax can store: one, or a family."""

from collections.abc import Sequence
from inspect import signature
from typing import Any

import torch
from botorch.models.model import Model
from gpytorch.kernels import Kernel

from kernelucb._numerics.arguments import checked
from kernelucb.confidence.unknown_noise import UnknownNoise
from kernelucb.regression import KernelRegression
from kernelucb.regression.family_data import NoisyData
from kernelucb.regression.kernel_family import (
    Lengths,
    LengthscaleFamily,
    lengthscale_family,
)
from kernelucb.regression.likelihood.regression import LikelihoodRegression
from kernelucb.regression.named import (
    check_lengths,
    fixed_kernel,
    fixed_mean,
    named_kernel,
)

_ENDS = ("shortest", "longest")


@checked
def kernel_inputs(
    model: Model | KernelRegression,
    *,
    kernel: str | None = None,
    lengthscale: Lengths | None = None,
    outputscale: float = 1.0,
    mean: float = 0.0,
    **options: Any,
) -> dict[str, Any]:
    r"""Arguments of a bound whose kernel and mean may be its own instead of the model's.

    The model is then the data alone, so it may be fitted anew in every round, for a search
    that runs on it, while the bound's prior was fixed before the data.

    Args:
        model: A single-output exact GP (``SingleTaskGP``) or a ``KernelRegression``.
        kernel: ``"rbf"``, ``"matern12"``, ``"matern32"`` or ``"matern52"``; when absent
            kernel and mean are those of the model.
        lengthscale: With a kernel: one number, or one for each column of the model's
            inputs, in their units after its input transform.
        outputscale: Prior variance, outcome units squared.
        mean: Prior mean, outcome units.
        options: Further arguments of the bound.

    Raises:
        ValueError: If the kernel is unknown or without length scale, a number is out of
            its range, or what describes a kernel comes without one.
        BotorchTensorDimensionError: If there is another number of length scales.
    """
    if kernel is None:
        if lengthscale is not None or outputscale != 1.0 or mean != 0.0:
            raise ValueError(
                "lengthscale, outputscale and mean go with the name of a kernel; give one, "
                'such as kernel="matern52", or leave them out.'
            )
        return {"model": model, **options}
    noise = options.get("noise_std")
    known = None if isinstance(noise, UnknownNoise) else noise
    chosen = fixed_kernel(kernel, lengthscale, outputscale)
    data = NoisyData.of(model, known)
    check_lengths(lengthscale, data.inputs)
    prior = data.prior(chosen, fixed_mean(mean))
    state = data.under(prior, frozenset[str](), data.pooled(prior))
    return {"model": state, **options}


@checked
def family_inputs(
    model: Model | KernelRegression | LikelihoodRegression,
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
