r"""The bounds that a bandit plays, one class for each."""

import math
from abc import ABC, abstractmethod
from copy import copy
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from kernelucb.confidence.abbasi_yadkori import ABBASI_YADKORI_SOURCE, abbasi_yadkori_width
from kernelucb.confidence.assumptions import Assumptions
from kernelucb.confidence.base import ConfidenceSet
from kernelucb.confidence.fit.choice import ClosedForm, data_fit, fit_source
from kernelucb.confidence.fit.e_processes import FIRST_SHARES, EProcesses, Hybrids, first_ball
from kernelucb.confidence.fit.energy import PREDICTION_SHARE, with_energy
from kernelucb.confidence.fit.filters import FilterMixture, is_hidden
from kernelucb.confidence.fit.mixture import (
    FitConstraint,
    Radius,
    mixture_radius,
    mixture_source,
)
from kernelucb.confidence.geometry import Constraints
from kernelucb.confidence.igp_ucb import IGP_UCB_SOURCE, igp_ucb_width
from kernelucb.confidence.martingale_mixture.analytic import ANALYTIC_SOURCE
from kernelucb.confidence.martingale_mixture.dual import ExactSet, GridSet
from kernelucb.confidence.martingale_mixture.function_set import FunctionSet
from kernelucb.confidence.martingale_mixture.regularizers import grid_regularizers
from kernelucb.confidence.norm.least import for_least_norm
from kernelucb.confidence.norm.tracker import NormTracker, estimated_norm, given_norm
from kernelucb.confidence.ridge_band import check_resolved, fixed_ridge_band
from kernelucb.confidence.statements import PriorKnowledge, rkhs_assumptions
from kernelucb.regression import KernelRegression, RidgeState


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
            return max(self.norm.norm_bound, self.norm.floor)
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
        norm = given_norm(self.norm_bound)
        if self.tracker is not None:
            norm = estimated_norm(self.norm_bound, self.tracker.least_consistent_norm)
        horizon = None if math.isinf(self.num_rounds) else self.num_rounds
        return rkhs_assumptions(self.source, known, self.delta, norm, horizon=horizon)

    @abstractmethod
    def check_noise(self, variance: Tensor) -> None:
        r"""Raise a ValueError where rounded prior variances hide what the data say."""


@dataclass(frozen=True, eq=False)
class MartingaleMixture(BanditBound):
    r"""Bounds over the functions that satisfy a fit and a norm constraint."""

    scales: tuple[float, ...]  # covariance scales c of the mixture, one or more
    fit: ClosedForm  # "filters" adds what needs no kernel, the energy of the noise

    @property
    def references(self) -> Tensor:
        r"""``tau = 1 / c`` of each scale, at which the radius is computed."""
        return 1.0 / torch.tensor(self.scales, dtype=torch.float64)

    @property
    def known_regularizers(self) -> Tensor:
        r"""Those of the radius and those that may follow it; see ``BanditBound``."""
        taus = [self.regularizers(tau_ref) for tau_ref in self.references.tolist()]
        return torch.cat([self.references, *taus]).unique()

    def radius(self, regression: KernelRegression) -> Radius:
        r"""Squared radius of the fit."""
        predicted = mixture_radius(regression, self.delta, self.scales)
        form = float(regression.quadratic_form(predicted.tau_ref))
        count, cutoff = regression.num_observations, regression.eigenvalue_cutoff
        return self.with_energy(predicted, form, count, cutoff)

    def with_energy(
        self, predicted: Radius, form: float, count: int, eigenvalue_cutoff: float
    ) -> Radius:
        r"""The radius of the fit, from that of the predictions.

        They count alone, at the price of their share, where round-off would show.

        Args:
            predicted: Of the martingale mixture.
            form: Quadratic form of the data at its ``tau_ref``.
            count: Number of observations.
            eigenvalue_cutoff: Eigenvalues that count as zero.
        """
        if self.fit == "martingale":
            return predicted
        squared, share = self._mixed(form + predicted.slack, count)
        if is_hidden(self.norm_bound, eigenvalue_cutoff, squared):
            return predicted._replace(slack=predicted.slack - 2.0 * math.log(share))
        return predicted._replace(slack=squared - form)

    def _mixed(self, predicted: float, count: int) -> tuple[float, float]:
        r"""Squared radius with the energy of the noise, and share of the predictions."""
        return with_energy(predicted, count, self.delta), PREDICTION_SHARE

    def assumptions(self, known: PriorKnowledge) -> Assumptions:
        r"""What the bound rests on."""
        fit = replace(super().assumptions(known), source=self._fit_source)
        return fit.by(self.source)

    @property
    def _fit_source(self) -> str:
        source = mixture_source(self.scales)
        with_energy = f"{source}, with the energy of the noise (ours)"
        return source if self.fit == "martingale" else with_energy

    def check_noise(self, variance: Tensor) -> None:
        r"""Nothing to check: the bound holds at any regulariser, and takes a larger one."""

    @abstractmethod
    def regularizers(self, tau_ref: float) -> Tensor:
        r"""The values ``tau`` whose ellipsoid bounds the bound is the least of.

        Defaults follow ``tau_ref``, that of the radius.
        """

    @abstractmethod
    def confidence_set(
        self, regression: RidgeState, constraints: Constraints
    ) -> FunctionSet[Any]:
        r"""The stateless set with given constraints."""

    def constraint(self, regression: KernelRegression) -> FitConstraint[Any]:
        r"""The fit, as stateless sets take it."""
        return FitConstraint(regression, self.radius(regression))


class Dual(MartingaleMixture):
    r"""The exact bound: the least over every regulariser.

    With ``fit="filters"`` the fit is the mixture of filters, and ``radius`` that of its
    first member alone.
    """

    source = ExactSet.source

    @property
    def hybrids(self) -> Hybrids:
        r"""The grid of hybrids in the mixture of filters."""
        return Hybrids.for_norm(self._given_norm)

    @property
    def _given_norm(self) -> float | None:
        return None if self.tracker is not None else self.norm_bound

    def mixture(self, regression: KernelRegression) -> FilterMixture:
        r"""The mixture of filters."""
        norm = self._given_norm
        return FilterMixture(EProcesses(regression, self.delta, self.scales, norm))

    def constraint(self, regression: KernelRegression) -> FitConstraint[Any]:
        r"""The fit, at its best for a narrow band."""
        if self.fit == "martingale":
            return super().constraint(regression)
        return self.mixture(regression).for_band(self.norm_bound)

    def _mixed(self, predicted: float, count: int) -> tuple[float, float]:
        ball = first_ball(predicted, count, self.delta)
        return ball.squared_radius, FIRST_SHARES[0]

    def estimate_norm(self, regression: KernelRegression) -> None:
        r"""Estimate the norm bound again; does nothing where it was given."""
        if self.tracker is None:
            return
        fit = data_fit(self.fit, regression, self.delta, self.scales)
        self.tracker.estimate(*for_least_norm(fit))

    @property
    def _fit_source(self) -> str:
        return fit_source(self.fit, self.scales)

    def regularizers(self, tau_ref: float) -> Tensor:
        r"""None in particular: all of them."""
        return torch.empty(0, dtype=torch.float64)

    def confidence_set(
        self, regression: RidgeState, constraints: Constraints
    ) -> FunctionSet[Any]:
        r"""The stateless set with given constraints."""
        return ExactSet(regression, constraints, self.assumptions(regression))


@dataclass(frozen=True, eq=False)
class Grid(MartingaleMixture):
    r"""The least over a grid of values ``tau``, by default the paper's."""

    source = GridSet.source
    grid: Tensor | None

    def regularizers(self, tau_ref: float) -> Tensor:
        r"""The grid; see ``MartingaleMixture``."""
        return self._default(tau_ref) if self.grid is None else self.grid

    def _default(self, tau_ref: float) -> Tensor:
        return grid_regularizers("paper", tau_ref, self.noise_std**2)

    def confidence_set(
        self, regression: RidgeState, constraints: Constraints
    ) -> FunctionSet[Any]:
        r"""The stateless set with given constraints."""
        taus = self.regularizers(constraints.radius.tau_ref)
        return GridSet(regression, constraints, taus, self.assumptions(regression))


class Analytic(Grid):
    r"""The closed form, a grid of one ``tau``: by default that of the radius."""

    source = ANALYTIC_SOURCE

    def _default(self, tau_ref: float) -> Tensor:
        return torch.tensor([tau_ref], dtype=torch.float64)


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
    r"""Raise a tracker's estimates to those of another, where there are both."""
    if tracker is not None and other is not None:
        least = max(tracker.least_consistent_norm, other.least_consistent_norm)
        tracker.least_consistent_norm = least
        tracker.norm_bound = max(tracker.norm_bound, other.norm_bound)


def _plain(value: Any) -> Any:
    if isinstance(value, NormTracker):
        return [value.inflation, value.floor]
    if isinstance(value, Tensor | tuple):
        return [float(each) for each in value]
    return float(value) if isinstance(value, float) else value
