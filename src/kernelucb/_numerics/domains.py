r"""Checks of the domains that users give: points and boxes."""

from botorch.exceptions import BotorchTensorDimensionError, InputDataError
from torch import Tensor

from kernelucb._numerics.checks import finite, tensor


def check_one_domain(**domains: object) -> None:
    r"""Refuse two domains, and none; each under the name of its argument."""
    if sum(each is not None for each in domains.values()) != 1:
        raise ValueError(f"The domain: give either {' or '.join(domains)}.")


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


def checked_limits(bounds: Tensor, dimension: int | None = None) -> Tensor:
    r"""Return ``2 x d`` limits in float64, finite; ``dimension`` as for points."""
    shape = tuple(tensor("bounds", bounds).shape)
    if len(shape) != 2 or shape != (2, dimension or shape[1]):
        raise BotorchTensorDimensionError(
            f"bounds must be `2 x {dimension or 'd'}`, got shape {shape}."
        )
    return finite("bounds", bounds).detach().double()


def checked_box(bounds: Tensor, dimension: int | None = None) -> Tensor:
    r"""Return ``2 x d`` limits of a box as above, each lower one below its upper one."""
    limits = checked_limits(bounds, dimension)
    if not bool((limits[0] < limits[1]).all()):
        raise ValueError("Every lower limit in bounds must be below its upper limit.")
    return limits
