r"""What may be said after an optimisation: claims, and what would have to be wrong."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from botorch.exceptions import UnsupportedError
from torch import Tensor

from kernelucb._numerics.checks import finite_scalar, positive_scalar, probability
from kernelucb._numerics.digits import (
    as_given,
    at_least,
    at_most,
    between,
    coordinate,
    sides,
)
from kernelucb._numerics.domains import checked_points
from kernelucb.certificates.boxes import largest_in_region, upper_side
from kernelucb.certificates.breakdown import Breakdown, breakdown_of
from kernelucb.certificates.measured import WINDOW, at_margin
from kernelucb.certificates.regret import certificate_of
from kernelucb.certificates.spaces import Domain
from kernelucb.certificates.task import Task
from kernelucb.exceptions import InconsistentConfidenceSetWarning

_ACCURACY = 0.05  # share of a maximum that branch and bound may leave open
_EVALUATIONS = 20_000  # of branch and bound, at most, for each norm bound that is tried
_HALVINGS = 6  # in the search for the largest box
_SPREAD = 0.05  # of the observed bounds: the tolerance where none is given


@dataclass(frozen=True)
class Claim:
    r"""One sentence about the outcome, and how much may be wrong before it falls.

    Attributes:
        kind: ``"best run"``, ``"value"``, ``"baseline"``, ``"window"``, ``"operating
            window"`` or ``"anywhere"``.
        statement: The sentence with its numbers, at the norm bound in use.
        numbers: The numbers in the statement, outcome units; for an operating window the
            half sides of the box as a share of the domain.
        rigorous: True where the numbers bound the maximum over the domain; False where they
            come from a search, which may miss a larger value.
        tested: The sentence whose breakdown values are stated; None for the best run.
        breakdown: Norm and noise scale up to which ``tested`` stands; None where the band's
            sets are not one event for all norm bounds.
        record: How often claims of this kind at this margin were false on other problems;
            None where no record was measured.
    """

    kind: str
    statement: str
    numbers: tuple[float, ...]
    rigorous: bool = True
    tested: str | None = None
    breakdown: Breakdown | None = None
    record: str | None = None

    @property
    def margin(self) -> float:
        r"""Margin of the breakdown; 0 where there is none."""
        return 0.0 if self.breakdown is None else self.breakdown.margin

    def to_dict(self) -> dict[str, Any]:
        r"""Plain numbers and texts."""
        plain = {"kind": self.kind, "statement": self.statement, "tested": self.tested}
        plain |= {"numbers": [*self.numbers], "rigorous": self.rigorous}
        plain |= {"record": self.record}
        own = self.breakdown
        return plain | {
            "norm_bound": None if own is None else own.norm_bound,
            "norms": {} if own is None else dict(own.norms),
            "margin": None if own is None else own.margin,
            "noise_std": None if own is None else own.noise_std,
            "stands": None if own is None else str(own),
        }

    @property
    def sentence(self) -> str:
        r"""The statement, and whether its numbers come from a search."""
        search = "" if self.rigorous else " (from a search, which may miss more)"
        return f"{self.statement}{search}"

    @property
    def support(self) -> str:
        r"""What would have to be wrong; may be empty."""
        if self.breakdown is None:
            return ""
        record = f"; {self.record}" if self.record else ""
        return f"{self.tested}: {self.breakdown}{record}"

    def __str__(self) -> str:
        return "\n    ".join(filter(None, [self.sentence, self.support]))


class Wording(NamedTuple):
    r"""Names and units, for sentences."""

    names: tuple[str, ...]
    outcome: str = "the outcome"
    units: Mapping[str, str] = {}
    # What an experiment encodes in the inputs, if it does: `parameters(point)` by name,
    # `values(point, lower, upper)` of those in a box, and `is_choice(name)`.
    encoded: Any = None

    def value(self, number: Any, name: str | None = None) -> str:
        r"""A given number or a text, with the unit of an input or of the outcome."""
        unit = self.units.get(self.outcome if name is None else name, "")
        shown = as_given(number) if isinstance(number, float) else str(number)
        return f"{shown} {unit}".rstrip()

    def domain(self, task: Task, point: Tensor) -> Domain:
        r"""A task's domain, with its context as at a point."""
        names = [self.names[column] for column in task.domain.fixed]
        if self.encoded is not None:
            names = self.encoded.of_columns(names)
        values = ", ".join(f"{name} {each}" for name, each in self._shown(point, names))
        return task.domain._replace(values=f" ({values})")

    def label(self, name: str) -> str:
        r"""``"heat (C)"``, of an input or the outcome."""
        unit = self.units.get(name, "")
        return f"{name} ({unit})" if unit else name

    def point(self, point: Tensor) -> str:
        r"""``"heat 80 C, time 12 h"``."""
        return ", ".join(f"{name} {each}" for name, each in self._shown(point))

    def _shown(
        self, point: Tensor, names: Iterable[str] | None = None
    ) -> list[tuple[str, str]]:
        r"""Names and values of a point's inputs, of all or some."""
        named: Mapping[str, Any] = dict(zip(self.names, point.tolist(), strict=True))
        if self.encoded is not None:
            named = self.encoded.parameters(point.tolist())
        asked = named if names is None else names
        return [(name, self.value(in_words(named[name]), name)) for name in asked]

    def box(self, point: Tensor, lower: Tensor, upper: Tensor) -> str:
        r"""``"heat 70 to 90 C, solvent toluene"``, around a point; rounded inwards."""
        ends = lower.tolist(), upper.tolist()
        values: Mapping[str, Any] = dict(
            zip(self.names, zip(*ends, strict=True), strict=True)
        )
        if self.encoded is not None:
            values = self.encoded.values(point.tolist(), *ends)
        listed: list[str] = []
        for name, each in values.items():
            is_choice = self.encoded is not None and self.encoded.is_choice(name)
            shown = tuple(map(in_words, dict.fromkeys(each)))
            if len(shown) == 2 and not is_choice and isinstance(each[0], float):
                shown = sides(*each, inwards=True)
            text = (" or " if is_choice else " to ").join(shown)
            listed.append(f"{name} {self.value(text, name)}")
        return ", ".join(listed)

    def interval(self, lower: float, upper: float) -> str:
        r"""``"between 78 and 91 %"``, rounded outwards."""
        low, high = between(lower, upper)
        return f"between {low} and {self.value(high)}"


def in_words(value: Any) -> str:
    r"""An input's value, for print."""
    return coordinate(value) if isinstance(value, float) else str(value)


class Asked(NamedTuple):
    r"""What a report is to say, outcome units."""

    baseline: Tensor | None  # `d` coordinates
    window: float  # half sides of a box around the recommended point, over the domain's
    threshold: float | None
    tolerance: float | None  # difference that does not matter
    max_evaluations: int = _EVALUATIONS  # of branch and bound, for each number

    @classmethod
    def of(
        cls,
        task: Task,
        baseline: Any,
        window: float,
        threshold: Any,
        tolerance: Any,
        max_evaluations: int = _EVALUATIONS,
    ) -> "Asked":
        r"""From what users give, checked."""
        if baseline is not None:
            dimension = task.region.lower.shape[1]
            row = torch.as_tensor(baseline).reshape(1, -1)
            baseline = checked_points("baseline", row, dimension)[0].to(task.region.lower)
        probability("window", window)
        if threshold is not None:
            threshold = finite_scalar("threshold", threshold)
        if tolerance is not None:
            tolerance = positive_scalar("tolerance", tolerance)
        return cls(baseline, window, threshold, tolerance, max_evaluations)


def ladder(
    task: Task, recommended: Tensor, asked: Asked, wording: Wording
) -> tuple[Claim, ...]:
    r"""The claims of a task about ``d`` coordinates of a recommended point.

    The best run comes first, then the claims, those first whose margin is largest.
    """
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore", InconsistentConfidenceSetWarning)
        return _Ladder(task, recommended, asked, wording).claims()


def _on_side(sign: int, level: float, width: float | None = None) -> str:
    r"""A level that outcomes are above (below, where small ones are sought), for print."""
    return at_least(level, width) if sign > 0 else at_most(level, width)


class _Ladder:
    r"""Sentences about one recommended point."""

    def __init__(self, task: Task, recommended: Tensor, asked: Asked, words: Wording):
        self.task, self.point, self.words = task, recommended, words
        self.domain = words.domain(task, recommended)
        self.sign, self.better = task.sign, "higher" if task.sign > 0 else "lower"
        self.threshold, self.baseline = asked.threshold, asked.baseline
        self.share, self.is_given = asked.window, asked.tolerance is not None
        self.tolerance = asked.tolerance or self._spread()
        self.window = task.around(recommended, asked.window)
        self.evaluations = asked.max_evaluations
        self.tries = min(asked.max_evaluations, _EVALUATIONS)
        self._relaxed: dict[tuple[float, ...], Task] = {}

    def claims(self) -> tuple[Claim, ...]:
        own = [self._value(), *self._improvement(), self._near(), *self._box()]
        own = sorted([*own, self._anywhere()], key=lambda claim: -claim.margin)
        own = [replace(claim, record=self._record(claim)) for claim in own]
        return (*self._best_run(), *own)

    def _record(self, claim: Claim) -> str | None:
        r"""How often such claims were false at the margin up to which this one stands."""
        if claim.kind == "window" and self.share != WINDOW:
            return None
        found = at_margin(self.task, claim.kind, claim.margin)
        return None if found is None else str(found)

    # Numbers of a task, outcome units.

    def _sides(self, task: Task, point: Tensor) -> tuple[float, float]:
        sides = task.confidence_set.bounds(point.unsqueeze(0))
        mapped = task.confidence_set.regression.outcome_map.inverse(torch.cat(sides))
        lower, upper = mapped.tolist()
        return lower, upper

    def _spread(self) -> float:
        r"""A twentieth of the spread of the observed points' values, or of the noise.

        Outcome units. Estimates from few noisy outcomes hardly differ: hence the noise.
        """
        observed = self.task.bound.observed
        points = self.task.points if observed is None else observed
        state = self.task.confidence_set.regression
        values = state.outcome_map.inverse(state.mean(points.to(self.point)))
        spread = float(values.max() - values.min())
        spread = spread if spread > 0.0 else self.task.bound.prior_std
        noise = self.task.bound.noise_scale if state.outcome_map.is_identity else None
        return _SPREAD * max(spread, noise or 0.0)

    def _keeps(self, task: Task, level: float) -> bool:
        r"""Whether the outcome is on the good side of a level all over a region."""
        inner = task.confidence_set.regression.outcome_map.forward(
            torch.tensor(level, dtype=torch.float64)
        )
        shortfall = upper_side(-self.sign, -self.sign * float(inner))
        if float(task.values(shortfall, task.points).max()) > 0.0:
            return False
        if task.region.is_finite:
            return True
        search = task.search(shortfall)
        if search is None:
            return False
        known = 0.0, self.point  # only what lies above matters
        return largest_in_region(search, _ACCURACY, self.tries, known).upper <= 0.0

    def _at_most(self, task: Task, level: float) -> bool:
        r"""Whether no point of a region is better than the recommended one by more."""
        values = task.values(task.gain(self.point), task.points)
        if task.bound.outcome_map.is_identity and float(values.max()) > level:
            return False
        asked = replace(task, recommended=self.point)
        certificate = certificate_of(asked, _ACCURACY, self.tries)
        return certificate.rigorous and certificate.gap <= level

    # What would have to be wrong.

    def _stands(self, test: Callable[[Task], bool], task: Task) -> Breakdown | None:
        def stands(*factors: float) -> bool:
            key = (id(task), *factors)
            if key not in self._relaxed:
                self._relaxed[key] = task.relaxed(*factors)
            return test(self._relaxed[key])

        try:
            return breakdown_of(self.task.bands, stands)
        except UnsupportedError:
            return None

    # Sentences.

    def _best_run(self) -> Iterator[Claim]:
        observed = self.task.bound.observed
        if observed is None or len(observed) == 0:
            return
        runs, domain = observed.to(self.point), self.domain
        counted, possible = self.task.counts(runs), self.task.may_be_feasible(runs)
        if not bool(possible.any()):
            return
        name = f"best{' allowed' if domain.allowed else ''} run"
        name += " among the candidates" if domain.noun == "candidate" else ""
        name += " that may be feasible" if domain.feasible else ""
        name += domain.context
        if not bool(counted.any()):
            name, counted = "best run (outside the domain)", possible
        runs = runs[counted]
        least = -upper_side(-self.sign)(self.task.confidence_set, runs)
        best = runs[least.argmax()]
        sides = self._sides(self.task, best)
        words = f"{self.words.outcome} there is {self.words.interval(*sides)}"
        yield Claim("best run", f"{name}: {self.words.point(best)}; {words}", sides)

    def _value(self) -> Claim:
        sides = self._sides(self.task, self.point)
        worst = sides[0] if self.sign > 0 else sides[1]
        level = worst - self.sign * self.tolerance
        tested = _on_side(self.sign, level, self.tolerance)
        if self.threshold is not None and self.sign * (worst - self.threshold) >= 0.0:
            level = self.threshold
            tested = as_given(level)
        side = "at least" if self.sign > 0 else "at most"

        def test(task: Task) -> bool:
            own = self._sides(task, self.point)
            return self.sign * ((own[0] if self.sign > 0 else own[1]) - level) >= 0.0

        return Claim(
            "value",
            self._value_is(sides),
            sides,
            tested=f"{side} {self.words.value(tested)}",
            breakdown=self._stands(test, self.task),
        )

    def _improvement(self) -> Iterator[Claim]:
        baseline = self.baseline
        if baseline is None:
            return

        def least(task: Task) -> float:
            reference = self.point.unsqueeze(0)
            gain = task.confidence_set.max_gain_over(
                baseline.unsqueeze(0), reference, self.sign
            )
            latent = -float(gain)
            if task.bound.outcome_map.is_identity:
                return latent
            own, other = self._sides(task, self.point), self._sides(task, baseline)
            rise = own[0] - other[1] if self.sign > 0 else other[0] - own[1]
            return max(rise, 0.0) if latent >= 0.0 else rise

        number = least(self.task)
        where = f"the baseline, {self.words.point(baseline)}"
        words = f"the recommended point is {self.better} than {where}"
        if number > 0.0:
            statement = f"{words}, by at least {self.words.value(at_least(number))}"
        else:
            less = "lower" if self.sign > 0 else "higher"
            by = self.words.value(at_most(-number))
            statement = f"it is not shown that {words}: it may be {less} by {by}"
        yield Claim(
            "baseline",
            statement,
            (number,),
            tested=f"{self.better} at all",
            breakdown=self._stands(lambda task: least(task) > 0.0, self.task),
        )

    def _value_is(self, sides: tuple[float, ...]) -> str:
        where = f"{self.words.outcome} at {self.words.point(self.point)}"
        return f"{where} is {self.words.interval(*sides)}"

    def _around(self, share: float) -> str:
        near = f"{coordinate(100 * share)} % of each range to either side"
        # Ranges may be of logarithms, or of the points that constraints leave.
        if self.words.encoded is not None or not self.domain.is_box:
            region = self.task.around(self.point, share).region
            ends = region.lower.amin(0), region.upper.amax(0)
            near += f": {self.words.box(self.point, *ends)}"
        return f"near it ({near}){self.domain.context}"

    def _keeps_to(self, level: str) -> str:
        side = "at least" if self.sign > 0 else "at most"
        return f"{self.words.outcome} is {side} {self.words.value(level)}"

    def _no_better(self, kind: str, share: float, gap: float) -> str:
        subject = self.domain.none
        if kind == "window":
            subject = f"no {self.domain.points} {self._around(share)}"
        by = self.words.value(at_most(gap))
        return f"{subject} is {self.better} by more than {by}"

    def _near(self) -> Claim:
        return self._gain("window", self.window)

    def _anywhere(self) -> Claim:
        return self._gain("anywhere", self.task)

    def _gain(self, kind: str, task: Task) -> Claim:
        asked = replace(task, recommended=self.point)
        certificate = certificate_of(asked, _ACCURACY, self.evaluations)
        level = self.tolerance
        tested = as_given(level) if self.is_given else at_most(level)
        stands = self._stands(lambda own: self._at_most(own, level), task)
        if stands is not None and stands.norm_bound == 0.0 and stands.lengthscale is None:
            level += certificate.gap  # what stands at the norm bound in use, and a little
            tested = at_most(level)
            stands = self._stands(lambda own: self._at_most(own, level), task)
        return Claim(
            kind,
            self._no_better(kind, self.share, certificate.gap),
            (certificate.gap,),
            certificate.rigorous,
            f"by no more than {self.words.value(tested)}",
            stands,
        )

    def _box(self) -> Iterator[Claim]:
        if self.threshold is None:
            return
        level = self.threshold
        good, bad = 0.0, 1.0
        if self._keeps(self.task.around(self.point, bad), level):
            good = bad
        for _ in range(_HALVINGS if good < bad else 0):
            share = 0.5 * (good + bad)
            if self._keeps(self.task.around(self.point, share), level):
                good = share
            else:
                bad = share
        keeps = self._keeps_to(as_given(level))
        if good == 0.0:
            statement = f"no box around it is shown in which {keeps}"
            yield Claim("operating window", statement, (0.0,))
            return
        region = self.task.around(self.point, good).region
        ends = region.lower.amin(0), region.upper.amax(0)
        limits = self.words.box(self.point, *ends)
        half = self.task.around(self.point, 0.5 * good)
        # Only points that count were looked at, not all of the box that holds them.
        where = f"wherever {limits}"
        if not self.domain.is_box:
            where = f"at every {self.domain.points} with {limits}"
        yield Claim(
            "operating window",
            f"{keeps} {where}",
            (good,),
            tested="half as wide",
            breakdown=self._stands(lambda own: self._keeps(own, level), half),
        )
