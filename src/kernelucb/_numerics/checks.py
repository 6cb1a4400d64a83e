r"""Checks of quantities where they enter: a typed error that says what to change.

Numbers come back as floats, estimates as well.
Scalars out of range are ``ValueError``, tensors that are none ``InputDataError``, shapes
``BotorchTensorDimensionError``, objects of another class ``UnsupportedError``.
"""

import math
import numbers
from operator import index
from typing import SupportsIndex

import torch
from botorch.exceptions import BotorchTensorDimensionError, InputDataError, UnsupportedError
from torch import Tensor

from kernelucb._numerics.estimates import Estimate, Number, is_estimate, plain

# Largest size of scalars and data, smallest size of scales: squared ratios of two, and sums
# of a million of these, then neither overflow nor vanish.
LARGEST = 1e75
SMALLEST = 1e-75
SMALLEST_PROBABILITY = 1e-300  # its reciprocal is still a number


def number(name: str, given: object) -> float:
    r"""One number: real, or a tensor of one element; True and False are none."""
    value = number = plain(given)
    if isinstance(value, Tensor):
        number = value.detach()
        real = not (value.is_complex() or value.dtype == torch.bool)
        fits = real and _is_dense(value) and value.numel() == 1
    else:  # Python counts True among the numbers
        fits = type(value) is not bool and isinstance(value, numbers.Real)
    if not fits:
        raise ValueError(f"{name} must be a number, got {value!r}.")
    try:
        return float(number)
    except OverflowError as error:
        raise ValueError(f"{name} is too large for a floating-point number.") from error


def finite_scalar(name: str, value: object) -> float:
    r"""One finite number of at most ``LARGEST`` in size."""
    result = number(name, value)
    if not math.isfinite(result):
        raise ValueError(f"{name} must be a finite number, got {result}.")
    if abs(result) > LARGEST:
        raise ValueError(f"{name} must be at most {LARGEST:g} in size, got {result:g}.")
    return result


def positive_scalar(name: str, value: object) -> float:
    r"""One number between ``SMALLEST`` and ``LARGEST``."""
    result = number(name, value)
    if not (math.isfinite(result) and result > 0.0):
        raise ValueError(f"{name} must be a finite number above 0, got {result}.")
    if not SMALLEST <= result <= LARGEST:
        raise ValueError(
            f"{name} must be between {SMALLEST:g} and {LARGEST:g}, got {result:g}: squares "
            "would overflow or vanish; change the units."
        )
    return result


def positive_number(name: str, value: object) -> Number:
    r"""One number above 0, as an estimate if it is one."""
    number = positive_scalar(name, value)
    return Estimate(number) if is_estimate(value) else number


def nonnegative_scalar(name: str, value: object) -> float:
    r"""One number from 0 to ``LARGEST``."""
    result = finite_scalar(name, value)
    if result < 0.0:
        raise ValueError(f"{name} must not be negative, got {result}.")
    return result


def probability(name: str, value: object) -> float:
    r"""One number strictly between 0 and 1, at least ``SMALLEST_PROBABILITY``."""
    result = number(name, value)
    if not 0.0 < result < 1.0:
        raise ValueError(f"{name} must lie strictly between 0 and 1, got {result}.")
    if result < SMALLEST_PROBABILITY:
        raise ValueError(
            f"{name} must be at least {SMALLEST_PROBABILITY:g}, got {result}: smaller ones "
            "cannot be told from 0."
        )
    return result


def whole_number(name: str, value: SupportsIndex) -> int:
    r"""One whole number of at least 1."""
    try:
        whole = 0 if type(value) is bool else index(value)
    except TypeError:
        whole = 0
    if whole < 1:
        raise ValueError(f"{name} must be a whole number of at least 1, got {value!r}.")
    return whole


def one_of(name: str, value: str, *options: str) -> str:
    r"""One of the words: a misspelt one must not pass for another."""
    if value not in options:
        words = [f'"{option}"' for option in options]
        raise ValueError(
            f"{name} must be {', '.join(words[:-1])} or {words[-1]}, got {value!r}."
        )
    return value


def instance_of(name: str, value: object, kind: type) -> None:
    r"""Refuse an object of another class than the one that is meant."""
    if not isinstance(value, kind):
        raise UnsupportedError(
            f"{name} must be an instance of {kind.__name__}, got {type(value).__name__}."
        )


def positive_values(name: str, value: object, count: int) -> Tensor:
    r"""``count`` plain float64 numbers above 0, from a number or a tensor."""
    value = plain(value)
    if not isinstance(value, Tensor):
        return torch.full((count,), positive_scalar(name, value), dtype=torch.float64)
    flat = tensor(name, value).detach().double().reshape(-1)
    if flat.numel() not in (1, count):
        raise BotorchTensorDimensionError(
            f"{name} must be a number or a tensor with one value per observation "
            f"({count}), got shape {tuple(value.shape)}."
        )
    for extreme in flat.aminmax():
        positive_scalar(f"Every value of {name}", extreme)
    return flat.expand(count).clone()


def tensor(name: str, value: object) -> Tensor:
    r"""A dense torch tensor of a floating type."""
    if not isinstance(value, Tensor):
        raise InputDataError(
            f"{name} must be a torch tensor, got {type(value).__name__}; convert it with "
            f"torch.as_tensor({name}, dtype=torch.float64)."
        )
    if not _is_dense(value):
        raise InputDataError(
            f"{name} must be a dense tensor, got layout {value.layout}; pass "
            f"{name}.to_dense()."
        )
    if not value.dtype.is_floating_point:
        raise InputDataError(
            f"{name} must hold floating-point numbers, got {value.dtype}; pass a float64 "
            "tensor."
        )
    return value


def finite(name: str, value: Tensor) -> Tensor:
    r"""The tensor, without NaN, infinity or values beyond ``LARGEST``."""
    size = value.detach().abs()
    # Smaller types cannot hold a value beyond LARGEST.
    safe = size <= LARGEST if value.dtype == torch.float64 else torch.isfinite(size)
    if bool(safe.all()):
        return value
    if bool(torch.isfinite(size).all()):
        raise InputDataError(
            f"{name} holds values beyond {LARGEST:g}, whose squares overflow; change the "
            "units."
        )
    raise InputDataError(
        f"{name} contains NaN or infinite values; remove those rows before building the "
        "model or the confidence bound."
    )


def as_double(values: object, name: str = "This") -> Tensor:
    r"""Float64 tensor of numbers; GPyTorch would make a Python float a float32 one."""
    try:
        return torch.as_tensor(values, dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"{name} must be numbers, got {values!r}.") from error


def training_targets(train_X: Tensor, train_Y: Tensor) -> Tensor:
    r"""The ``n`` outcomes in float64, given as ``n x 1`` or ``n``, of ``n x d`` inputs."""
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


def joint_inputs(X: Tensor, dimension: int, rows: str = "... x q") -> Tensor:
    r"""The ``... x q x d`` inputs at which a model is asked, floating-point and finite."""
    if tensor("X", X).dim() < 2 or X.shape[-1] != dimension:
        raise BotorchTensorDimensionError(
            f"X must be `{rows} x {dimension}`, got shape {tuple(X.shape)}."
        )
    return finite("X", X)


def unbatched(X: Tensor, Y: Tensor, dimension: int) -> None:
    r"""Check ``n x d`` inputs that a model is conditioned on; ``Y`` has no batch either."""
    if X.dim() > 2 or Y.dim() > 2:
        raise UnsupportedError("Condition on `n x d` inputs, without batch dimensions.")
    joint_inputs(X, dimension, "n")


def _is_dense(value: Tensor) -> bool:
    return value.layout == torch.strided and not value.is_nested
