r"""Ridge parameters of the bounds: one with a closed form, a grid, or all of a range."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from kernelucb._numerics.arrays import safe_sqrt
from kernelucb._numerics.checks import positive_scalar, positive_values
from kernelucb.confidence.assumptions import Assumptions
from kernelucb.confidence.base import RidgeStateT
from kernelucb.confidence.geometry import Constraints
from kernelucb.confidence.ridge_band import RidgeBand

# Flynn & Reeb's grid of ridge parameters, in multiples of noise_std^2 / covariance_scale.
_PAPER_GRID = (0.1, 0.3, 1.0, 3.0, 10.0)
# Multiples of the problem's own scale beyond which one constraint alone matters.
_RANGE_BELOW, _RANGE_ABOVE = 1e-12, 1e8


@dataclass(frozen=True)
class Analytic:
    r"""The closed form at one ridge parameter.

    Source: Flynn & Reeb (2024), Corollary 4.6.

    Attributes:
        alpha: Ridge parameter, outcome units squared, read against the largest noise scale.
            By default the one of the narrowest band at observed inputs, among twelve; for
            ``fit="martingale"`` ``noise_std^2 / covariance_scale`` (of several scales, the
            one that explains the data best).

    Raises:
        ValueError: If it is not a finite number above zero.
    """

    alpha: float | None = None

    def __post_init__(self) -> None:
        if self.alpha is not None:
            object.__setattr__(self, "alpha", positive_scalar("alpha", self.alpha))


@dataclass(frozen=True)
class Grid:
    r"""The least bound over a grid of ridge parameters.

    Source: Flynn & Reeb (2024), Eq. (12) over a finite set.

    Attributes:
        alphas: Ridge parameters, outcome units squared, read against the largest noise
            scale; or ``"paper"``, five around ``noise_std^2 / covariance_scale``.

    Raises:
        ValueError: If one is not a finite number above zero, or there is none.
    """

    alphas: Sequence[float] | Tensor | float | Literal["paper"] = "paper"

    def __post_init__(self) -> None:
        grid = grid_regularizers(self.alphas, 1.0, 1.0)
        if not isinstance(self.alphas, str):
            object.__setattr__(self, "alphas", tuple(grid.tolist()))


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


ANALYTIC_SOURCE = "Flynn & Reeb (2024), Corollary 4.6"


def analytic_band(
    regression: RidgeStateT,
    constraints: Constraints,
    regularizer: float,
    assumptions: Assumptions,
) -> RidgeBand[RidgeStateT]:
    r"""The ellipsoid around the ridge estimate that holds the confidence set, anytime.

    Source: Flynn & Reeb (2024), Corollary 4.6. At ``tau = 1 / c`` the width is
    ``sqrt(c log_det + 2 c ln(1/delta) + norm^2)`` (Lemma C.2). Valid at any ``tau``; one
    below the ``eigenvalue_cutoff``, where round-off would decide, is raised to it.
    """
    regularizer = max(regularizer, regression.eigenvalue_cutoff)
    tau = torch.tensor(regularizer, dtype=torch.float64).to(regression.eigenvalues)
    excess = constraints.excess(regression, tau).clamp_min(0.0)
    width = float(safe_sqrt(excess / tau))
    return RidgeBand(regression, regularizer, width, assumptions)
