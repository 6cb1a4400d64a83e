r"""Claims that may be made after an optimisation, and what would have to be wrong.

Breakdown values are the norm or noise scale up to which a claim about a band stands. How
often claims at a margin were false, on problems that no kernel made, is in
``reliability.csv`` (``python -m benchmarks.reliability package``). Shares of the past are
no theorem: nothing there is certified.
"""

import csv
import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache, partial
from importlib.resources import files
from typing import NamedTuple, TypeVar

import torch
from botorch.exceptions import UnsupportedError
from torch import Tensor

from kernelucb._numerics.digits import as_given, at_least, at_most, coordinate
from kernelucb._numerics.estimates import Estimate, Number
from kernelucb.certificates.boxes import ACCURACY, upper_side
from kernelucb.certificates.regret import certify
from kernelucb.certificates.spending import counted
from kernelucb.certificates.task import Task
from kernelucb.certificates.wording import Wording
from kernelucb.certificates.words import STATEMENTS, TESTED, Breakdown, Claim
from kernelucb.confidence.band import Band, BandLike, named_terms, terms_of
from kernelucb.confidence.outcome_constraints import constrained_band
from kernelucb.data import KernelRegression
from kernelucb.exceptions import InconsistentConfidenceSetWarning

Of = TypeVar("Of", float, int)
_JUST_ABOVE = 1.02  # times the least consistent norm: the smallest norm bound tried
_NORM_STEP = 2.0  # from one norm bound tried to the next
_NOISE_STEP = 1.5  # the same of noise scales
_MOST_NORM = 1000.0  # times the least consistent norm: the largest tried
_CLOSE = 1.05  # of what is found, as a factor
_ROUND_OFF = 1e-12  # of a sum of probabilities
_MOST_NOISE = 100.0  # times the noise scale in use: the largest tried


def breakdown(
    band: BandLike, claim: Callable[[Band], bool], delta: float | None = None
) -> Breakdown:
    r"""Find the largest norm bound and noise scale at which a claim stands, anytime.

    Example:
        >>> breakdown(band, lambda b: regret_certificate(b, bounds=box).gap <= 5.0)

    Source: ours (``docs/mathematics.md``). The sets of functions that explain the data grow
    with the norm bound and the noise scale, and rest on one event (``Band.relaxed``): the
    true function is in every set whose norm bound and noise scale are large enough. So if a
    claim is true of every function of a set, the claim is true, or the set's norm bound or
    noise scale is too small. Assumptions: the band's, without the norm bound.

    Only norm bounds and noise scales at which the claim was found to stand are returned, so
    the values are never too large. They may be too small by a twentieth, or where the
    claim falls and stands again at a larger value. The largest norm bound tried is a
    thousand times the least consistent norm.

    Args:
        band: ``MartingaleMixtureUCB``, ``KernelFamilyUCB`` or ``LikelihoodUCB``, within a
            range or not, or a combination of them.
        claim: Maps a band of the same kind to whether every function of the band's set
            satisfies the claim; may use anything that is computed from the band.
        delta: Failure probability of the band and of all else that the claim rests on; by
            default the band's, which covers no sample (``failure_probability``) and no
            repeated runs (``confirmation``).

    Raises:
        UnsupportedError: If the band's sets are not one event for all norm bounds, or the
            claim rests on events that fail with a larger probability than ``delta``.
    """
    whole, constraints = constrained_band("band", band)
    if constraints is not None:
        raise UnsupportedError(
            "The claim would be about the objective without its constraints; ask "
            "optimum_report, whose claims have breakdown values of all bands."
        )
    most = [whole.delta or 0.0]

    def holds(*by: float) -> bool:
        with counted() as spent:
            stands = claim(whole.relaxed(*by))
        most.append((whole.delta or 0.0) + sum(spent))
        return stands

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InconsistentConfidenceSetWarning)
        found = breakdown_of({"": whole}, holds)
    if max(most) > (most[0] if delta is None else delta) + _ROUND_OFF:
        raise UnsupportedError(
            f"The claim rests on more than the band, whose delta is {most[0]:.4g}: with a "
            f"sample or repeated runs it fails with probability up to {max(most):.4g}. "
            f"Give delta={max(most):.4g} to breakdown, and state that probability."
        )
    return replace(found, delta=None if delta is None else max(most))


def breakdown_of(bands: Mapping[str, Band], stands: Callable[..., bool]) -> Breakdown:
    r"""Breakdown values of a function of the arguments of ``Band.relaxed``.

    The first of the named bands is the objective's; see ``Breakdown`` for the others.
    """
    band, terms = next(iter(bands.values())), named_terms(bands)
    whole = band.relaxed()  # whose norm bound is larger where the data contradict it
    norm = float(band.smallest_norm_bound)
    least = float(whole.least_norm_factor) * float(whole.smallest_norm_bound) / norm
    if math.isinf(least):
        return Breakdown(Estimate(0.0), Estimate(least))
    of_objective = {term.key for term in terms_of(band)}
    first = _JUST_ABOVE * least if least > 0.0 else 1.0 / _MOST_NORM
    first = max(first, 1.0) if len(of_objective) > 1 else first
    limit = max(_MOST_NORM * max(least, 1.0 / _MOST_NORM), first)
    ratio = noise = shortest = None
    noises = [term.noise for term in terms_of(band) if term.noise is not None]
    scales = {scale for each in noises for scale in each.data.noise_std.tolist()}
    with torch.no_grad():
        start = max(first, min(1.0, limit))
        factor = _largest(stands, start, _NORM_STEP, limit)
        if factor == 0.0 and first < 1.0:
            factor = _largest(stands, first, _NORM_STEP, limit, bad=1.0)
        at = min(factor or math.inf, max(first, 1.0))  # where functions explain the data
        if factor > 0.0 and None not in [term.noise_scale for term in terms.values()]:
            steps = _NOISE_STEP, _MOST_NOISE
            most = _largest(lambda ratio: stands(at, ratio), 1.0, *steps)
            ratio = Estimate(max(most, 1.0))
            noise = ratio * band.noise_scale
        for length in sorted(set(band.lengthscales), reverse=True):  # longest first
            if not stands(at, 1.0, length):
                break
            shortest = Estimate(length)

    def norms_at(multiple: float) -> tuple[tuple[str, Estimate], ...]:
        if len(terms) == 1:
            return ()
        factors = {term.key: max(multiple, 1.0) for term in terms.values()}
        factors |= dict.fromkeys(of_objective, multiple)
        norms = (
            (n, Estimate(factors[t.key]) * t.smallest_norm_bound) for n, t in terms.items()
        )
        return tuple(norms)

    needs_norm = noise is not None or shortest is not None
    return Breakdown(
        norm_bound=Estimate(factor * norm),
        least_consistent_norm=Estimate(least * norm),
        noise_std=noise,
        at_norm_bound=Estimate(at * norm) if needs_norm else None,
        lengthscale=shortest,
        stands_throughout=factor >= limit / _CLOSE,
        norms=norms_at(factor or first),
        at_norms=norms_at(at) if needs_norm else (),
        noise_factor=ratio if len(terms) > 1 or len(scales) > 1 else None,
    )


def _largest(
    stands: Callable[[float], bool],
    first: float,
    growth: float,
    limit: float,
    bad: float = math.inf,
) -> float:
    r"""Find a large number from ``first`` to ``limit`` at which a claim stands, or 0.

    ``bad`` is a number at which it is known to fall. Only numbers that were tried are
    returned.
    """
    if not stands(first):
        return 0.0
    if math.isinf(bad) and stands(limit):  # at once, where it stands throughout
        return limit
    good = first
    while math.isinf(bad) and good < limit:
        tried = min(growth * good, limit)
        good, bad = (tried, bad) if stands(tried) else (good, tried)

    def middle(good: float, bad: float) -> float | None:
        return math.sqrt(good * bad) if _CLOSE * good < bad < math.inf else None

    return last_tried(stands, good, bad, middle)


def last_tried(
    stands: Callable[[Of], bool],
    good: Of,
    bad: Of,
    middle: Callable[[Of, Of], Of | None],
) -> Of:
    r"""The last number, between one at which a claim stands and one at which not.

    By hand: a claim has no value whose root could be searched, and only a number at which
    it was found to stand may be returned. ``middle`` gives the next number to try, None
    where both are close enough.
    """
    while (tried := middle(good, bad)) is not None:
        good, bad = (tried, bad) if stands(tried) else (good, tried)
    return good


WINDOW = 0.05  # half sides of the window that was measured, over the domain's


class Record(NamedTuple):
    r"""Record of claims of one kind, after so many runs, at one margin."""

    kind: str  # "value", "window" or "anywhere"
    runs: int  # the record is used from so many on
    level: float  # the norm bound over the least one
    claims: int
    problems: int
    share_false: float

    def __str__(self) -> str:
        return (
            f"of {self.claims:,} claims of this kind at this margin on {self.problems} "
            f"other problems {100 * self.share_false:.2g} % were false"
        )


@cache
def records() -> tuple[Record, ...]:
    r"""The table of the package, the least margins first."""
    path = files("kernelucb.certificates").joinpath("reliability.csv")
    rows = csv.DictReader(path.read_text(encoding="utf-8").splitlines())
    kinds = Record.__annotations__.items()
    found = [Record(**{name: kind(row[name]) for name, kind in kinds}) for row in rows]
    return tuple(sorted(found, key=lambda each: each.level))


def at_margin(band: Band, kind: str, margin: Number) -> str | None:
    r"""The record of the largest margin that is not above this one.

    None for a band unlike those that were measured, or with fewer runs.
    """
    likes = band.outcome_map.is_identity and isinstance(band.data, KernelRegression)
    if not likes or band.observed is None or band.noise_scale is None:
        return None
    runs = len(band.observed)
    same = [each for each in records() if each.kind == kind and each.runs <= runs]
    most = max((each.runs for each in same), default=0)
    found = [each for each in same if each.runs == most and each.level <= margin]
    return str(found[-1]) if found else None


_EVALUATIONS = 20_000  # of branch and bound, at most, for each norm bound that is tried
_LEAST_SHARE = 2.0**-6  # to which the largest box is found
_SPREAD = 0.05  # of the observed values, or of the noise


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
        # Norm bounds that are tried may contradict the data; breakdown values say so.
        warnings.simplefilter("ignore", InconsistentConfidenceSetWarning)
        found = _Ladder(task, recommended, max_evaluations, words)
        level = _tolerance(task, recommended) if tolerance is None else tolerance
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
        claims.sort(key=lambda claim: claim.margin, reverse=True)
        return (*found.best_run(), *claims)


def _tolerance(task: Task, point: Tensor) -> float:
    r"""The usual tolerance, from the spread of the estimates at the observed points."""
    band, state = task.bound, task.bound.required_set.regression
    points = task.points if band.observed is None else band.observed
    values = state.outcome_map.inverse(state.mean(points.to(point)))
    spread = float(values.max() - values.min()) or band.prior_std
    noise = band.noise_scale if state.outcome_map.is_identity else None
    return usual_tolerance(spread, noise or 0.0)


def usual_tolerance(spread: float, noise: Number) -> float:
    r"""The difference that does not matter where none is given, outcome units.

    ``spread`` is that of the outcomes, or of their estimates. Few noisy ones hardly differ:
    hence the noise.
    """
    return _SPREAD * max(spread, float(noise))


class _Ladder:
    r"""Claims about one recommended point; numbers are in outcome units."""

    def __init__(
        self, task: Task, point: Tensor, max_evaluations: int, words: Wording
    ) -> None:
        self.task, self.point, self.words, self.sign = task, point, words, task.sign
        self.evaluations, self.domain = (
            max_evaluations,
            words.domain(task.region.words, point),
        )
        self.relaxed: dict[tuple[float, ...], Task] = {}
        sides = ("higher", "at least"), ("lower", "at most")
        (better, side), (worse, _) = sides if task.sign > 0 else sides[::-1]
        self.said = {  # what sentences share
            **{"outcome": words.short(words.outcome), "point": words.point(point)},
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
        r"""Breakdown values of a test of tasks; None where the bands are not one event."""

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
        outcome_map = task.bound.required_set.regression.outcome_map
        inner = float(outcome_map.forward(torch.tensor(level, dtype=torch.float64)))
        shortfall = upper_side(-self.sign, -self.sign * inner)
        return task.is_at_most(shortfall, 0.0, min(self.evaluations, _EVALUATIONS))

    def best_run(self) -> Iterator[Claim]:
        r"""The run whose guaranteed value is largest, among those that may be feasible."""
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
        best = runs[task.bound.latent_at_worst(runs).argmax()]
        sides = _sides(task, best)
        said = {"name": self.domain.best_run(inside), "run": self.words.point(best)}
        said["interval"] = self.words.interval(*sides)
        yield self.claim("best run", sides, said)

    def value(self, threshold: float | None, tolerance: float) -> Claim:
        r"""The claim about the outcome at the recommended point."""
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
        r"""The claim that the recommended point is better than ``d`` coordinates."""

        def least(task: Task) -> float:
            gain = task.gain(self.point)(task.bound.required_set, baseline.unsqueeze(0))
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
        r"""The claim that no point, anywhere or near the recommended one, is much better.

        ``share`` is half of each side of the window; ``level``, ``shown`` in print, is the
        difference that does not matter.
        """
        task = self.task if kind == "anywhere" else self.task.around(self.point, share)
        asked = replace(task, recommended=self.point)
        certificate, _ = certify(asked, ACCURACY, self.evaluations)
        few = min(self.evaluations, _EVALUATIONS)

        def no_better(task: Task, level: float) -> bool:
            if task.bound.outcome_map.is_identity:
                return task.is_at_most(task.gain(self.point), level, few)
            # Behind a transform a gain depends on where the value itself may lie
            asked = replace(task, recommended=self.point)
            found, _ = certify(asked, ACCURACY, few)
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
        said |= {"by": gap, "tested": tested, "news": certificate.news}
        return self.claim(kind, (certificate.gap,), said, stands, certificate.rigorous)

    def box(self, threshold: float) -> Claim:
        r"""The claim about the largest box in which the outcome keeps a threshold."""
        kind, level = "operating window", self.words.value(as_given(threshold))

        def keeps(share: float) -> bool:
            return self.keeps(threshold, self.task.around(self.point, share))

        def middle(good: float, bad: float) -> float | None:
            return 0.5 * (good + bad) if bad - good > _LEAST_SHARE else None

        good = 1.0 if keeps(1.0) else last_tried(keeps, 0.0, 1.0, middle)
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
    lower, upper = task.bound.bounds(point.unsqueeze(0))
    return float(lower), float(upper)
