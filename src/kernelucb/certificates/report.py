r"""What is known of the optimum, in one object: how large it is, and where it may lie."""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import torch
from botorch.exceptions import UnsupportedError
from torch import Tensor

from kernelucb._numerics.digits import assumed, at_most, between, sides
from kernelucb._numerics.domains import FixedFeatures, points_or_box
from kernelucb.certificates.boxes import cover, largest_in_region, upper_side
from kernelucb.certificates.claims import Asked, Claim, Wording, in_words, ladder
from kernelucb.certificates.regret import (
    RegretCertificate,
    in_outcome_units,
    latent_certificate,
)
from kernelucb.certificates.spaces import MixedSpace, Region
from kernelucb.certificates.task import Task
from kernelucb.confidence.band import Band
from kernelucb.confidence.outcome_constraints import OutcomeConstraints

_MOST_LINES = 5  # of combinations, in print
_ACCURACY = 0.05  # share of a maximum that branch and bound may leave open


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
    values: dict[str, float]
    region: dict[str, tuple[float, float]]
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


def span(lower: Any, upper: Any) -> str:
    r"""``"40.1 to 54.8"``, rounded outwards; ``"40"`` where both are the same."""
    if lower == upper or not isinstance(lower, float):
        return " to ".join(dict.fromkeys(map(in_words, (lower, upper))))
    return " to ".join(sides(lower, upper))


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
        names: Names of the ``d`` inputs.
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
    names: tuple[str, ...]
    combinations: tuple[PossibleCombination, ...] = ()
    combination_count: int = 0
    norm_bounds: tuple[float, ...] = ()
    said: Callable[[], tuple[Claim, ...]] = tuple

    @cached_property
    def claims(self) -> tuple[Claim, ...]:
        r"""Sentences with their breakdown values; computed when first asked for.

        The best run so far, then sentences about the recommended point, the sentence with
        the largest margin first.
        """
        return self.said()

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
        r"""Whether interval, gap and region are certified; see ``RegretCertificate``."""
        return self.certificate.certified

    @property
    def summary(self) -> str:
        r"""``"certified"``, or the reasons why the report is not certified."""
        return self.certificate.summary

    def to_dict(self) -> dict[str, Any]:
        r"""Plain numbers, lists and texts, as JSON takes them."""
        found = self.gap - self.certificate.resolution
        return {
            "summary": self.summary,
            "certified": self.certified,
            "optimum": [self.lower, self.upper],
            "recommended": self._named(self.recommended),
            "gap": self.gap,
            "gap_found": found if self.certificate.rigorous else self.gap,
            "share": self.share,
            "share_at_most": self.share_at_most,
            "region": self._region(),
            "combinations": [each.to_dict() for each in self.combinations],
            "combination_count": self.combination_count,
            "claims": [claim.to_dict() for claim in self.claims],
            "assumptions": str(self.certificate.assumptions),
        }

    def to_json(self) -> str:
        r"""``to_dict`` as text."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False)

    def __str__(self) -> str:
        optimum = f"the optimum{self.certificate.domain.of}"
        lower, upper = between(self.lower, self.upper)
        where = _share_of("the domain", self)
        looked_at = "" if self.certificate.rigorous else ", of the points looked at"
        lines = [
            f"{self.summary}: {optimum} is between {lower} and {upper}",
            f"recommended: {self._listed(self.recommended)}, {self.certificate.sentence}",
            f"where {optimum} may be{looked_at}: {where}, within {self._limits()}",
        ]
        if self.combination_count > 1:
            left, count = self.combinations, self.combination_count
            lines.append(f"combinations that may hold it: {len(left)} of {count}")
            lines += [f"  {each}" for each in left[:_MOST_LINES]]
            if len(left) > _MOST_LINES:
                lines.append(f"  and {len(left) - _MOST_LINES} more")
        norms = " and ".join(map(assumed, self.norm_bounds))
        norms = f" (numbers at the norm bound {norms})" if norms else ""
        if self.claims:
            lines.append(f"what may be said{norms}, and what would have to be wrong:")
            lines += [f"  {claim}" for claim in self.claims]
        return "\n".join([*lines, str(self.certificate.assumptions)])

    # Ax's report says these four by the names and values of parameters.
    def _listed(self, point: Tensor) -> str:
        named = self._named(point)
        return ", ".join(f"{name} {in_words(value)}" for name, value in named.items())

    def _limits(self) -> str:
        return ", ".join(f"{name} {span(*ends)}" for name, ends in self._region().items())

    def _region(self) -> dict[str, list[Any]]:
        r"""Limits of the region by the names of the inputs."""
        low, high = self.region.tolist()
        return {name: [a, b] for name, a, b in zip(self.names, low, high, strict=True)}

    def _named(self, point: Tensor) -> dict[str, Any]:
        return dict(zip(self.names, point.tolist(), strict=True))


@points_or_box
@torch.no_grad()
def optimum_report(
    acqf: Band,
    candidates: Tensor | None = None,
    *,
    bounds: Tensor | None = None,
    space: MixedSpace | None = None,
    fixed_features: FixedFeatures | None = None,
    constraints: OutcomeConstraints | None = None,
    recommended: Tensor | None = None,
    baseline: Tensor | Sequence[float] | None = None,
    window: float = 0.05,
    threshold: float | None = None,
    tolerance: float | None = None,
    names: Sequence[str] | None = None,
    outcome: str = "the outcome",
    units: Mapping[str, str] | None = None,
    max_evaluations: int = 100_000,
) -> OptimumReport:
    r"""Report the optimum's value, where it may lie, and how good the best point is.

    On a finite domain every point is evaluated, so no number has an error of a search. On
    boxes and mixed spaces the far end of the interval, the gap and the region come from
    branch and bound, which is rigorous for the kernels and means that
    ``regret_certificate`` lists.

    Source: the confidence set's own theorem. The optimum is at least the largest lower
    bound in the domain, and at most the largest upper bound. A point may be an optimum if
    some function of the set is at least as good there as at the recommended point. The gap
    is the gap of ``regret_certificate``.

    **Claims.** ``report.claims`` are sentences about the recommended point, all of which
    hold together: its value; by how much it is better than a baseline; by how much, at
    most, points near it and anywhere are better; and the largest box around it in which the
    outcome keeps a threshold. Each sentence has its breakdown values: the norm and the
    noise scale up to which the sentence stands (``breakdown``).

    Where the band's sets are one event for all norm bounds (``Band.relaxed``), interval,
    gap, region and claims all rest on this event, and are up to 3 % wider than the numbers
    of ``regret_certificate``.

    Args:
        acqf: See ``regret_certificate``, also for errors.
        candidates: See ``regret_certificate``.
        bounds: See ``regret_certificate``.
        space: See ``regret_certificate``.
        fixed_features: See ``regret_certificate``.
        constraints: See ``regret_certificate``.
        recommended: See ``regret_certificate``.
        baseline: ``d`` coordinates of a setting to compare with, such as today's.
        window: Half sides of the box of points near the recommended point, as a share of
            the domain's sides.
        threshold: Smallest acceptable outcome (largest, where small outcomes are sought),
            outcome units.
        tolerance: A difference that does not matter, outcome units; by default a twentieth
            of the spread of the estimates at the observed inputs, or of the noise scale
            where that is larger.
        names: Names of the ``d`` inputs, for print; ``x0``, ``x1`` and so on when absent.
        outcome: Name of the outcome, for print.
        units: Units by the names of inputs and outcome, for print.
        max_evaluations: Largest number of points that branch and bound evaluates, for the
            gap, the interval, the region and each claim separately; at most 20,000 for each
            norm bound at which a claim is tried.

    Raises:
        ValueError: If the number of names is not the number of inputs, or a number is out
            of its range.
    """
    domain = candidates, bounds, space
    task = Task.of(acqf, constraints, *domain, fixed_features, recommended)
    with suppress(UnsupportedError):
        task = task.relaxed()  # one event for interval, gap, region and all claims
    dimension = task.region.lower.shape[1]
    labels = tuple(f"x{i}" for i in range(dimension)) if names is None else tuple(names)
    if len(labels) != dimension:
        raise ValueError(f"There are {len(labels)} names for {dimension} inputs.")
    given = baseline, window, threshold, tolerance
    asked = Asked.of(task, *given, max_evaluations)
    certificate = latent_certificate(task, _ACCURACY, max_evaluations)
    wording = Wording(labels, outcome, units or {})
    domain = wording.domain(task, certificate.recommended)
    certificate = replace(certificate, domain=domain)
    lower, upper = interval(task, certificate, _ACCURACY, max_evaluations)
    possible = possible_maximisers(task, certificate.recommended, max_evaluations)
    combinations, count = (), 0
    if space is not None and space.listed_columns:
        every = space.region(fixed_features)
        combinations, count = (
            _combinations(space, every, possible, labels),
            len(every.lower),
        )
    return OptimumReport(
        lower=lower,
        upper=upper,
        certificate=in_outcome_units(certificate, task),
        share=min(float(possible.mask.double().mean()), possible.share_at_most),
        share_at_most=possible.share_at_most,
        region=possible.box,
        names=labels,
        combinations=combinations,
        combination_count=count,
        norm_bounds=task.bound.norm_bounds,
        said=partial(ladder, task, certificate.recommended, asked, wording),
    )


def interval(
    task: Task, certificate: RegretCertificate, tolerance: float, max_evaluations: int
) -> tuple[float, float]:
    r"""Lower and upper bound on the optimum, outcome units.

    Where large outcomes are sought the lower bound is the largest lower bound among all
    evaluated points (else the upper bound is the smallest upper bound), whichever of them
    is recommended. The certificate is on the scale of the objective's set.
    """
    best = certificate.recommended.unsqueeze(0)
    own, upper = task.confidence_set, upper_side(task.sign)
    other = task.best_point(torch.cat([task.points, best]))
    known = torch.stack([certificate.recommended, other])
    least = -float(upper_side(-task.sign)(own, known).min())
    most = float(task.values(upper, task.points).max())
    search = None
    if not task.region.is_finite:
        search = task.search(upper_side(task.sign, least))
    if search is not None:
        result = largest_in_region(search, tolerance, max_evaluations)
        most = max(most, least + max(result.upper, result.value))
    # By the gap at the recommended point, which may be worth more than its least value.
    largest = float(upper(own, best)) + certificate.gap
    most = min(most, largest) if certificate.rigorous else most
    most = max(most, least)
    ends = (least, most) if task.sign == 1 else (-most, -least)
    outcome_map = task.confidence_set.regression.outcome_map
    lower, upper = outcome_map.inverse(best.new_tensor(ends)).tolist()
    return lower, upper


class PossibleMaximisers(NamedTuple):
    r"""Evaluated points, and boxes that hold every point that may be an optimum."""

    points: Tensor  # `n x d` points of the domain
    mask: Tensor  # which of them may be an optimum
    lower: Tensor  # `m x d` limits of the boxes; points are boxes without sides
    upper: Tensor
    # `m` shares that the boxes take of the box of the region that they lie in; infinite
    # where nothing is known, and zero for points of such a box
    sizes: Tensor
    share_at_most: float  # upper bound on their share of the domain

    @property
    def box(self) -> Tensor:
        r"""``2 x d`` limits of all that may be an optimum."""
        return torch.stack([self.lower.amin(0), self.upper.amax(0)])


def possible_maximisers(
    task: Task, recommended: Tensor, max_evaluations: int
) -> PossibleMaximisers:
    r"""Where some function of the set is at least as good as at the recommended point."""
    points, region, gain = task.points, task.region, task.gain(recommended)
    mask = (task.values(gain, points) >= 0.0) | (points == recommended).all(-1)
    lower = upper = torch.cat([points[mask], recommended.unsqueeze(0)])
    sizes = torch.zeros_like(lower[:, 0])
    if region.is_finite:
        sizes[:-1] = 1.0  # each point alone; the recommended one is among them, or no point
    elif (search := task.search(gain)) is None:
        sizes += torch.inf
    else:
        # Cells whose upper bound on the gain is negative hold no possible optimum.
        cells = cover(search, max_evaluations)
        lower = torch.cat([lower, cells.centres - cells.halves])
        upper = torch.cat([upper, cells.centres + cells.halves])
        sides = (region.upper - region.lower).amax(0)
        shares = (2.0 * cells.halves / sides).where(sides > 0.0, 1.0).prod(-1)
        if region.constraints:  # which may leave any part of a box
            shares = torch.full_like(shares, torch.inf)
        sizes = torch.cat([sizes, shares])
    share = min(float(sizes.sum()) / len(region.lower), 1.0)
    return PossibleMaximisers(points, mask, lower, upper, sizes, share)


def _combinations(
    space: MixedSpace, region: Region, possible: PossibleMaximisers, names: tuple[str, ...]
) -> tuple[PossibleCombination, ...]:
    r"""Combinations that may hold the optimum, the largest share first.

    ``region`` has a box for each combination of the space.
    """
    columns = space.listed_columns
    open_columns = [i for i in range(len(names)) if i not in region.fixed]
    # Boxes, points and pieces have the same number where their listed values are equal.
    parts = region.lower, possible.points, possible.lower
    rows = torch.cat(parts)[:, columns]
    numbers = rows.unique(dim=0, return_inverse=True)[1].split([*map(len, parts)])
    found: list[PossibleCombination] = []
    for row, number in zip(region.lower[:, columns].tolist(), numbers[0], strict=True):
        own, looked = numbers[2] == number, possible.mask[numbers[1] == number]
        if not bool(own.any()):
            continue
        at_most = min(float(possible.sizes[own].sum()), 1.0)
        share = float(looked.double().sum()) / max(len(looked), 1)
        lower, upper = possible.lower[own].amin(0), possible.upper[own].amax(0)
        ends = list(zip(lower.tolist(), upper.tolist(), strict=True))
        values = dict(zip(columns, row, strict=True))
        found.append(
            PossibleCombination(
                label=space.label(values, names),
                values={names[i]: value for i, value in values.items()},
                region={names[i]: ends[i] for i in open_columns},
                share=min(share, at_most),
                share_at_most=at_most,
            )
        )
    found.sort(key=lambda each: (each.share_at_most, each.share), reverse=True)
    return tuple(found)
