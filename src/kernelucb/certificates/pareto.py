r"""Which trade-offs between several outcomes are real."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from kernelucb._numerics.arrays import in_parts
from kernelucb._numerics.checks import nonnegative_scalar
from kernelucb._numerics.domains import checked_points
from kernelucb.certificates.wording import Wording
from kernelucb.certificates.words import ParetoSet
from kernelucb.confidence.band import (
    BandLike,
    band_of,
    check_dimensions,
    joined_assumptions,
)
from kernelucb.confidence.outcome_constraints import OutcomeConstraints
from kernelucb.confidence.sets import ConfidenceSet
from kernelucb.data.from_model import per_output
from kernelucb.data.outcome_map import check_identity

_ROUND_OFF = 1e-9  # of the widest band: a search ends at 1e-13 of the widest possible
_COUNTS = (8, 32, 128, 2**62)  # pairs of a point that are searched, round by round
_TOGETHER = 512  # pairs that are searched at a time


@torch.no_grad()
def pareto_set(
    bands: Sequence[BandLike],
    candidates: Tensor,
    epsilon: float | Sequence[float],
    *,
    constraints: OutcomeConstraints | None = None,
    names: Sequence[str] | None = None,
    units: Mapping[str, str] | None = None,
    allow_estimated: bool = False,
) -> ParetoSet:
    r"""Sort candidates into optimal, dominated and open ones, for several objectives.

    Differences of two candidates are bounded over the set of functions, which is narrower
    than the difference of two sides of the band.

    Example:
        >>> front = pareto_set([strength_band, cost_band], candidates, [1.0, 0.2])
        >>> while not front.stop:
        ...     width = ParetoWidth([strength_band, cost_band], front.epsilon)
        ...     x, _ = optimize_acqf_discrete(width, 1, candidates[front.undecided])
        ...     ...

    Source: an epsilon-accurate Pareto set (Zuluaga et al. 2016), with the bands' theorems
    and gains over the sets, by a union bound. A candidate is dominated if a feasible one is
    certainly at least as good in all objectives and better in one; it is epsilon-optimal if
    each possible rival certainly gains at most ``epsilon`` in some objective.

    Args:
        bands: A band, or a bound of this package, for each of two or more objectives; small
            outcomes are sought where the band seeks them (``maximize=False``).
        candidates: ``n x d`` points, the whole domain.
        epsilon: Difference that does not matter, outcome units; one for all objectives or
            one for each.
        constraints: Outcomes that must stay on their side of a threshold; the front is that
            of the feasible candidates.
        names: Names of the objectives, for print; ``objective 1`` and so on when absent.
        units: Units by these names, for print.
        allow_estimated: Whether ``stop`` may rest on bands whose kernel, mean, noise or
            norm was estimated.

    Raises:
        ValueError: If there are fewer than two bands, or a number is out of its range.
        UnsupportedError: If a band is no set of functions, or its outcome is transformed
            by more than ``Standardize``.
        BotorchTensorDimensionError: If the inputs' dimensions differ.
        InputDataError: If a value is not finite.
    """
    listed = [band_of("bands", each) for each in bands]
    if len(listed) < 2:
        raise ValueError("A front is of two or more objectives; give a band for each.")
    limits = {} if constraints is None else constraints.bands
    check_dimensions("bands", [*listed, *limits.values()])
    for band in listed:
        check_identity(band.outcome_map, "epsilon", "give a model of the plain outcome")
    levels = per_output("epsilon", epsilon, len(listed))
    levels = [nonnegative_scalar("epsilon", each) for each in levels]
    if names is None:
        names = [f"objective {i}" for i in range(1, len(listed) + 1)]
    labels = tuple(per_output("names", names, len(listed)))
    sets = [(band.required_set, band.direction) for band in listed]
    X = checked_points("candidates", candidates, sets[0][0].regression.dimension)
    sides = torch.stack([torch.stack(band.bounds(X)) for band in listed], -1)
    signs = sides.new_tensor([sign for _, sign in sets])
    low, high = (sides * signs).sort(0).values  # large is good
    every = torch.ones_like(X[:, 0], dtype=torch.bool)
    feasible = possible = every
    if constraints is not None:
        feasible, possible = constraints.feasibility(X)

    # Sides first, then gains among the others: who is beaten by a beaten one is beaten.
    rivals = possible & ~_beaten(high, low[feasible])
    compared = Comparison(sets, X[rivals], low[rivals], high[rivals], levels)
    dominated = compared.dominated(feasible[rivals])
    count = feasible[rivals] & ~dominated
    optimal = count & ~compared.challenges(~dominated[:, None] & count, 0)
    covered = compared.covered(~(dominated | optimal)[:, None] & optimal)
    still = ~(dominated | optimal | covered)
    others = ~(dominated | still)
    undecided = still | compared.challenges(others[:, None] & still, 1)

    def of_all(mask: Tensor) -> Tensor:
        found = torch.zeros_like(every)
        found[rivals] = mask
        return found

    named = dict(zip(labels, listed, strict=True))
    return ParetoSet(
        candidates=X,
        optimal=of_all(optimal),
        dominated=possible & ~rivals | of_all(dominated),
        open=of_all(still),
        undecided=of_all(undecided),
        epsilon=tuple(levels),
        names=labels,
        lower=sides[0],
        upper=sides[1],
        maximize=tuple(sign == 1 for _, sign in sets),
        feasible=torch.stack([feasible, possible]),
        assumptions=joined_assumptions(
            named | limits, "optimal and dominated candidates are what they are called"
        ).at(X),
        allow_estimated=allow_estimated,
        wording=Wording((), units=units or {}),
    )


class Comparison:
    r"""Gains of ``n`` points over each other in ``m`` objectives, as far as they matter.

    A gain over the set lies between the difference of the same sides of both points, where
    a function attains them, and that of opposite sides. Most questions about most pairs are
    answered by these; of the others the most promising of each point are searched first.

    Args:
        sets: For each objective a set and the sign of what is sought.
        points: ``n x d`` points.
        low: ``n x m`` least values, large is good.
        high: Largest values.
        levels: For each objective the gain that does not matter.
    """

    def __init__(
        self,
        sets: Sequence[tuple[ConfidenceSet, int]],
        points: Tensor,
        low: Tensor,
        high: Tensor,
        levels: Sequence[float],
    ) -> None:
        self.gains = [whole.gains_among(points, sign) for whole, sign in sets]
        self.levels = points.new_tensor(levels)[:, None, None]
        # Limits on the gains of rows over columns, `m x n x n`; equal where searched
        self.most = high.mT[:, :, None] - low.mT[:, None]
        rows = torch.arange(len(points), device=points.device)
        pairs = rows.repeat_interleave(len(rows)), rows.repeat(len(rows))
        least = torch.stack([each.least(*pairs) for each in self.gains])
        # By so much a search may end below it.
        slack = _ROUND_OFF * (high - low).amax(0) if len(rows) else low.new_zeros(len(sets))
        self.least = least.reshape_as(self.most) - slack[:, None, None]
        same = (points[:, None] == points).all(-1)  # nothing is gained but round-off
        for limits in (self.most, self.least):
            limits.masked_fill_(same, 0.0)

    def dominated(self, feasible: Tensor) -> Tensor:
        r"""Which points a feasible one is at least as good as in all objectives."""
        # A rival is out of the question where a point surely gains in any objective.
        nothing = torch.zeros_like(self.levels)
        self._settle(~(self.least > 0.0).any(0) & feasible, nothing, below=True)
        beats = (self.most <= 0.0).all(0) & (self.most < 0.0).any(0) & feasible
        return (beats & ~beats.mT).any(1)  # round-off could beat both of two

    def challenges(self, pairs: Tensor, along: int) -> Tensor:
        r"""Lines that hold a pair whose gains may all be above the levels.

        A line is a column with ``along`` 0, a row with 1; ``pairs`` are those that count.
        """
        for count in _COUNTS:
            may = pairs & ~(self.most <= self.levels).any(0)
            sure = may & (self.least > self.levels).all(0)
            waiting = may & ~sure.any(along, keepdim=True)
            promise = (self.most - self.levels).amin(0)
            some = _first(waiting, promise, along, count)
            if not self._settle(some, self.levels, below=False):
                break
        return (pairs & (self.least > self.levels).all(0)).any(along)

    def covered(self, pairs: Tensor) -> Tensor:
        r"""Which rows gain at most the levels over a column, among ``pairs``."""
        for count in _COUNTS:
            may = pairs & ~(self.least > self.levels).any(0)
            near = may & (self.most <= self.levels).all(0)
            waiting = may & ~near.any(1, keepdim=True)
            promise = (self.levels - self.most).amin(0)
            if not self._settle(
                _first(waiting, promise, 1, count), self.levels, below=True
            ):
                break
        return (pairs & (self.most <= self.levels).all(0)).any(1)

    def _settle(self, pairs: Tensor, levels: Tensor, below: bool) -> bool:
        r"""Search some of ``n x n`` pairs until one gain is not ``below`` its level.

        With ``below`` false until one is not above it. Whether there was any pair.
        """
        first, second = pairs.nonzero().unbind(-1)
        middle = (self.most + self.least)[:, first, second] - 2.0 * levels[:, :, 0]
        # What is likely to end it comes first.
        order = middle.argsort(0, descending=below)
        left = torch.ones_like(first, dtype=torch.bool)
        for turn in order:
            for objective, level in enumerate(levels.flatten()):
                mine = left & (turn == objective)
                where = objective, first[mine], second[mine]
                self._search(*where)
                left[mine] = (self.most[where] <= level) == below
        return len(first) > 0

    def _search(self, objective: int, first: Tensor, second: Tensor) -> None:
        r"""Replace the limits of pairs by their gains, where these were not found yet."""
        where = objective, first, second
        new = self.least[where] < self.most[where]
        for part in torch.stack([first[new], second[new]]).split(_TOGETHER, -1):
            found = self.gains[objective].most(*part)
            self.most[(objective, *part)] = self.least[(objective, *part)] = found


def _first(pairs: Tensor, promise: Tensor, along: int, count: int) -> Tensor:
    r"""So many of the pairs of each line at most, those of the largest promise."""
    values = promise.masked_fill(~pairs, -torch.inf)
    index = values.topk(min(count, values.shape[along]), dim=along).indices
    return torch.zeros_like(pairs).scatter_(along, index, True) & pairs


def _beaten(most: Tensor, least: Tensor) -> Tensor:
    r"""Which of ``n x m`` largest values are dominated by one of ``k x m`` least values."""

    def dominated(part: Tensor) -> Tensor:
        ahead = least - part[:, None]
        return ((ahead >= 0.0).all(-1) & (ahead > 0.0).any(-1)).any(-1)

    return in_parts(most, dominated)
