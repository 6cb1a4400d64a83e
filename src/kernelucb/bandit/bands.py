r"""From the observations of a bandit to its bounds."""

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Generic, NamedTuple, TypeVar

import torch
from torch import Tensor

from kernelucb._numerics.arrays import safe_sqrt
from kernelucb.bandit.bounds import BanditBound, Dual, MixtureBound, RidgeBound
from kernelucb.bandit.filters import FilteredSystems, Ratio, TwoFilters
from kernelucb.bandit.grid import RegularizerGrid
from kernelucb.bandit.observations import Arms, Observations, Signs
from kernelucb.bandit.spectral import Eigenbasis, Spectrum
from kernelucb.confidence.assumptions import Assumption
from kernelucb.confidence.base import ConfidenceSet
from kernelucb.confidence.fit.choice import Filters
from kernelucb.confidence.fit.mixture import FitConstraint, combined_radius
from kernelucb.confidence.geometry import INTERIOR, Constraints, consistent_constraints
from kernelucb.confidence.martingale_mixture.function_set import FunctionSet
from kernelucb.confidence.martingale_mixture.regularizers import regularizer_range
from kernelucb.confidence.norm.least import least_norm
from kernelucb.exceptions import InconsistentConfidenceSetWarning
from kernelucb.regression import KernelRegression

# An estimated norm bound is renewed after this share of new observations: rare enough that
# O(n^3) for an estimate is O(n^2) a round.
_ESTIMATES = 16
# Of the width, by round-off in systems that grow; beyond, bounds are made from scratch.
_ACCEPTED_LOSS = 1e-5
# Of the squared radius, that the excess of a filtered set must leave.
_ROOM = 1e-6
# Round-off of the Schur complements, over the norm, beyond which a new eigenbasis is made.
_SCHUR_ERROR = 1e-10
_TINY = torch.finfo(torch.float64).tiny
# Ridge estimates tried for one that satisfies both constraints.
_TRIED = torch.logspace(-16, 16, 161, dtype=torch.float64)

BoundT = TypeVar("BoundT", bound=BanditBound)


class Bands(ABC, Generic[BoundT]):
    r"""A bound for the observations so far.

    Attributes:
        bound: The bound and its parameters.
        spectrum: The data in the form that gives bounds in ``O(n^2)``.
        grid: The regularisers, where the bound takes any.
    """

    def __init__(self, bound: BoundT, observations: Observations) -> None:
        self.bound, self.observations = bound, observations
        self.spectrum = Spectrum(observations)
        self.grid = RegularizerGrid()
        self._estimate_at = 1  # number of observations at which the norm is next estimated
        self._current: Any = None  # after the observations so far, once it was needed

    @staticmethod
    def of(bound: BanditBound, observations: Observations) -> "Bands[Any]":
        r"""The bands of a bound."""
        if isinstance(bound, RidgeBound):
            return RidgeBands(bound, observations)
        assert isinstance(bound, MixtureBound)
        return MixtureBands(bound, observations)

    @property
    def is_resolved(self) -> bool:
        r"""Whether the growing systems are as accurate as a regression from scratch.

        Round-off of a backward stable solve, ``eps |K_w| |w|`` with ``|w|`` at most
        ``norm / (2 sqrt(tau))``, moves a ridge estimate by at most
        ``eps |K_w| / (2 tau)`` of its standard deviation times ``norm``: both are sums with
        ``(K_w + tau)^-1 k_w(x)``. ``|K_w|`` is at most the trace.
        """
        trace = self.observations.total_variance / self.bound.noise_std**2
        epsilon = torch.finfo(torch.float64).eps
        return epsilon * trace <= _ACCEPTED_LOSS * self.bound.smallest_regularizer

    def observe(self, arm: Arms, outcome: float) -> None:
        r"""Add one observation: its arm, and its outcome in outcome units."""
        target = (outcome - float(arm.prior_mean)) / self.bound.noise_std
        self._current = None
        self.observations.append(arm, outcome)
        if self.is_resolved:
            self._append(arm, target)
        count = self.observations.count
        is_due = self.bound.tracker is not None and count >= self._estimate_at
        is_full = self.is_resolved and self.spectrum.is_full
        if is_due or is_full:
            regression = self.observations.regression()
            if is_due:
                self.bound.estimate_norm(regression)
                self._estimate_at = count + max(1, count // _ESTIMATES)
            if self.is_resolved:
                self._renew(regression)

    def _append(self, arm: Arms, target: float) -> None:
        self.spectrum.append(arm, target)

    def _renew(self, regression: KernelRegression) -> None:
        r"""Take all observations into the eigenbasis."""
        self.spectrum.renew(regression)

    def current(self) -> Any:
        r"""The set after the observations so far; stateless where that is needed."""
        if self._current is None:
            self._current = self._new_current()
        return self._current

    @abstractmethod
    def _new_current(self) -> Any: ...

    def supports(self, arms: Arms, signs: Signs) -> list[Tensor]:
        r"""Largest values of ``sign * (f - mean)`` at ``a`` arms, outcome units.

        A vector of ``a`` values for each sign.
        """
        current = self.current()
        if not isinstance(current, ConfidenceSet):
            return self._supports(current, arms, signs)
        points = current.project(arms.inputs)
        return [current.support(points, sign).value for sign in signs]

    @abstractmethod
    def _supports(self, current: Any, arms: Arms, signs: Signs) -> list[Tensor]: ...

    def contradiction(self) -> Assumption | None:
        r"""The assumption that the data contradict, if any."""
        return None

    def widening(self) -> float:
        r"""The norm in use over the norm bound, above 1 where the set was empty."""
        return self.current().constraints.norm / self.bound.norm_bound


class RidgeBands(Bands[RidgeBound]):
    r"""A bound at the one regulariser that its theorem fixes."""

    def _new_current(self) -> ConfidenceSet[Any] | None:
        if self.is_resolved:
            return None  # the spectrum knows all
        return self.bound.confidence_set(self.observations.regression())

    def _supports(self, current: None, arms: Arms, signs: Signs) -> list[Tensor]:
        tau = self.observations.inputs.new_tensor([self.bound.regularizer])
        systems = self.spectrum.systems("bound", tau)
        deviation, variance = systems.moments(self.spectrum.project(arms))
        width = self.bound.width(float(systems.fit().log_det))
        radius = width * safe_sqrt(variance)[:, 0]
        return [sign * deviation[:, 0] + radius for sign in signs]


class CurrentSet(NamedTuple):
    r"""The confidence set after the observations so far."""

    constraints: Constraints
    form: float  # quadratic form of the data at ``tau_ref``
    squared_radius: float  # of the fit, noise units
    filtered: Ratio | None = None  # of the data that the radius is for, if they are

    def unfiltered(self) -> "CurrentSet":
        r"""The set with the fit by the radius alone."""
        squared = self.form + self.constraints.radius.slack
        return self._replace(squared_radius=squared, filtered=None)

    def excess(self, regularizers: Tensor, quadratic_form: Tensor) -> Tensor:
        r"""``radius^2 + tau norm^2 - quadratic_form(tau)``.

        The quadratic form is of the filtered data where the fit is.
        """
        slack = self.squared_radius - self.form
        radius = self.constraints.radius._replace(slack=slack)
        constraints = self.constraints._replace(radius=radius)
        return constraints.excess_from(regularizers, self.form - quadratic_form)


class MixtureBands(Bands[MixtureBound]):
    r"""A bound over the functions that satisfy a fit and a norm constraint.

    That the set (of the first member) is not empty is shown by a fixed function that
    satisfies both constraints, in ``O(n)`` a round. Where it fails, usually after many
    rounds, another one is sought with a regression from scratch, and where there is none
    the set is the stateless one, widened.

    Attributes:
        filters: Weights of the mixture of filters, chosen with the last eigenbasis; None
            where the fit is the radius alone.
        warned: Whether the user has been told of a contradiction.
    """

    def __init__(self, bound: MixtureBound, observations: Observations) -> None:
        super().__init__(bound, observations)
        self.filters: TwoFilters | None = None
        self.warned = False
        # A function of norm at most the bound: weights of the covariances with the first
        # inputs, and squared distance to all data in noise units.
        self._feasible: tuple[Tensor, float] | None = None

    def _append(self, arm: Arms, target: float) -> None:
        super()._append(arm, target)
        if self._feasible is not None:
            weights, misfit = self._feasible
            fitted = float(weights @ arm.covariance[: len(weights), 0])
            misfit += (target - fitted / self.bound.noise_std) ** 2
            self._feasible = (weights, misfit)

    def _renew(self, regression: KernelRegression) -> None:
        super()._renew(regression)
        self.grid.restart()
        if isinstance(self.bound, Dual) and isinstance(self.bound.fit, Filters):
            mixture = self.bound.mixture(regression)
            self.filters = TwoFilters.of(mixture, self.bound.norm_bound)

    def contradiction(self) -> Assumption | None:
        r"""The assumption that the data contradict, if any."""
        return self.current().constraints.contradiction

    def _new_current(self) -> CurrentSet | FunctionSet[Any]:
        if not self.is_resolved:
            regression = self.observations.regression()
            return self._stateless(self.bound.constraint(regression), regression)
        bound, filters, count = self.bound, self.filters, self.observations.count
        taus = bound.references + ([] if filters is None else [filters.corner])
        fit = self.spectrum.systems("radius", self._tensor(taus)).fit()
        log_dets, forms = fit.log_det, fit.quadratic_form
        scales = len(bound.references)
        references = self._tensor(bound.references)

        def form_at(tau_ref: float) -> Tensor:
            return forms[bound.references.index(tau_ref)]

        def differences(tau_ref: float) -> Tensor:
            return forms[:scales] - form_at(tau_ref)

        predicted = combined_radius(references, log_dets[:scales], differences, bound.delta)
        form = float(form_at(predicted.tau_ref))
        hidden = self.spectrum.basis.hidden_part(bound.norm_bound)
        radius = bound.with_energy(predicted, form, count, hidden)
        squared = form + radius.slack
        if count > 0 and (self._feasible is None or self._feasible[1] > squared):
            regression = self.observations.regression()
            constraint = FitConstraint(regression, bound.ball(regression).radius)
            least = least_norm(*constraint)
            if least * (1.0 + INTERIOR) > bound.norm_bound:
                self._feasible = None
                return self._stateless(constraint, regression)
            self._feasible = self._feasible_in(Eigenbasis.of(regression), squared)
        constraints = Constraints(radius, bound.norm_bound, None)
        current = CurrentSet(constraints, form, squared)
        if filters is None:
            return current
        log_det = float(log_dets[-1]) + self.spectrum.basis.hidden_log_det(filters.corner)
        squared = filters.squared_radius(
            form + predicted.slack, log_det, count, bound.delta
        )
        squared += filters.ratio.at_zero * hidden
        return current._replace(squared_radius=squared, filtered=filters.ratio)

    def _tensor(self, values: list[float]) -> Tensor:
        return self.observations.inputs.new_tensor(values)

    def _feasible_in(
        self, basis: Eigenbasis, squared_radius: float
    ) -> tuple[Tensor, float] | None:
        r"""The ridge estimate that satisfies both constraints by the most, if one does."""
        lam, squares = basis.eigenvalues, basis.targets.square()
        taus = squared_radius / self.bound.norm_bound**2 * _TRIED.to(lam).unsqueeze(-1)
        shares = 1.0 / (lam + taus)
        misfits = (taus * shares).square() @ squares + basis.unresolved
        norms = shares.square() @ (lam * squares)
        most = torch.maximum(misfits / squared_radius, norms / self.bound.norm_bound**2)
        best = int(most.argmin())
        if most[best] > 1.0:
            return None
        return basis.basis @ (basis.mean_terms * shares[best]), float(misfits[best])

    def _stateless(
        self, constraint: FitConstraint[Any], regression: KernelRegression
    ) -> FunctionSet[Any]:
        r"""The stateless set, relaxed with a warning where it is empty."""
        state, radius = constraint
        least = least_norm(state, radius)
        if least > self.bound.norm_bound:
            self.bound.estimate_norm(regression)
        with self._warning_once(least):
            norm = self.bound.norm_bound
            constraints = consistent_constraints(state, radius, norm, least)
        return self.bound.confidence_set(state, constraints)

    @contextmanager
    def _warning_once(self, least: float) -> Generator[None]:
        r"""The user is told of a contradiction once."""
        with warnings.catch_warnings():
            if self.warned:
                warnings.simplefilter("ignore", InconsistentConfidenceSetWarning)
            self.warned = self.warned or least > self.bound.norm_bound
            yield

    def _supports(self, current: CurrentSet, arms: Arms, signs: Signs) -> list[Tensor]:
        ball = current.constraints.norm * safe_sqrt(arms.prior_variance)
        if isinstance(self.bound, Dual):
            if min(len(arms.inputs), self.observations.count) == 0:
                return [ball] * len(signs)
            return [torch.minimum(each, ball) for each in self._least(current, arms, signs)]
        taus = self.bound.regularizers(current.constraints.radius.tau_ref)
        deviation, radius, _ = self._ellipsoids(taus.to(ball), current, arms)
        return [(sign * deviation + radius).amin(-1) for sign in signs]

    def _least(self, current: CurrentSet, arms: Arms, signs: Signs) -> list[Tensor]:
        r"""The least ellipsoid bounds over the whole grid of regularisers."""
        basis, grid = self.spectrum.basis, self.grid
        norm, squared = current.constraints.norm, current.squared_radius
        largest = float(basis.eigenvalues[-1]) if len(basis.eigenvalues) else 0.0
        scale = squared / norm**2
        grid.place(scale, *regularizer_range(scale, largest, basis.eigenvalue_cutoff))
        # The Schur complements' round-off is that of the prior variances, ``eps k``, next
        # to ``noise^2 tau``; it enters ``sqrt(variance * excess / tau)``, beside ``norm``.
        relative = torch.finfo(torch.float64).eps / _SCHUR_ERROR
        variance = max(float(arms.prior_variance.max()), _TINY)
        fragile = relative * variance * math.sqrt(scale) / self.bound.noise_std
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
