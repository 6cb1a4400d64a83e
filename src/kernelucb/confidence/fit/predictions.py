r"""What a BoTorch model predicts of one function, and where."""

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

from kernelucb._numerics import states
from kernelucb._numerics.checks import LARGEST, as_double, finite
from kernelucb.exceptions import StateError
from kernelucb.regression import KernelRegression, NystromRegression
from kernelucb.regression.likelihood.regression import LikelihoodRegression

Rows = list[list[float]]
ROUNDED = 1e-6  # largest error of numbers that were transformed in single precision


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


def rows_of(X: Tensor, count: int, earlier: Rows) -> Rows:
    r"""Inputs as plain numbers, one for each of ``count`` outcomes.

    Raises:
        BotorchTensorDimensionError: If they are not so many, or other than earlier ones.
        InputDataError: If a number is not finite.
    """
    rows = X.reshape(-1, X.shape[-1]) if X.numel() > 0 and X.dim() > 0 else X
    width = len(earlier[0]) if earlier else rows.shape[-1:].numel()
    if rows.shape != (count, width):
        wanted = len(earlier[0]) if earlier else "d"
        raise BotorchTensorDimensionError(
            f"X must be `n x {wanted}` with n = {count}, got shape {tuple(X.shape)}."
        )
    return finite("X", rows).detach().double().cpu().tolist()


def same_inputs(rows: Rows, data: KernelRegression | LikelihoodRegression) -> bool:
    r"""Whether data were observed at these inputs, in this order, up to rounding."""
    if any(len(row) != data.dimension for row in rows):
        return False
    inputs = data.train_inputs
    own = data.prior.transform(as_double(rows).to(inputs.device))
    return bool(((own - inputs).abs() <= ROUNDED * inputs.abs().amax(0)).all())


def same_sums(rows: Rows, outcomes: Tensor, sketch: NystromRegression) -> bool:
    r"""Whether the sums that a sketch keeps are those of ``n`` outcomes at these inputs.

    Precisions times residuals, added up alone and times inputs and their squares: of
    outcomes at each other's inputs these differ, of the same in another order they do not.
    """
    if any(len(row) != sketch.dimension for row in rows):
        return False
    inputs, _, responses = sketch.sums.rows
    own = sketch.prior.transform(as_double(rows).to(inputs.device))
    residuals = outcomes.to(own) - sketch.prior.mean(own)
    mine = own, residuals / sketch.noise_scales.square()
    (sums, sizes), (others, _) = map(_moments, *zip(mine, (inputs, responses), strict=True))
    return bool(((sums - others).abs() <= ROUNDED * sizes).all())


def _moments(inputs: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    r"""Weighted sums of ones, inputs and their squares, and the same of absolute values."""
    powers = torch.cat([torch.ones_like(inputs[:, :1]), inputs, inputs.square()], -1)
    return weights @ powers, weights.abs() @ powers.abs()


def saved_rows(name: str, value: Any) -> Rows:
    r"""Reader of inputs from a saved state, all of the same number of columns."""
    rows: Rows = states.sequence(states.sequence(states.real(-LARGEST, LARGEST)))(
        name, value
    )
    if len({*map(len, rows)}) > 1:
        raise StateError(f"{name} must be rows of the same number of columns.")
    return rows


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
