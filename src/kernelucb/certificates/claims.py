r"""What may be said after an optimisation: claims, and what would have to be wrong."""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import torch
from botorch.exceptions import UnsupportedError
from torch import Tensor

from kernelucb._numerics.digits import as_given, at_least, at_most, coordinate
from kernelucb.certificates.boxes import largest_in_region, upper_side
from kernelucb.certificates.breakdown import breakdown_of
from kernelucb.certificates.measured import WINDOW, at_margin
from kernelucb.certificates.regret import certificate_of
from kernelucb.certificates.task import Task
from kernelucb.certificates.words import (
    STATEMENTS,
    TESTED,
    Breakdown,
    Claim,
    Wording,
)
from kernelucb.exceptions import InconsistentConfidenceSetWarning

_ACCURACY = 0.05  # share of a maximum that branch and bound may leave open
_EVALUATIONS = 20_000  # of branch and bound, at most, for each norm bound that is tried
_HALVINGS = 6  # in the search for the largest box
_SPREAD = 0.05  # of the observed values: the tolerance where none is given


def ladder(
    task: Task,
    recommended: Tensor,
    baseline: Tensor | None,
    window: float,
    threshold: float | None,
    tolerance: float | None,
    max_evaluations: int,
    words: Wording,
) -> tuple[Claim, ...]:
    r"""The claims of a task about ``d`` coordinates of a recommended point.

    The best run comes first, then the claims, those first whose margin is largest. Other
    arguments as for ``optimum_report``.
    """
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore", InconsistentConfidenceSetWarning)
        found = _Ladder(task, recommended, max_evaluations, words)
        level = _spread(task, recommended) if tolerance is None else tolerance
        accepted = level, at_most(level) if tolerance is None else as_given(level)
        claims = [found.value(threshold, level)]
        claims += [] if baseline is None else [found.improvement(baseline)]
        claims += [found.gain("window", window, *accepted)]
        claims += [] if threshold is None else [found.box(threshold)]
        claims += [found.gain("anywhere", 1.0, *accepted)]
        for i, claim in enumerate(claims):
            if task.constraints is None and (claim.kind != "window" or window == WINDOW):
                record = at_margin(task.bound, claim.kind, claim.margin)
                claims[i] = replace(claim, record=record)
        claims.sort(key=lambda claim: -claim.margin)
        return (*found.best_run(), *claims)


def _spread(task: Task, point: Tensor) -> float:
    r"""A twentieth of the spread of the observed points' values, or of the noise.

    Outcome units. Estimates from few noisy outcomes hardly differ: hence the noise.
    """
    band, state = task.bound, task.confidence_set.regression
    points = task.points if band.observed is None else band.observed
    values = state.outcome_map.inverse(state.mean(points.to(point)))
    spread = float(values.max() - values.min()) or band.prior_std
    noise = band.noise_scale if state.outcome_map.is_identity else None
    return _SPREAD * max(spread, noise or 0.0)


class _Ladder:
    r"""Claims about one recommended point; numbers are in outcome units."""

    def __init__(
        self, task: Task, point: Tensor, max_evaluations: int, words: Wording
    ) -> None:
        self.task, self.point, self.words, self.sign = task, point, words, task.sign
        self.evaluations, self.domain = max_evaluations, words.domain(task, point)
        self.relaxed: dict[tuple[float, ...], Task] = {}
        sides = ("higher", "at least"), ("lower", "at most")
        (better, side), (worse, _) = sides if task.sign > 0 else sides[::-1]
        self.said = {  # what sentences share
            **{"outcome": words.outcome, "point": words.point(point)},
            **{"better": better, "worse": worse, "side": side},
            **{"points": self.domain.points, "nothing": self.domain.nothing},
            **{"context": self.domain.context},
        }

    def claim(
        self,
        kind: str,
        numbers: tuple[float, ...],
        said: dict[str, str],
        stands: Breakdown | None = None,
        rigorous: bool = True,
        sentence: str | None = None,
    ) -> Claim:
        r"""A claim in the words of its ``sentence``, by default that of its kind."""
        name, words = sentence or kind, self.said | said
        tested = TESTED[name].format(**words) if name in TESTED else None
        statement = STATEMENTS[name].format(**words)
        return Claim(kind, statement, numbers, rigorous, tested, stands)

    def stands(self, test: Callable[[Task], bool], task: Task) -> Breakdown | None:
        r"""Up to where a task passes a test; None where its bands are not one event."""

        def holds(*factors: float) -> bool:
            if factors not in self.relaxed:  # other claims try the same ones
                self.relaxed[factors] = self.task.relaxed(*factors)
            return test(replace(self.relaxed[factors], region=task.region))

        try:
            return breakdown_of(self.task.bands, holds)
        except UnsupportedError:
            return None

    def keeps(self, level: float, task: Task) -> bool:
        r"""Whether the outcome is on the good side of a level all over a region."""
        outcome_map = task.confidence_set.regression.outcome_map
        inner = float(outcome_map.forward(torch.tensor(level, dtype=torch.float64)))
        shortfall = upper_side(-self.sign, -self.sign * inner)
        if float(task.values(shortfall, task.points).max()) > 0.0:
            return False
        if task.region.is_finite:
            return True
        search, few = task.search(shortfall), min(self.evaluations, _EVALUATIONS)
        known = 0.0, self.point  # only what lies above matters
        return (
            search is not None
            and largest_in_region(search, _ACCURACY, few, known).upper <= 0.0
        )

    def best_run(self) -> Iterator[Claim]:
        r"""The run that is worth most at least, if one may be feasible."""
        task, observed = self.task, self.task.bound.observed
        if observed is None or len(observed) == 0:
            return
        runs = observed.to(self.point)
        possible = task.may_be_feasible(runs)
        if not bool(possible.any()):
            return
        near = [task.region.nearest(x) is not None for x in runs]
        counted = possible & torch.tensor(near, device=runs.device)
        inside = bool(counted.any())
        runs = runs[counted if inside else possible]
        least = -upper_side(-self.sign)(task.confidence_set, runs)
        best = runs[least.argmax()]
        sides = _sides(task, best)
        said = {"name": self.domain.best_run(inside), "run": self.words.point(best)}
        said["interval"] = self.words.interval(*sides)
        yield self.claim("best run", sides, said)

    def value(self, threshold: float | None, tolerance: float) -> Claim:
        r"""What the outcome is at the recommended point."""
        sides, worst = _sides(self.task, self.point), 0 if self.sign > 0 else 1
        level = sides[worst] - self.sign * tolerance
        tested = (at_least if self.sign > 0 else at_most)(level, tolerance)
        if threshold is not None and self.sign * (sides[worst] - threshold) >= 0.0:
            level, tested = threshold, as_given(threshold)

        def holds(task: Task) -> bool:
            return self.sign * (_sides(task, self.point)[worst] - level) >= 0.0

        said = {"interval": self.words.interval(*sides), "tested": self.words.value(tested)}
        return self.claim("value", sides, said, self.stands(holds, self.task))

    def improvement(self, baseline: Tensor) -> Claim:
        r"""By how much the recommended point is better than ``d`` coordinates."""

        def least(task: Task) -> float:
            gain = task.gain(self.point)(task.confidence_set, baseline.unsqueeze(0))
            latent = -float(gain)
            if task.bound.outcome_map.is_identity:
                return latent
            here, there = _sides(task, self.point), _sides(task, baseline)
            rise = here[0] - there[1] if self.sign > 0 else there[0] - here[1]
            return max(rise, 0.0) if latent >= 0.0 else rise

        number = least(self.task)
        by, name = at_least(number), "baseline"
        if number <= 0.0:
            by, name = at_most(-number), "no baseline"
        said = {"baseline": self.words.point(baseline), "by": self.words.value(by)}
        stands = self.stands(lambda task: least(task) > 0.0, self.task)
        return self.claim("baseline", (number,), said, stands, sentence=name)

    def gain(self, kind: str, share: float, level: float, shown: str) -> Claim:
        r"""By how much points are better, anywhere or near the recommended one.

        ``share`` is half of each side of the window; ``level``, ``shown`` in print, is the
        difference that does not matter.
        """
        task = self.task if kind == "anywhere" else self.task.around(self.point, share)
        asked = replace(task, recommended=self.point)
        certificate = certificate_of(asked, _ACCURACY, self.evaluations)
        few = min(self.evaluations, _EVALUATIONS)

        def no_better(task: Task, level: float) -> bool:
            values = task.values(task.gain(self.point), task.points)
            if task.bound.outcome_map.is_identity and float(values.max()) > level:
                return False
            found = certificate_of(replace(task, recommended=self.point), _ACCURACY, few)
            return found.rigorous and found.gap <= level

        stands = self.stands(partial(no_better, level=level), task)
        if stands is not None and stands.norm_bound == 0.0 and stands.lengthscale is None:
            level += certificate.gap  # what stands at the norm bound in use, and a little
            shown = at_most(level)
            stands = self.stands(partial(no_better, level=level), task)
        limits = ""
        # Ranges may be of logarithms, or of the points that constraints leave.
        if self.words.encoded is not None or not self.domain.is_box:
            limits = f": {self._limits(task)}"
        gap, tested = self.words.value(at_most(certificate.gap)), self.words.value(shown)
        said = {"share": coordinate(100 * share), "limits": limits}
        said |= {"by": gap, "tested": tested}
        return self.claim(kind, (certificate.gap,), said, stands, certificate.rigorous)

    def box(self, threshold: float) -> Claim:
        r"""The largest box around the point in which the outcome keeps a threshold."""
        kind, level = "operating window", self.words.value(as_given(threshold))
        good, bad = 0.0, 1.0
        if self.keeps(threshold, self.task.around(self.point, bad)):
            good = bad
        for _ in range(_HALVINGS if good < bad else 0):
            share = 0.5 * (good + bad)
            if self.keeps(threshold, self.task.around(self.point, share)):
                good = share
            else:
                bad = share
        if good == 0.0:
            return self.claim(kind, (0.0,), {"level": level}, sentence=f"no {kind}")
        limits = self._limits(self.task.around(self.point, good))
        half = self.task.around(self.point, 0.5 * good)
        stands = self.stands(partial(self.keeps, threshold), half)
        said = {"level": level, "limits": limits}
        sentence = kind if self.domain.is_box else "operating points"
        return self.claim(kind, (good,), said, stands, sentence=sentence)

    def _limits(self, task: Task) -> str:
        ends = task.region.lower.amin(0), task.region.upper.amax(0)
        return self.words.box(*ends)


def _sides(task: Task, point: Tensor) -> tuple[float, float]:
    r"""Lower and upper bound at ``d`` coordinates of a point."""
    functions = task.confidence_set
    sides = torch.cat(functions.bounds(point.unsqueeze(0)))
    lower, upper = functions.regression.outcome_map.inverse(sides).tolist()
    return lower, upper
