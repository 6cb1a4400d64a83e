r"""The bounds over the functions that satisfy a fit and a norm constraint."""

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from kernelucb.bandit.bounds import BanditBound
from kernelucb.confidence.assumptions import Assumptions
from kernelucb.confidence.fit.choice import ClosedForm, data_fit, fit_source
from kernelucb.confidence.fit.e_processes import (
    EProcesses,
    Hybrids,
    first_ball,
)
from kernelucb.confidence.fit.energy import (
    energy_source,
    with_energy,
)
from kernelucb.confidence.fit.filters import FilterMixture
from kernelucb.confidence.fit.mixture import (
    FitConstraint,
    Radius,
    mixture_radius,
    mixture_source,
)
from kernelucb.confidence.geometry import Constraints
from kernelucb.confidence.martingale_mixture.analytic import ANALYTIC_SOURCE
from kernelucb.confidence.martingale_mixture.dual import ExactSet, GridSet
from kernelucb.confidence.martingale_mixture.function_set import FunctionSet
from kernelucb.confidence.martingale_mixture.regularizers import grid_regularizers
from kernelucb.confidence.norm.least import for_least_norm
from kernelucb.confidence.statements import PriorKnowledge
from kernelucb.regression import KernelRegression, RidgeState


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

    def radius(self, regression: KernelRegression, hidden: float = 0.0) -> Radius:
        r"""Squared radius of the fit; ``hidden`` as for ``with_energy``."""
        predicted = mixture_radius(regression, self.delta, self.scales)
        form = float(regression.quadratic_form(predicted.tau_ref))
        count = regression.num_observations
        return self.with_energy(predicted, form, count, hidden)

    def with_energy(
        self, predicted: Radius, form: float, count: int, hidden: float
    ) -> Radius:
        r"""The radius of the fit, from that of the predictions.

        Args:
            predicted: Of the martingale mixture.
            form: Quadratic form of the data at its ``tau_ref``.
            count: Number of observations.
            hidden: What round-off hides of the outcomes; see ``hidden_part``.
        """
        if self.fit == "martingale":
            return predicted.beside_hidden(hidden)
        squared = self._mixed(form + predicted.slack, count)
        return predicted._replace(slack=squared + hidden - form)

    def _mixed(self, predicted: float, count: int) -> float:
        r"""Squared radius with the energy of the noise."""
        return with_energy(predicted, count, self.delta)

    def assumptions(self, known: PriorKnowledge) -> Assumptions:
        r"""What the bound rests on."""
        fit = replace(super().assumptions(known), source=self._fit_source)
        return fit.by(self.source)

    @property
    def _fit_source(self) -> str:
        source = mixture_source(self.scales)
        return source if self.fit == "martingale" else energy_source(source)

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
        radius = self.radius(regression, regression.hidden_part(self.norm_bound))
        return FitConstraint(regression, radius)


class Dual(MartingaleMixture):
    r"""The exact bound: the least over every regulariser.

    With ``fit="filters"`` the fit is the mixture of filters, and ``radius`` that of its
    first member alone.
    """

    source = ExactSet.source

    @property
    def hybrids(self) -> Hybrids:
        r"""The grid of hybrids in the mixture of filters."""
        return Hybrids.of(self.scales, self._given_norm)

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

    def _mixed(self, predicted: float, count: int) -> float:
        return first_ball(predicted, count, self.delta).squared_radius

    def estimate_norm(self, regression: KernelRegression) -> None:
        r"""Estimate the norm bound again; does nothing where it was given."""
        super().estimate_norm(regression)
        if self.tracker is not None and self.fit == "filters":
            fit = data_fit(self.fit, regression, self.delta, self.scales)
            self.tracker.estimate(*for_least_norm(fit).constraint)

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
