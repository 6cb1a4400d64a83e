r"""Radius and norm bound of the martingale mixture as observations come in."""

import math
import warnings
from copy import copy
from typing import Any, NamedTuple, cast

from torch import Tensor

from kernelucb.bandit.history import Fit, History
from kernelucb.bandit.observations import Observations, Query
from kernelucb.bandit.ridge_search import RidgeSearch
from kernelucb.bandit.rule import Rule
from kernelucb.bandit.spectral import SpectralHistory
from kernelucb.confidence.base import ConfidenceSet
from kernelucb.confidence.fit.mixture import Radius, combined_radius, mixture_radius
from kernelucb.confidence.geometry import Constraints, consistent_constraints
from kernelucb.confidence.norm.least import least_norm
from kernelucb.exceptions import InconsistentConfidenceSetWarning
from kernelucb.regression import RidgeState


class CurrentSet(NamedTuple):
    r"""The confidence set after the observations so far.

    Attributes:
        constraints: Fit and norm constraint.
        form: Quadratic form of the data at ``tau_ref``.
        stateless: The set from scratch, where the history cannot give its bounds.
    """

    constraints: Constraints
    form: float
    stateless: ConfidenceSet[Any] | None

    @property
    def squared_radius(self) -> float:
        r"""Squared radius of the fit, noise units."""
        return self.form + self.constraints.radius.slack

    def excess(self, fit: Fit) -> Tensor:
        r"""``radius^2 + tau norm^2 - quadratic_form(tau)``, at least zero."""
        radius, norm, _ = self.constraints
        # In this order: at small noise the forms are large, and nearly the same.
        difference = self.form - fit.quadratic_form
        return (radius.slack + fit.regularizers * norm**2 + difference).clamp_min(0.0)


class Witness(NamedTuple):
    r"""A fixed function of norm at most the bound, and how far the data are from it.

    Attributes:
        weights: ``n`` weights of the covariances with the first ``n`` inputs.
        squared_misfit: Squared distance to all data, noise units.
    """

    weights: Tensor
    squared_misfit: float


class Consistency:
    r"""Follows the radius, and whether some function satisfies both constraints.

    One function that does, the witness, settles that in ``O(n)`` a round and usually for
    many rounds. A new one is sought among the ridge estimates, each of which costs
    ``O(n p^2)`` once there is an eigenbasis of all but the newest ``p`` observations.

    Args:
        rule: The bound and its parameters.
        observations: The data.
        spectrum: The history, where it has an eigenbasis; otherwise one is made when it is
            first asked for, and again when the newest are too many.

    Attributes:
        witness: The function last found to satisfy both.
        warned: Whether the user has been told of a contradiction.
    """

    def __init__(
        self, rule: Rule, observations: Observations, spectrum: SpectralHistory | None
    ) -> None:
        self.rule, self.observations = rule, observations
        self._shared, self._spectrum = spectrum is not None, spectrum
        self.witness: Witness | None = None
        self._nearest: float | None = None  # where the next search starts
        self.warned = False

    def fork(
        self, rule: Rule, observations: Observations, spectrum: SpectralHistory | None
    ) -> "Consistency":
        r"""One that goes on on its own, with forks of what it was made with."""
        new = copy(self)
        new.rule, new.observations = rule, observations
        if self._shared:
            new._spectrum = spectrum
        elif self._spectrum is not None:
            new._spectrum = self._spectrum.fork()
        return new

    def observe(self, query: Query, target: float) -> None:
        r"""Hold one more observation against the witness.

        Args:
            query: Its input, seen by the observations before it.
            target: Its outcome minus the prior mean, in noise units.
        """
        if self.witness is not None:
            weights = self.witness.weights
            fitted = float(weights @ query.covariance[: len(weights), 0])
            residual = target - fitted / self.rule.noise_std
            misfit = self.witness.squared_misfit + residual**2
            self.witness = self.witness._replace(squared_misfit=misfit)
        if self._spectrum is not None and not self._shared:
            if self._spectrum.is_full:
                self._spectrum = None
            else:
                self._spectrum.append(query, target)

    def current(self, history: History) -> CurrentSet:
        r"""The confidence set, relaxed with a warning where it is empty."""
        taus = self.rule.references.to(self.observations.inputs)
        radius, form = self._radius(history.systems("radius", taus).fit())
        constraints = Constraints(radius, self.rule.norm_bound, None)
        current = CurrentSet(constraints, form, None)
        witness = self.witness
        if self.observations.count == 0 or (
            witness is not None and witness.squared_misfit <= current.squared_radius
        ):
            return current
        return self._examined(current)

    def from_scratch(self) -> CurrentSet:
        r"""The stateless set, relaxed with a warning where it is empty."""
        regression = self.observations.regression()
        radius = mixture_radius(regression, self.rule.delta, self.rule.scales)
        least = least_norm(regression, radius)
        if least > self.rule.norm_bound:
            self.rule.estimate_norm(lambda: regression)
        constraints = self._relaxed(regression, radius, least)
        form = float(regression.quadratic_form(constraints.radius.tau_ref))
        return CurrentSet(constraints, form, self.rule.constrained(regression, constraints))

    def _radius(self, fit: Fit) -> tuple[Radius, float]:
        forms = fit.quadratic_form

        def form(reference: float) -> Tensor:
            return forms[int((fit.regularizers == reference).nonzero()[0])]

        radius = combined_radius(
            fit.regularizers,
            fit.log_det,
            lambda reference: forms - form(reference),
            self.rule.delta,
        )
        return radius, float(form(radius.tau_ref))

    def _examined(self, current: CurrentSet) -> CurrentSet:
        r"""The set as all ridge estimates show it; finds a new witness."""
        radius, norm, _ = current.constraints
        search = RidgeSearch(
            self._current_spectrum(), self._renew, current.squared_radius, norm
        )
        nearest = search.consistent(self._nearest or radius.tau_ref)
        self._nearest = nearest.regularizer
        if search.satisfied(nearest):
            weights = self._current_spectrum().weights(nearest)
            self.witness = Witness(weights, nearest.squared_misfit)
            return current
        self.witness = None
        least = search.least_norm(nearest.regularizer)
        if math.isinf(least):
            return self.from_scratch()
        if least > norm:
            self.rule.estimate_norm(self.observations.regression)
        # Prior units are outcome units here, and nothing else is asked for.
        constraints = self._relaxed(cast(RidgeState, _OutcomeUnits()), radius, least)
        return current._replace(constraints=constraints)

    def _relaxed(self, regression: RidgeState, radius: Radius, least: float) -> Constraints:
        r"""The constraints that some function satisfies; the user is told once."""
        norm = self.rule.norm_bound
        with warnings.catch_warnings():
            if self.warned:
                warnings.simplefilter("ignore", InconsistentConfidenceSetWarning)
            self.warned = self.warned or least > norm
            return consistent_constraints(regression, radius, norm, least, strict=False)

    def _renew(self) -> None:
        self._current_spectrum().renew(self.observations.regression())

    def _current_spectrum(self) -> SpectralHistory:
        if self._spectrum is None:
            self._spectrum = SpectralHistory(self.rule.noise_std, self.observations.inputs)
            self._renew()
        return self._spectrum


class _OutcomeUnits(NamedTuple):
    outcome_scale: float = 1.0
