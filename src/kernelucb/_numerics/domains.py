r"""Checks of the domains that users give: points and boxes."""

from botorch.exceptions import BotorchTensorDimensionError, InputDataError
from torch import Tensor

from kernelucb._numerics.checks import finite, tensor


def check_one_domain(candidates: Tensor | None, bounds: Tensor | None) -> None:
    r"""Refuse two domains, and none."""
    if (candidates is None) == (bounds is None):
        raise ValueError("The domain: give either candidates or bounds.")


def checked_points(name: str, X: Tensor, dimension: int | None = None) -> Tensor:
    r"""Return ``n x d`` points in float64, at least one and all finite.

    ``name`` is for the message; ``dimension`` is ``d``, or None where any will do.
    """
    shape = tuple(tensor(name, X).shape)
    if len(shape) != 2 or shape[1] != (dimension or shape[1]):
        raise BotorchTensorDimensionError(
            f"{name} must be `n x {dimension or 'd'}`, got shape {shape}."
        )
    if len(X) == 0:
        raise InputDataError(f"There are no {name}; give at least one point.")
    return finite(name, X).detach().double()


def checked_box(bounds: Tensor, dimension: int | None = None) -> Tensor:
    r"""Return ``2 x d`` limits of a box in float64, finite, each lower one below its upper.

    ``dimension`` is ``d``, or None where any will do.
    """
    shape = tuple(tensor("bounds", bounds).shape)
    if len(shape) != 2 or shape != (2, dimension or shape[1]):
        raise BotorchTensorDimensionError(
            f"bounds must be `2 x {dimension or 'd'}`, got shape {shape}."
        )
    if not bool((finite("bounds", bounds)[0] < bounds[1]).all()):
        raise ValueError("Every lower limit in bounds must be below its upper limit.")
    return bounds.detach().double()
