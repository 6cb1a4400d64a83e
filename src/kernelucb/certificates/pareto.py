r"""Which trade-offs between several outcomes are real."""

from collections.abc import Sequence

import torch
from torch import Tensor

from kernelucb._numerics.arrays import in_parts
from kernelucb._numerics.checks import nonnegative_scalar
from kernelucb._numerics.domains import checked_points
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


@torch.no_grad()
def pareto_set(
    bands: Sequence[BandLike],
    candidates: Tensor,
    epsilon: float | Sequence[float],
    *,
    constraints: OutcomeConstraints | None = None,
    names: Sequence[str] | None = None,
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
    gains = _gains(sets, X[rivals])
    # Column by column the rivals' gains over one of them, row by row its losses.
    beats = (gains <= 0.0).all(0) & (gains < 0.0).any(0) & feasible[rivals]
    dominated = (beats & ~beats.mT).any(1)  # round-off could beat both of two
    near = gains <= gains.new_tensor(levels)[:, None, None]
    challenges = ~near.any(0) & ~dominated[:, None]
    optimal = feasible[rivals] & ~challenges.any(0) & ~dominated
    covered = (near.all(0) & optimal).any(1)
    still = ~(dominated | optimal | covered)
    undecided = still | challenges[:, still].any(1)

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
    )


def _gains(sets: Sequence[tuple[ConfidenceSet, int]], points: Tensor) -> Tensor:
    r"""Upper bounds on the gains of ``n x d`` points (rows) over each other (columns).

    ``m x n x n`` for ``m`` sets with what is sought, on the scale of each set.
    """
    gains = points.new_zeros(len(sets), len(points), len(points))
    for matrix, (functions, sign) in zip(gains, sets, strict=True):
        for column, x in enumerate(points):
            matrix[:, column] = functions.max_gain_over(points, x[None], sign)
    same = (points[:, None] == points).all(-1)  # nothing is gained but round-off
    return gains.masked_fill(same, 0.0)


def _beaten(most: Tensor, least: Tensor) -> Tensor:
    r"""Which of ``n x m`` largest values are dominated by one of ``k x m`` least values."""

    def dominated(part: Tensor) -> Tensor:
        ahead = least - part[:, None]
        return ((ahead >= 0.0).all(-1) & (ahead > 0.0).any(-1)).any(-1)

    return in_parts(most, dominated)
