r"""Which bound a bandit plays, and with which parameters."""

import math
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

import torch
from torch import Tensor

from kernelucb._numerics.checks import positive_scalar, probability
from kernelucb.confidence.abbasi_yadkori import abbasi_yadkori_band
from kernelucb.confidence.assumptions import Assumptions
from kernelucb.confidence.base import ConfidenceSet
from kernelucb.confidence.fit.mixture import (
    CovarianceScale,
    covariance_scales,
    mixture_radius,
)
from kernelucb.confidence.geometry import Constraints
from kernelucb.confidence.igp_ucb import igp_ucb_band, igp_ucb_regularizer
from kernelucb.confidence.martingale_mixture import (
    ExactSet,
    GridSet,
    analytic_band,
    grid_regularizers,
)
from kernelucb.confidence.norm.tracker import (
    NormBoundLike,
    NormTracker,
    estimated_norm,
    given_norm,
    tracker_of,
)
from kernelucb.confidence.resolution import check_resolved
from kernelucb.confidence.statements import PriorKnowledge, rkhs_assumptions
from kernelucb.regression import KernelRegression

Bound = Literal["exact", "grid", "analytic", "abbasi_yadkori", "igp"]
Alphas = Sequence[float] | Tensor | float | Literal["paper"] | None

_SOURCES = {
    "exact": "Flynn & Reeb (2024)",
    "grid": "Flynn & Reeb (2024)",
    "analytic": "Flynn & Reeb (2024)",
    "abbasi_yadkori": "Abbasi-Yadkori (2012), Theorem 3.11",
    "igp": "Chowdhury & Gopalan (2017), Theorem 2",
}


@dataclass(frozen=True)
class Rule:
    r"""The bound that a bandit plays and its parameters.

    Attributes:
        bound: Name of the bound.
        given_norm: Norm bound, outcome units; None where it is estimated.
        tracker: Its estimate; None where it was given.
        noise_std: Sub-Gaussian noise scale, outcome units.
        delta: Failure probability.
        scales: Scales of the mixture; one or more.
        ridge: Ridge parameters as multiples of the noise variance; None for the default.
        horizon: Number of rounds of IGP-UCB.
    """

    bound: Bound
    given_norm: float | None
    tracker: NormTracker | None
    noise_std: float
    delta: float
    scales: tuple[float, ...]
    ridge: Tensor | None
    horizon: int

    @classmethod
    def of(
        cls,
        bound: Bound,
        norm_bound: NormBoundLike,
        noise_std: float,
        delta: float,
        covariance_scale: CovarianceScale,
        alphas: Alphas,
        horizon: int,
    ) -> "Rule":
        r"""Check the arguments of ``KernelBandit``; see there."""
        if bound not in _SOURCES:
            names = ", ".join(f'"{name}"' for name in _SOURCES)
            raise ValueError(f"bound must be one of {names}, got {bound!r}.")
        positive_scalar("horizon", horizon)
        noise_std = positive_scalar("noise_std", noise_std)
        tracker = tracker_of("cautious" if norm_bound is None else norm_bound)
        given = None
        if tracker is None:
            given = positive_scalar("norm_bound", norm_bound)
        return cls(
            bound=bound,
            given_norm=given,
            tracker=tracker,
            noise_std=noise_std,
            delta=probability("delta", delta),
            scales=covariance_scales(covariance_scale),
            ridge=_ridge(bound, alphas, noise_std),
            horizon=int(horizon),
        )

    @property
    def norm_bound(self) -> float:
        r"""The norm bound given, or its estimate so far, outcome units."""
        if self.tracker is None:
            return cast(float, self.given_norm)
        return max(self.tracker.norm_bound, self.tracker.floor)

    def estimate_norm(self, regression: Callable[[], KernelRegression]) -> None:
        r"""Estimate the norm bound again, where it is not given.

        Args:
            regression: Gives the data; called only then.
        """
        if self.tracker is not None:
            data = regression()
            radius = mixture_radius(data, self.delta, self.scales)
            self.tracker.estimate(data, radius)

    def check_noise(self, variance: Tensor) -> None:
        r"""Check that kernel values resolve a ridge parameter that the bound fixes.

        Args:
            variance: Prior variances at observed arms, outcome units squared.

        Raises:
            ValueError: If they do not.
        """
        if not self.uses_mixture:
            check_resolved(self.smallest_regularizer, self.noise_std, variance)

    @property
    def arguments(self) -> dict[str, Any]:
        r"""The arguments as plain values, for saved states."""
        return {
            "bound": self.bound,
            "norm_bound": self.given_norm,
            "tracker": self.tracker and [self.tracker.inflation, self.tracker.floor],
            "noise_std": self.noise_std,
            "delta": self.delta,
            "scales": list(self.scales),
            "ridge": None if self.ridge is None else self.ridge.tolist(),
            "horizon": self.horizon,
        }

    def fork(self) -> "Rule":
        r"""A rule with an estimate of its own."""
        return replace(self, tracker=copy(self.tracker))

    @property
    def uses_mixture(self) -> bool:
        r"""Whether the bound is a martingale-mixture bound."""
        return self.bound in ("exact", "grid", "analytic")

    @property
    def references(self) -> Tensor:
        r"""``tau = 1 / c`` of the mixture's scales."""
        return 1.0 / torch.tensor(self.scales, dtype=torch.float64)

    @property
    def num_regularizers(self) -> float:
        r"""How many regularisers must be kept up to date."""
        if not self.uses_mixture:
            return 1
        return math.inf if self.bound == "exact" else len(self._known_regularizers.unique())

    @property
    def smallest_regularizer(self) -> float:
        r"""The smallest one of those that are known beforehand."""
        return float(self._known_regularizers.min())

    @property
    def _known_regularizers(self) -> Tensor:
        if not self.uses_mixture:
            return self.regularizers(1.0)
        if self.bound == "exact":
            return self.references
        bounds = [self.regularizers(1.0 / scale) for scale in self.scales]
        return torch.cat([self.references, *bounds])

    def regularizers(self, tau_ref: float) -> Tensor:
        r"""The regularisers of a bound that is not the exact one.

        Args:
            tau_ref: ``tau`` that the defaults refer to: that of the radius.
        """
        if self.bound == "igp":
            tau = igp_ucb_regularizer(self.noise_std, self.horizon)
            return torch.tensor([tau], dtype=torch.float64)
        if self.ridge is not None:
            return self.ridge
        if self.bound == "abbasi_yadkori":
            return torch.ones(1, dtype=torch.float64)
        if self.bound == "grid":
            return grid_regularizers("paper", tau_ref, self.noise_std**2)
        return torch.tensor([tau_ref], dtype=torch.float64)

    def constrained(
        self, regression: KernelRegression, constraints: Constraints
    ) -> ConfidenceSet[Any]:
        r"""The set of the martingale mixture with given constraints."""
        assumptions = self.assumptions(regression)
        if constraints.contradiction is not None:
            assumptions = assumptions.with_item(constraints.contradiction)
        if self.bound == "exact":
            return ExactSet(regression, constraints, assumptions)
        taus = self.regularizers(constraints.radius.tau_ref)
        if self.bound == "grid":
            return GridSet(regression, constraints, taus, assumptions)
        return analytic_band(regression, constraints, float(taus), assumptions)

    def ridge_band(self, regression: KernelRegression) -> ConfidenceSet[Any]:
        r"""The set of a bound that is no martingale mixture."""
        norm, assumptions = self.norm_bound, self.assumptions(regression)
        if self.bound == "igp":
            return igp_ucb_band(regression, norm, self.delta, self.horizon, assumptions)
        tau = float(self.regularizers(1.0))
        return abbasi_yadkori_band(regression, norm, self.delta, tau, assumptions)

    def assumptions(self, known: PriorKnowledge) -> Assumptions:
        r"""What the bound rests on."""
        return rkhs_assumptions(
            _SOURCES[self.bound],
            known,
            self.delta,
            given_norm(self.norm_bound)
            if self.tracker is None
            else estimated_norm(self.norm_bound, self.tracker.least_consistent_norm),
            horizon=self.horizon if self.bound == "igp" else None,
        )


def _ridge(bound: Bound, alphas: Alphas, noise_std: float) -> Tensor | None:
    if alphas is None:
        return None
    if bound in ("exact", "igp"):
        raise ValueError(f'bound="{bound}" has no ridge parameter; leave out alphas.')
    if isinstance(alphas, str):
        if bound == "grid" and alphas == "paper":
            return None
        raise ValueError(f"alphas must be numbers or None, got {alphas!r}.")
    taus = grid_regularizers(alphas, 1.0, noise_std**2)
    if bound != "grid" and len(taus) != 1:
        raise ValueError(f'bound="{bound}" takes one ridge parameter as alphas.')
    return taus
