r"""Results and sentences of certificates, breakdowns, claims, stops, reports and plans.

Every sentence is here, beside the numbers it is about, so that a word has one road to the
reader. The modules beside this one compute the numbers.
"""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import torch
from botorch.utils.multi_objective.hypervolume import Hypervolume
from botorch.utils.multi_objective.pareto import is_non_dominated
from torch import Tensor

from kernelucb._numerics.digits import (
    as_given,
    assumed,
    at_least,
    at_most,
    between,
    nearest,
    one_minus,
)
from kernelucb._numerics.estimates import Estimate, Number, WrittenEstimate
from kernelucb.certificates.wording import DomainWords, Value, Wording, span
from kernelucb.confidence.assumptions import Assumptions
from kernelucb.confidence.outcome_constraints import OutcomeConstraints

_MOST_LINES = 5  # of combinations, in print
_NO_NAMES = Wording(())

# Statements of claims by their kind, or by "no" and their kind.
STATEMENTS = {
    "best run": "{name}: {run}; {outcome} there is {interval}",
    "value": "{outcome} at {point} is {interval}",
    "baseline": (
        "the recommended point is {better} than the baseline, {baseline}, by at least {by}"
    ),
    "no baseline": (
        "it is not shown that the recommended point is {better} than the baseline, "
        "{baseline}: it may be {worse} by {by}"
    ),
    "window": (
        "no {points} near it ({share} % of each range to either side{limits}){context} is "
        "{better} by more than {by}{news}"
    ),
    "anywhere": "{nothing} is {better} by more than {by}{news}",
    "operating window": "{outcome} is {side} {level} wherever {limits}",
    # Only points that count were looked at, not all of the box that holds them.
    "operating points": "{outcome} is {side} {level} at every {points} with {limits}",
    "no operating window": "no box around it is shown in which {outcome} is {side} {level}",
}
# The sentences whose breakdown values are stated: not the claims, whose number is another.
TESTED = {
    "value": "{outcome} there is {side} {tested}",
    "baseline": "it is {better} than the baseline",
    "no baseline": "it is {better} than the baseline",
    "window": "no {points} near it{context} is {better} by more than {tested}",
    "anywhere": "{nothing} is {better} by more than {tested}",
    "operating window": "{outcome} is {side} {level} in a box half as wide",
    "operating points": "{outcome} is {side} {level} in a box half as wide",
}


class Verdict:
    r"""What a statement about a whole domain rests on, and what is missing."""

    assumptions: Assumptions
    rigorous: bool

    @property
    def certified(self) -> bool:
        r"""Whether the numbers are rigorous, the band holds everywhere, all was given."""
        return self.rigorous and self.assumptions.all_points and self.assumptions.certified

    @property
    def summary(self) -> str:
        r"""``"certified"``, or the reasons why the statement is not certified."""
        if self.certified:
            return "certified" + ("" if self.assumptions.anytime else " in one round only")
        lacking = [] if self.assumptions.certified else [self.assumptions.summary]
        if not self.assumptions.all_points:
            lacking.append("heuristic: the band does not hold at all points at once")
        if not self.rigorous:
            lacking.append("heuristic: the maximum over the domain comes from a search")
        return "; ".join(lacking)

    @property
    def obstacle(self) -> str:
        r"""Why nothing may be acted on, whatever the numbers; or nothing."""
        if self.assumptions.violated:
            return self.assumptions.summary
        if not self.assumptions.anytime:
            return "the bound does not hold at a round that the data choose"
        return "" if self.rigorous and self.assumptions.all_points else self.summary

    @property
    def sentence(self) -> str:
        r"""The statement with its numbers."""
        raise NotImplementedError

    def __str__(self) -> str:
        if self.assumptions.violated:  # nothing may be stated but the contradiction
            return str(self.assumptions)
        return f"{self.summary}: {self.sentence}\n{self.assumptions}"


@dataclass(frozen=True)
class RegretCertificate(Verdict):
    r"""Upper bound on how much better than the recommended point any point can be.

    If the certificate is ``certified`` and the given assumptions are true, the optimum over
    the domain exceeds the value at the recommended point by at most ``gap``, with the
    probability of the bound; in every round at once if the bound is anytime. Otherwise
    ``summary`` says what is missing.

    Attributes:
        gap: Upper bound on ``max f - f(recommended)`` (``f(recommended) - min f`` where
            small outcomes are sought) over the feasible points, at least 0; units of the
            outcomes given to the model, before any posterior transform. For a model of
            transformed outcomes, such as ``Log``, ``f`` is the median of the outcome.
        recommended: ``d`` coordinates of the recommended point.
        challenger: ``d`` coordinates of the point that may be better by ``gap``.
        rigorous: Whether ``gap`` is at least the maximum over the domain: point by point on
            finite sets, by branch and bound on boxes and mixed spaces. Otherwise ``gap``
            comes from a search and may be too small.
        resolution: How far ``gap`` may lie above the exact maximum over the domain,
            outcome units: ``gap - resolution`` was found at the challenger. 0 on finite
            sets, infinite where the maximum is not rigorous.
        assumptions: What the probability rests on.
        domain: Names of the points that count, for sentences.
        of_range: Whether the gap is what the known range leaves, so that the band says
            nothing beyond it.
        wording: The outcome's name and unit, for sentences.
    """

    gap: float
    recommended: Tensor
    challenger: Tensor
    rigorous: bool
    resolution: float
    assumptions: Assumptions
    domain: DomainWords = field(default_factory=DomainWords)
    of_range: bool = False
    wording: Wording = _NO_NAMES

    @property
    def news(self) -> str:
        r"""``" (the known range alone says so)"``, or nothing."""
        return " (the known range alone says so)" * self.of_range

    @property
    def sentence(self) -> str:
        r"""``"at most 0.12 from the optimum of the feasible points"``."""
        gap = self.wording.value(at_most(self.gap))
        return f"at most {gap} from {self.domain.optimum}{self.news}"

    def reason(self, accepted: float) -> str:
        r"""Why an experiment stops or goes on, where a gap of ``accepted`` is accepted."""
        if self.assumptions.violated:
            return f"{self.obstacle}; {self.assumptions.remedy}"
        why = self.obstacle or self.summary
        return f"{why}: {self.sentence}, accepted {self.wording.value(as_given(accepted))}"


def gaps_in_words(run: Sequence[RegretCertificate]) -> str:
    r"""Verdict on several rounds' gaps, such as ``"gap, certified in 3 of 5 rounds"``."""
    certified = sum(each.certified and each.assumptions.anytime for each in run)
    if run and certified == len(run):
        horizons = [x.assumptions.horizon for x in run if x.assumptions.horizon is not None]
        return "certified gap" + (f" up to round {min(horizons):g}" if horizons else "")
    if certified > 0:
        return f"gap, certified in {certified} of {len(run)} rounds"
    reasons = "; ".join(dict.fromkeys(each.summary for each in run))
    return f"gap, {reasons or 'no certificate'}"


def decision_in_words(stop: bool, reason: str, certificate: Verdict | None) -> str:
    r"""``"Stop: certified: at most 0.12 from ..."``, and what that rests on."""
    first = f"{'Stop' if stop else 'Go on'}: {reason}"
    return f"{first}\n{certificate.assumptions}" if certificate else first


class StoppingDecision(NamedTuple):
    r"""Whether to stop, and why.

    Attributes:
        stop: Whether the gap is small enough and may be acted on.
        reason: In words.
        certificate: The certificate that the decision rests on.
    """

    stop: bool
    reason: str
    certificate: RegretCertificate

    def __str__(self) -> str:
        return decision_in_words(self.stop, self.reason, self.certificate)


@dataclass(frozen=True)
class Breakdown:
    r"""How large norm and noise may be before a claim falls.

    *The claim holds, or the norm is above* ``norm_bound`` (*if the noise scale is at most
    the given scale*); and *the claim holds, or the noise scale is above* ``noise_std`` (*if
    the norm is at most* ``at_norm_bound``). All sentences of these two forms about one
    band, of all claims and all rounds, even chosen after a look at the data, are true at
    once with probability ``1 - delta``. No norm bound is assumed.

    Where a claim rests on several norm bounds, all are multiplied by the same factor, and
    the norms below refer to the smallest bound of the objective. ``norms`` names each: *the
    claim holds, or one of the norms is above its number*. Below the norm bounds in use only
    that of a single objective is tried; those of its constraints, and of the terms of a
    sum, stay at least as large as they are.

    All numbers come from the data, so they count as estimated when given to a bound.

    Attributes:
        norm_bound: Largest norm bound at which the claim was found to stand, outcome units;
            0 where it stands at none.
        least_consistent_norm: Lower bound on the norm that the data force, outcome units.
        noise_std: Largest noise scale at which the claim was found to stand, outcome units
            (the largest of several scales); None where the band has no noise scale to
            enlarge.
        at_norm_bound: Norm bound at which ``noise_std`` and ``lengthscale`` were found,
            outcome units.
        lengthscale: For a family of length scales, the shortest length scale down to which
            the claim was found to stand, units of the kernels' inputs; None for other
            bands. *The claim holds, or the length scale is below* ``lengthscale``.
        stands_throughout: Whether the claim stood at every norm bound that was tried, of
            which ``norm_bound`` is then the largest.
        norms: For a claim that rests on several bands, the name of each and the norm bound
            at which the claim was found to stand (the smallest that was tried, where it
            stands at none), outcome units; *the claim holds, or one of these norms is above
            its bound*. Empty where there is one band.
        at_norms: The same of ``at_norm_bound``.
        noise_factor: For a claim that rests on several noise scales, the largest multiple
            of all at which the claim was found to stand; None where there is one scale.
        delta: Failure probability of the sentence, where it was asked for: of the band and
            of samples and repeated runs beside it. Otherwise None: that of the band.
    """

    norm_bound: Estimate
    least_consistent_norm: Estimate
    noise_std: Estimate | None = None
    at_norm_bound: Estimate | None = None
    lengthscale: Estimate | None = None
    stands_throughout: bool = False
    norms: tuple[tuple[str, Estimate], ...] = ()
    at_norms: tuple[tuple[str, Estimate], ...] = ()
    noise_factor: Estimate | None = None
    delta: float | None = None

    @property
    def margin(self) -> Estimate:
        r"""``norm_bound / least_consistent_norm``; 0 where the claim stands at no norm."""
        if not self.norm_bound:
            return Estimate(0.0)
        least = self.least_consistent_norm
        return self.norm_bound / least if least > 0.0 else Estimate(math.inf)

    def __str__(self) -> str:
        if math.isinf(self.least_consistent_norm):
            return "does not stand: no function of any norm explains the data at this noise"
        at = self._norms(self.at_norms)
        if self.at_norm_bound is not None:
            at = f" at {at or f'a norm of {at_least(self.at_norm_bound)}'}"
        length = "" if self.lengthscale is None else at_most(self.lengthscale)
        least, norm = at_least(self.least_consistent_norm), at_least(self.norm_bound)
        if self.norm_bound == 0.0:
            tried = self._norms(self.norms)
            tried = tried or f"the least norm that explains the data, {least}"
            unless = f", unless the length scale is {length} or more{at}" if length else ""
            return f"does not stand even at {tried}{unless}"
        norm += (
            f" ({at_least(self.margin, count=3)} times the least that explains the data)"
        )
        limits = [f"the norm of {name} is above {at_least(n)}" for name, n in self.norms]
        limits = [" or ".join(limits)] if limits else []
        text = "stands"
        if self.stands_throughout:
            text += " at every norm tried" + ("" if limits else f", up to {norm}")
        elif not limits:
            limits.append(f"the norm is above {norm}")
        if self.noise_factor is not None:
            factor = at_least(self.noise_factor, count=3)
            limits.append(f"a noise scale is above {factor} times the one in use{at}")
        elif self.noise_std is not None:
            limits.append(f"the noise is above {at_least(self.noise_std)}{at}")
        if length:
            limits.append(f"the length scale is below {length}{at}")
        text = f"{text} unless {', or '.join(limits)}" if limits else text
        chance = "" if self.delta is None else one_minus(self.delta)
        return f"{text} (with probability {chance})" if chance else text

    @staticmethod
    def _norms(norms: tuple[tuple[str, Estimate], ...]) -> str:
        r"""``"norms of 6.5 (objective) and 3.2 (constraint)"``, or nothing."""
        listed = " and ".join(f"{at_least(n)} ({name})" for name, n in norms)
        return f"norms of {listed}" if norms else ""


def _as_json(found: Breakdown) -> dict[str, Any]:
    r"""Breakdown values and text, by their names in ``Claim.to_dict``."""
    noise = found.noise_std
    return {
        "norm_bound": WrittenEstimate(found.norm_bound.value),
        "norms": {name: WrittenEstimate(norm.value) for name, norm in found.norms},
        "margin": WrittenEstimate(found.margin.value),
        "noise_std": None if noise is None else WrittenEstimate(noise.value),
        "stands": str(found),
    }


@dataclass(frozen=True)
class Claim:
    r"""One sentence about the outcome, and how much may be wrong before it falls.

    The claim is ``statement``, with one number. How firm it is shows at another number:
    ``tested`` is the sentence whose breakdown values are known.

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
    def margin(self) -> Estimate:
        r"""Margin of the breakdown; 0 where there is none."""
        return Estimate(0.0) if self.breakdown is None else self.breakdown.margin

    def to_dict(self) -> dict[str, Any]:
        r"""Numbers and texts, as JSON takes them.

        Breakdown values are estimates in the dictionary; a number that is read back from
        its JSON is the reader's own statement.
        """
        found: dict[str, Any] = {
            "kind": self.kind,
            "statement": self.statement,
            "tested": self.tested,
            "rigorous": self.rigorous,
            "record": self.record,
            "numbers": [*self.numbers],
            **dict.fromkeys(("norm_bound", "norms", "margin", "noise_std", "stands")),
            "norms": {},
        }
        return found if self.breakdown is None else found | _as_json(self.breakdown)

    @property
    def sentence(self) -> str:
        r"""The statement, and whether its numbers come from a search."""
        search = "" if self.rigorous else " (from a search, which may miss more)"
        return f"{self.statement}{search}"

    @property
    def support(self) -> str:
        r"""The assumptions that would have to be wrong; may be empty."""
        record = f"; {self.record}" if self.record else ""
        return "" if self.breakdown is None else f"{self.tested}: {self.breakdown}{record}"

    def __str__(self) -> str:
        support = f"tested: {self.support}" if self.support else ""
        return "\n    ".join(filter(None, [self.sentence, support]))


@dataclass(frozen=True)
class PossibleCombination:
    r"""A combination of listed values that may hold the optimum, and where.

    Attributes:
        label: The listed values by the names of their inputs, for print; for a one-hot
            group the name of the input that is 1.
        values: The listed values by the names of their inputs.
        region: For each open input, by name, lower and upper limit of the points that may
            be an optimum; limits of the evaluated points only, where the certificate is not
            ``rigorous``.
        share: Share of the evaluated points of this combination that may be an optimum.
        share_at_most: Upper bound on the share of all points of this combination that may
            be an optimum; 1 where no bound is known.
    """

    label: str
    values: dict[str, Value]
    region: dict[str, tuple[Value, Value]]
    share: float
    share_at_most: float

    def to_dict(self) -> dict[str, Any]:
        r"""Plain numbers, lists and texts, as JSON takes them."""
        values = {name: value for name, value in vars(self).items() if name != "label"}
        return values | {"region": {name: [*ends] for name, ends in self.region.items()}}

    def __str__(self) -> str:
        if not self.region:
            return self.label
        limits = ", ".join(f"{name} {span(*ends)}" for name, ends in self.region.items())
        return f"{self.label}: {_share_of('it', self)}, within {limits}"


def _share_of(whole: str, part: "PossibleCombination | OptimumReport") -> str:
    most = at_most(part.share_at_most, count=3)
    limit = f", at most {most}" if part.share_at_most < 1.0 else ""
    return f"a share of {part.share:.3g} of {whole}{limit}"


@dataclass(frozen=True)
class OptimumReport:
    r"""How large the optimum is, and where it may lie.

    The interval, the gap, the region and the claims that are ``rigorous`` hold together,
    with the probability that the ``certificate``'s assumptions state.

    Attributes:
        lower: Lower bound on the optimum over the domain (``max f``, or ``min f`` where
            small outcomes are sought), outcome units. With outcome constraints, the optimum
            among the feasible points.
        upper: Upper bound on the same optimum, outcome units.
        certificate: The recommended point, its gap and the assumptions of this report.
        share: Share of the evaluated points that may still be an optimum.
        share_at_most: Upper bound on the share of all points of the domain that may be an
            optimum (each combination of listed values counts the same); 1 where no bound
            is known.
        region: ``2 x d`` limits of a box that holds every point that may be an optimum;
            every evaluated point only, where the certificate is not ``rigorous``.
        wording: Names and units, for sentences.
        combinations: On a ``MixedSpace``, the combinations of listed values that may hold
            the optimum, the largest share first. No other combination holds the optimum,
            if the certificate is ``rigorous``.
        combination_count: Number of combinations of the space that agree with
            ``fixed_features``; 0 without listed values.
        norm_bounds: The norm bounds in use, outcome units.
        said: Function without arguments that computes ``claims``.
    """

    lower: float
    upper: float
    certificate: RegretCertificate
    share: float
    share_at_most: float
    region: Tensor
    wording: Wording
    combinations: tuple[PossibleCombination, ...] = ()
    combination_count: int = 0
    norm_bounds: tuple[Number, ...] = ()
    said: Callable[[], tuple[Claim, ...]] = tuple

    @cached_property
    def claims(self) -> tuple[Claim, ...]:
        r"""Sentences with their breakdown values; computed when first asked for.

        The best run so far, then sentences about the recommended point, the sentence with
        the largest margin first. None where the data contradict an assumption.
        """
        return () if self.certificate.assumptions.violated else self.said()

    @property
    def recommended(self) -> Tensor:
        r"""``d`` coordinates of the recommended point."""
        return self.certificate.recommended

    @property
    def gap(self) -> float:
        r"""How far the recommended point may be from the optimum, outcome units."""
        return self.certificate.gap

    @property
    def certified(self) -> bool:
        r"""Whether interval, gap and region rest on given numbers and rigorous bounds."""
        return self.certificate.certified

    @property
    def summary(self) -> str:
        r"""``"certified"``, or the reasons why the report is not certified."""
        return self.certificate.summary

    def to_dict(self) -> dict[str, Any]:
        r"""Numbers, lists and texts, as JSON takes them; see ``Claim.to_dict``."""
        found = self.gap - self.certificate.resolution
        return {
            "summary": self.summary,
            "certified": self.certified,
            "optimum": [self.lower, self.upper],
            "recommended": self.wording.named(self.recommended),
            "gap": self.gap,
            "gap_found": found if self.certificate.rigorous else self.gap,
            "share": self.share,
            "share_at_most": self.share_at_most,
            "region": self.wording.values(*self.region),
            "combinations": [each.to_dict() for each in self.combinations],
            "combination_count": self.combination_count,
            "claims": [claim.to_dict() for claim in self.claims],
            "assumptions": str(self.certificate.assumptions),
        }

    def to_json(self) -> str:
        r"""``to_dict`` as text."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False)

    def __str__(self) -> str:
        optimum, certificate = self.certificate.domain.optimum, self.certificate
        if certificate.assumptions.violated:
            return str(certificate)
        ends = self.wording.interval(self.lower, self.upper)
        limits = self.wording.box(*self.region, inwards=False)
        where = _share_of("the domain", self)
        looked_at = "" if certificate.rigorous else ", of the points looked at"
        lines = [
            f"{self.summary}: {optimum} is {ends}",
            f"recommended: {self.wording.point(self.recommended)}, {certificate.sentence}",
            f"where {optimum} may be{looked_at}: {where}, within {limits}",
        ]
        if (count := self.combination_count) > 1:
            left = self.combinations
            lines.append(f"combinations that may hold it: {len(left)} of {count}")
            lines += [f"  {each}" for each in left[:_MOST_LINES]]
            if len(left) > _MOST_LINES:
                lines.append(f"  and {len(left) - _MOST_LINES} more")
        if self.claims:
            norms = " and ".join(map(assumed, self.norm_bounds))
            norms = f" (numbers at the norm bound {norms})" if norms else ""
            lines.append(f"what may be said{norms}:")
            lines += [f"  {claim.sentence}" for claim in self.claims]
        if tested := [claim.support for claim in self.claims if claim.support]:
            lines.append("how firm that is, and what would have to be wrong:")
            lines += [f"  {support}" for support in tested]
        return "\n".join([*lines, str(certificate.assumptions)])


@dataclass(frozen=True)
class Confirmation:
    r"""An interval for one setting's value, or for the difference of two settings' values.

    Attributes:
        estimate: Mean outcome, or the difference of the two means.
        lower: Lower limit, outcome units.
        upper: Upper limit.
        counts: Number of runs of each setting.
        delta: Failure probability of all looks together.
        noise_std: Noise scale that the interval rests on, outcome units.
        certified: Whether the noise scale was given, not estimated by this library.
    """

    estimate: float
    lower: float
    upper: float
    counts: tuple[int, ...]
    delta: float
    noise_std: float
    certified: bool

    def __str__(self) -> str:
        of = "value" if len(self.counts) == 1 else "difference"
        runs = " and ".join(map(str, self.counts))
        origin = "given" if self.certified else "estimated"
        lower, upper = between(self.lower, self.upper)
        estimate = nearest(self.estimate, self.upper - self.lower)
        return (
            f"{of} {estimate}, between {lower} and {upper} with "
            f"probability {one_minus(self.delta)} at every look at once ({runs} runs; "
            f"independent of any kernel; noise scale {assumed(self.noise_std)}, {origin})"
        )


@dataclass(frozen=True)
class Plan:
    r"""About how many runs until the gap can be as small as wanted.

    Attributes:
        runs: The estimated number of runs; None where it is above ``max_runs``.
        gap: The gap that was asked for, outcome units.
        max_runs: Largest number of runs to try.
        gaps: Simulated gap by number of runs, outcome units.
    """

    runs: int | None
    gap: float
    max_runs: int
    gaps: dict[int, float]

    def __str__(self) -> str:
        many = f"more than {self.max_runs:,}"
        runs = many if self.runs is None else f"about {self.runs:,}"
        tried = ", ".join(f"{n:,} runs {gap:.3g}" for n, gap in sorted(self.gaps.items()))
        return f"{runs} runs until the gap can be {as_given(self.gap)} (gaps: {tried})"


_DECIMALS = 9  # of a percentage: no round-off


class _OfLimits(Verdict):
    limits: OutcomeConstraints
    wording: Wording
    rigorous = True

    @property
    def kept(self) -> str:
        r"""``"the outcome is at least 80 %"``, for all limits."""
        return self.limits.in_words(self.wording.units)


@dataclass(frozen=True)
class LevelSet(_OfLimits):
    r"""Where limits on outcomes are kept, as points or as boxes that cover the domain.

    If it is ``certified`` and what was given is true, every part that is inside keeps all
    limits, and every part that is outside violates one, with the probability that
    ``assumptions`` state; in every round at once if the band is anytime.

    Attributes:
        limits: The bands and their thresholds.
        lower: ``m x d`` lower limits of the parts; points are boxes without sides.
        upper: Their upper limits.
        status: ``m`` integers: 1 inside, -1 outside, 0 open.
        shares: ``m`` shares of the domain: of the points, or of the volume (of a
            ``MixedSpace`` each combination of listed values counts the same).
        unresolved: Share that is open in spite of a decided centre: more evaluations of the
            search, rather than more runs, may decide it.
        assumptions: What the probability rests on.
        domain: Names of the points that count, for sentences.
        wording: Names and units, for sentences.
    """

    limits: OutcomeConstraints
    lower: Tensor
    upper: Tensor
    status: Tensor
    shares: Tensor
    unresolved: float
    assumptions: Assumptions
    domain: DomainWords = field(default_factory=DomainWords)
    wording: Wording = _NO_NAMES

    @property
    def inside(self) -> float:
        r"""Share of the domain that surely keeps all limits."""
        return float(self.shares[self.status == 1].sum())

    @property
    def outside(self) -> float:
        r"""Share of the domain that surely violates a limit."""
        return float(self.shares[self.status == -1].sum())

    @property
    def open(self) -> float:
        r"""Share that is neither."""
        return float(self.shares[self.status == 0].sum())

    @cached_property
    def kept_share(self) -> tuple[float, float]:
        r"""Share of the domain that keeps all limits: at least, and at most.

        Of listed points it says more than the parts alone: not all open ones keep their
        limits, or fail to, at once (see ``failure_probability``).
        """
        if not torch.equal(self.lower, self.upper):
            return self.inside, 1.0 - self.outside
        is_open = self.status == 0
        least, most = self.limits.num_failing(self.lower[is_open])
        each = float(self.shares[0])  # every point counts the same
        kept = self.inside + each * (int(is_open.sum()) - most)
        return kept, 1.0 - self.outside - each * least

    @property
    def sentence(self) -> str:
        r"""``"the outcome is at least 80 in 31.2 % of the domain at least, ..."``."""
        parts = (round(100.0 * each, _DECIMALS) for each in (self.inside, self.outside))
        shares = [f"{at_least(each, count=3)} %" for each in parts]
        rest = f"{at_most(round(100.0 * self.open, _DECIMALS), count=3)} %"
        if self.unresolved > 0.0:
            rest += f", {self.unresolved:.2%} for want of evaluations of the search"
        of, (least, most) = self.domain.noun, self.kept_share
        of = "candidates" if of == "candidate" else "domain"
        if least > self.inside or most < 1.0 - self.outside:
            ends = (round(100.0 * each, _DECIMALS) for each in (least, most))
            low, high = between(*ends)
            rest += f"; counted together, at least {low} % and at most {high} % keep it"
        return (
            f"{self.kept} in at least {shares[0]} of the {of}{self.domain.context}, "
            f"not in at least {shares[1]}; open: {rest}"
        )


@dataclass(frozen=True)
class FailureProbability(_OfLimits):
    r"""Limits on how often an outcome fails to keep its limits.

    Attributes:
        limits: The bands and their thresholds.
        lower: Lower limit on the probability of a failure.
        upper: Upper limit.
        surely: Share of the sample that fails at least.
        possibly: Share of the sample that fails at most.
        assumptions: What the limits rest on; their ``delta`` is for band and sample.
        wording: Names and units, for sentences.
    """

    limits: OutcomeConstraints
    lower: float
    upper: float
    surely: float
    possibly: float
    assumptions: Assumptions
    wording: Wording = _NO_NAMES

    @property
    def sentence(self) -> str:
        r"""Between which numbers the probability of a failure lies."""
        low, high = between(self.lower, self.upper)
        return (
            f"a share between {low} and {high} of all inputs as in the sample fails: there "
            f"it is not true that {self.kept}"
        )


@dataclass(frozen=True)
class ParetoSet(Verdict):
    r"""Which candidates are a trade-off that no other one beats by much.

    If it is ``certified`` and what was given is true, then with the probability that
    ``assumptions`` state, in every round at once if all bands are anytime: no candidate is
    better than one of ``optimal`` by more than ``epsilon`` in every objective; every
    candidate of ``dominated`` is beaten; and where none is ``open``, every candidate has
    one of ``optimal`` that is at most ``epsilon`` worse in every objective (an
    epsilon-accurate Pareto set, Zuluaga et al. 2016). With constraints all of this is among
    the feasible candidates: what is infeasible beats none and is beaten by none.

    Attributes:
        candidates: ``n x d`` points.
        optimal: ``n`` booleans: certainly feasible and epsilon-optimal.
        dominated: ``n`` booleans: certainly dominated by a feasible candidate.
        open: ``n`` booleans: perhaps feasible, neither of these, and without one of
            ``optimal`` that is certainly at most ``epsilon`` worse in every objective.
        undecided: ``n`` booleans: the open ones, and those that may beat an open one; the
            next run is one of them.
        epsilon: Largest difference that does not matter, for each objective.
        names: Names of the objectives.
        lower: ``n x m`` lower bounds on the values, outcome units.
        upper: ``n x m`` upper bounds.
        maximize: For each objective whether large values are sought.
        feasible: ``2 x n`` booleans: certainly feasible, and possibly feasible.
        assumptions: What the probability rests on.
        allow_estimated: Whether ``stop`` may rest on estimates.
        wording: Units of the objectives, for sentences.
    """

    candidates: Tensor
    optimal: Tensor
    dominated: Tensor
    open: Tensor
    undecided: Tensor
    epsilon: tuple[float, ...]
    names: tuple[str, ...]
    lower: Tensor
    upper: Tensor
    maximize: tuple[bool, ...]
    feasible: Tensor
    assumptions: Assumptions
    allow_estimated: bool = False
    rigorous: bool = True
    wording: Wording = _NO_NAMES

    @property
    def infeasible(self) -> Tensor:
        r"""``n`` booleans: certainly not feasible."""
        return ~self.feasible[1]

    @property
    def covered(self) -> Tensor:
        r"""``n`` booleans: not decided, but one of ``optimal`` covers them.

        It is at most ``epsilon`` worse than the covered one in every objective.
        """
        return ~(self.optimal | self.dominated | self.open | self.infeasible)

    @property
    def stop(self) -> bool:
        r"""Whether no candidate is open, and the verdict may be acted on at any round.

        Never where the data contradict an assumption; with an estimate only where
        ``allow_estimated`` was given.
        """
        settled = not bool(self.open.any()) and bool(self.optimal.any())
        may_act = self.certified or self.allow_estimated
        return settled and may_act and not self.obstacle

    def hypervolume(self, reference: Sequence[float]) -> tuple[float, float]:
        r"""Limits on the hypervolume of the feasible candidates' front.

        Args:
            reference: The worst value that counts, for each objective, outcome units.

        Raises:
            ValueError: If it has not one number for each objective.
        """
        if len(reference) != len(self.maximize):
            raise ValueError(f"reference needs {len(self.maximize)} numbers.")
        signs = self.lower.new_tensor([1.0 if each else -1.0 for each in self.maximize])
        sides = torch.stack([self.lower, self.upper]) * signs
        volume = Hypervolume(signs * self.lower.new_tensor(reference)).compute
        ends = zip(sides.sort(0).values, self.feasible, strict=True)
        least, most = (each[mask] for each, mask in ends)
        lower, upper = (volume(each[is_non_dominated(each)]) for each in (least, most))
        return lower, upper

    @property
    def sentence(self) -> str:
        r"""How many candidates are optimal, dominated and open."""
        parts = self.optimal, self.dominated, self.covered, self.open
        counts = [int(each.sum()) for each in parts]
        pairs, value = zip(self.epsilon, self.names, strict=True), self.wording.value
        each = (f"{value(as_given(number), name)} in {name}" for number, name in pairs)
        within = " and ".join(each)
        limited = not bool(self.feasible.all())
        feasible = "feasible " * limited
        out = f", {int(self.infeasible.sum())} infeasible" * limited
        return (
            f"of {len(self.candidates)} candidates {counts[0]} are {feasible}optimal: no "
            f"{feasible}candidate is better than one of them by more than {within}; "
            f"{counts[1]} are dominated{' by a feasible one' * limited}, "
            f"{counts[2]} covered: an optimal one is at most that much worse in every "
            f"objective; {counts[3]} open{out}"
        )
