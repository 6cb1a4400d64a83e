r"""The bounds that a bandit plays, one class for each."""

import math
from abc import ABC, abstractmethod
from copy import copy
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from kernelucb._numerics.estimates import EstimatedNumber
from kernelucb.confidence.assumptions import Assumptions
from kernelucb.confidence.base import ConfidenceSet
from kernelucb.confidence.fit.mixture import (
    Radius,
    mixture_radius,
)
from kernelucb.confidence.norm.tracker import NormTracker, estimated_norm, given_norm
from kernelucb.confidence.ridge_band import (
    ABBASI_YADKORI_SOURCE,
    IGP_UCB_SOURCE,
    abbasi_yadkori_width,
    check_resolved,
    fixed_ridge_band,
    igp_ucb_width,
)
from kernelucb.confidence.statements import PriorKnowledge, rkhs_assumptions
from kernelucb.regression import KernelRegression
from kernelucb.regression.outcome_map import IDENTITY


@dataclass(frozen=True, eq=False)
class BanditBound(ABC):
    r"""A bound and its parameters."""

    norm: float | NormTracker  # outcome units; a tracker where it is estimated
    noise_std: float  # sub-Gaussian noise scale, outcome units
    delta: float  # failure probability

    source: ClassVar[str]

    @property
    def tracker(self) -> NormTracker | None:
        r"""What estimates the norm bound; None where it was given."""
        return self.norm if isinstance(self.norm, NormTracker) else None

    @property
    def norm_bound(self) -> float:
        r"""The norm bound given, or its estimate so far, outcome units."""
        if isinstance(self.norm, NormTracker):
            return max(self.norm.estimates[0], self.norm.floor)
        return self.norm

    @property
    def num_rounds(self) -> float:
        r"""Number of rounds that the bound holds for."""
        return math.inf

    @property
    @abstractmethod
    def known_regularizers(self) -> Tensor:
        r"""The regularisers ``tau`` that are needed whatever the data."""

    @property
    def arguments(self) -> dict[str, Any]:
        r"""The arguments as plain values, for saved states."""
        values = {f.name: _plain(getattr(self, f.name)) for f in fields(self)}
        return {"bound": type(self).__name__, **values}

    def fork(self) -> Self:
        r"""The same bound with its own estimate of the norm."""
        return replace(self, norm=copy(self.norm))

    def radius(self, regression: KernelRegression) -> Radius:
        r"""Squared radius of the fit, from which the norm is estimated."""
        return mixture_radius(regression, self.delta, 1.0)

    def estimate_norm(self, regression: KernelRegression) -> None:
        r"""Estimate the norm bound again; does nothing where it was given."""
        if self.tracker is not None:
            self.tracker.estimate(regression, self.radius(regression))

    def assumptions(self, known: PriorKnowledge) -> Assumptions:
        r"""What the bound rests on."""
        guessed = "norm" in known.estimated
        norm = given_norm(EstimatedNumber(self.norm_bound) if guessed else self.norm_bound)
        if self.tracker is not None:
            norm = estimated_norm(self.norm_bound, self.tracker.estimates[1])
        horizon = None if math.isinf(self.num_rounds) else self.num_rounds
        return rkhs_assumptions(self.source, known, self.delta, norm, horizon=horizon)

    @abstractmethod
    def check_noise(self, variance: Tensor) -> None:
        r"""Raise a ValueError where rounded prior variances hide what the data say."""


@dataclass(frozen=True, eq=False)
class RidgeBound(BanditBound):
    r"""A ridge estimate plus or minus a width times its standard deviation."""

    regularizer: float  # tau, which the theorem fixes

    @property
    def known_regularizers(self) -> Tensor:
        r"""The only one."""
        return torch.tensor([self.regularizer], dtype=torch.float64)

    @abstractmethod
    def width(self, log_det: float) -> float:
        r"""The width, from ``ln det(I + K_w / tau)``."""

    def confidence_set(self, regression: KernelRegression) -> ConfidenceSet[Any]:
        r"""The stateless set."""
        tau = self.regularizer
        width = self.width(float(regression.log_det(tau)))
        return fixed_ridge_band(regression, tau, width, self.assumptions(regression))

    def check_noise(self, variance: Tensor) -> None:
        r"""Check that kernel values resolve the regulariser; see ``BanditBound``."""
        check_resolved(self.regularizer, self.noise_std, variance)


class AbbasiYadkori(RidgeBound):
    r"""The self-normalised bound."""

    source = ABBASI_YADKORI_SOURCE

    def width(self, log_det: float) -> float:
        r"""The width, from ``ln det(I + K_w / tau)``."""
        norm, tau = self.norm_bound, self.regularizer
        return abbasi_yadkori_width(log_det, norm, self.delta, tau)


@dataclass(frozen=True, eq=False)
class IGP(RidgeBound):
    r"""Improved GP-UCB, for ``horizon`` rounds."""

    source = IGP_UCB_SOURCE
    horizon: int

    @property
    def num_rounds(self) -> float:
        r"""Number of rounds that the bound holds for."""
        return self.horizon

    def width(self, log_det: float) -> float:
        r"""The width, from ``ln det(I + K_w / tau)``."""
        return igp_ucb_width(log_det, self.norm_bound, self.delta, self.noise_std)


def raise_estimate(tracker: NormTracker | None, other: NormTracker | None) -> None:
    r"""Raise a tracker's estimates to those of another, where there are both.

    Raises:
        ValueError: If one of them has seen transformed outcomes; a bandit's never are.
    """
    if tracker is not None and other is not None:
        for each in (tracker, other):
            IDENTITY.same_as(each.outcomes)
        tracker.outcomes = tracker.outcomes or other.outcomes
        norms, others = tracker.estimates, other.estimates
        tracker.estimates = max(norms[0], others[0]), max(norms[1], others[1])


def _plain(value: Any) -> Any:
    if isinstance(value, NormTracker):
        return [value.inflation, value.floor]
    if isinstance(value, Tensor | tuple):
        return [float(each) for each in value]
    return float(value) if isinstance(value, float) else value
