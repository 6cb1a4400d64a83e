r"""A Gaussian process whose prior and noise are given, not fitted."""

from collections.abc import Mapping, Sequence
from typing import Any

from botorch.exceptions import BotorchTensorDimensionError, InputDataError
from botorch.models import SingleTaskGP
from botorch.models.transforms.input import InputTransform
from gpytorch.constraints import GreaterThan
from gpytorch.likelihoods import GaussianLikelihood
from torch import Tensor

from kernelucb._numerics.arguments import checked
from kernelucb._numerics.checks import (
    as_double,
    positive_scalar,
    positive_values,
)
from kernelucb._numerics.estimates import is_estimate, remember_trained
from kernelucb.regression.named import constant_mean, named_kernel

# Between a choice's name and a number in the columns that Ax makes of its values.
ONE_HOT = "_OH_PARAM_"


class FixedPriorGP(SingleTaskGP):
    r"""``SingleTaskGP`` with a prior in outcome units that was fixed before the data.

    Built from names and numbers, so that Ax can store it. Nothing is trainable and outcomes
    are not standardised, so bounds count kernel and mean as given.
    """

    @checked
    def __init__(
        self,
        train_X: Tensor,
        train_Y: Tensor,
        train_Yvar: Tensor | None = None,
        input_transform: InputTransform | None = None,
        *,
        kernel: str,
        lengthscale: float | Sequence[float],
        outputscale: float = 1.0,
        mean: float = 0.0,
        noise_std: float | None = None,
    ) -> None:
        r"""Gaussian process with a given prior.

        Args:
            train_X: ``n x d`` inputs.
            train_Y: ``n x 1`` outcomes.
            train_Yvar: ``n x 1`` noise variances; ignored where ``noise_std`` is given.
            input_transform: Fixed transform of the inputs.
            kernel: ``"rbf"``, ``"matern12"``, ``"matern32"`` or ``"matern52"``.
            lengthscale: One number, or one for each of the ``d`` inputs, in their units
                after ``input_transform``.
            outputscale: Prior variance, outcome units squared.
            mean: Prior mean, outcome units.
            noise_std: Noise scale, outcome units.

        Raises:
            ValueError: If the kernel is unknown, the number of length scales is wrong, or a
                number is out of its range.
            BotorchTensorDimensionError: If ``train_X`` is not ``n x d``.
            InputDataError: If there is neither ``noise_std`` nor ``train_Yvar``.
        """
        if train_X.dim() != 2:
            raise BotorchTensorDimensionError(
                f"train_X must be `n x d`, got shape {tuple(train_X.shape)}."
            )
        likelihood = None
        if noise_std is not None:
            likelihood, train_Yvar = _likelihood(noise_std), None
        elif train_Yvar is None:
            raise InputDataError(
                "The noise is not known: give noise_std to the model, or report a standard "
                "error with every outcome."
            )
        scales = _lengthscales(lengthscale, train_X.shape[-1])
        super().__init__(
            train_X,
            train_Y,
            train_Yvar,
            likelihood=likelihood,
            covar_module=named_kernel(kernel, scales, outputscale),
            mean_module=constant_mean(mean),
            outcome_transform=None,
            input_transform=input_transform,
        )
        self.to(train_X).requires_grad_(False)

    @classmethod
    def construct_inputs(cls, training_data: Any, **options: Any) -> dict[str, Any]:
        r"""Arguments from BoTorch's or Ax's dataset and the options of the prior.

        ``lengthscale`` may be a mapping from the names of the dataset's features; that of
        a choice is for all of its one-hot columns.

        Raises:
            ValueError: If a feature has no length scale.
        """
        scales = options.get("lengthscale")
        if isinstance(scales, Mapping):
            names = parameters_of_columns(training_data.feature_names)
            if missing := [name for name in names if name not in scales]:
                raise ValueError(f"lengthscale has no entry for {missing[0]}.")
            options = {**options, "lengthscale": [scales[name] for name in names]}
        return {**super().construct_inputs(training_data), **options}


def parameters_of_columns(columns: Sequence[str]) -> list[str]:
    r"""For each input column the parameter that Ax has made it of."""
    parts = [column.rpartition(ONE_HOT) for column in columns]
    return [
        name if infix and number.isdigit() else column
        for column, (name, infix, number) in zip(columns, parts, strict=True)
    ]


def _lengthscales(value: float | Sequence[float], dimension: int) -> Tensor:
    r"""``1 x 1`` or ``1 x d`` length scales."""
    scales = as_double(value).reshape(1, -1)
    count = scales.numel()
    if count not in (1, dimension):
        raise ValueError(f"lengthscale has {count} entries for {dimension} input columns.")
    positive_values("lengthscale", scales, count)
    return scales


def _likelihood(noise_std: float) -> GaussianLikelihood:
    module = GaussianLikelihood(noise_constraint=GreaterThan(0.0)).double()
    module.noise = as_double(positive_scalar("noise_std", noise_std)).square()
    if is_estimate(noise_std):
        remember_trained(module, frozenset({"noise"}))
    return module
