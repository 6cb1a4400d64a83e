r"""From the observations of a bandit to its bounds."""

from abc import ABC, abstractmethod
from copy import copy
from typing import Any, Generic, Self, TypeVar

import torch
from torch import Tensor

from kernelucb._numerics.arrays import safe_sqrt
from kernelucb.bandit.bounds import BanditBound, RidgeBound
from kernelucb.bandit.cholesky import CholeskyHistory
from kernelucb.bandit.consistency import Consistency, CurrentSet
from kernelucb.bandit.history import History, Systems
from kernelucb.bandit.mixtures import Dual, MartingaleMixture
from kernelucb.bandit.observations import Arms, Observations, Signs
from kernelucb.bandit.saved import Saved, largest_wait, prior_values
from kernelucb.bandit.search import ExactSearch
from kernelucb.bandit.spectral import SpectralHistory
from kernelucb.bandit.two_filters import TwoFilters
from kernelucb.confidence.assumptions import Assumption
from kernelucb.confidence.base import ConfidenceSet
from kernelucb.confidence.martingale_mixture.function_set import FunctionSet
from kernelucb.regression import KernelRegression

# Beyond so many regularisers one eigenbasis is cheaper than a Cholesky factor for each.
_MOST_FACTORS = 2
# Of the width, by round-off in systems that grow; beyond, bounds are made from scratch.
_ACCEPTED_LOSS = 1e-5

BoundT = TypeVar("BoundT", bound=BanditBound)


class Bands(ABC, Generic[BoundT]):
    r"""A bound for the observations so far.

    Changes are made to a ``fork``, which then takes its place; see ``History.fork``.

    Attributes:
        bound: The bound and its parameters.
        history: The data in the form that gives bounds in ``O(n^2)``.
        estimate_at: Number of observations at which the norm is next estimated.
    """

    def __init__(self, bound: BoundT, history: History) -> None:
        self.bound, self.history = bound, history
        self._smallest_regularizer = float(bound.known_regularizers.min())
        self.estimate_at = 1
        self._current: Any = None  # after the observations so far, once it was needed

    @staticmethod
    def of(bound: BanditBound, observations: Observations) -> "Bands[Any]":
        r"""Those of a bound."""
        taus = bound.known_regularizers
        if isinstance(bound, RidgeBound):
            return RidgeBands(bound, CholeskyHistory(observations, taus))
        assert isinstance(bound, MartingaleMixture)
        if isinstance(bound, Dual) or len(taus) > _MOST_FACTORS:
            return MixtureBands(bound, SpectralHistory(observations))
        return MixtureBands(bound, CholeskyHistory(observations, taus))

    def fork(self) -> Self:
        r"""Bands that go on on their own."""
        new = copy(self)
        new.bound = self.bound.fork()
        new.history = self.history.fork(copy(self.observations))
        return new

    @property
    def observations(self) -> Observations:
        r"""The data; ``observe`` adds to them."""
        return self.history.observations

    @property
    def spectral(self) -> SpectralHistory | None:
        r"""The history, where it has an eigenbasis and is up to date."""
        if isinstance(self.history, SpectralHistory) and self.is_resolved:
            return self.history
        return None

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
        return epsilon * trace <= _ACCEPTED_LOSS * self._smallest_regularizer

    def observe(self, arm: Arms, outcome: float) -> None:
        r"""Add one observation: its arm, and its outcome in outcome units."""
        self.observations.append(arm, outcome)
        self._current = None
        if self.is_resolved:
            self._append(arm, (outcome - float(arm.prior_mean)) / self.bound.noise_std)
        count, spectral = self.observations.count, self.spectral
        is_due = self.bound.tracker is not None and count >= self.estimate_at
        if is_due or (spectral is not None and spectral.is_full):
            regression = self.observations.regression()
            if spectral is not None:
                spectral.renew(regression)
            if is_due:
                self.bound.estimate_norm(regression)
                self.estimate_at = count + largest_wait(count)
            if spectral is not None:
                self._renewed(regression)

    def _renewed(self, regression: KernelRegression) -> None:
        r"""Called with the whole spectrum after the eigenbasis has been renewed."""

    def _append(self, arm: Arms, target: float) -> None:
        self.history.append(arm, target)

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

    def information_gain(self) -> float:
        r"""``ln det(I + K_w) / 2`` of the observations so far."""
        if self.observations.count == 0:
            return 0.0
        if self.spectral is None:
            return 0.5 * float(self.observations.regression().log_det(1.0))
        one = self.observations.inputs.new_ones(1)
        return 0.5 * float(self.spectral.systems("gain", one).fit().log_det)

    def _ellipsoids(
        self, systems: Systems, widths: Tensor, arms: Arms, signs: Signs
    ) -> list[Tensor]:
        r"""The least of the ellipsoid bounds at the systems' regularisers."""
        deviation, variance = systems.moments(self.history.project(arms))
        radius = widths * safe_sqrt(variance)
        return [(sign * deviation + radius).amin(-1) for sign in signs]

    def saved(self) -> Saved:
        r"""What is needed to go on, in copies."""
        data, tracker, spectral = self.observations, self.bound.tracker, self.spectral
        return Saved(
            inputs=data.inputs.cpu().clone(),
            outcomes=data.outcomes.cpu().clone(),
            prior=prior_values(data.prior, data.inputs).cpu(),
            norm=tracker and list(tracker.estimates),
            estimate_at=self.estimate_at,
            renewed=0 if spectral is None else spectral.basis.num_observations,
        )

    def replay(self, saved: Saved) -> None:
        r"""Take the observations of a state as they were taken before."""
        tracker, outcomes = self.bound.tracker, saved.outcomes.tolist()
        if tracker is not None and saved.norm is not None:
            norm, least = saved.norm
            tracker.estimates = norm, least
        self.estimate_at = saved.estimate_at
        inputs = saved.inputs.to(self.observations.inputs).unsqueeze(1)
        renewed = 0 if self.spectral is None else saved.renewed
        for x, y in zip(inputs[:renewed], outcomes, strict=False):
            self.observations.append(self.observations.prior_of(x), y)
        if renewed and self.spectral is not None:
            self.spectral.renew(self.observations.regression())
        self._resume(saved)
        for x, y in zip(inputs[renewed:], outcomes[renewed:], strict=True):
            self.observe(self.observations.arms(x), y)

    def _resume(self, saved: Saved) -> None:
        r"""Take what is left of a state once the eigenbasis is there."""


class RidgeBands(Bands[RidgeBound]):
    r"""A bound at the one regulariser that its theorem fixes."""

    def _new_current(self) -> ConfidenceSet[Any] | None:
        if self.is_resolved:
            return None  # the history knows all
        return self.bound.confidence_set(self.observations.regression())

    def _supports(self, current: None, arms: Arms, signs: Signs) -> list[Tensor]:
        taus = self.bound.known_regularizers.to(self.observations.inputs)
        systems = self.history.systems("bound", taus)
        width = self.bound.width(float(systems.fit().log_det))
        return self._ellipsoids(systems, taus.new_tensor([width]), arms, signs)


class MixtureBands(Bands[MartingaleMixture]):
    r"""A bound over the functions that satisfy a fit and a norm constraint."""

    def __init__(self, bound: MartingaleMixture, history: History) -> None:
        super().__init__(bound, history)
        self.consistency = Consistency(bound, history)
        self.search: ExactSearch | None = None
        if isinstance(bound, Dual) and isinstance(history, SpectralHistory):
            self.search = ExactSearch(history)

    def fork(self) -> Self:
        r"""Bands that go on on their own."""
        new = super().fork()
        new.consistency = self.consistency.fork(new.bound, new.history)
        if self.search is not None and isinstance(new.history, SpectralHistory):
            new.search = self.search.fork(new.history)
        return new

    def _append(self, arm: Arms, target: float) -> None:
        super()._append(arm, target)
        self.consistency.observe(arm, target)

    def _renewed(self, regression: KernelRegression) -> None:
        self.consistency.choose_filters(regression)

    def _new_current(self) -> CurrentSet | FunctionSet[Any]:
        consistency = self.consistency
        return consistency.current() if self.is_resolved else consistency.from_scratch()

    def _supports(self, current: CurrentSet, arms: Arms, signs: Signs) -> list[Tensor]:
        if self.search is not None:
            if min(len(arms.inputs), self.observations.count) > 0:
                return self.search.support(arms, current, signs)
            return [current.constraints.norm * safe_sqrt(arms.prior_variance)] * len(signs)
        taus = self.bound.regularizers(current.constraints.radius.tau_ref)
        taus = taus.to(self.observations.inputs)
        systems = self.history.systems("bound", taus)
        excess = current.excess(taus, systems.fit().quadratic_form)
        widths = safe_sqrt(excess / taus)
        return self._ellipsoids(systems, widths, arms, signs)

    def contradiction(self) -> Assumption | None:
        r"""The assumption that the data contradict, if any."""
        return self.current().constraints.contradiction

    def saved(self) -> Saved:
        r"""What is needed to go on, in copies."""
        filters = self.consistency.filters if self.is_resolved else None
        saved = (
            super()
            .saved()
            ._replace(
                warned=self.consistency.warned,
                filters=filters and filters.values,
            )
        )
        search = self.search
        if search is None or search.interval is None or not self.is_resolved:
            return saved
        seen = list(search.seen) if search.seen[0] <= search.seen[1] else None
        return saved._replace(interval=list(search.interval), seen=seen)

    def _resume(self, saved: Saved) -> None:
        self.consistency.warned = saved.warned
        if saved.filters is not None and isinstance(self.bound, Dual):
            filters = TwoFilters.saved(saved.filters, self.bound.hybrids)
            self.consistency.filters = filters
        if saved.interval is not None and self.search is not None:
            self.search.resume(saved.interval, saved.seen)
