r"""Safe points where columns take listed values: these enumerated, the rest searched."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from botorch.acquisition import AcquisitionFunction
from botorch.utils.sampling import draw_sobol_samples
from torch import Tensor

from kernelucb._numerics.parts import in_parts
from kernelucb.exceptions import NoSafePointError
from kernelucb.safety.safe_set import SafeSet
from kernelucb.safety.starts import LinearConstraints, feasible

# How many points are compared altogether before numbers are searched.
_COMPARED = 4096

# From the values of some columns to a safe point, `1 x d`, that has them.
Search = Callable[[dict[int, float]], Tensor]


class CombinedBox(NamedTuple):
    r"""A box in which some columns take one of several combinations of values.

    Attributes:
        bounds: ``2 x d`` limits, which hold the values as well.
        combinations: Values of the same columns, at least one; ``{}`` where all are open.
        inequalities: Linear constraints, as BoTorch takes them.
    """

    bounds: Tensor
    combinations: list[dict[int, float]]
    inequalities: LinearConstraints

    @property
    def is_finite(self) -> bool:
        r"""Whether a combination is a point."""
        return len(self.combinations[0]) == self.bounds.shape[-1]

    @property
    def points(self) -> Tensor:
        r"""One allowed point for each combination, open columns at their lower limit."""
        columns = list(self.combinations[0])
        values = [[row[column] for column in columns] for row in self.combinations]
        X = self.bounds[:1].repeat(len(values), 1)
        X[:, columns] = X.new_tensor(values)
        return feasible(X, self.bounds, None, self.inequalities)

    def feasible(self, X: Tensor, combination: dict[int, float]) -> Tensor:
        r"""``n x d`` points moved to a combination, without those not allowed."""
        return feasible(X, self.bounds, combination, self.inequalities)


def safe_finalists(
    acqf: AcquisitionFunction,
    safe_set: SafeSet,
    space: CombinedBox,
    search: Search,
    most_searched: int,
) -> Tensor:
    r"""Safe points, ``n x d``, among which the best is: all of them on a finite space.

    Else the combinations are compared by Sobol points, 4,096 altogether, and by the known
    safe points; in the ``most_searched`` with the safe points of largest value, and those
    where none was found if there are fewer, numbers are searched.
    """
    if space.is_finite:
        points = space.points
        return points[safe_set.is_safe(points)]
    pool, owners = _pool(safe_set, space)
    chosen = list(range(len(space.combinations)))
    if len(chosen) > most_searched:
        chosen = list(dict.fromkeys([*_promising(acqf, pool, owners), *chosen]))
    found = [pool]
    for index in chosen[:most_searched]:
        try:
            point = search(space.combinations[index])
        except NoSafePointError:
            continue
        found += [point, _inner(point, pool[owners == index])]
    finalists = torch.cat(found)
    return finalists[safe_set.is_safe(finalists)]


def _pool(safe_set: SafeSet, space: CombinedBox) -> tuple[Tensor, Tensor]:
    r"""Safe points among random ones, and the combinations to which they belong."""
    count = max(1, _COMPARED // len(space.combinations))
    seed = int(torch.randint(2**31, ()))
    drawn = draw_sobol_samples(space.bounds, n=count, q=1, seed=seed).squeeze(-2)
    if safe_set.safe_points is not None:
        drawn = torch.cat([safe_set.safe_points.to(drawn), drawn])
    pool, owners = [drawn[:0]], []
    for index, combination in enumerate(space.combinations):
        rows = space.feasible(drawn, combination)
        pool.append(rows)
        owners.append(torch.full((len(rows),), index, device=rows.device))
    points, numbers = torch.cat(pool), torch.cat(owners)
    safe = safe_set.is_safe(points)
    return points[safe], numbers[safe]


@torch.no_grad()
def _promising(acqf: AcquisitionFunction, pool: Tensor, owners: Tensor) -> list[int]:
    r"""The combinations with safe points, those with points of largest value first."""
    values = in_parts(pool.unsqueeze(-2), acqf)
    return list(dict.fromkeys(owners[values.argsort(descending=True)].tolist()))


def _inner(point: Tensor, pool: Tensor) -> Tensor:
    r"""Points a little further inside than one at the edge, whose rounding may leave it."""
    if len(pool) == 0:
        return pool
    nearest = pool[torch.cdist(point, pool).argmin()]
    steps = point.new_tensor([1e-9, 1e-6, 1e-3]).unsqueeze(-1)
    return point + steps * (nearest - point)
