r"""Grids of ridge parameters for the dual bound."""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from kernelucb._numerics.checks import positive_values

# Flynn & Reeb's grid of ridge parameters, in multiples of noise_std^2 / covariance_scale.
_PAPER_GRID = (0.1, 0.3, 1.0, 3.0, 10.0)
# Multiples of the problem's own scale beyond which one constraint alone matters.
_RANGE_BELOW, _RANGE_ABOVE = 1e-12, 1e8


def grid_regularizers(
    alphas: Sequence[float] | Tensor | float | Literal["paper"],
    tau_ref: float,
    noise_variance: float,
) -> Tensor:
    r"""A grid of regularisers ``tau``, multiples of the noise variance.

    ``alphas`` are ridge parameters in outcome units squared, or ``"paper"`` for the grid
    around ``tau_ref = 1 / covariance_scale``.

    Raises:
        ValueError: If a ridge parameter is not a finite number above zero.
    """
    if isinstance(alphas, str):
        if alphas != "paper":
            raise ValueError(
                f'alphas must be a tensor, a number, "paper" or None, got {alphas!r}.'
            )
        return tau_ref * torch.tensor(_PAPER_GRID, dtype=torch.float64)
    grid = torch.as_tensor(alphas, dtype=torch.float64).reshape(-1)
    if grid.numel() == 0:
        raise ValueError("alphas must hold at least one number.")
    return positive_values("alphas", grid, grid.numel()) / noise_variance


def regularizer_range(
    scale: float, largest: float, eigenvalue_cutoff: float
) -> tuple[float, float]:
    r"""Smallest and largest ``tau`` worth trying for the exact bound.

    ``scale`` is the squared radius over the squared norm bound, ``largest`` the largest
    eigenvalue of the whitened kernel matrix.
    """
    lower = max(eigenvalue_cutoff, _RANGE_BELOW * scale)
    return lower, _RANGE_ABOVE * max(largest, scale, lower)
