r"""Ax configurations of the models that the bounds rest on."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from ax.adapter.registry import MBM_X_trans
from ax.adapter.transforms.derelativize import Derelativize
from ax.generators.torch.botorch_modular.kernels import DefaultRBFKernel
from ax.generators.torch.botorch_modular.utils import ModelConfig, fit_botorch_model
from botorch.models import SingleTaskGP
from botorch.models.transforms.outcome import Standardize
from torch import Tensor

from kernelucb._numerics.arguments import checked
from kernelucb._numerics.checks import finite_scalar, positive_scalar
from kernelucb.ax.estimates import check_storable
from kernelucb.models.fixed import FixedPriorGP
from kernelucb.models.meta import MetaModel
from kernelucb.regression.named import KERNELS

# All that Ax may do to the data of a bound: outcomes stay as they were reported.
TRANSFORMS = [*MBM_X_trans, Derelativize]


@fit_botorch_model.register(FixedPriorGP)
@fit_botorch_model.register(MetaModel)
def _keep_the_prior(model: FixedPriorGP | MetaModel, **_: Any) -> None:
    r"""The prior was given, or estimated from earlier tasks; nothing is left to fit."""


def default_model_config() -> ModelConfig:
    r"""``SingleTaskGP``, fitted in every trial, with its outcome units kept."""
    return ModelConfig(
        botorch_model_class=SingleTaskGP,
        outcome_transform_classes=[Standardize],
        name="SingleTaskGP in outcome units",
    )


def count_model_config() -> ModelConfig:
    r"""The same for successes and counts, which may all be alike.

    BoTorch would warn of these, that they are not standardised, with its default kernel;
    this is the same one.
    """
    config = default_model_config()
    config.covar_module_class = DefaultRBFKernel
    return config


@checked
def fixed_model_config(
    kernel: str,
    lengthscale: float | Sequence[float] | Tensor | Mapping[str, float],
    *,
    outputscale: float = 1.0,
    mean: float = 0.0,
    noise_std: float | None = None,
) -> ModelConfig:
    r"""Ax configuration of a model whose prior is given and never fitted.

    Kernel and mean are then given, not estimated from the outcomes. With a number as
    ``norm_bound`` and a given noise scale (``noise_std``, or standard errors) the bound is
    certified in every trial: its theorem applies if what was given is true. The norm bound
    is one of ``f - mean`` under this kernel, output scale included, on inputs scaled to the
    unit cube.

    Args:
        kernel: ``"rbf"``, ``"matern12"``, ``"matern32"`` or ``"matern52"``.
        lengthscale: In units of the unit cube: one number for all inputs, a mapping with
            one for each parameter that is not constant (of an unordered choice it is for
            all of its values), or a list with one for each input column. They are compared
            with the search space before the first trial.
        outputscale: Prior variance, outcome units squared.
        mean: Prior mean, outcome units.
        noise_std: Noise scale, outcome units; leave it out of the options of the bound.
            When absent, a standard error must be reported with every outcome.

    Raises:
        ValueError: If the kernel is unknown, a number is out of its range, or it is an
            estimate.
    """
    if kernel not in KERNELS:
        raise ValueError(f"kernel must be one of {', '.join(KERNELS)}, got {kernel!r}.")
    if noise_std is not None:
        noise_std = positive_scalar("noise_std", noise_std)
    for name, number in {"noise_std": noise_std, "outputscale": outputscale}.items():
        check_storable(name, number)
    return ModelConfig(
        botorch_model_class=FixedPriorGP,
        model_options={
            "kernel": kernel,
            "lengthscale": _plain_scales(lengthscale),
            "outputscale": positive_scalar("outputscale", outputscale),
            "mean": finite_scalar("mean", mean),
            "noise_std": noise_std,
        },
        name=f"{kernel} kernel, fixed",
    )


def _plain_scales(
    lengthscale: float | Sequence[float] | Tensor | Mapping[str, float],
) -> float | list[float] | dict[str, float]:
    r"""Length scales as plain numbers, checked."""
    if isinstance(lengthscale, Mapping):
        if not lengthscale:
            raise ValueError("lengthscale is empty; give one for each parameter.")
        return {
            name: positive_scalar(f"lengthscale of {name}", scale)
            for name, scale in lengthscale.items()
        }
    scales = torch.as_tensor(lengthscale, dtype=torch.float64)
    if scales.dim() > 1 or scales.numel() == 0:
        raise ValueError(
            "lengthscale must be one number or one for each input column, got a tensor of "
            f"shape {tuple(scales.shape)}."
        )
    for scale in scales.reshape(-1).tolist():
        positive_scalar("lengthscale", scale)
    return scales.tolist()


@checked
def meta_model_config(model: MetaModel) -> ModelConfig:
    r"""Ax configuration of a model with an estimated prior, which Ax can store.

    Args:
        model: A ``DiscreteMetaModel``, or a ``FeatureMetaModel`` with cosine features.
    """
    return ModelConfig(
        botorch_model_class=type(model),
        model_options=model.constructor_options(),
        input_transform_classes=None,
        name=f"{type(model).__name__}, prior from {model.num_tasks} tasks",
    )
