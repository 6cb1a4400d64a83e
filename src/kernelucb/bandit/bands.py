r"""From the observations of a bandit to its bounds."""

from abc import ABC, abstractmethod
from copy import copy
from typing import Any, Generic, Self, TypeVar

import torch
from torch import Tensor

from kernelucb._numerics.safe_math import safe_sqrt
from kernelucb.bandit.bounds import BanditBound, Dual, MartingaleMixture, RidgeBound
from kernelucb.bandit.cholesky import CholeskyHistory
from kernelucb.bandit.consistency import Consistency, CurrentSet
from kernelucb.bandit.history import History, Systems
from kernelucb.bandit.observations import Arms, Observations
from kernelucb.bandit.saved import Saved, largest_wait, prior_values
from kernelucb.bandit.search import ExactSearch
from kernelucb.bandit.spectral import SpectralHistory
from kernelucb.confidence.assumptions import Assumption
from kernelucb.confidence.base import ConfidenceSet

# Beyond so many regularisers one eigenbasis is cheaper than a Cholesky factor for each.
_MOST_FACTORS = 2
# Of the width, by round-off in systems that grow; beyond, bounds are made from scratch.
_ACCEPTED_LOSS = 1e-5

BoundT = TypeVar("BoundT", bound=BanditBound)


class Bands(ABC, Generic[BoundT]):
    r"""A bound for the observations so far.

    Changes are made to a ``fork``, which then takes its place; see ``History.fork``.

    Args:
        bound: The bound and its parameters.
        observations: The data; ``observe`` adds to them.

    Attributes:
        history: The data in the form that gives bounds in ``O(n^2)``.
        estimate_at: Number of observations at which the norm is next estimated.
    """

    history: History

    def __init__(self, bound: BoundT, observations: Observations) -> None:
        self.bound, self.observations = bound, observations
        self._smallest_regularizer = float(bound.known_regularizers.min())
        self.estimate_at = 1
        self._set: Any = None  # of the observations so far, made when it is first needed

    @staticmethod
    def of(bound: BanditBound, observations: Observations) -> "Bands[Any]":
        r"""Those of a bound."""
        if isinstance(bound, MartingaleMixture):
            return MixtureBands(bound, observations)
        assert isinstance(bound, RidgeBound)
        return RidgeBands(bound, observations)

    def fork(self) -> Self:
        r"""Bands that go on on their own."""
        new = copy(self)
        new.bound, new.observations = self.bound.fork(), copy(self.observations)
        new.history = self.history.fork()
        return new

    @property
    def spectral(self) -> SpectralHistory | None:
        r"""The history, where it has an eigenbasis and is up to date."""
        history = self.history
        return (
            history if isinstance(history, SpectralHistory) and self.is_resolved else None
        )

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
        r"""Add one observation.

        Args:
            arm: Its input.
            outcome: Outcome units.
        """
        self.observations.append(arm, outcome)
        self._set = None
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

    def _append(self, arm: Arms, target: float) -> None:
        self.history.append(arm, target)

    @abstractmethod
    def supports(self, arms: Arms, signs: tuple[int, ...]) -> list[Tensor]:
        r"""Largest values of ``sign * (f - mean)`` at arms.

        Args:
            arms: ``a`` arms.
            signs: Sides of the band, 1 or -1.

        Returns:
            ``a`` values for each sign, outcome units.
        """

    def contradiction(self) -> Assumption | None:
        r"""The assumption that the data contradict, if any."""
        return None

    def _ellipsoids(
        self, systems: Systems, widths: Tensor, arms: Arms, signs: tuple[int, ...]
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
            norm=tracker and [tracker.norm_bound, tracker.least_consistent_norm],
            estimate_at=self.estimate_at,
            renewed=0 if spectral is None else spectral.basis.num_observations,
            interval=None,
            seen=None,
            warned=False,
        )

    def replay(self, saved: Saved) -> None:
        r"""Take the observations of a state as they were taken before."""
        tracker, outcomes = self.bound.tracker, saved.outcomes.tolist()
        if tracker is not None and saved.norm is not None:
            tracker.norm_bound, tracker.least_consistent_norm = saved.norm
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

    def __init__(self, bound: RidgeBound, observations: Observations) -> None:
        super().__init__(bound, observations)
        taus = [bound.regularizer]
        self.history = CholeskyHistory(bound.noise_std, taus, observations.inputs)

    def supports(self, arms: Arms, signs: tuple[int, ...]) -> list[Tensor]:
        r"""Largest values of ``sign * (f - mean)`` at arms; see ``Bands``."""
        if not self.is_resolved:
            if self._set is None:
                self._set = self.bound.confidence_set(self.observations.regression())
            return _stateless_supports(self._set, arms, signs)
        taus = self.bound.known_regularizers.to(self.observations.inputs)
        systems = self.history.systems("bound", taus)
        width = self.bound.width(float(systems.fit().log_det))
        return self._ellipsoids(systems, taus.new_tensor([width]), arms, signs)


class MixtureBands(Bands[MartingaleMixture]):
    r"""A bound over the functions that satisfy a fit and a norm constraint."""

    search: ExactSearch  # where the history is a SpectralHistory

    def __init__(self, bound: MartingaleMixture, observations: Observations) -> None:
        super().__init__(bound, observations)
        taus, like = bound.known_regularizers.tolist(), observations.inputs
        if isinstance(bound, Dual) or len(taus) > _MOST_FACTORS:
            self.history = SpectralHistory(bound.noise_std, like)
            self.search = ExactSearch(self.history, self._renew)
        else:
            self.history = CholeskyHistory(bound.noise_std, taus, like)
        self.consistency = Consistency(bound, observations, self.history)

    def fork(self) -> Self:
        r"""Bands that go on on their own."""
        new = super().fork()
        if isinstance(new.history, SpectralHistory):
            new.search = self.search.fork(new.history, new._renew)
        new.consistency = self.consistency.fork(new.bound, new.observations, new.history)
        return new

    def _append(self, arm: Arms, target: float) -> None:
        super()._append(arm, target)
        self.consistency.observe(arm, target)

    def supports(self, arms: Arms, signs: tuple[int, ...]) -> list[Tensor]:
        r"""Largest values of ``sign * (f - mean)`` at arms; see ``Bands``."""
        current = self._current_set()
        if current.stateless is not None:
            return _stateless_supports(current.stateless, arms, signs)
        if isinstance(self.bound, Dual):
            if min(len(arms.inputs), self.observations.count) == 0:
                return [current.constraints.norm * safe_sqrt(arms.prior_variance)] * len(
                    signs
                )
            return self.search.support(arms, current, signs)
        taus = self.bound.regularizers(current.constraints.radius.tau_ref)
        taus = taus.to(self.observations.inputs)
        systems = self.history.systems("bound", taus)
        widths = safe_sqrt(current.excess(systems.fit()) / taus)
        return self._ellipsoids(systems, widths, arms, signs)

    def contradiction(self) -> Assumption | None:
        r"""The assumption that the data contradict, if any."""
        return self._current_set().constraints.contradiction

    def saved(self) -> Saved:
        r"""What is needed to go on, in copies."""
        saved = super().saved()._replace(warned=self.consistency.warned)
        if self.spectral is None or self.search.interval is None:
            return saved
        seen = list(self.search.seen)
        return saved._replace(
            interval=list(self.search.interval), seen=seen if seen[0] <= seen[1] else None
        )

    def _resume(self, saved: Saved) -> None:
        self.consistency.warned = saved.warned
        if saved.interval is not None and isinstance(self.history, SpectralHistory):
            self.search.resume(saved.interval, saved.seen)

    def _current_set(self) -> CurrentSet:
        if self._set is None:
            consistency = self.consistency
            self._set = (
                consistency.current() if self.is_resolved else consistency.from_scratch()
            )
        return self._set

    def _renew(self) -> None:
        if isinstance(self.history, SpectralHistory):
            self.history.renew(self.observations.regression())


def _stateless_supports(
    stateless: ConfidenceSet[Any], arms: Arms, signs: tuple[int, ...]
) -> list[Tensor]:
    points = stateless.project(arms.inputs)
    return [stateless.support(points, sign).value for sign in signs]
