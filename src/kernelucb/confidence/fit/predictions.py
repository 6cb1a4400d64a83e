r"""What a BoTorch model predicts of one function."""

from typing import Any

import torch
from botorch.exceptions import BotorchTensorDimensionError, UnsupportedError
from botorch.models import MultiTaskGP
from botorch.models.model import Model
from botorch.models.utils import gpt_posterior_settings
from botorch.posteriors import TransformedPosterior
from gpytorch.kernels import Kernel
from gpytorch.models import ExactGP
from torch import Tensor


def predicted(model: Model | ExactGP, X: Tensor) -> Tensor:
    r"""``2 x n`` latent means and variances at ``n x d`` inputs.

    Raises:
        UnsupportedError: If they are not Gaussian in outcome units.
    """
    if isinstance(model, Model):
        posterior: Any = model.posterior(X)
    else:  # by GPyTorch, which calls its posterior this
        model.eval()
        with gpt_posterior_settings():
            posterior = model(X)
    if isinstance(posterior, TransformedPosterior):
        raise UnsupportedError(
            "The model predicts outcomes through an outcome transform such as Log, and the "
            "radius is of Gaussian predictions. Give those of the transformed outcome to "
            "observe_predictions."
        )
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
    if not isinstance(model, Model | ExactGP):
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
        kernel.num_outputs_per_input(X[:1], X[:1]) > getattr(model, "num_outputs", 1)
    ):
        raise UnsupportedError(
            f"The kernel {type(kernel).__name__} models several values at each input, such "
            "as derivatives; give a model of the function's value alone."
        )
