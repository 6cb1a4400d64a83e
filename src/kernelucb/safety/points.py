r"""Points of a safe set, and the error if no point is safe."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from kernelucb._numerics.domains import checked_points
from kernelucb.exceptions import NoSafePointError

# Shares of the way from a safe point: nearly all of it for points that an optimiser left
# just outside, then ever smaller steps, and the safe point itself.
_STEPS = (
    *(1.0 - 0.5**k for k in range(50, 0, -1)),
    *(0.5**k for k in range(2, 21)),
    0.0,
)


def no_safe_point(subject: str) -> NoSafePointError:
    r"""The error that says what to do."""
    return NoSafePointError(
        f"{subject[0].upper()}{subject[1:]} is known to be safe. Give safe_points: points "
        "known to satisfy the constraints, and observe the constraints there, several "
        "times if need be, until the band around them clears the threshold. If they are "
        "given, the norm bound or the noise scale may be too loose for the threshold."
    )


def checked_safe_points(safe_points: Tensor | None, bands: Sequence[Any]) -> Tensor | None:
    r"""``m x d`` points as float64, if given, checked against the inputs of each band."""
    if safe_points is None:
        return None
    for band in bands:
        dimension = getattr(getattr(band, "regression", None), "dimension", None)
        checked_points("safe_points", safe_points, dimension)
    return safe_points.detach().double()


def path_home(outside: Tensor, anchors: Tensor) -> Tensor:
    r"""Points on the way from ``n x d`` points to the nearest of ``m x d`` anchors.

    They are ``n x s x d``; the last of each row is the anchor, to the last bit.
    """
    nearest = anchors[torch.cdist(outside, anchors).argmin(-1)].unsqueeze(-2)
    steps = outside.new_tensor(_STEPS).unsqueeze(-1)
    return nearest + steps * (outside.unsqueeze(-2) - nearest)
