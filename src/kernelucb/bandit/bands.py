r"""From the observations of a bandit to its bounds: at one regulariser, or over many."""

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from kernelucb._numerics.arrays import safe_sqrt
from kernelucb._numerics.checks import one_of, positive_scalar
from kernelucb._numerics.estimates import EstimatedNumber
from kernelucb.bandit.filters import FilteredSystems, Ratio, TwoFilters
from kernelucb.bandit.grid import RegularizerGrid
from kernelucb.bandit.observations import Arms, Observations, Signs
from kernelucb.bandit.spectral import Eigenbasis, Points, SchurSystems, Spectrum
from kernelucb.confidence.assumptions import (
    Assumption,
    Assumptions,
    PriorKnowledge,
    rkhs_assumptions,
)
from kernelucb.confidence.base import ConfidenceSet
from kernelucb.confidence.fit.choice import (
    ClosedForm,
    Filters,
    MartingaleMixture,
    data_fit,
    fit_of,
    fit_source,
)
from kernelucb.confidence.fit.filters import ALONE, FilterMixture
from kernelucb.confidence.fit.prequential import PrequentialRadius
from kernelucb.confidence.fit.radius import (
    FitConstraint,
    KernelFree,
    Radius,
    combined_radius,
    energy_source,
    mixture_radius,
    mixture_source,
    with_energy,
)
from kernelucb.confidence.martingale_mixture.dual import (
    ExactSet,
    FunctionSet,
    GridSet,
    regularizer_range,
)
from kernelucb.confidence.martingale_mixture.forms import (
    ANALYTIC_SOURCE,
    Analytic,
    Grid,
    grid_regularizers,
)
from kernelucb.confidence.martingale_mixture.problem import (
    INTERIOR,
    Constraints,
    consistent_constraints,
)
from kernelucb.confidence.norm.least import for_least_norm, least_norm
from kernelucb.confidence.norm.tracker import NormTracker, estimated_norm, given_norm
from kernelucb.confidence.ridge_band import (
    ABBASI_YADKORI_SOURCE,
    IGP_UCB_SOURCE,
    abbasi_yadkori_width,
    check_resolved,
    fixed_ridge_band,
    igp_ucb_regularizer,
    igp_ucb_width,
)
from kernelucb.exceptions import InconsistentConfidenceSetWarning
from kernelucb.regression import KernelRegression, RidgeState
from kernelucb.regression.prior import Prior

BoundName = Literal["martingale_mixture", "abbasi_yadkori", "igp_ucb"]
Form = Literal["dual", "analytic"] | Analytic | Grid

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


class Shared(NamedTuple):
    r"""What every bound is made from."""

    prior: Prior
    norm: float | NormTracker  # outcome units; a tracker where it is estimated
    noise_std: float  # sub-Gaussian noise scale, outcome units
    delta: float  # failure probability


class Bands(ABC):
    r"""A bound for the observations so far.

    Attributes:
        source: Its theorem.
        num_rounds: Number of rounds that it holds for.
        smallest_regularizer: The smallest ``tau`` that it needs whatever the data.
        grid: The regularisers, where it takes any.
    """

    source: str
    num_rounds: float = math.inf
    smallest_regularizer: float

    def __init__(self, shared: Shared) -> None:
        prior, self.norm, self.noise_std, self.delta = shared
        self.observations = Observations(prior, self.noise_std)
        self.grid = RegularizerGrid()
        self._estimate_at = 1  # number of observations at which the norm is next estimated
        self._current: Any = None  # after the observations so far, once it was needed

    @property
    def norm_bound(self) -> float:
        r"""The norm bound given, or its estimate so far, outcome units."""
        if isinstance(self.norm, NormTracker):
            return max(self.norm.estimates[0], self.norm.floor)
        return self.norm

    @property
    def is_resolved(self) -> bool:
        r"""Whether the growing systems are as accurate as a regression from scratch.

        Round-off of a backward stable solve, ``eps |K_w| |w|`` with ``|w|`` at most
        ``norm / (2 sqrt(tau))``, moves a ridge estimate by at most
        ``eps |K_w| / (2 tau)`` of its standard deviation times ``norm``: both are sums with
        ``(K_w + tau)^-1 k_w(x)``. ``|K_w|`` is at most the trace.
        """
        trace = self.observations.total_variance / self.noise_std**2
        epsilon = torch.finfo(torch.float64).eps
        return epsilon * trace <= _ACCEPTED_LOSS * self.smallest_regularizer

    def assumptions(self, known: PriorKnowledge) -> Assumptions:
        r"""What the bound rests on."""
        guessed = "norm" in known.estimated
        norm = given_norm(EstimatedNumber(self.norm_bound) if guessed else self.norm_bound)
        if isinstance(self.norm, NormTracker):
            norm = estimated_norm(self.norm_bound, self.norm.estimates[1])
        horizon = None if math.isinf(self.num_rounds) else self.num_rounds
        return rkhs_assumptions(self.source, known, self.delta, norm, horizon=horizon)

    def check_noise(self, variance: Tensor) -> None:  # noqa: B027
        r"""Raise a ValueError where rounded prior variances hide what the data say.

        Nothing to check where the bound holds at any regulariser: it takes a larger one.
        """

    def observe(self, arm: Arms, outcome: float) -> None:
        r"""Add one observation: its arm, and its outcome in outcome units."""
        self._current = None
        self.observations.append(arm, outcome)
        if self.is_resolved:
            self._append(arm, (outcome - float(arm.prior_mean)) / self.noise_std)
        count = self.observations.count
        if isinstance(self.norm, NormTracker) and count >= self._estimate_at:
            self._estimate_norm(self.norm)
            self._estimate_at = count + max(1, count // _ESTIMATES)

    @abstractmethod
    def _append(self, arm: Arms, target: float) -> None:
        r"""Add an observation, its outcome without the mean and in noise units."""

    def _estimate_norm(self, tracker: NormTracker) -> None:
        regression = self.observations.regression()
        tracker.estimate(regression, mixture_radius(regression, self.delta, 1.0))

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
        return 1.0


class RidgeTheorem(NamedTuple):
    r"""A ridge estimate plus or minus a width times its standard deviation."""

    source: str
    regularizer: float  # tau, which the theorem fixes
    width: Callable[[float, float], float]  # from ln det(I + K_w / tau) and the norm
    num_rounds: float = math.inf


class RidgeBands(Bands):
    r"""The bound of a theorem at its one regulariser.

    There the system of all observations grows, as that of the newest does elsewhere.
    """

    def __init__(self, shared: Shared, theorem: RidgeTheorem) -> None:
        super().__init__(shared)
        self.source, self.smallest_regularizer, self._width, self.num_rounds = theorem
        basis = Eigenbasis.empty(self.observations.inputs)
        tau = basis.eigenvalues.new_tensor([self.smallest_regularizer])
        self._systems = SchurSystems(basis, tau, self.noise_std)

    def check_noise(self, variance: Tensor) -> None:
        r"""Check that kernel values resolve the regulariser; see ``Bands``."""
        check_resolved(self.smallest_regularizer, self.noise_std, variance)

    def _append(self, arm: Arms, target: float) -> None:
        self._systems.append(_outside_any_basis(arm, self._systems.count), target)

    def _new_current(self) -> ConfidenceSet[Any] | None:
        if self.is_resolved:
            return None  # the growing system knows all
        regression, tau = self.observations.regression(), self.smallest_regularizer
        width = self._width(float(regression.log_det(tau)), self.norm_bound)
        return fixed_ridge_band(regression, tau, width, self.assumptions(regression))

    def _supports(self, current: None, arms: Arms, signs: Signs) -> list[Tensor]:
        points = _outside_any_basis(arms, self._systems.count)
        deviation, variance = self._systems.moments(points)
        width = self._width(float(self._systems.fit().log_det), self.norm_bound)
        radius = width * safe_sqrt(variance)[:, 0]
        return [sign * deviation[:, 0] + radius for sign in signs]


def _outside_any_basis(arms: Arms, count: int) -> Points:
    r"""Arms beside an empty eigenbasis and the first so many observations."""
    nothing = arms.prior_variance.new_empty(len(arms.inputs), 0)
    return Points(nothing, arms.prior_variance, arms.covariance[:count])


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


class MixtureBands(Bands):
    r"""A bound over the functions that satisfy a fit and a norm constraint.

    ``"dual"`` takes the least over every regulariser, up to the steps of a fine grid, and
    of ``Filters`` the mixture of filters; a ``Grid`` the least over its own and
    ``Analytic`` the closed form, with the energy of the noise in place of filters.

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

    def __init__(
        self, shared: Shared, fit: Filters | MartingaleMixture, form: Form
    ) -> None:
        super().__init__(shared)
        self.fit, self._form = fit, form
        self.source = GridSet.source if isinstance(form, Grid) else ANALYTIC_SOURCE
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
        if isinstance(self._form, Grid):
            return grid_regularizers(self._form.alphas, tau_ref, self.noise_std**2)
        taus = []
        if isinstance(self._form, Analytic):
            alpha = self._form.alpha
            taus = [tau_ref if alpha is None else alpha / self.noise_std**2]
        return torch.tensor(taus, dtype=torch.float64)

    def assumptions(self, known: PriorKnowledge) -> Assumptions:
        r"""What the bound rests on."""
        source = fit_source(self.fit)
        if self._form != "dual":
            source = mixture_source(self.fit.scales)
            source = energy_source(source) if isinstance(self.fit, Filters) else source
        return replace(super().assumptions(known), source=source).by(self.source)

    def mixture(self, regression: KernelRegression) -> FilterMixture:
        r"""The mixture of filters, tied to the norm bound where it was given."""
        norm = None if isinstance(self.norm, NormTracker) else self.norm
        return FilterMixture(regression, self.delta, self.fit.scales, norm)

    @property
    def _is_filtered(self) -> bool:
        return self._form == "dual" and isinstance(self.fit, Filters)

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
        if isinstance(self.fit, MartingaleMixture):
            return predicted.beside_hidden(hidden)
        squared = form + predicted.slack
        if self._is_filtered:
            mixed = KernelFree.of(count, self.delta, squared, ALONE[:2])
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
    ) -> FitConstraint[Any]:
        r"""The fit as narrow as the stateless sets have it, or by the radius alone."""
        if filtered and self._is_filtered:
            return self.mixture(regression).for_band(self.norm_bound)
        hidden = regression.hidden_part(self.norm_bound)
        return FitConstraint(regression, self._radius(regression, hidden))

    def confidence_set(
        self, state: RidgeState, constraints: Constraints
    ) -> FunctionSet[Any]:
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
        return self.current().constraints.contradiction

    def widening(self) -> float:
        r"""See ``Bands``."""
        return self.current().constraints.norm / self.norm_bound

    def _new_current(self) -> CurrentSet | FunctionSet[Any]:
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
        constraints = Constraints(radius, self.norm_bound, None)
        current = CurrentSet(constraints, form, squared)
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
        self, constraint: FitConstraint[Any], regression: KernelRegression
    ) -> FunctionSet[Any]:
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
            taus = self._regularizers(current.constraints.radius.tau_ref).to(arms.inputs)
            deviation, radius, _ = self._ellipsoids(taus, current, arms)
            return [(sign * deviation + radius).amin(-1) for sign in signs]
        ball = current.constraints.norm * safe_sqrt(arms.prior_variance)
        if min(len(arms.inputs), self.observations.count) == 0:
            return [ball] * len(signs)
        return [torch.minimum(each, ball) for each in self._least(current, arms, signs)]

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


_TAKEN = {
    "martingale_mixture": {"form", "fit"},
    "abbasi_yadkori": {"form"},
    "igp_ucb": {"horizon"},
}


def bands_of(
    name: BoundName,
    shared: Shared,
    form: Form | None,
    fit: ClosedForm | None,
    horizon: int | None,
) -> tuple[Callable[[], Bands], list[Any]]:
    r"""What makes the bound before any data, and its options as plain values.

    Arguments as for ``KernelBandit``; None is the default of each that the bound takes.

    Raises:
        ValueError: If an option is out of its range, or the bound does not take it.
    """
    one_of("bound", name, *_TAKEN)
    for option, value in {"form": form, "fit": fit, "horizon": horizon}.items():
        if value is not None and option not in _TAKEN[name]:
            raise ValueError(f'bound="{name}" takes no {option}; leave it out.')
    form = Analytic() if form == "analytic" else form
    if name == "martingale_mixture":
        chosen = fit_of("filters" if fit is None else fit)
        if isinstance(chosen, PrequentialRadius):
            raise ValueError('fit must be "filters", "martingale" or one of their classes.')
        form = "dual" if form is None else form
        if not isinstance(form, Analytic | Grid):
            one_of("form", form, "dual", "analytic")
        options = [type(chosen).__name__, *chosen.scales, repr(form)]
        return partial(MixtureBands, shared, chosen, form), options
    delta, noise_std = shared.delta, shared.noise_std
    if name == "igp_ucb":
        rounds = int(positive_scalar("horizon", 1000 if horizon is None else horizon))
        tau = igp_ucb_regularizer(noise_std, rounds)
        width = partial(igp_ucb_width, delta=delta, noise_std=noise_std)
        theorem = RidgeTheorem(IGP_UCB_SOURCE, tau, width, rounds)
    else:
        if not isinstance(form, Analytic | None):
            raise ValueError(
                'bound="abbasi_yadkori" takes one ridge parameter: form=Analytic(alpha).'
            )
        alpha = None if form is None else form.alpha
        tau = 1.0 if alpha is None else alpha / noise_std**2
        width = partial(abbasi_yadkori_width, delta=delta, regularizer=tau)
        theorem = RidgeTheorem(ABBASI_YADKORI_SOURCE, tau, width)
    return partial(RidgeBands, shared, theorem), [tau]
