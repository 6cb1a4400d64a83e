r"""A run beside the replays of its policy: what may be claimed of it, and when to stop."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from botorch.models.model import Model
from torch import Tensor

from kernelucb._numerics.checks import positive_scalar, probability
from kernelucb._numerics.digits import as_given, coordinate, one_minus
from kernelucb.calibration.claims import (
    ROUND_OFF,
    Claim,
    Look,
    Margins,
    RegretClaim,
    Truth,
    residual,
    statistics_of,
)
from kernelucb.calibration.policy import Loop
from kernelucb.certificates.wording import Wording
from kernelucb.certificates.words import Verdict, decision_in_words
from kernelucb.confidence.assumptions import Assumption, Assumptions, Status

TESTED = 0.2  # of delta for the test whether a run is like its replays
_SAME = 1e-3  # of a side of the domain: a user may round the input that was chosen
_UNTESTED = Assumption(
    "replays", "the run is like the replays (too few of them for a test)", Status.GIVEN
)


@dataclass(frozen=True)
class CalibratedClaim(Verdict):
    r"""What replays promise of a run.

    Attributes:
        claim: The claim.
        lower: Its lower limits, outcome units (indicators for a level set).
        upper: Its upper limits.
        margin: Posterior standard deviations behind them.
        assumptions: What it rests on; never certified.
        wording: Names and units, for sentences.
        recommended: ``d`` coordinates of the input of best posterior mean.
    """

    claim: Claim
    lower: Tensor = field(repr=False)
    upper: Tensor = field(repr=False)
    margin: float
    assumptions: Assumptions = field(repr=False)
    wording: Wording = field(repr=False)
    recommended: Tensor = field(repr=False)
    rigorous: bool = True

    @property
    def sentence(self) -> str:
        r"""The statement with its numbers."""
        names, point = self.wording.names, "the recommended input"
        point += f" ({self.wording.point(self.recommended)})" if names else ""
        return self.claim.words(self.lower, self.upper, self.wording, point)


class Run:
    r"""A search under way, beside the replays of its policy.

    Example:
        >>> run = Run(margins)
        >>> model, candidate = choose(X, Y)
        >>> run.update(model, candidate, X, Y)
        >>> print(run.claim(RegretClaim(), delta=0.1))

    Args:
        margins: Of the replays.
        loop: The policy of the run; by default that of the replays.
        names: Names of the inputs in sentences, by default ``x0`` and so on.
        outcome: Name of the outcome in sentences.
        units: Units by these names, ``{"yield": "%"}``, for print.
        wording: The three in one, in place of them.
    """

    def __init__(
        self,
        margins: Margins,
        loop: Loop | None = None,
        names: Sequence[str] | None = None,
        outcome: str = "the outcome",
        units: Mapping[str, str] | None = None,
        wording: Wording | None = None,
    ) -> None:
        self.margins, self.loop = margins, loop or margins.loop
        inputs = self.loop.region.lower.shape[-1]
        self.wording = wording or Wording.of(inputs, names, outcome, units)
        other = f"it is another policy ({self.loop.digest})"
        self.departures = [other] * (self.loop.digest != margins.loop.digest)
        self.seen = ""  # what else shows that it follows the policy
        self._checked = 0  # rounds whose input was compared with the one that was chosen
        self.statistics = dict.fromkeys(margins.statistics, 0.0)
        self._look: Look | None = None
        self._inputs = Tensor()
        self._next: tuple[Model, Tensor | None] | None = None

    @property
    def recommended(self) -> int:
        r"""Which input has the best posterior mean in the last round, from 0."""
        return 0 if self._look is None else self._look.recommended

    def update(self, model: Model, candidate: Tensor | None, X: Tensor, Y: Tensor) -> None:
        r"""Take in a round: what ``choose`` returned, and the data that it was given.

        Asked in every round, the run is known to follow its policy.

        Args:
            model: The fitted model of these data.
            candidate: The next input, ``1 x d``; None if it is not known here.
            X: ``n x d`` inputs so far.
            Y: ``n x 1`` outcomes so far.

        Raises:
            ValueError: If rounds were left out of the data.
        """
        before = 0 if self._look is None else self._look.runs
        if len(X) < max(before, self.loop.starts):
            least = max(before, self.loop.starts)
            raise ValueError(f"There are {len(X)} inputs; a round has at least {least}.")
        if self._next is not None and len(X) == before + 1:
            earlier, chosen = self._next
            self._compare(chosen, X)
            size = residual(earlier, X[-1:], float(Y[-1]))
            self._largest("residual", size, len(X))
        for name, value in statistics_of(model, X, Y).items():
            self._largest(name, value, len(X))
        self._look, self._inputs = Look.of(model, X, self.loop), X
        chosen = None if candidate is None else candidate.detach().reshape(1, -1).to(X)
        self._next = model, chosen

    def _compare(self, chosen: Tensor | None, X: Tensor) -> None:
        if chosen is None:
            return
        self._checked += 1
        sides = self.loop.region.upper.amax(0) - self.loop.region.lower.amin(0)
        if bool(((chosen - X[-1:]).abs() > _SAME * sides).any()):
            self.departures.append(f"input {len(X)} is not the one that was chosen")

    def _largest(self, name: str, value: float, runs: int) -> None:
        if runs >= self.margins.first:
            self.statistics[name] = max(self.statistics[name], value)

    def score(self, claim: Claim, truth: Truth) -> float:
        r"""The least margin at which the claim is true now, where the truth is known.

        Raises:
            ValueError: If no round was taken in.
        """
        if self._look is None:
            raise ValueError("No round was taken in: call update first.")
        return claim.score(self._look, truth)

    def claim(self, claim: Claim, delta: float = 0.1) -> CalibratedClaim:
        r"""What the replays promise now, at all rounds at once.

        A fifth of ``delta`` goes to the test whether the run is like the replays, where
        there are enough of them.

        Raises:
            ValueError: If there are too few replays for ``delta``, no scores of the claim,
                or too few outcomes as yet.
        """
        look, margins = self._look, self.margins
        if look is None or look.runs < margins.first:
            raise ValueError(f"Claims are made from {margins.first} outcomes on.")
        share = TESTED * probability("delta", delta)
        is_tested = share / len(self.statistics) * (margins.replays + 1) >= 1.0 - ROUND_OFF
        margin = margins.margin(claim, delta - is_tested * share, look.runs)
        lower, upper = claim.limits(look, margin)
        tests = self._likeness(share / len(self.statistics)) if is_tested else _UNTESTED
        assumptions = self._assumptions(look.runs, delta, tests)
        parts = claim, lower, upper, margin, assumptions, self.wording
        return CalibratedClaim(*parts, self._inputs[self.recommended])

    def _likeness(self, delta: float) -> Assumption:
        limits = {name: self.margins.limit(name, delta) for name in self.statistics}
        unlike = [
            f"the largest {name} is {value:.3g}, that of the replays {limits[name]:.3g}"
            for name, value in self.statistics.items()
            if value > limits[name]
        ]
        like = f"largest {', '.join(limits)} of the run are like the replays'"
        return Assumption("replays", "; ".join(unlike) or like, _status(not unlike))

    def _assumptions(self, runs: int, delta: float, tests: Assumption) -> Assumptions:
        margins, most = self.margins, self.margins.loop.rounds
        early = f" from {margins.first} on" * (margins.first > margins.loop.starts)
        claim = (
            f"true in {coordinate(100.0 * float(one_minus(delta)))} % of functions like "
            f"these {margins.replays}, at every round up to {most}{early}"
        )
        is_listed = self.loop.region.is_finite
        points = "the optimum is sought among the listed points"
        found = "the optima of the replayed functions were found by a search of the box"
        rounds = runs - self.loop.starts
        seen = self.seen or f"inputs were compared in {self._checked} of {rounds} rounds"
        policy = f"the run follows the policy that was replayed ({margins.loop.digest})"
        policy = "; ".join(self.departures) or f"{policy}; {seen}"
        items = (
            Assumption("functions", margins.statement, Status.CALIBRATED),
            Assumption("policy", policy, _status(not self.departures)),
            Assumption(
                "rounds", f"{runs} outcomes of at most {most}", _status(runs <= most)
            ),
            Assumption("points", points if is_listed else found, Status.GIVEN),
            Assumption("use", "the replays are used for this one claim", Status.GIVEN),
            tests,
        )
        source = "ranks of exchangeable numbers"
        return Assumptions(source, claim, True, items, delta, horizon=most)


def _status(holds: bool) -> Status:
    return Status.GIVEN if holds else Status.VIOLATED


class CalibratedStop(NamedTuple):
    r"""Whether to stop, and why.

    Attributes:
        stop: Whether the gap is small enough and may be acted on.
        reason: In words.
        claim: What it rests on; None before the first round of claims.
    """

    stop: bool
    reason: str
    claim: CalibratedClaim | None

    def __str__(self) -> str:
        return decision_in_words(self.stop, self.reason, self.claim)


class CalibratedGapStopping:
    r"""Stop when the regret that replays promise is at most ``gap``.

    For one run. In a share ``1 - delta`` of functions like those of the replays, the rule
    never stops at a recommended input, that of the best posterior mean, more than ``gap``
    from the optimum.

    Source: ranks of exchangeable numbers.

    Args:
        gap: Largest regret to accept, outcome units.
        margins: Of the replays of the run's policy: from ``calibrate``, or
            ``default_margins`` of the default one.
        delta: Failure probability.
        loop: The policy of the run; by default that of the replays.
        names: Of the inputs, as the next three for ``Run``.
        outcome: Name of the outcome.
        units: Units by name.
        wording: Instead of the three.

    Example:
        >>> stopping = CalibratedGapStopping(0.1, margins)
        >>> while True:
        ...     model, candidate = choose(X, Y)
        ...     if stopping(model, candidate, X, Y).stop:
        ...         break
    """

    def __init__(
        self,
        gap: float,
        margins: Margins,
        *,
        delta: float = 0.1,
        loop: Loop | None = None,
        names: Sequence[str] | None = None,
        outcome: str = "the outcome",
        units: Mapping[str, str] | None = None,
        wording: Wording | None = None,
    ) -> None:
        self.gap, words = positive_scalar("gap", gap), (names, outcome, units, wording)
        self.run = Run(margins, loop, *words)
        self.delta = probability("delta", delta)
        # Refuses too few replays before the search.
        margins.margin(RegretClaim(), self.delta)

    def __call__(
        self, model: Model, candidate: Tensor | None, X: Tensor, Y: Tensor
    ) -> CalibratedStop:
        r"""Decide after a round; arguments and errors as for ``Run.update``."""
        self.run.update(model, candidate, X, Y)
        first = self.run.margins.first
        if len(X) < first:
            return CalibratedStop(False, f"claims are made from {first} outcomes on", None)
        claim = self.run.claim(RegretClaim(), self.delta)
        stop = not claim.obstacle and float(claim.upper) <= self.gap
        accepted = self.run.wording.value(as_given(self.gap))
        said = f"{claim.sentence}, accepted {accepted}"
        return CalibratedStop(stop, f"{claim.obstacle or claim.summary}: {said}", claim)
