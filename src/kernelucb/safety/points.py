r"""Points as the safe set takes them, and the error where none is safe."""

from collections.abc import Sequence
from typing import Any

from botorch.exceptions import BotorchTensorDimensionError
from torch import Tensor

from kernelucb._numerics.checks import finite, tensor
from kernelucb.exceptions import NoSafePointError


def no_safe_point(subject: str) -> NoSafePointError:
    r"""The error that says what to do."""
    return NoSafePointError(
        f"{subject[0].upper()}{subject[1:]} is known to be safe. Give safe_points: points "
        "known to satisfy the constraints, and observe the constraints there, several "
        "times if need be, until the band around them clears the threshold. If they are "
        "given, the norm bound or the noise scale may be too loose for the threshold."
    )


def rows_of(X: Tensor) -> Tensor:
    r"""Points as float64 rows: a margin rounded to float32 could be on the wrong side."""
    if tensor("X", X).dim() < 1 or X.shape[-1] == 0:
        raise BotorchTensorDimensionError(
            f"X must be `... x d` with d >= 1, got shape {tuple(X.shape)}."
        )
    return X.reshape(-1, X.shape[-1]).double()


def checked_points(safe_points: Tensor | None, bands: Sequence[Any]) -> Tensor | None:
    r"""``m x d`` points as float64, if there are any, of the width that the bands take.

    Raises:
        BotorchTensorDimensionError: If the shape is another.
        InputDataError: If they are no tensor, or a value is not finite.
    """
    if safe_points is None:
        return None
    if tensor("safe_points", safe_points).dim() != 2 or len(safe_points) == 0:
        raise BotorchTensorDimensionError(
            f"safe_points must be `m x d` with m >= 1, got {tuple(safe_points.shape)}."
        )
    states = (getattr(band, "regression", None) for band in bands)
    for state in states:
        dimension = getattr(state, "dimension", safe_points.shape[1])
        if safe_points.shape[1] != dimension:
            raise BotorchTensorDimensionError(
                f"safe_points have {safe_points.shape[1]} columns; the bands take "
                f"{dimension}."
            )
    return finite("safe_points", safe_points).detach().double()
