r"""Where an outcome keeps a level, and how often it fails to."""

from collections.abc import Mapping, Sequence

import torch
from botorch.exceptions import UnsupportedError
from scipy.stats import beta
from torch import Tensor

from kernelucb._numerics.checks import probability, whole_number
from kernelucb._numerics.domains import FixedFeatures, checked_points, points_or_box
from kernelucb.certificates.boxes import CellFunction, Cells, Search, on_cells, upper_side
from kernelucb.certificates.spaces import MixedSpace, Region, as_domain
from kernelucb.certificates.spending import spend
from kernelucb.certificates.wording import Wording
from kernelucb.certificates.words import FailureProbability, LevelSet
from kernelucb.confidence.assumptions import Assumption, Status
from kernelucb.confidence.band import BandLike, joined_assumptions
from kernelucb.confidence.outcome_constraints import OutcomeConstraints, Side

_PARTS = "every part inside keeps all limits, and every part outside violates one,"
_SHARES = "Clopper & Pearson (1934), on a sample that is the same at all looks (ours)"


@points_or_box
@torch.no_grad()
def level_set(
    band: BandLike | OutcomeConstraints,
    threshold: float | Sequence[float] | None = None,
    candidates: Tensor | None = None,
    *,
    side: Side = ">=",
    bounds: Tensor | None = None,
    space: MixedSpace | None = None,
    fixed_features: FixedFeatures | None = None,
    names: Sequence[str] | None = None,
    outcome: str = "the outcome",
    units: Mapping[str, str] | None = None,
    wording: Wording | None = None,
    max_evaluations: int = 20_000,
) -> LevelSet:
    r"""Where an outcome keeps a threshold: inside, outside, and still open.

    In a box the parts are boxes, found by branch and bound: every point of a box that is
    inside keeps the threshold, not its corners alone.

    Example:
        >>> print(level_set(MartingaleMixtureUCB(...), 80.0, bounds=box))
        >>> limits = OutcomeConstraints([purity, pressure], [0.9, 8.0], sides=[">=", "<="])
        >>> level_set(limits, bounds=box).inside  # where both are kept

    Source: on the event of the band ``f >= t`` wherever ``L >= t``, and ``f < t`` wherever
    ``U < t`` (Gotovos et al. 2013, with the band's own theorem); on boxes with the bounds
    on changes of ``regret_certificate`` (ours). Anytime if the band is.

    Args:
        band: A bound of this package, or ``OutcomeConstraints`` of several, all of whose
            limits must be kept.
        threshold: Outcome units; left out with ``OutcomeConstraints``.
        candidates: ``n x d`` points, the whole domain. Exactly one of ``candidates``,
            ``bounds`` and ``space``.
        side: ``">="`` where the outcome must be at least the threshold, else ``"<="``.
        bounds: ``2 x d`` lower and upper limits of a box.
        space: A box in which some inputs take listed values only.
        fixed_features: Columns that are given, and their values.
        names: Names of the ``d`` inputs, for print; ``x0``, ``x1`` and so on when absent.
        outcome: Name of the outcome, for print; ``OutcomeConstraints`` have names.
        units: Units by the names of inputs and outcomes, for print.
        wording: Names, outcome and units in one, in place of the three.
        max_evaluations: On boxes, the largest number of points looked at; parts that these
            leave undecided count as open.

    Raises:
        ValueError: If not exactly one domain is given, or a threshold or the number of
            names does not fit.
        BotorchTensorDimensionError: If a tensor has the wrong shape.
        InputDataError: If a value is not finite or the domain is empty.
        UnsupportedError: On a box, if the band's changes between points are not bounded, or
            the space has linear constraints: give ``candidates``.
    """
    limits = limits_of(band, threshold, side, outcome)
    whole_number("max_evaluations", max_evaluations)
    dimension = limits.constraints[0].band.required_set.regression.dimension
    domain = as_domain(
        candidates=candidates, bounds=bounds, space=space, fixed_features=fixed_features
    )
    region = domain.region(dimension)
    wording = wording or Wording.of(dimension, names, outcome, units)
    words = wording.domain(region.words, region.lower[0])
    rests = joined_assumptions(limits.bands, _PARTS).at(region.listed)
    if region.is_finite:
        points = region.points
        inside, possible = limits.feasibility(points)
        status = inside.int() - (~possible).int()
        shares = torch.full_like(points[:, 0], 1.0 / len(points))
        parts = points, points, status, shares, 0.0
        return LevelSet(limits, *parts, rests, words, wording)
    cells, status, unresolved = _sorted(limits, region, max_evaluations)
    ends = cells.centres - cells.halves, cells.centres + cells.halves
    shares = region.sizes(cells.halves) / len(region.lower)
    resolved = float(shares[unresolved].sum())
    return LevelSet(limits, *ends, status, shares, resolved, rests, words, wording)


def limits_of(
    band: BandLike | OutcomeConstraints,
    threshold: float | Sequence[float] | None,
    side: Side,
    outcome: str,
) -> OutcomeConstraints:
    r"""The limits that a user gives, in one of two ways."""
    if not isinstance(band, OutcomeConstraints):
        if threshold is None:
            raise ValueError("Give the threshold, outcome units.")
        return OutcomeConstraints(band, threshold, sides=side, names=[outcome])
    if threshold is not None:
        raise ValueError("OutcomeConstraints have thresholds; leave threshold out.")
    return band


def _sorted(
    limits: OutcomeConstraints, region: Region, max_evaluations: int
) -> tuple[Cells, Tensor, Tensor]:
    r"""Cells of a region, and whether each is inside (1), outside (-1) or open (0).

    Third which of them are open, and decided at their centres.
    """
    if region.constraints:
        raise UnsupportedError(
            "The volumes of a space with inequality_constraints are not known; give "
            "candidates that keep them."
        )
    # The margins that are possible, then the shortfalls that are.
    sides = [(way, each) for way in (1, -1) for each in limits.constraints]
    functions: list[CellFunction] = []
    for way, each in sides:
        side = upper_side(way * each.sign, way * each.sign * each.level)
        function = on_cells(each.band.required_set, region.fixed, side)
        if function is None:
            raise UnsupportedError(
                "How far the outcome changes between two points is not known for this "
                "kernel, mean or input transform (see regret_certificate); give candidates."
            )
        functions.append(function)
    count, left = len(limits.constraints), max_evaluations
    search = Search(functions[0], region, functions[1:count])
    cells = Cells.of(region)
    every = cells.where(cells.uppers < 0.0)  # none yet
    decided = torch.stack([every.uppers.int()] * 2)  # at the centre, and in the whole cell
    while True:
        left -= len(cells.uppers)
        every = every.joined(cells)
        pairs = [torch.stack(f.bounds(cells.centres, cells.halves)) for f in functions]
        found = torch.stack(pairs, 1)
        outside, inside = found[:, :count] < 0.0, found[:, count:] <= 0.0
        decided = torch.cat([decided, inside.all(1).int() - outside.any(1).int()], -1)
        waiting = (decided[1] == 0) & (every.halves > 0.0).any(-1)
        # The largest are cut first.
        cut = search.cut(every, region.sizes(every.halves), waiting, left)
        if cut is None:
            return every, decided[1], (decided[1] == 0) & (decided[0] != 0)
        cells, every, decided = cut[0], every.where(cut[1]), decided[:, cut[1]]


def failure_probability(
    band: BandLike | OutcomeConstraints,
    threshold: float | Sequence[float] | None,
    sample: Tensor,
    *,
    side: Side = ">=",
    sample_delta: float = 0.01,
    outcome: str = "the outcome",
    units: Mapping[str, str] | None = None,
) -> FailureProbability:
    r"""How often an outcome fails to keep a threshold, under a distribution of the inputs.

    Example:
        >>> tolerances = target + 0.02 * torch.randn(20_000, 3, dtype=torch.float64)
        >>> failure_probability(band, 80.0, tolerances)  # one sample for all rounds

    Source: ours, from Clopper & Pearson (1934). The share of the sample at which the true
    function fails is binomial, and on the band's event lies between the shares of points
    that surely fail and that may fail. Since this is one event, one sample serves all
    rounds, and runs may be chosen from it: anytime if the band is.

    No function of the set fails at all open points at once, and so fewer of them count: if
    the set lies in an ellipsoid of values ``f = m + C^(1/2) z, |z| <= 1`` at these points,
    with ``D_i = m_i - t > 0``, then ``f_i < t`` only where ``((f_i - m_i) / D_i)^2 >= 1``,
    and these squares add up to at most the largest eigenvalue of ``D^-1 C D^-1`` (ours; on
    the same event, at no further probability). Of sets that are no ball in the fit and the
    norm, or weighted sums of such, every open point counts.

    Args:
        band: A bound of this package, or ``OutcomeConstraints``; a point fails where any
            limit is not kept.
        threshold: Outcome units; None with ``OutcomeConstraints``.
        sample: ``N x d`` independent draws of the inputs, drawn once and for one threshold.
        side: ``">="`` where the outcome must be at least the threshold, else ``"<="``.
        sample_delta: Failure probability of the limits on the share, beside the band's.
        outcome: Name of the outcome, for print; ``OutcomeConstraints`` have names.
        units: Units by the names of outcomes, for print.

    Raises:
        ValueError: If a number is out of its range, or a threshold does not fit.
        BotorchTensorDimensionError: If the sample has the wrong shape.
        InputDataError: If a value is not finite.
    """
    limits = limits_of(band, threshold, side, outcome)
    probability("sample_delta", sample_delta)
    dimension = limits.constraints[0].band.required_set.regression.dimension
    sample = checked_points("sample", sample, dimension)
    spend(sample_delta)
    count, half = len(sample), sample_delta / 2.0
    surely, possibly = limits.num_failing(sample)
    lower = float(beta.ppf(half, surely, count - surely + 1)) if surely else 0.0
    upper = 1.0
    if possibly < count:
        upper = float(beta.ppf(1.0 - half, possibly + 1, count - possibly))
    drawn = Assumption(
        "sample",
        f"the {count} points of the sample are independent draws from the distribution of "
        "the inputs, drawn once, and the threshold was fixed before",
        Status.GIVEN,
    )
    assumptions = joined_assumptions(limits.bands, "the share lies between its limits")
    if assumptions.delta is not None:
        probability("sample_delta and the band's delta", assumptions.delta + sample_delta)
        assumptions = assumptions.spending(_SHARES, sample_delta)
    assumptions = assumptions.at(sample).with_extra(drawn)
    shares = surely / count, possibly / count
    wording = Wording((), outcome, units or {})
    return FailureProbability(limits, lower, upper, *shares, assumptions, wording)
