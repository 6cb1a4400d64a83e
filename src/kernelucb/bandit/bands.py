r"""From the history of a bandit to its bounds."""

from copy import copy
from typing import Any

import torch
from torch import Tensor

from kernelucb._numerics.safe_math import safe_sqrt
from kernelucb.bandit.cholesky import CholeskyHistory
from kernelucb.bandit.consistency import Consistency, CurrentSet
from kernelucb.bandit.history import History, Systems
from kernelucb.bandit.observations import Observations, Query
from kernelucb.bandit.rule import Rule
from kernelucb.bandit.saved import Saved, largest_wait, prior_values
from kernelucb.bandit.search import ExactSearch
from kernelucb.bandit.spectral import SpectralHistory
from kernelucb.confidence.abbasi_yadkori import abbasi_yadkori_width
from kernelucb.confidence.assumptions import Assumption
from kernelucb.confidence.base import ConfidenceSet
from kernelucb.confidence.igp_ucb import igp_ucb_width
from kernelucb.confidence.norm.tracker import NormTracker

# Beyond so many regularisers one eigenbasis is cheaper than a Cholesky factor for each.
_MOST_FACTORS = 2
# Of the width, by round-off in systems that grow; beyond, bounds are made from scratch.
_ACCEPTED_LOSS = 1e-5


class Bands:
    r"""The bound that a rule names, for the observations so far.

    What changes it changes a ``fork``, which then takes its place: forks have storage in
    common, of which each reads only what is its own.

    Args:
        rule: The bound and its parameters.
        observations: The data; ``observe`` adds to them.

    Attributes:
        estimate_at: Number of observations at which the norm is next estimated.
    """

    def __init__(self, rule: Rule, observations: Observations) -> None:
        self.rule, self.observations = rule, observations
        like = observations.inputs
        self.history: History
        self.spectral: SpectralHistory | None = None
        if rule.num_regularizers > _MOST_FACTORS:
            self.history = self.spectral = SpectralHistory(rule.noise_std, like)
            self.search = ExactSearch(self.spectral, self._renew)
        else:
            self.history = CholeskyHistory(rule.noise_std, like)
        self.consistency = Consistency(rule, observations, self.spectral)
        self._smallest_regularizer = rule.smallest_regularizer
        self._current: CurrentSet | None = None
        self._ridge_band: ConfidenceSet[Any] | None = None
        self.estimate_at = 1

    def fork(self) -> "Bands":
        r"""Bands that go on on their own."""
        new = copy(self)
        new.rule, new.observations = self.rule.fork(), copy(self.observations)
        new.history = self.history.fork()
        if isinstance(new.history, SpectralHistory):
            new.spectral = new.history
            new.search = self.search.fork(new.history, new._renew)
        new.consistency = self.consistency.fork(new.rule, new.observations, new.spectral)
        return new

    @property
    def is_resolved(self) -> bool:
        r"""Whether the growing systems are as accurate as a regression from scratch.

        Round-off of a backward stable solve, ``eps |K_w| |w|`` with ``|w|`` at most
        ``norm / (2 sqrt(tau))``, moves a ridge estimate by at most
        ``eps |K_w| / (2 tau)`` of its standard deviation times ``norm``: both are sums with
        ``(K_w + tau)^-1 k_w(x)``. ``|K_w|`` is at most the trace.
        """
        trace = self.observations.total_variance / self.rule.noise_std**2
        epsilon = torch.finfo(torch.float64).eps
        return epsilon * trace <= _ACCEPTED_LOSS * self._smallest_regularizer

    def observe(self, query: Query, outcome: float) -> None:
        r"""Add one observation.

        Args:
            query: Its input, seen by the observations before it.
            outcome: Outcome units.
        """
        target = (outcome - float(query.prior_mean)) / self.rule.noise_std
        self.observations.append(query, outcome)
        self._current = self._ridge_band = None
        if self.is_resolved:
            self.history.append(query, target)
            self.consistency.observe(query, target)
        estimates = self.rule.tracker is not None
        count = self.observations.count
        is_due = estimates and count >= self.estimate_at
        is_full = self.spectral is not None and self.spectral.is_full
        if is_due or (is_full and self.is_resolved):
            regression = self.observations.regression()
            if self.spectral is not None and self.is_resolved:
                self.spectral.renew(regression)
            if is_due:
                self.rule.estimate_norm(lambda: regression)
                self.estimate_at = count + largest_wait(count)

    def supports(self, query: Query, signs: tuple[int, ...]) -> list[Tensor]:
        r"""Largest values of ``sign * (f - mean)`` at arms.

        Args:
            query: ``a`` arms.
            signs: Sides of the band, 1 or -1.

        Returns:
            ``a`` values for each sign, outcome units.
        """
        stateless = self._stateless()
        if stateless is not None:
            points = stateless.project(query.inputs)
            return [stateless.support(points, sign).value for sign in signs]
        if self.rule.bound == "exact":
            return self._exact_supports(query, signs)
        systems, widths = self._ellipsoids()
        deviation, variance = systems.moments(self.history.project(query))
        radius = widths * safe_sqrt(variance)
        return [(sign * deviation + radius).amin(-1) for sign in signs]

    def contradiction(self) -> Assumption | None:
        r"""What the data contradict."""
        if not self.rule.uses_mixture:
            return None
        return self._current_set().constraints.contradiction

    def _renew(self) -> None:
        if self.spectral is not None:
            self.spectral.renew(self.observations.regression())

    def _current_set(self) -> CurrentSet:
        if self._current is None:
            self._current = (
                self.consistency.current(self.history)
                if self.is_resolved
                else self.consistency.from_scratch()
            )
        return self._current

    def _stateless(self) -> ConfidenceSet[Any] | None:
        r"""The set from scratch, where the history cannot give the bounds."""
        if self.rule.uses_mixture:
            return self._current_set().stateless
        if self.is_resolved:
            return None
        if self._ridge_band is None:
            self._ridge_band = self.rule.ridge_band(self.observations.regression())
        return self._ridge_band

    def _exact_supports(self, query: Query, signs: tuple[int, ...]) -> list[Tensor]:
        current = self._current_set()
        if min(len(query.inputs), self.observations.count) == 0:
            ball = current.constraints.norm * safe_sqrt(query.prior_variance)
            return [ball for _ in signs]
        return self.search.support(query, current, signs)

    def _ellipsoids(self) -> tuple[Systems, Tensor]:
        r"""The systems of the bound and the widths at their regularisers."""
        rule, like = self.rule, self.observations.inputs
        if rule.uses_mixture:
            current = self._current_set()
            reference = current.constraints.radius.tau_ref
            taus = rule.regularizers(reference).to(like)
            systems = self.history.systems("bound", taus)
            return systems, safe_sqrt(current.excess(systems.fit()) / taus)
        taus = rule.regularizers(1.0).to(like)
        systems = self.history.systems("bound", taus)
        log_det = float(systems.fit().log_det)
        if rule.bound == "igp":
            width = igp_ucb_width(log_det, rule.norm_bound, rule.delta, rule.noise_std)
        else:
            width = abbasi_yadkori_width(log_det, rule.norm_bound, rule.delta, float(taus))
        return systems, taus.new_tensor([width])

    def hear(self, tracker: NormTracker | None) -> None:
        r"""Take over an estimate of the norm that has risen elsewhere."""
        if self.rule.tracker is not None and tracker is not None:
            _raise_to(self.rule.tracker, tracker)

    def tell(self, tracker: NormTracker | None) -> None:
        r"""Raise the user's estimate of the norm to that of the rule."""
        if self.rule.tracker is not None and tracker is not None:
            _raise_to(tracker, self.rule.tracker)

    def saved(self) -> Saved:
        r"""What is needed to go on, in copies."""
        data, tracker = self.observations, self.rule.tracker
        spectral = self.spectral if self.is_resolved else None
        interval = None if spectral is None else self.search.interval
        seen = None if interval is None else self.search.seen
        return Saved(
            inputs=data.inputs.cpu().clone(),
            outcomes=data.outcomes.cpu().clone(),
            prior=prior_values(data.prior, data.inputs).cpu(),
            norm=tracker and [tracker.norm_bound, tracker.least_consistent_norm],
            estimate_at=self.estimate_at,
            renewed=0 if spectral is None else spectral.basis.count,
            interval=interval and list(interval),
            seen=list(seen) if seen and seen[0] <= seen[1] else None,
            warned=self.consistency.warned,
        )

    def replay(self, saved: Saved) -> None:
        r"""Take the observations of a state as they were taken before."""
        tracker, outcomes = self.rule.tracker, saved.outcomes.tolist()
        if tracker is not None and saved.norm is not None:
            tracker.norm_bound, tracker.least_consistent_norm = saved.norm
        self.estimate_at = saved.estimate_at
        inputs = saved.inputs.to(self.observations.inputs)
        for x, y in zip(inputs[: saved.renewed], outcomes, strict=False):
            self.observations.append(self.observations.alone(x.unsqueeze(0)), y)
        if saved.renewed and self.is_resolved:
            self._renew()
        if saved.interval is not None and self.spectral is not None:
            self.search.resume(saved.interval, saved.seen)
        for x, y in zip(inputs[saved.renewed :], outcomes[saved.renewed :], strict=True):
            self.observe(self.observations.query(x.unsqueeze(0)), y)
        self.consistency.warned = saved.warned


def _raise_to(tracker: NormTracker, other: NormTracker) -> None:
    least = max(tracker.least_consistent_norm, other.least_consistent_norm)
    tracker.least_consistent_norm = least
    tracker.norm_bound = max(tracker.norm_bound, other.norm_bound)
