r"""One constrained outcome: its band, its threshold, and what the band must be."""

import math
from inspect import signature
from typing import Any, Literal, NamedTuple, Protocol

import torch
from botorch.exceptions import UnsupportedError
from torch import Tensor

from kernelucb._numerics.checks import finite_scalar
from kernelucb.confidence.assumptions import Assumptions
from kernelucb.exceptions import UncertifiedError
from kernelucb.regression.outcome_map import IDENTITY

Side = Literal[">=", "<="]
_NEEDED = ("assumptions", "bounds", "prior_std")


class Band(Protocol):
    r"""What a constraint needs of a confidence band; all bounds of this package have it."""

    @property
    def assumptions(self) -> Assumptions:
        r"""What the band rests on."""
        ...

    @property
    def prior_std(self) -> float:
        r"""Prior standard deviation of the outcome, outcome units."""
        ...

    def bounds(self, X: Tensor) -> tuple[Tensor, Tensor]:
        r"""Lower and upper bound at ``n x d`` points."""
        ...


class Constraint(NamedTuple):
    r"""One outcome that must stay on one side of a threshold.

    Attributes:
        band: A confidence band of the outcome.
        threshold: Outcome units.
        side: ``">="`` where the outcome must be at least the threshold, else ``"<="``.
    """

    band: Band
    threshold: float
    side: Side

    def margin(self, X: Tensor) -> Tensor:
        r"""How far the band keeps ``n x d`` points inside, in prior standard deviations.

        On the scale of the band's model: where that is of ``log(Y)``, so is the margin.
        """
        threshold = _on_scale_of(self.band, self.threshold)
        lower, upper = _sides(self.band, X)
        gap = lower - threshold if self.side == ">=" else threshold - upper
        return gap / self.band.prior_std

    def width(self, X: Tensor) -> Tensor:
        r"""Width of the band at ``n x d`` points, in prior standard deviations."""
        lower, upper = _sides(self.band, X)
        return (upper - lower) / self.band.prior_std


def _sides(band: Any, X: Tensor) -> tuple[Tensor, Tensor]:
    r"""The band on the scale of its model, if it tells that from outcome units."""
    return getattr(band, "latent_bounds", band.bounds)(X)


def _on_scale_of(band: Any, threshold: float) -> float:
    outcome_map = getattr(band, "outcome_map", IDENTITY)
    return float(outcome_map.forward(torch.tensor(threshold, dtype=torch.float64)))


def checked_threshold(band: Band, value: Any) -> float:
    r"""A finite number, and not one that outcomes of the band's model are always above."""
    threshold = finite_scalar("thresholds", value)
    least = getattr(band, "outcome_map", IDENTITY).least_outcome
    if threshold < least or math.isinf(_on_scale_of(band, threshold)):
        raise ValueError(
            f"thresholds must be above {least:g}, as the outcomes of the band's model are, "
            f"got {threshold:g}."
        )
    return threshold


def check_band(band: Band) -> None:
    r"""Refuse what is not a confidence band over points."""
    lacking = [name for name in _NEEDED if not hasattr(band, name)]
    if lacking or len(signature(band.bounds).parameters) == 0:
        raise UnsupportedError(
            f"{type(band).__name__} is not a band over points: a constraint needs "
            "bounds(X), assumptions and prior_std, as MartingaleMixtureUCB has them."
        )


def check_assumptions(band: Band, allow_estimated: bool) -> None:
    r"""Refuse a band on which safety may not rest.

    That is one whose assumptions are violated or, unless ``allow_estimated``, one that is
    estimated or holds for single rounds or points.
    """
    assumptions = band.assumptions
    if assumptions.violated:
        raise UncertifiedError(
            f"A safe set cannot rest on this band ({assumptions.summary}):\n{assumptions}"
        )
    assumptions.check_certified("SafeSet", allow_estimated)
    if not (allow_estimated or (assumptions.anytime and assumptions.all_points)):
        raise UncertifiedError(
            "SafeSet needs a band that holds for all points and all rounds at once, and "
            f"this one does not:\n{assumptions}\nUse MartingaleMixtureUCB, or pass "
            "allow_estimated=True to act on it all the same."
        )
