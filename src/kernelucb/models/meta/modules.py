r"""GPyTorch means and kernels with explicit features."""

from typing import Any

import torch
from botorch.exceptions import (
    BotorchTensorDimensionError,
    InputDataError,
    UnsupportedError,
)
from gpytorch.kernels import Kernel
from gpytorch.means import Mean
from torch import Tensor
from torch.nn import Module

from kernelucb._numerics.checks import finite, tensor

# An input is a candidate if it agrees with it to this share of each column's range: wide
# enough for a single-precision copy.
_SAME = 1e-6
# What a module raises for inputs that it was not made for.
_CALL_ERRORS = (AttributeError, LookupError, RuntimeError, TypeError, ValueError)


class Lookup(Module):
    r"""Rows of a table for inputs that are rows of ``candidates``.

    Args:
        candidates: ``M x d`` distinct inputs.
        table: ``M x r`` values.
    """

    candidates: Tensor
    table: Tensor

    def __init__(self, candidates: Tensor, table: Tensor) -> None:
        super().__init__()
        self.register_buffer("candidates", candidates)
        self.register_buffer("table", table)

    def index(self, X: Tensor) -> Tensor:
        r"""Positions of ``... x d`` inputs among the candidates.

        Raises:
            InputDataError: If an input is not one of them.
        """
        scale = self.candidates.amax(0) - self.candidates.amin(0)
        scale = torch.where(scale > 0, scale, 1.0)
        rows = X.detach().to(self.candidates).reshape(-1, X.shape[-1])
        distances = torch.cdist(rows / scale, self.candidates / scale, p=torch.inf)
        nearest, index = distances.min(-1)
        if bool((nearest > _SAME).any()):
            row = rows[int(nearest.argmax())].tolist()
            raise InputDataError(
                f"The input {row} is not one of the model's candidates, and the prior is "
                "known at these alone. Use optimize_acqf_discrete, or FeatureMetaModel for "
                "a continuous domain."
            )
        return index.reshape(X.shape[:-1])

    def forward(self, X: Tensor) -> Tensor:
        r"""``... x r`` rows of the table for ``... x d`` inputs."""
        return self.table[self.index(X)]


def features_at(features: Module, inputs: Tensor) -> Tensor:
    r"""``n x K`` features of ``n x d`` inputs by a module that a user gave, checked.

    Raises:
        UnsupportedError: If it does not map a tensor to a tensor.
        BotorchTensorDimensionError: If the result is not ``n x K``.
        InputDataError: If a value is not finite.
    """
    wanted = "features must map `n x d` inputs to `n x K` values"
    name, shape = type(features).__name__, tuple(inputs.shape)
    try:
        values = features(inputs)
    except _CALL_ERRORS as error:
        raise UnsupportedError(
            f"{wanted}; {name} does not take inputs of shape {shape}: {error}"
        ) from error
    if not isinstance(values, Tensor):
        raise UnsupportedError(f"{wanted}; {name} gives {type(values).__name__}.")
    tensor("features(task_inputs)", values)
    if values.dim() != 2 or len(values) != len(inputs) or values.numel() == 0:
        raise BotorchTensorDimensionError(
            f"{wanted}, got shape {tuple(values.shape)} for {shape}."
        )
    return finite("features(task_inputs)", values)


class Combined(Module):
    r"""``features(x) @ weights``: ``... x r`` values for ``... x d`` inputs.

    Args:
        features: Maps ``... x d`` inputs to ``... x K`` values.
        weights: ``K x r`` matrix.
    """

    weights: Tensor

    def __init__(self, features: Module, weights: Tensor) -> None:
        super().__init__()
        self.features = features
        self.register_buffer("weights", weights)

    def forward(self, X: Tensor) -> Tensor:
        r"""Linear combinations of the features."""
        return self.features(X) @ self.weights


class FeatureMean(Mean):
    r"""Mean given by the one output of a module."""

    features: Module

    def __init__(self, features: Module) -> None:
        super().__init__()
        self.features = features

    def forward(self, x: Tensor) -> Tensor:
        r"""``... x n`` means of ``... x n x d`` inputs."""
        return self.features(x).squeeze(-1)


class FeatureKernel(Kernel):
    r"""``k(x, x') = psi(x)^T psi(x')`` for the outputs ``psi`` of a module."""

    features: Module

    def __init__(self, features: Module) -> None:
        super().__init__()
        self.features = features

    def forward(
        self,
        x1: Tensor,
        x2: Tensor,
        diag: bool = False,
        last_dim_is_batch: bool = False,
        **params: Any,
    ) -> Tensor:
        r"""``... x n x m`` covariances, or their diagonal."""
        left, right = self.features(x1), self.features(x2)
        return (left * right).sum(-1) if diag else left @ right.mT
