r"""The martingale mixture's bound for a bandit, over many regularisers."""

import math
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from kernelucb._numerics.arrays import safe_sqrt
from kernelucb.bandit.bands import Bands, Shared
from kernelucb.bandit.filters import FilteredSystems, Ratio, TwoFilters
from kernelucb.bandit.observations import Arms, Signs
from kernelucb.bandit.spectral import Eigenbasis, Spectrum
from kernelucb.confidence.assumptions import (
    Assumption,
    Assumptions,
    PriorKnowledge,
)
from kernelucb.confidence.dual import (
    ExactSet,
    FunctionSet,
    GridSet,
    regularizer_range,
)
from kernelucb.confidence.filters import PRIOR_WEIGHTS, FilterMixture
from kernelucb.confidence.fit import (
    MixtureFit,
    data_fit,
    fit_source,
)
from kernelucb.confidence.forms import (
    ANALYTIC_SOURCE,
    Form,
    grid_regularizers,
    is_grid,
)
from kernelucb.confidence.mixture import (
    INTERIOR,
    Constraints,
    consistent_constraints,
)
from kernelucb.confidence.norm import NormTracker, for_least_norm, least_norm
from kernelucb.confidence.radius import (
    FitConstraint,
    KernelFree,
    Radius,
    combined_radius,
    energy_source,
    mixture_radius,
    mixture_source,
    with_energy,
)
from kernelucb.exceptions import InconsistentConfidenceSetWarning
from kernelucb.regression import KernelRegression, RidgeState

# Of the squared radius, that the excess of a filtered set must leave.
_ROOM = 1e-6
# Round-off of the Schur complements, over the norm, beyond which a new eigenbasis is made.
_SCHUR_ERROR = 1e-10
_TINY = torch.finfo(torch.float64).tiny
# Ridge estimates tried for one that satisfies both constraints.
_TRIED = torch.logspace(-16, 16, 161, dtype=torch.float64)


class CurrentSet(NamedTuple):
    r"""The confidence set after the observations so far."""

    norm: float  # outcome units
    radius: Radius  # of the fit, noise units, without filters
    form: float  # quadratic form of the data at its ``tau_ref``
    squared_radius: float  # of the fit in use
    filtered: Ratio | None = None  # of the data that the radius is for, if they are

    def unfiltered(self) -> "CurrentSet":
        r"""The set with the fit by the radius alone."""
        squared = self.form + self.radius.slack
        return self._replace(squared_radius=squared, filtered=None)

    def excess(self, regularizers: Tensor, quadratic_form: Tensor) -> Tensor:
        r"""``radius^2 + tau norm^2 - quadratic_form(tau)``.

        The quadratic form is of the filtered data where the fit is.
        """
        slack, drop = self.squared_radius - self.form, self.form - quadratic_form
        return slack + regularizers * self.norm**2 + drop


class MixtureBands(Bands):
    r"""A bound over the functions that satisfy a fit and a norm constraint.

    ``"dual"`` takes the least over every regulariser, up to the steps of a fine grid, and
    of filters their mixture; a grid the least over its own and one ridge parameter
    the closed form, with the energy of the noise in place of filters.

    That the set (of the first member) is not empty is shown by a fixed function that
    satisfies both constraints, in ``O(n)`` a round. Where it fails, usually after many
    rounds, another one is sought with a regression from scratch, and where there is none
    the set is the stateless one, widened.

    Attributes:
        fit: What bounds the distance to the data.
        references: ``tau = 1 / c`` of each covariance scale; there the radius is computed.
        spectrum: The data in the form that gives bounds in ``O(n^2)``.
        filters: Weights of the mixture of filters, chosen with the last eigenbasis; None
            where the fit is the radius alone.
        warned: Whether the user has been told of a contradiction.
    """

    def __init__(self, shared: Shared, fit: MixtureFit, form: Form) -> None:
        super().__init__(shared)
        self.fit, self._form = fit, form
        self.source = GridSet.source if is_grid(form) else ANALYTIC_SOURCE
        self.source = ExactSet.source if form == "dual" else self.source
        self.references = [1.0 / scale for scale in fit.scales]
        taus = [tau for ref in self.references for tau in self._regularizers(ref).tolist()]
        self.smallest_regularizer = min(self.references + taus)
        self.spectrum = Spectrum(self.observations)
        self.filters: TwoFilters | None = None
        self.warned = False
        # A function of norm at most the bound: weights of the covariances with the first
        # inputs, and squared distance to all data in noise units.
        self._feasible: tuple[Tensor, float] | None = None

    def _regularizers(self, tau_ref: float) -> Tensor:
        r"""The ``tau`` that the bound minimises over, where they are given beforehand."""
        if self._form in ("dual", "analytic"):
            taus = [] if self._form == "dual" else [tau_ref]
            return torch.tensor(taus, dtype=torch.float64)
        return grid_regularizers(self._form, tau_ref, self.noise_std**2)

    def assumptions(self, known: PriorKnowledge) -> Assumptions:
        r"""What the bound rests on."""
        source = fit_source(self.fit)
        if self._form != "dual":
            source = mixture_source(self.fit.scales)
            source = energy_source(source) if self.fit.filters else source
        return replace(super().assumptions(known), source=source).by(self.source)

    def mixture(self, regression: KernelRegression) -> FilterMixture:
        r"""The mixture of filters, tied to the norm bound where it was given."""
        norm = None if isinstance(self.norm, NormTracker) else self.norm
        return FilterMixture(regression, self.delta, self.fit.scales, norm)

    @property
    def _is_filtered(self) -> bool:
        return self._form == "dual" and self.fit.filters

    def with_energy(
        self, predicted: Radius, form: float, count: int, hidden: float
    ) -> Radius:
        r"""The radius of the fit; of a mixture of filters, of its first member alone.

        Args:
            predicted: Of the martingale mixture.
            form: Quadratic form of the data at its ``tau_ref``.
            count: Number of observations.
            hidden: What round-off hides of the outcomes; see ``hidden_part``.
        """
        if not self.fit.filters:
            return predicted.beside_hidden(hidden)
        squared = form + predicted.slack
        if self._is_filtered:
            mixed = KernelFree.of(count, self.delta, squared, PRIOR_WEIGHTS)
            squared = mixed.ball.squared_radius
        else:
            squared = with_energy(squared, count, self.delta)
        return predicted._replace(slack=squared + hidden - form)

    def _radius(self, regression: KernelRegression, hidden: float) -> Radius:
        predicted = mixture_radius(regression, self.delta, self.fit.scales)
        form = float(regression.quadratic_form(predicted.tau_ref))
        return self.with_energy(predicted, form, regression.num_observations, hidden)

    def constraint(
        self, regression: KernelRegression, filtered: bool = True
    ) -> FitConstraint:
        r"""The fit as narrow as the stateless sets have it, or by the radius alone."""
        if filtered and self._is_filtered:
            return self.mixture(regression).for_band(self.norm_bound)
        hidden = regression.hidden_part(self.norm_bound)
        return FitConstraint(regression, self._radius(regression, hidden))

    def confidence_set(self, state: RidgeState, constraints: Constraints) -> FunctionSet:
        r"""The stateless set with given constraints."""
        assumptions = self.assumptions(state)
        if self._form == "dual":
            return ExactSet(state, constraints, assumptions)
        taus = self._regularizers(constraints.radius.tau_ref)
        return GridSet(state, constraints, taus, assumptions)

    def _estimate_norm(self, tracker: NormTracker) -> None:
        regression = self.observations.regression()
        tracker.estimate(regression, self._radius(regression, 0.0))
        if self._is_filtered:
            fit = data_fit(self.fit, regression, self.delta)
            tracker.estimate(*for_least_norm(fit).constraint)

    def observe(self, arm: Arms, outcome: float) -> None:
        r"""See ``Bands``; once in a while all observations go into the eigenbasis."""
        super().observe(arm, outcome)
        if self.is_resolved and self.spectrum.is_full:
            regression = self.observations.regression()
            self.spectrum.renew(regression)
            self.grid.restart()
            if self._is_filtered:
                mixture = self.mixture(regression)
                self.filters = TwoFilters.of(mixture, self.norm_bound)

    def _append(self, arm: Arms, target: float) -> None:
        self.spectrum.append(arm, target)
        if self._feasible is not None:
            weights, misfit = self._feasible
            fitted = float(weights @ arm.covariance[: len(weights), 0])
            misfit += (target - fitted / self.noise_std) ** 2
            self._feasible = (weights, misfit)

    def contradiction(self) -> Assumption | None:
        r"""See ``Bands``."""
        current = self.current()
        return (
            None if isinstance(current, CurrentSet) else current.constraints.contradiction
        )

    def widening(self) -> float:
        r"""See ``Bands``."""
        return self.current().norm / self.norm_bound

    def _new_current(self) -> CurrentSet | FunctionSet:
        if not self.is_resolved:
            regression = self.observations.regression()
            return self._stateless(self.constraint(regression), regression)
        filters, count, scales = self.filters, self.observations.count, len(self.references)
        taus = self.references + ([] if filters is None else [filters.corner])
        references = self._tensor(self.references)
        fit = self.spectrum.systems("radius", self._tensor(taus)).fit()
        log_dets, forms = fit.log_det, fit.quadratic_form

        def form_at(tau_ref: float) -> Tensor:
            return forms[self.references.index(tau_ref)]

        def differences(tau_ref: float) -> Tensor:
            return forms[:scales] - form_at(tau_ref)

        predicted = combined_radius(references, log_dets[:scales], differences, self.delta)
        form = float(form_at(predicted.tau_ref))
        hidden = self.spectrum.basis.hidden_part(self.norm_bound)
        radius = self.with_energy(predicted, form, count, hidden)
        squared = form + radius.slack
        if count > 0 and (self._feasible is None or self._feasible[1] > squared):
            regression = self.observations.regression()
            constraint = self.constraint(regression, filtered=False)
            if least_norm(*constraint) * (1.0 + INTERIOR) > self.norm_bound:
                self._feasible = None
                return self._stateless(constraint, regression)
            self._feasible = self._feasible_in(Eigenbasis.of(regression), squared)
        current = CurrentSet(self.norm_bound, radius, form, squared)
        if filters is None:
            return current
        log_det = float(log_dets[-1]) + self.spectrum.basis.hidden_log_det(filters.corner)
        squared = filters.squared_radius(form + predicted.slack, log_det, count, self.delta)
        squared += filters.ratio.at_zero * hidden
        return current._replace(squared_radius=squared, filtered=filters.ratio)

    def _tensor(self, values: list[float]) -> Tensor:
        return self.observations.inputs.new_tensor(values)

    def _feasible_in(
        self, basis: Eigenbasis, squared_radius: float
    ) -> tuple[Tensor, float] | None:
        r"""The ridge estimate that satisfies both constraints by the most, if one does."""
        lam, squares = basis.eigenvalues, basis.targets.square()
        taus = squared_radius / self.norm_bound**2 * _TRIED.to(lam).unsqueeze(-1)
        shares = 1.0 / (lam + taus)
        misfits = (taus * shares).square() @ squares + basis.unresolved
        norms = shares.square() @ (lam * squares)
        most = torch.maximum(misfits / squared_radius, norms / self.norm_bound**2)
        best = int(most.argmin())
        if most[best] > 1.0:
            return None
        return basis.basis @ (basis.mean_terms * shares[best]), float(misfits[best])

    def _stateless(
        self, constraint: FitConstraint, regression: KernelRegression
    ) -> FunctionSet:
        r"""The stateless set, relaxed with a warning where it is empty."""
        state, radius = constraint
        least = least_norm(state, radius)
        if least > self.norm_bound and isinstance(self.norm, NormTracker):
            self._estimate_norm(self.norm)
        with self._warning_once(least):
            constraints = consistent_constraints(state, radius, self.norm_bound, least)
        return self.confidence_set(state, constraints)

    @contextmanager
    def _warning_once(self, least: float) -> Generator[None]:
        r"""The user is told of a contradiction once."""
        with warnings.catch_warnings():
            if self.warned:
                warnings.simplefilter("ignore", InconsistentConfidenceSetWarning)
            self.warned = self.warned or least > self.norm_bound
            yield

    def _supports(self, current: CurrentSet, arms: Arms, signs: Signs) -> list[Tensor]:
        if self._form != "dual":
            taus = self._regularizers(current.radius.tau_ref).to(arms.inputs)
            deviation, radius, _ = self._ellipsoids(taus, current, arms)
            return [(sign * deviation + radius).amin(-1) for sign in signs]
        ball = current.norm * safe_sqrt(arms.prior_variance)
        if min(len(arms.inputs), self.observations.count) == 0:
            return [ball] * len(signs)
        return [torch.minimum(each, ball) for each in self._least(current, arms, signs)]

    def _least(self, current: CurrentSet, arms: Arms, signs: Signs) -> list[Tensor]:
        r"""The least ellipsoid bounds over the whole grid of regularisers."""
        basis, grid = self.spectrum.basis, self.grid
        norm, squared = current.norm, current.squared_radius
        largest = float(basis.eigenvalues[-1]) if len(basis.eigenvalues) else 0.0
        scale = squared / norm**2
        grid.place(scale, *regularizer_range(scale, largest, basis.eigenvalue_cutoff))
        # The Schur complements' round-off is that of the prior variances, ``eps k``, next
        # to ``noise^2 tau``; it enters ``sqrt(variance * excess / tau)``, beside ``norm``.
        relative = torch.finfo(torch.float64).eps / _SCHUR_ERROR
        variance = max(float(arms.prior_variance.max()), _TINY)
        fragile = relative * variance * math.sqrt(scale) / self.noise_std
        while True:
            taus = grid.regularizers(arms.inputs)
            if self.spectrum.newest and float(taus[0]) < fragile:
                self.spectrum.renew(self.observations.regression())
            deviation, radius, excess = self._ellipsoids(taus, current, arms)
            if current.filtered is not None and float(excess.min()) < _ROOM * squared:
                return self._least(current.unfiltered(), arms, signs)
            values = torch.stack([sign * deviation + radius for sign in signs])
            if not grid.widened(values, radius):
                return [*values.amin(-1)]

    def _ellipsoids(
        self, taus: Tensor, current: CurrentSet, arms: Arms
    ) -> tuple[Tensor, Tensor, Tensor]:
        r"""Centres and half-widths of ``a x m`` ellipsoid bounds, and ``m`` excesses."""
        if current.filtered is None:
            systems = self.spectrum.systems("bound", taus)
            form = systems.fit().quadratic_form
        else:
            systems = FilteredSystems(self.spectrum, current.filtered, taus)
            form = systems.quadratic_form()
        deviation, variance = systems.moments(self.spectrum.project(arms))
        excess = current.excess(taus, form)
        squared = variance.clamp_min(0.0) * (excess.clamp_min(0.0) / taus)
        return deviation, safe_sqrt(squared), excess
