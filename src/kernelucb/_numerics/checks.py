r"""Checks of user input: a typed error that says what to change."""

import math
import numbers
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from botorch.exceptions import BotorchTensorDimensionError, InputDataError
from torch import Tensor

from kernelucb._numerics.estimates import EstimatedNumber


def finite_scalar(name: str, value: object) -> float:
    r"""Return ``value`` as a float if it is one finite number.

    Raises:
        ValueError: Otherwise.
    """
    number = _as_float(name, value)
    if not math.isfinite(number):
        raise ValueError(f"{name} must be a finite number, got {number}.")
    return number


def positive_scalar(name: str, value: object) -> float:
    r"""Return ``value`` as a float if it is one finite number above zero.

    Raises:
        ValueError: Otherwise.
    """
    number = _as_float(name, value)
    if not (math.isfinite(number) and number > 0.0):
        raise ValueError(f"{name} must be a finite number above 0, got {number}.")
    return number


def probability(name: str, value: object) -> float:
    r"""Return ``value`` as a float if it lies strictly between zero and one.

    Raises:
        ValueError: Otherwise.
    """
    number = _as_float(name, value)
    if not 0.0 < number < 1.0:
        raise ValueError(f"{name} must lie strictly between 0 and 1, got {number}.")
    return number


def whole_number(name: str, value: object) -> int:
    r"""Return ``value`` if it is a whole number of at least one.

    Raises:
        ValueError: Otherwise.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name} must be a whole number of at least 1, got {value!r}.")
    return value


def positive_values(name: str, value: object, count: int) -> Tensor:
    r"""Return ``value`` as ``count`` float64 numbers above zero.

    Args:
        name: The argument's name, for the message.
        value: A number, or a tensor with one or ``count`` elements.
        count: How many numbers are wanted.

    Raises:
        ValueError: If a number is not finite and above zero.
        BotorchTensorDimensionError: If a tensor has another number of elements.
    """
    if not isinstance(value, Tensor):
        return torch.full((count,), positive_scalar(name, value), dtype=torch.float64)
    flat = value.detach().double().reshape(-1)
    if flat.numel() not in (1, count):
        raise BotorchTensorDimensionError(
            f"{name} must be a number or a tensor with one value per observation "
            f"({count}), got shape {tuple(value.shape)}."
        )
    if not bool((torch.isfinite(flat) & (flat > 0)).all()):
        raise ValueError(f"{name} must hold finite numbers above 0.")
    return flat.expand(count).clone()


def tensor(name: str, value: object) -> Tensor:
    r"""Return ``value`` if it is a torch tensor.

    Raises:
        InputDataError: Otherwise.
    """
    if not isinstance(value, Tensor):
        raise InputDataError(
            f"{name} must be a torch tensor, got {type(value).__name__}; convert it with "
            f"torch.as_tensor({name}, dtype=torch.float64)."
        )
    return value


def finite(name: str, value: Tensor) -> Tensor:
    r"""Return ``value`` if it has no NaN or infinity.

    Raises:
        InputDataError: Otherwise.
    """
    if not bool(torch.isfinite(value).all()):
        raise InputDataError(
            f"{name} contains NaN or infinite values; remove those rows before "
            "building the model or the confidence bound."
        )
    return value


def training_targets(train_X: Tensor, train_Y: Tensor) -> Tensor:
    r"""Return the outcomes as ``n`` float64 values if inputs and outcomes fit together.

    Args:
        train_X: ``n x d`` inputs.
        train_Y: ``n x 1`` or ``n`` outcomes.

    Raises:
        BotorchTensorDimensionError: If the shapes do not fit together.
        InputDataError: If there are no data, or they are not finite.
    """
    if tensor("train_X", train_X).dim() != 2:
        raise BotorchTensorDimensionError(
            f"train_X must be `n x d`, got shape {tuple(train_X.shape)}."
        )
    if tensor("train_Y", train_Y).shape not in ((len(train_X),), (len(train_X), 1)):
        raise BotorchTensorDimensionError(
            f"train_Y must be `n x 1` or `n` with n = {len(train_X)}, got shape "
            f"{tuple(train_Y.shape)}."
        )
    if len(train_X) == 0:
        raise InputDataError(
            "There are no observations; a confidence bound needs at least one."
        )
    finite("train_X", train_X)
    return finite("train_Y", train_Y).detach().double().reshape(-1)


def _as_float(name: str, value: object) -> float:
    if isinstance(value, Tensor) and value.numel() == 1:
        return float(value.detach())
    if isinstance(value, EstimatedNumber):
        return value
    if isinstance(value, numbers.Real) and not isinstance(value, bool):
        return float(value)
    raise ValueError(f"{name} must be a number, got {value!r}.")


def same_keys(state_dict: Mapping[str, Any], own: Mapping[str, Any]) -> None:
    r"""Check that a saved state has the keys of the object's own.

    Raises:
        ValueError: Otherwise.
    """
    if state_dict.keys() != own.keys():
        raise ValueError(
            f"The state must have the keys {', '.join(own)}; got "
            f"{', '.join(map(str, state_dict))}."
        )


def same_tracker(
    state_dict: Mapping[str, Any], own: Mapping[str, Any], arguments: Sequence[str]
) -> None:
    r"""Check that a saved tracker's state fits a tracker with the state ``own``.

    Raises:
        ValueError: If keys are missing or unknown, or one of the arguments differs.
    """
    same_keys(state_dict, own)
    for name in arguments:
        if state_dict[name] != own[name]:
            raise ValueError(
                f"The saved tracker has {name} = {state_dict[name]}, this one "
                f"{own[name]}; build it with the saved arguments."
            )
