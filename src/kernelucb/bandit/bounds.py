r"""The bounds that a bandit plays, one class for each, and the arguments that name them."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from kernelucb._numerics.checks import one_of, positive_scalar, probability
from kernelucb._numerics.estimates import EstimatedNumber
from kernelucb.confidence.assumptions import Assumptions
from kernelucb.confidence.base import ConfidenceSet
from kernelucb.confidence.fit.choice import (
    Filters,
    MartingaleMixture,
    data_fit,
    fit_of,
    fit_source,
)
from kernelucb.confidence.fit.energy import energy_source, with_energy
from kernelucb.confidence.fit.filters import FilterMixture, first_ball
from kernelucb.confidence.fit.mixture import (
    FitConstraint,
    Radius,
    mixture_radius,
    mixture_source,
)
from kernelucb.confidence.fit.prequential import PrequentialRadius
from kernelucb.confidence.geometry import Constraints
from kernelucb.confidence.martingale_mixture.dual import ExactSet, GridSet
from kernelucb.confidence.martingale_mixture.function_set import FunctionSet
from kernelucb.confidence.martingale_mixture.regularizers import (
    ANALYTIC_SOURCE,
    grid_regularizers,
)
from kernelucb.confidence.norm.least import for_least_norm
from kernelucb.confidence.norm.tracker import (
    NormBoundLike,
    NormTracker,
    estimated_norm,
    given_norm,
    tracker_of,
)
from kernelucb.confidence.ridge_band import (
    ABBASI_YADKORI_SOURCE,
    IGP_UCB_SOURCE,
    abbasi_yadkori_width,
    check_resolved,
    fixed_ridge_band,
    igp_ucb_regularizer,
    igp_ucb_width,
)
from kernelucb.confidence.statements import PriorKnowledge, rkhs_assumptions
from kernelucb.regression import KernelRegression, RidgeState

BoundName = Literal["martingale_mixture", "abbasi_yadkori", "igp_ucb"]
Form = Literal["dual", "analytic"]
Alphas = Sequence[float] | Tensor | float | Literal["paper"] | None


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
    def smallest_regularizer(self) -> float:
        r"""The smallest ``tau`` that is needed whatever the data."""

    @property
    def arguments(self) -> dict[str, Any]:
        r"""The arguments as plain values, for saved states."""
        values = {f.name: _plain(getattr(self, f.name)) for f in fields(self)}
        return {"bound": type(self).__name__, **values}

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

    def check_noise(self, variance: Tensor) -> None:  # noqa: B027
        r"""Raise a ValueError where rounded prior variances hide what the data say.

        Nothing to check where the bound holds at any regulariser: it takes a larger one.
        """


@dataclass(frozen=True, eq=False)
class RidgeBound(BanditBound):
    r"""A ridge estimate plus or minus a width times its standard deviation."""

    regularizer: float  # tau, which the theorem fixes

    @property
    def smallest_regularizer(self) -> float:
        r"""The only one."""
        return self.regularizer

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
        return abbasi_yadkori_width(log_det, self.norm_bound, self.delta, self.regularizer)


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


@dataclass(frozen=True, eq=False)
class MixtureBound(BanditBound):
    r"""Bounds over the functions that satisfy a fit and a norm constraint."""

    fit: Filters | MartingaleMixture  # filters add what needs no kernel: the noise's energy

    @property
    def scales(self) -> tuple[float, ...]:
        r"""Covariance scales ``c`` of the mixture, one or more."""
        return self.fit.scales

    @property
    def references(self) -> list[float]:
        r"""``tau = 1 / c`` of each scale, at which the radius is computed."""
        return [1.0 / scale for scale in self.scales]

    @property
    def smallest_regularizer(self) -> float:
        r"""Of the radius and those that may follow it; see ``BanditBound``."""
        taus = [self.regularizers(tau_ref).tolist() for tau_ref in self.references]
        return min(self.references + [tau for own in taus for tau in own])

    def radius(self, regression: KernelRegression, hidden: float = 0.0) -> Radius:
        r"""Squared radius of the fit; ``hidden`` as for ``with_energy``."""
        predicted = mixture_radius(regression, self.delta, self.scales)
        form = float(regression.quadratic_form(predicted.tau_ref))
        count = regression.num_observations
        return self.with_energy(predicted, form, count, hidden)

    def with_energy(
        self, predicted: Radius, form: float, count: int, hidden: float
    ) -> Radius:
        r"""The radius of the fit, from the radius of the predictions.

        Args:
            predicted: Of the martingale mixture.
            form: Quadratic form of the data at its ``tau_ref``.
            count: Number of observations.
            hidden: What round-off hides of the outcomes; see ``hidden_part``.
        """
        if isinstance(self.fit, MartingaleMixture):
            return predicted.beside_hidden(hidden)
        squared = self._mixed(form + predicted.slack, count)
        return predicted._replace(slack=squared + hidden - form)

    def ball(self, regression: KernelRegression) -> FitConstraint[KernelRegression]:
        r"""The fit by the radius alone, as stateless sets take it."""
        hidden = regression.hidden_part(self.norm_bound)
        return FitConstraint(regression, self.radius(regression, hidden))

    def constraint(self, regression: KernelRegression) -> FitConstraint[Any]:
        r"""The fit, as narrow as the stateless sets have it."""
        return self.ball(regression)

    def assumptions(self, known: PriorKnowledge) -> Assumptions:
        r"""What the bound rests on."""
        fit = replace(super().assumptions(known), source=self._fit_source)
        return fit.by(self.source)

    @property
    def _fit_source(self) -> str:
        source = mixture_source(self.scales)
        return energy_source(source) if isinstance(self.fit, Filters) else source

    def _mixed(self, predicted: float, count: int) -> float:
        r"""Squared radius with the energy of the noise."""
        return with_energy(predicted, count, self.delta)

    @abstractmethod
    def regularizers(self, tau_ref: float) -> Tensor:
        r"""The ``tau`` that the bound minimises over, where they are given beforehand."""

    @abstractmethod
    def confidence_set(
        self, regression: RidgeState, constraints: Constraints
    ) -> FunctionSet[Any]:
        r"""The stateless set with given constraints."""


class Dual(MixtureBound):
    r"""The least over every regulariser, up to the steps of a fine grid.

    With ``fit="filters"`` the fit is the mixture of filters, and ``radius`` that of its
    first member alone.
    """

    source = ExactSet.source

    def mixture(self, regression: KernelRegression) -> FilterMixture:
        r"""The mixture of filters, tied to the norm bound where it was given."""
        norm = None if self.tracker is not None else self.norm_bound
        return FilterMixture(regression, self.delta, self.scales, norm)

    def constraint(self, regression: KernelRegression) -> FitConstraint[Any]:
        r"""The fit, as narrow as the stateless sets have it."""
        if isinstance(self.fit, MartingaleMixture):
            return self.ball(regression)
        return self.mixture(regression).for_band(self.norm_bound)

    def estimate_norm(self, regression: KernelRegression) -> None:
        r"""Estimate the norm bound again; does nothing where it was given."""
        super().estimate_norm(regression)
        if self.tracker is not None and isinstance(self.fit, Filters):
            fit = data_fit(self.fit, regression, self.delta)
            self.tracker.estimate(*for_least_norm(fit).constraint)

    @property
    def _fit_source(self) -> str:
        return fit_source(self.fit)

    def _mixed(self, predicted: float, count: int) -> float:
        return first_ball(predicted, count, self.delta).squared_radius

    def regularizers(self, tau_ref: float) -> Tensor:
        r"""None: the search takes any."""
        return torch.empty(0, dtype=torch.float64)

    def confidence_set(
        self, regression: RidgeState, constraints: Constraints
    ) -> FunctionSet[Any]:
        r"""The stateless set with given constraints."""
        return ExactSet(regression, constraints, self.assumptions(regression))


@dataclass(frozen=True, eq=False)
class Grid(MixtureBound):
    r"""The least over a grid of values ``tau``, by default the paper's."""

    source = GridSet.source
    grid: Tensor | None

    def regularizers(self, tau_ref: float) -> Tensor:
        r"""The grid, by default around ``tau_ref``; see ``MixtureBound``."""
        if self.grid is None:
            return grid_regularizers("paper", tau_ref, self.noise_std**2)
        return self.grid

    def confidence_set(
        self, regression: RidgeState, constraints: Constraints
    ) -> FunctionSet[Any]:
        r"""The stateless set with given constraints."""
        taus = self.regularizers(constraints.radius.tau_ref)
        return GridSet(regression, constraints, taus, self.assumptions(regression))


class Analytic(Grid):
    r"""The closed form, a grid of one ``tau``: by default that of the radius."""

    source = ANALYTIC_SOURCE

    def regularizers(self, tau_ref: float) -> Tensor:
        r"""The one ``tau``; see ``MixtureBound``."""
        own = torch.tensor([tau_ref], dtype=torch.float64)
        return own if self.grid is None else self.grid


_TAKEN = {
    "martingale_mixture": {"form", "alphas", "fit"},
    "abbasi_yadkori": {"alphas"},
    "igp_ucb": {"horizon"},
}


def bound_of(
    name: BoundName,
    norm_bound: NormBoundLike,
    noise_std: float,
    delta: float,
    **options: Any,
) -> BanditBound:
    r"""The bound that the arguments of ``KernelBandit`` name, once they are checked.

    Options are those that not every bound takes; None is the default of each.
    """
    one_of("bound", name, *_TAKEN)
    options = {key: value for key, value in options.items() if value is not None}
    for argument in options.keys() - _TAKEN[name]:
        raise ValueError(f'bound="{name}" takes no {argument}; leave it out.')
    tracker = tracker_of("cautious" if norm_bound is None else norm_bound)
    norm = tracker or float(positive_scalar("norm_bound", norm_bound))
    noise_std = float(positive_scalar("noise_std", noise_std))
    shared = norm, noise_std, probability("delta", delta)
    alphas = options.get("alphas")
    if name == "igp_ucb":
        horizon = int(positive_scalar("horizon", options.get("horizon", 1000)))
        return IGP(*shared, igp_ucb_regularizer(noise_std, horizon), horizon)
    if name == "abbasi_yadkori":
        tau = _one_tau('bound="abbasi_yadkori"', alphas, noise_std)
        return AbbasiYadkori(*shared, 1.0 if tau is None else float(tau))
    fit = fit_of(options.get("fit", "filters"))
    if isinstance(fit, PrequentialRadius):
        raise ValueError('fit must be "filters", "martingale" or one of their classes.')
    if one_of("form", options.get("form", "dual"), "dual", "analytic") == "analytic":
        return Analytic(*shared, fit, _one_tau('form="analytic"', alphas, noise_std))
    if alphas is None:
        return Dual(*shared, fit)
    if isinstance(alphas, str):
        return Grid(*shared, fit, None)
    return Grid(*shared, fit, grid_regularizers(alphas, 1.0, noise_std**2))


def _one_tau(owner: str, alphas: Alphas, noise_std: float) -> Tensor | None:
    if alphas is None:
        return None
    if isinstance(alphas, str) or torch.as_tensor(alphas).numel() != 1:
        raise ValueError(f"{owner} takes one ridge parameter as alphas.")
    return grid_regularizers(alphas, 1.0, noise_std**2)


def _plain(value: Any) -> Any:
    if isinstance(value, Filters | MartingaleMixture):
        return [type(value).__name__, *value.scales]
    if isinstance(value, NormTracker):
        return [value.inflation, value.floor]
    if isinstance(value, Tensor):
        return value.tolist()
    return float(value) if isinstance(value, float) else value
