r"""From the history of a bandit to its bounds."""

import torch
from torch import Tensor

from kernelucb._numerics.safe_math import safe_sqrt
from kernelucb.bandit.cholesky import CholeskyHistory
from kernelucb.bandit.consistency import Consistency, CurrentSet
from kernelucb.bandit.history import History, Systems
from kernelucb.bandit.observations import Observations, Query
from kernelucb.bandit.rule import Rule
from kernelucb.bandit.search import ExactSearch
from kernelucb.bandit.spectral import SpectralHistory
from kernelucb.confidence.abbasi_yadkori import abbasi_yadkori_width
from kernelucb.confidence.assumptions import Assumption
from kernelucb.confidence.igp_ucb import igp_ucb_width

# Beyond so many regularisers one eigenbasis is cheaper than a Cholesky factor for each.
_MOST_FACTORS = 2
# An estimated norm bound is renewed after this share of new observations.
_ESTIMATES = 16


class Bands:
    r"""The bound that a rule names, for the observations so far.

    Args:
        rule: The bound and its parameters.
        observations: The data; ``update`` adds to them.
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
        self.consistency = Consistency(rule, observations)
        self._current: CurrentSet | None = None
        self._estimate_at = 1

    def update(self, query: Query, outcome: float) -> None:
        r"""Add one observation.

        Args:
            query: Its input, seen by the observations before it.
            outcome: Outcome units.
        """
        target = (outcome - float(query.prior_mean)) / self.rule.noise_std
        self.history.append(query, target)
        self.consistency.observe(query, target)
        self.observations.append(query.inputs, outcome)
        if self.spectral is not None and self.spectral.is_full:
            self._renew()
        if self.rule.tracker is not None and self.observations.count >= self._estimate_at:
            self.rule.estimate_norm(self.observations.regression())
            self._estimate_at = self._next_estimate()
        self._current = None

    def supports(self, query: Query, signs: tuple[int, ...]) -> list[Tensor]:
        r"""Largest values of ``sign * (f - mean)`` at arms.

        Args:
            query: ``a`` arms.
            signs: Sides of the band, 1 or -1.

        Returns:
            ``a`` values for each sign, outcome units.
        """
        relaxed = self._current_set().relaxed if self.rule.uses_mixture else None
        if relaxed is not None:
            points = relaxed.project(query.inputs)
            return [relaxed.support(points, sign).value for sign in signs]
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

    def _next_estimate(self) -> int:
        r"""Rare enough that ``O(n^3)`` for an estimate is ``O(n^2)`` a round."""
        count = self.observations.count
        return count + max(1, count // _ESTIMATES)

    def _renew(self) -> None:
        if self.spectral is not None:
            self.spectral.renew(self.observations.regression())

    def _current_set(self) -> CurrentSet:
        if self._current is None:
            self._current = self.consistency.current(self.history)
        return self._current

    def _exact_supports(self, query: Query, signs: tuple[int, ...]) -> list[Tensor]:
        constraints, squared, _ = self._current_set()
        if min(len(query.inputs), self.observations.count) == 0:
            ball = constraints.norm * safe_sqrt(query.prior_variance)
            return [ball for _ in signs]
        return self.search.support(query, constraints, squared, signs)

    def _ellipsoids(self) -> tuple[Systems, Tensor]:
        r"""The systems of the bound and the widths at their regularisers."""
        rule, like = self.rule, self.observations.inputs
        if rule.uses_mixture:
            constraints, squared, _ = self._current_set()
            taus = rule.regularizers(constraints.radius.reference).to(like)
            systems = self.history.systems("bound", taus)
            excess = squared + taus * constraints.norm**2 - systems.fit().quadratic_form
            return systems, safe_sqrt(excess.clamp_min(0.0) / taus)
        taus = rule.regularizers(1.0).to(like)
        systems = self.history.systems("bound", taus)
        log_det = float(systems.fit().log_det)
        if rule.bound == "igp":
            width = igp_ucb_width(log_det, rule.norm_bound, rule.delta, rule.noise_std)
        else:
            width = abbasi_yadkori_width(log_det, rule.norm_bound, rule.delta, float(taus))
        return systems, taus.new_tensor([width])

    def state_dict(self) -> dict[str, Tensor]:
        r"""What is not in the observations: where the numerics stand, as tensors."""
        witness, renewed, interval = self.consistency.witness, 0, None
        if self.spectral is not None:
            renewed, interval = self.spectral.basis.count, self.search.interval
        tracker = self.rule.tracker
        return {
            "norm": _tensor(
                [tracker.norm_bound, tracker.least_consistent_norm, self._estimate_at]
                if tracker is not None
                else []
            ),
            "renewed": torch.tensor(renewed),
            "witness": _tensor([witness.regularizer] if witness is not None else []),
            "interval": _tensor(interval or []),
            "seen": _tensor(self.search.seen if interval else []),
            "warned": torch.tensor(self.consistency.warned),
        }

    def replay(self, inputs: Tensor, outcomes: Tensor, state: dict[str, Tensor]) -> None:
        r"""Take ``n x d`` inputs and ``n`` outcomes as they were taken before."""
        start = 0
        if self.spectral is not None:
            start = min(int(state.get("renewed", 0)), len(inputs))
            for x, y in zip(inputs[:start], outcomes[:start], strict=True):
                self.observations.append(x.unsqueeze(0), float(y))
            if start:
                self._renew()
            if len(state.get("interval", ())) == 2 and len(state.get("seen", ())) == 2:
                self.search.resume(state["interval"], state["seen"])
        for x, y in zip(inputs[start:], outcomes[start:], strict=True):
            self.update(self.observations.query(x.unsqueeze(0)), float(y))
        tracker, norm = self.rule.tracker, state.get("norm", ())
        if tracker is not None and len(norm) == 3:
            tracker.norm_bound, tracker.least_consistent_norm = map(float, norm[:2])
            self._estimate_at = int(norm[2])
        if len(state.get("witness", ())) == 1:
            self.consistency.propose(float(state["witness"]))
        self.consistency.warned = bool(state.get("warned", False))


def _tensor(values) -> Tensor:
    return torch.tensor(list(values), dtype=torch.float64)
