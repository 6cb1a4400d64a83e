r"""Arms played and their outcomes, as they are given."""

from typing import Any

import torch
from botorch.exceptions import BotorchTensorDimensionError, InputDataError
from torch import Tensor

from kernelucb._numerics.checks import finite


def read_plays(arms: Any, outcomes: Any, like: Tensor) -> tuple[Tensor, Tensor]:
    r"""Indices and outcomes as vectors of the same length.

    Args:
        arms: One index or several.
        outcomes: One number or several.
        like: A value for each arm there is.

    Raises:
        BotorchTensorDimensionError: If there are not as many outcomes as arms.
        InputDataError: If an outcome is not finite, or an arm does not exist.
    """
    index = _vector("arms", arms).to(like.device)
    values = finite("outcomes", _vector("outcomes", outcomes, torch.float64)).to(like)
    if len(index) != len(values) or len(index) == 0:
        raise BotorchTensorDimensionError(
            f"observe takes as many outcomes as arms, got {len(values)} and {len(index)}."
        )
    whole = index.dtype in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
    if not whole or not _inside(index.long(), len(like)):
        raise InputDataError(f"Arms are whole numbers from 0 to {len(like) - 1}.")
    return index.long(), values


def _inside(index: Tensor, count: int) -> bool:
    return bool(((index >= 0) & (index < count)).all())


def _vector(name: str, values: Any, dtype: torch.dtype | None = None) -> Tensor:
    if isinstance(values, Tensor) and values.is_complex():
        raise InputDataError(f"{name} must be real numbers, got {values.dtype}.")
    try:
        return torch.as_tensor(values, dtype=dtype).detach().reshape(-1)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise InputDataError(f"{name} must be real numbers: {error}") from error
