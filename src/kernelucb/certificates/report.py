r"""The optimum in one object: how large it is, and where it may lie."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import torch
from botorch.exceptions import UnsupportedError
from torch import Tensor

from kernelucb._numerics.checks import finite_scalar, positive_scalar, probability
from kernelucb._numerics.domains import FixedFeatures, checked_points, points_or_box
from kernelucb._numerics.estimates import Number
from kernelucb.certificates.boxes import ACCURACY, cover, upper_side
from kernelucb.certificates.claims import ladder
from kernelucb.certificates.regret import certify
from kernelucb.certificates.spaces import MixedSpace, Region, as_domain
from kernelucb.certificates.task import Task
from kernelucb.certificates.wording import Wording, in_words
from kernelucb.certificates.words import (
    OptimumReport,
    PossibleCombination,
    RegretCertificate,
)
from kernelucb.confidence.band import BandLike
from kernelucb.confidence.outcome_constraints import OutcomeConstraints


@points_or_box
@torch.no_grad()
def optimum_report(
    acqf: BandLike,
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
    tolerance: Number | None = None,
    names: Sequence[str] | None = None,
    outcome: str = "the outcome",
    units: Mapping[str, str] | None = None,
    wording: Wording | None = None,
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
        wording: Names, outcome and units in one, in place of the three.
        max_evaluations: Largest number of points that branch and bound evaluates, for the
            gap, the interval, the region and each claim separately; at most 20,000 for each
            norm bound at which a claim is tried.

    Raises:
        ValueError: If the number of names is not the number of inputs, or a number is out
            of its range.
    """
    domain = as_domain(
        candidates=candidates, bounds=bounds, space=space, fixed_features=fixed_features
    )
    task = Task.of(acqf, constraints, domain, recommended)
    with suppress(UnsupportedError):
        task = task.relaxed()  # one event for interval, gap, region and all claims
    dimension = task.region.lower.shape[1]
    wording = wording or Wording.of(dimension, names, outcome, units)
    wording.checked(dimension)
    if baseline is not None:
        row = torch.as_tensor(baseline).reshape(1, -1)
        baseline = checked_points("baseline", row, dimension)[0].to(task.region.lower)
        task = replace(task, beside=baseline.unsqueeze(0))
    probability("window", window)
    if threshold is not None:
        threshold = finite_scalar("threshold", threshold)
    if tolerance is not None:
        tolerance = positive_scalar("tolerance", tolerance)
    asked = baseline, window, threshold, tolerance, max_evaluations
    certificate, gap = certify(task, ACCURACY, max_evaluations)
    best = certificate.recommended
    lower, upper = interval(task, certificate, gap, max_evaluations)
    possible = possible_maximisers(task, best, max_evaluations)
    combinations, count = (), 0
    if space is not None and space.listed_columns:
        every = space.region(fixed_features)
        count = len(every.lower)
        combinations = _combinations(space, every, possible, wording)
    return OptimumReport(
        lower=lower,
        upper=upper,
        certificate=replace(
            certificate,
            domain=wording.domain(task.region.words, best),
            wording=wording,
        ),
        share=min(float(possible.mask.double().mean()), possible.share_at_most),
        share_at_most=possible.share_at_most,
        region=torch.stack([possible.lower.amin(0), possible.upper.amax(0)]),
        wording=wording,
        combinations=combinations,
        combination_count=count,
        norm_bounds=task.bound.norm_bounds,
        said=partial(ladder, task, best, *asked, wording),
    )


def interval(
    task: Task, certificate: RegretCertificate, gap: float, max_evaluations: int
) -> tuple[float, float]:
    r"""Lower and upper bound on the optimum, outcome units.

    Where large outcomes are sought the lower bound is the largest lower bound among all
    evaluated points (else the upper bound is the smallest upper bound), whichever of them
    is recommended.
    """
    best = certificate.recommended.unsqueeze(0)
    functions, upper = task.bound.required_set, upper_side(task.sign)
    other = task.best_point(torch.cat([task.points, best]))
    both = torch.stack([best[0], other])
    least = -float(upper_side(-task.sign)(functions, both).min())
    most = float(task.values(upper, task.points).max())
    if not task.region.is_finite:
        rise = upper_side(task.sign, least)
        result = task.largest(rise, ACCURACY, max_evaluations)
        if result is not None:
            most = max(most, least + max(result.upper, result.value))
    # At the recommended point, which may be worth more than its least
    if certificate.rigorous:
        most = min(most, float(upper(functions, best)) + gap)
    most = max(most, least)
    ends = (least, most) if task.sign == 1 else (-most, -least)
    outcome_map = functions.regression.outcome_map
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
        shares = region.sizes(cells.halves)
        if region.constraints:  # which may leave any part of a box
            shares = torch.full_like(shares, torch.inf)
        sizes = torch.cat([sizes, shares])
    share = min(float(sizes.sum()) / len(region.lower), 1.0)
    return PossibleMaximisers(points, mask, lower, upper, sizes, share)


def _combinations(
    space: MixedSpace, region: Region, possible: PossibleMaximisers, words: Wording
) -> tuple[PossibleCombination, ...]:
    r"""Combinations that may hold the optimum, the largest share first.

    ``region`` has a box for each combination of the space.
    """
    columns, names = space.listed_columns, words.names
    listed = words.of_columns(names[i] for i in columns)
    open_inputs = words.of_columns(n for i, n in enumerate(names) if i not in region.fixed)
    # Boxes, points and pieces have the same number where their listed values are equal.
    parts = region.lower, possible.points, possible.lower
    rows = torch.cat(parts)[:, columns]
    numbers = rows.unique(dim=0, return_inverse=True)[1].split([*map(len, parts)])
    found: list[PossibleCombination] = []
    for row, number in zip(region.lower[:, columns].tolist(), numbers[0], strict=True):
        pieces, looked = numbers[2] == number, possible.mask[numbers[1] == number]
        if not bool(pieces.any()):
            continue
        at_most = min(float(possible.sizes[pieces].sum()), 1.0)
        share = float(looked.double().sum()) / max(len(looked), 1)
        lower, upper = possible.lower[pieces].amin(0), possible.upper[pieces].amax(0)
        ends = words.values(lower, upper)
        values = {name: ends[name][0] for name in listed}
        label = ", ".join(f"{name} {in_words(value)}" for name, value in values.items())
        if words.encoded is None:
            label = space.label(dict(zip(columns, row, strict=True)), names)
        found.append(
            PossibleCombination(
                label=label,
                values=values,
                region={name: (ends[name][0], ends[name][-1]) for name in open_inputs},
                share=min(share, at_most),
                share_at_most=at_most,
            )
        )
    found.sort(key=lambda each: (each.share_at_most, each.share), reverse=True)
    return tuple(found)
