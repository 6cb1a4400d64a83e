r"""What a BoTorch model predicts of one function."""

from typing import Any, cast

import torch
from botorch.exceptions import BotorchTensorDimensionError, UnsupportedError
from botorch.models import MultiTaskGP
from botorch.models.model import Model
from botorch.posteriors import GPyTorchPosterior
from gpytorch.kernels import Kernel
from torch import Tensor


def predicted(model: Model, X: Tensor) -> Tensor:
    r"""``2 x n`` latent means and variances at ``n x d`` inputs."""
    posterior = cast(GPyTorchPosterior, model.posterior(X))
    mean, variance = posterior.mean.reshape(-1), posterior.variance.reshape(-1)
    if len(mean) != len(X):
        raise BotorchTensorDimensionError(
            f"The model predicts {len(mean)} values at {len(X)} inputs; it must predict "
            "one outcome."
        )
    return torch.stack([mean, variance])


def check_predicts(model: Any, X: Tensor) -> None:
    r"""Refuse models without predictions, and inputs that they were not made for.

    Raises:
        UnsupportedError: If it is not a model, or also predicts derivatives.
        BotorchTensorDimensionError: If ``X`` does not have the model's ``d`` columns.
    """
    if not isinstance(model, Model):
        raise UnsupportedError(
            f"{type(model).__name__} is no BoTorch model; give one, or give predictions "
            "to observe_predictions."
        )
    width = getattr(model, "dimension", None)
    inputs = getattr(model, "_original_train_inputs", None)  # what a transform replaced
    if inputs is None:
        inputs = next(iter(getattr(model, "train_inputs", None) or ()), None)
    if isinstance(inputs, Tensor) and not isinstance(model, MultiTaskGP):
        width = inputs.shape[-1]  # a MultiTaskGP predicts with or without a task column
    columns = X.shape[-1] if X.dim() > 0 else 0
    if columns == 0 or columns != (width or columns):
        raise BotorchTensorDimensionError(
            f"X must be `n x {width or 'd'}`, got shape {tuple(X.shape)}."
        )
    kernel = getattr(model, "covar_module", None)
    if isinstance(kernel, Kernel) and (
        kernel.num_outputs_per_input(X[:1], X[:1]) > model.num_outputs
    ):
        raise UnsupportedError(
            f"The kernel {type(kernel).__name__} models several values at each input, such "
            "as derivatives; give a model of the function's value alone."
        )
