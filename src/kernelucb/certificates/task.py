r"""A task: an objective's bound, the region of its optimum, and outcome constraints."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Self, cast
from warnings import catch_warnings

import torch
from botorch.acquisition import AcquisitionFunction
from botorch.exceptions import UnsupportedError
from botorch.generation import gen_candidates_scipy
from torch import Tensor

from kernelucb._numerics.arrays import in_parts
from kernelucb._numerics.checks import tensor
from kernelucb._numerics.domains import checked_points, fixed_candidates
from kernelucb.certificates.boxes import (
    ACCURACY,
    Maximum,
    Search,
    SetFunction,
    largest_in_region,
    on_cells,
    upper_side,
)
from kernelucb.certificates.spaces import Region, SearchDomain
from kernelucb.confidence.assumptions import Assumptions
from kernelucb.confidence.band import Band, BandLike, check_dimensions, joined_assumptions
from kernelucb.confidence.outcome_constraints import OutcomeConstraints, constrained_band
from kernelucb.exceptions import NoSafePointError

_SCAN = 1024  # Sobol points of a box that are looked at first
_STARTS = 4  # local searches, from the best of these points
_STEPS = 20  # of each local search: branch and bound does the rest
_PLACES = 6  # of a coordinate that a search found, behind the first digit of its side


@dataclass(frozen=True)
class Task:
    r"""An objective, its constraints and the region in which its optimum is sought.

    Values are on the scale of the objective's set, and large values are good. Certificates,
    stops, reports and claims are all computed from one task, and breakdown values from the
    same task under larger norms and noises.
    """

    bound: Band
    sign: int  # 1 where large outcomes are sought, -1 where small ones are
    # What a point must satisfy; None where all points count
    constraints: OutcomeConstraints | None
    region: Region
    # The point that the user recommends, `d`, in the region and certainly feasible
    recommended: Tensor | None = None
    # `k x d` further points that claims are about, such as a baseline
    beside: Tensor | None = None

    @classmethod
    def of(
        cls,
        acqf: BandLike,
        constraints: OutcomeConstraints | None,
        domain: SearchDomain,
        recommended: Tensor | None,
    ) -> Self:
        r"""Build a task from a bound, whose constraints are its own or given beside it.

        ``recommended`` is ``d`` or ``1 x d``; it is moved into the context, if any.
        """
        band, inherited = constrained_band("acqf", acqf)
        if band.confidence_set is None:
            raise UnsupportedError(
                f"{type(acqf).__name__} has no set of functions, which certificates are "
                "about; give a bound such as MartingaleMixtureUCB."
            )
        if inherited is not None and constraints is not None:
            raise UnsupportedError(
                f"{type(acqf).__name__} has constraints of its own; leave out constraints, "
                "or give its band."
            )
        limits = constraints if inherited is None else inherited
        if limits is not None:
            check_dimensions("bands", [band, *limits.bands.values()])
        dimension = band.confidence_set.regression.dimension
        region = domain.region(dimension, feasible=limits is not None)
        task = cls(band, band.direction, limits, region)
        if recommended is None:
            return task
        row = tensor("recommended", recommended).reshape(1, -1)
        row = checked_points("recommended", row, dimension)
        point = fixed_candidates(row, region.words.fixed)[0]
        return replace(task, recommended=task._admissible(point.to(region.lower)))

    @property
    def bands(self) -> dict[str, Band]:
        r"""The objective's band and those of the constraints, by name."""
        limits = {} if self.constraints is None else self.constraints.bands
        return {"objective": self.bound, **limits}

    @property
    def assumptions(self) -> Assumptions:
        r"""The joint assumptions of all bands, where they are asked."""
        rests, asked = self.bound.assumptions, self.region.listed
        if self.constraints is not None:
            rests = joined_assumptions(self.bands, "all bands hold")
        if asked is not None and self.beside is not None:
            asked = torch.cat([asked, self.beside])
        return rests.at(asked)

    @cached_property
    def points(self) -> Tensor:
        r"""``n x d`` points that are looked at: all of a finite region, else some."""
        return self.region.sample(_SCAN)

    def relaxed(
        self,
        norm_factor: float = 1.0,
        noise_factor: float = 1.0,
        lengthscale: float | None = None,
    ) -> Self:
        r"""The same task with every band relaxed, as by ``Band.relaxed``.

        ``lengthscale`` and a ``norm_factor`` below 1 are for the objective alone: norm
        bounds of constraints stay at least as large as they are.
        """
        bound = self.bound.relaxed(norm_factor, noise_factor, lengthscale)
        limits = self.constraints
        if limits is not None:
            given = [each.band for each in limits.constraints]
            once = {band.key: band for band in given}  # one band may have many limits
            again = {self.bound.key: bound}
            for key in once.keys() - again.keys():
                again[key] = once[key].relaxed(max(norm_factor, 1.0), noise_factor)
            limits = limits.with_bands([again[band.key] for band in given])
        return replace(self, bound=bound, constraints=limits)

    def around(self, point: Tensor, share: float) -> Self:
        r"""The task in a box around ``d`` coordinates of a point of the region.

        ``share`` is half of each side over the region's range of that column.
        """
        region = self.region
        room = share * (region.upper.amax(0) - region.lower.amin(0))
        lower = torch.maximum(region.lower, point - room)
        upper = torch.minimum(region.upper, point + room)
        kept = (lower <= upper).all(-1)
        region = region._replace(lower=lower[kept], upper=upper[kept])
        return replace(self, region=region)

    def gain(self, reference: Tensor) -> SetFunction:
        r"""Upper bound on the gain of points over a reference point of ``d`` numbers."""
        other, sign = reference.unsqueeze(0), self.sign
        return SetFunction(
            lambda functions, X: functions.max_gain_over(X, other, sign),
            lambda functions: functions.gain_limit(other, sign),
        )

    def values(self, function: SetFunction, X: Tensor) -> Tensor:
        r"""A function of the objective's set at ``n x d`` points that may be feasible.

        Minus infinity at the others.
        """
        found = in_parts(X, partial(function, self.bound.required_set))
        return found.masked_fill(~self.may_be_feasible(X), -torch.inf)

    def may_be_feasible(self, X: Tensor) -> Tensor:
        r"""Whether ``n x d`` points may be feasible."""
        if self.constraints is None:
            return torch.ones(len(X), dtype=torch.bool, device=X.device)
        return self.constraints.may_be_feasible(X)

    def feasible(self, X: Tensor) -> Tensor:
        r"""Certainly feasible points among ``n x d`` points."""
        return X if self.constraints is None else X[self.constraints.is_feasible(X)]

    def search(self, function: SetFunction) -> Search | None:
        r"""A function of the set over the region; None where its change is not known."""
        asked = [(self.bound.confidence_set, function)]
        for each in () if self.constraints is None else self.constraints.constraints:
            limit = upper_side(each.sign, each.sign * each.level)
            asked.append((each.band.confidence_set, limit))
        fixed = self.region.fixed
        cells = [None if of is None else on_cells(of, fixed, f) for of, f in asked]
        bounded = [each for each in cells if each is not None]
        if len(bounded) < len(cells):
            return None
        return Search(bounded[0], self.region, bounded[1:])

    def largest(
        self,
        function: SetFunction,
        tolerance: float,
        max_evaluations: int,
        found: tuple[float, Tensor] | None = None,
    ) -> Maximum | None:
        r"""Branch and bound over boxes; None where the function's change is not known.

        Arguments as for ``largest_in_region``. Where all points are listed, and so looked
        at, the largest value is ``found``.
        """
        if found is not None and self.region.is_finite:
            return Maximum(*found, found[0])
        search = self.search(function)
        if search is None:
            return None
        return largest_in_region(search, tolerance, max_evaluations, found)

    def is_at_most(self, function: SetFunction, level: float, max_evaluations: int) -> bool:
        r"""Whether a function of the set is found to be at most a level, everywhere.

        One that comes within a twentieth of a positive level may count as above.
        """
        if float(self.values(function, self.points).max()) > level:
            return False
        # A value from which cells up to the level are dropped, and above which it ends
        start = level / (1.0 + ACCURACY) if level > 0.0 else level
        search = None if self.region.is_finite else self.search(function)
        if search is None:
            return self.region.is_finite
        found = start, self.points[0]
        most = largest_in_region(search, ACCURACY, max_evaluations, found, start)
        return most.upper <= level

    def best_point(self, points: Tensor) -> Tensor:
        r"""``d``: the certainly feasible point with the largest guaranteed value.

        The point is chosen among ``n x d`` points and the results of local searches from
        them.
        """
        points = self.feasible(points)
        if len(points) == 0:
            raise NoSafePointError(
                "No point that was tried is certainly feasible, so none can be "
                "recommended: observe the constraints near points that may be feasible, or "
                "loosen them."
            )
        value = self.bound.latent_at_worst
        values = in_parts(points, value)
        if not self.region.is_finite:
            found = self.feasible(climbed(value, points, values, self.region))
            points = torch.cat([points, found])
            values = torch.cat([values, value(found)])
        found = points[values.argmax()]
        short = in_print(found, self.region).unsqueeze(0)
        keeps = bool(self.region.allows(short)) and len(self.feasible(short)) == 1
        return short[0] if keeps else found

    def _admissible(self, point: Tensor) -> Tensor:
        r"""The ``d`` coordinates of a point of the region that is certainly feasible.

        A point outside the domain is refused: its value may exceed the optimum over the
        domain, so intervals and regions computed from this point need not hold the optimum.
        """
        inside = self.region.nearest(point)
        if inside is None:
            raise ValueError(
                f"recommended lies outside the domain: {point.tolist()}. What it is worth "
                "says nothing of the optimum there. Give a point of the domain (add this "
                "one to candidates, widen bounds, loosen constraints), or leave "
                "recommended out."
            )
        if len(self.feasible(inside.unsqueeze(0))) == 0:
            raise NoSafePointError(
                "recommended is not certainly feasible: the bands do not show that it "
                "satisfies every constraint. Leave it out, or observe them there."
            )
        return inside


def in_print(point: Tensor, region: Region) -> Tensor:
    r"""The ``d`` coordinates of a point of a region, with few digits where it has room.

    They move by less than a millionth of the sides, so that the point that is printed is
    the point that is meant. Constraints are not looked at.
    """
    inside = (point >= region.lower) & (point <= region.upper)
    index = inside.all(-1).int().argmax()
    lower, upper = region.lower[index], region.upper[index]
    rounded = [
        round(x, _PLACES - math.floor(math.log10(side))) if side else x
        for x, side in zip(point.tolist(), (upper - lower).tolist(), strict=True)
    ]
    return point.new_tensor(rounded).clamp(lower, upper)


@torch.enable_grad()
def climbed(
    function: Callable[[Tensor], Tensor], points: Tensor, values: Tensor, region: Region
) -> Tensor:
    r"""Search locally for points at which a function is large, from the best of some.

    A local search: it may find a better point, and proves nothing.

    ``function`` maps ``n x d`` points to ``n`` values, differentiable; ``values`` are its
    values at ``points``. Each search stays in the box in which it started. Returned are
    ``k x d`` points that keep the constraints; ``k`` may be 0.
    """

    def acqf(X: Tensor) -> Tensor:
        return function(X.squeeze(-2))

    starts = points[values.topk(min(_STARTS, len(values))).indices]
    inside = (starts[:, None] >= region.lower) & (starts[:, None] <= region.upper)
    boxes = inside.all(-1).int().argmax(-1)
    with catch_warnings(record=True):  # that it stopped early: any point will do
        found, _ = gen_candidates_scipy(
            initial_conditions=starts.unsqueeze(-2),
            acquisition_function=cast(AcquisitionFunction, acqf),
            lower_bounds=region.lower[boxes].unsqueeze(-2),
            upper_bounds=region.upper[boxes].unsqueeze(-2),
            inequality_constraints=region.constraints or None,
            options={"maxiter": _STEPS},
            use_parallel_mode=False,
        )
    found = found.detach().squeeze(-2)
    return found[region.allows(found)]
