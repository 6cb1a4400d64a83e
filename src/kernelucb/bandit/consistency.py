r"""Radius and norm bound of the martingale mixture as observations come in."""

import math
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from copy import copy
from typing import Any, NamedTuple

import torch
from torch import Tensor

from kernelucb.bandit.history import Fit, History
from kernelucb.bandit.mixtures import Dual, MartingaleMixture
from kernelucb.bandit.observations import Arms
from kernelucb.bandit.resolvents import Ratio
from kernelucb.bandit.ridge_search import RidgeSearch
from kernelucb.bandit.spectral import SpectralHistory
from kernelucb.bandit.two_filters import TwoFilters
from kernelucb.confidence.fit.mixture import Radius, combined_radius
from kernelucb.confidence.geometry import (
    Constraints,
    attainable_norm,
    consistent_constraints,
)
from kernelucb.confidence.martingale_mixture.function_set import FunctionSet
from kernelucb.confidence.norm.least import least_norm
from kernelucb.exceptions import InconsistentConfidenceSetWarning
from kernelucb.regression import KernelRegression


class FilteredFit(NamedTuple):
    r"""A fit of filtered data, for the same norm bound."""

    ratio: Ratio
    squared_radius: float


class CurrentSet(NamedTuple):
    r"""The confidence set after the observations so far."""

    constraints: Constraints
    form: float  # quadratic form of the data at ``tau_ref``
    filtered: FilteredFit | None = None  # takes the place of the radius

    @property
    def squared_radius(self) -> float:
        r"""Squared radius of the fit, noise units."""
        if self.filtered is not None:
            return self.filtered.squared_radius
        return self.form + self.constraints.radius.slack

    def excess(self, regularizers: Tensor, quadratic_form: Tensor) -> Tensor:
        r"""``radius^2 + tau norm^2 - quadratic_form(tau)``, at least zero.

        The quadratic form is that of the filtered data where the fit is.
        """
        constraints, form = self.constraints, self.form
        if self.filtered is not None:
            slack = self.filtered.squared_radius - form
            radius = constraints.radius._replace(slack=slack)
            constraints = constraints._replace(radius=radius)
        return constraints.excess_from(regularizers, form - quadratic_form).clamp_min(0.0)


class Consistency:
    r"""Follows the radius, and whether some function satisfies both constraints.

    One function that does settles that in ``O(n)`` a round, usually for many rounds. A new
    one is sought among the ridge estimates, each of which costs ``O(n p^2)`` with an
    eigenbasis of all but the newest ``p`` observations. Where the history has no
    eigenbasis, one is made when it is first needed, and again when the newest are too many.

    Attributes:
        filters: Weights of the mixture of filters, chosen with the last eigenbasis; None
            where the fit is the radius alone.
        warned: Whether the user has been told of a contradiction.
    """

    def __init__(self, bound: MartingaleMixture, history: History) -> None:
        self.bound, self.history = bound, history
        self._own: SpectralHistory | None = None  # where the history has no eigenbasis
        # A function of norm at most the bound: weights of the covariances with the first
        # inputs, and squared distance to all data in noise units.
        self._feasible: tuple[Tensor, float] | None = None
        self._nearest: float | None = None  # where the next search starts
        self.filters: TwoFilters | None = None
        self.warned = False

    def fork(self, bound: MartingaleMixture, history: History) -> "Consistency":
        r"""One that goes on on its own, with forks of what it was made with."""
        new = copy(self)
        new.bound, new.history = bound, history
        new._own = self._own and self._own.fork(history.observations)
        return new

    def observe(self, arm: Arms, target: float) -> None:
        r"""Compare one more observation with the feasible function; see ``History``."""
        if self._feasible is not None:
            weights, misfit = self._feasible
            fitted = float(weights @ arm.covariance[: len(weights), 0])
            misfit += (target - fitted / self.bound.noise_std) ** 2
            self._feasible = (weights, misfit)
        if self._own is not None and self._own.is_full:
            self._own = None
        elif self._own is not None:
            self._own.append(arm, target)

    def current(self) -> CurrentSet | FunctionSet[Any]:
        r"""The confidence set, relaxed with a warning where it is empty.

        The stateless one where the history cannot give its bounds.
        """
        bound = self.bound
        taus = bound.references.to(self.history.observations.inputs)
        if self.filters is not None:
            taus = torch.cat([taus, taus.new_tensor([self.filters.corner])])
        fit = self.history.systems("radius", taus).fit()
        predicted, form = self._predicted(fit)
        count = self.history.observations.count
        radius = bound.with_energy(predicted, form, count, self.hidden_part)
        current = CurrentSet(Constraints(radius, bound.norm_bound, None), form)
        misfit = math.inf if self._feasible is None else self._feasible[1]
        if count > 0 and misfit > current.squared_radius:
            current = self._examined(current)
        return self._filtered(current, form + predicted.slack, float(fit.log_det[-1]))

    def choose_filters(self, regression: KernelRegression) -> None:
        r"""Choose the filters anew, from the whole spectrum, where the bound takes them."""
        if isinstance(self.bound, Dual) and self.bound.fit == "filters":
            mixture = self.bound.mixture(regression)
            self.filters = TwoFilters.of(mixture, self.bound.norm_bound)

    def _filtered(
        self, current: CurrentSet | FunctionSet[Any], predicted: float, log_det: float
    ) -> CurrentSet | FunctionSet[Any]:
        r"""The set with the fit by the filters, unless the radius alone is contradicted."""
        filters, bound = self.filters, self.bound
        if filters is None:
            return current
        if not isinstance(current, CurrentSet) or current.constraints.contradiction:
            return current
        count = self.history.observations.count
        if isinstance(self.history, SpectralHistory):
            log_det += self.history.basis.hidden_log_det(filters.corner)
        squared = filters.squared_radius(predicted, log_det, count, bound.delta)
        squared += filters.ratio.at_zero * self.hidden_part
        return current._replace(filtered=FilteredFit(filters.ratio, squared))

    def from_scratch(self) -> FunctionSet[Any]:
        r"""The stateless set, relaxed with a warning where it is empty."""
        regression = self.history.observations.regression()
        state, radius = self.bound.constraint(regression)
        least = least_norm(state, radius)
        if least > self.bound.norm_bound:
            self.bound.estimate_norm(regression)
        with self._warning_once(least):
            constraints = consistent_constraints(
                state, radius, self.bound.norm_bound, least, strict=False
            )
        return self.bound.confidence_set(state, constraints)

    @property
    def hidden_part(self) -> float:
        r"""What round-off hides of the outcomes; nothing of Cholesky factors'."""
        if isinstance(self.history, SpectralHistory):
            return self.history.basis.hidden_part(self.bound.norm_bound)
        return 0.0

    def _predicted(self, fit: Fit) -> tuple[Radius, float]:
        r"""The radius of the martingale mixture, and the form at its ``tau_ref``."""
        taus, log_dets, forms = (each[: len(self.bound.scales)] for each in fit)

        def form(reference: float) -> Tensor:
            return forms[int((taus == reference).nonzero()[0])]

        def drop(reference: float) -> Tensor:
            return forms - form(reference)

        radius = combined_radius(taus, log_dets, drop, self.bound.delta)
        return radius, float(form(radius.tau_ref))

    def _examined(self, current: CurrentSet) -> CurrentSet | FunctionSet[Any]:
        r"""The set in the light of all ridge estimates; finds a new feasible function."""
        radius, norm, _ = current.constraints
        spectrum = self._spectrum()
        search = RidgeSearch(spectrum, current.squared_radius, norm)
        nearest = search.consistent(self._nearest or radius.tau_ref)
        self._nearest = nearest.regularizer
        if search.satisfied(nearest):
            self._feasible = (spectrum.weights(nearest), nearest.squared_misfit)
            return current
        self._feasible = None
        least = search.least_norm(nearest.regularizer)
        if math.isinf(least):
            return self.from_scratch()
        if least > norm and self.bound.tracker is not None:
            self.bound.estimate_norm(self.history.observations.regression())
        with self._warning_once(least):  # prior units are outcome units here
            constraints = attainable_norm(radius, self.bound.norm_bound, least, 1.0)
        return current._replace(constraints=constraints)

    @contextmanager
    def _warning_once(self, least: float) -> Generator[None]:
        r"""The user is told of a contradiction once."""
        with warnings.catch_warnings():
            if self.warned:
                warnings.simplefilter("ignore", InconsistentConfidenceSetWarning)
            self.warned = self.warned or least > self.bound.norm_bound
            yield

    def _spectrum(self) -> SpectralHistory:
        if isinstance(self.history, SpectralHistory):
            return self.history
        if self._own is None:
            self._own = SpectralHistory(self.history.observations)
            self._own.renew()
        return self._own
