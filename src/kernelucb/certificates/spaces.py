r"""Where an optimum is sought: listed points, boxes, and boxes with listed values."""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol, Self

import torch
from botorch.exceptions import BotorchTensorDimensionError, InputDataError
from botorch.utils.sampling import draw_sobol_samples
from torch import Tensor

from kernelucb._numerics import domains
from kernelucb._numerics.checks import finite_scalar, whole_number
from kernelucb._numerics.digits import coordinate
from kernelucb._numerics.domains import FixedFeatures, LinearConstraints
from kernelucb.certificates.wording import DomainWords

_MOST_DRAWS = 2**16  # of a region of which constraints leave little
_ROUND_OFF = 1e-6  # of coordinates, relative: single precision, decimals in print
_TINY = torch.finfo(torch.float64).tiny  # in place of a zero that would be divided by


class Region(NamedTuple):
    r"""Boxes with linear constraints on all; points are boxes without sides."""

    lower: Tensor  # `m x d` lower limits
    upper: Tensor  # `m x d` upper limits
    constraints: LinearConstraints
    words: DomainWords = DomainWords()

    @classmethod
    def of(
        cls,
        bounds: Tensor,
        rows: Sequence[Mapping[int, float]] = ({},),
        constraints: Iterable[tuple[Tensor, Tensor, float]] = (),
    ) -> Self:
        r"""One ``2 x d`` box for each row, with the row's columns at the row's values."""
        columns = list(rows[0])
        values = bounds.new_tensor([[row[column] for column in columns] for row in rows])
        lower, upper = bounds.repeat(len(rows), 1, 1).unbind(1)
        lower[:, columns] = upper[:, columns] = values
        return cls(lower, upper, list(constraints))

    @property
    def fixed(self) -> frozenset[int]:
        r"""Columns that no box gives room to."""
        still = (self.lower == self.upper).all(0)
        return frozenset(still.nonzero().flatten().tolist())

    @property
    def is_finite(self) -> bool:
        r"""Whether every box is a point."""
        return bool((self.lower == self.upper).all())

    def at(self, fixed: FixedFeatures) -> Self:
        r"""The region with columns set that are open in all of its boxes."""
        lower, upper = self.lower.clone(), self.upper.clone()
        for column, value in fixed.items():
            low, high = float(lower[:, column].min()), float(upper[:, column].max())
            if not low <= value <= high:
                raise ValueError(
                    f"fixed_features sets column {column} to {value:g}, outside its limits "
                    f"{low:g} and {high:g}."
                )
            lower[:, column] = upper[:, column] = value
        return self._replace(lower=lower, upper=upper)

    def possible(self) -> Self:
        r"""The region without boxes in which no point can keep the constraints."""
        halves = 0.5 * (self.upper - self.lower)
        mask = self.may_allow(self.lower + halves, halves)
        if not bool(mask.any()):
            raise InputDataError(
                "No point of the space keeps inequality_constraints; loosen them."
            )
        return self._replace(lower=self.lower[mask], upper=self.upper[mask])

    @property
    def points(self) -> Tensor:
        r"""All points of a finite region that the constraints allow."""
        return self.lower[self.allows(self.lower)]

    @property
    def listed(self) -> Tensor | None:
        r"""``n x d`` points of a finite region; None for one with room."""
        return self.points if self.is_finite else None

    def allows(self, X: Tensor) -> Tensor:
        r"""Whether ``n x d`` points keep the constraints, ``n`` booleans."""
        return self.may_allow(X, torch.zeros_like(X))

    def nearest(self, point: Tensor) -> Tensor | None:
        r"""The ``d`` coordinates of a point of the region, exactly; None if it is outside.

        Round-off may be a millionth of a column's largest limit: it is moved into the
        nearest box, and along each constraint to what that allows.
        """
        size = torch.maximum(self.lower.abs(), self.upper.abs()).amax(0)
        near = point.clamp(self.lower, self.upper)
        index = ((near - point).abs() / size.clamp_min(_TINY)).amax(-1).argmin()
        lower, upper, near = self.lower[index], self.upper[index], near[index]
        for columns, coefficients, limit in self.constraints:
            # Only columns with room move, each by its share of the constraint's normal.
            weights = coefficients.to(near) * (lower < upper)[columns]
            missing = (limit - near[columns] @ coefficients.to(near)).clamp_min(0.0)
            near[columns] += weights * missing / (weights @ weights).clamp_min(_TINY)
        near = near.clamp(lower, upper)
        close = bool(((near - point).abs() <= _ROUND_OFF * size).all())
        return near if close and bool(self.allows(near.unsqueeze(0))) else None

    def may_allow(self, centres: Tensor, halves: Tensor) -> Tensor:
        r"""False for cells that surely hold no point that keeps the constraints.

        Cells are given by ``n x d`` centres and half sides; ``n`` booleans.
        """
        allowed = torch.ones(len(centres), dtype=torch.bool, device=centres.device)
        for columns, coefficients, limit in self.constraints:
            weights = coefficients.to(centres)
            middle, room = centres[:, columns], halves[:, columns]
            size = (middle.abs() + room) @ weights.abs() + abs(limit)
            # Round-off of the sum must not exclude a point on the border.
            slack = 8.0 * torch.finfo(centres.dtype).eps * size
            allowed &= middle @ weights + room @ weights.abs() >= limit - slack
        return allowed

    def sizes(self, halves: Tensor) -> Tensor:
        r"""Shares that cells of ``n x d`` half sides take of the box that they lie in."""
        sides = (self.upper - self.lower).amax(0)
        return (2.0 * halves / sides).where(sides > 0.0, 1.0).prod(-1)

    def sample(self, count: int) -> Tensor:
        r"""All points of a finite region, else about ``count`` Sobol points of boxes."""
        if self.is_finite:
            return self.points
        boxes = torch.arange(len(self.lower), device=self.lower.device)
        if len(boxes) > count:
            # Evenly spread, the first and the last among them.
            boxes = boxes[torch.linspace(0, len(boxes) - 1, count).long()]
        each = -(-count // len(boxes))  # rounded up
        unit = self.lower.new_tensor([[0.0], [1.0]]).expand(2, self.lower.shape[1])
        while True:
            draws = draw_sobol_samples(unit, n=each, q=1, seed=0).squeeze(-2)
            lower, upper = self.lower[boxes, None], self.upper[boxes, None]
            X = (lower + draws * (upper - lower)).flatten(end_dim=1)
            X = X[self.allows(X)]
            if len(X) > 0:
                return X
            if each * len(boxes) >= _MOST_DRAWS:
                raise InputDataError(
                    f"None of {each * len(boxes)} points of the space keeps "
                    "inequality_constraints; loosen them, or give candidates that do."
                )
            each *= 8


class Combinations(NamedTuple):
    r"""A region as ``optimize_acqf_mixed`` takes it: a box, and columns that are fixed."""

    bounds: Tensor  # `2 x d` limits, which hold the values as well
    # Values of the same columns, at least one; `{}` where all are open
    values: Sequence[FixedFeatures]
    constraints: LinearConstraints


class Places(Protocol):
    r"""Points in which a search takes place, by one of the ways to give them."""

    @property
    def noun(self) -> str:
        r"""What a point is called in sentences."""
        ...

    @property
    def leaves_out(self) -> bool:
        r"""Whether parts of a box are left out."""
        ...

    def searched(self, dimension: int, fixed: FixedFeatures) -> Region:
        r"""The region for ``dimension`` columns, some of them fixed."""
        ...

    def combined(self, fixed_features: FixedFeatures | None) -> Combinations:
        r"""The values of columns that are not open, within a box."""
        ...


@dataclass(frozen=True)
class Candidates:
    r"""Listed points, ``n x d``, and nothing between them."""

    points: Tensor
    noun = "candidate"
    leaves_out = False

    def searched(self, dimension: int, fixed: FixedFeatures) -> Region:
        points = domains.checked_points("candidates", self.points, dimension)
        points = domains.fixed_candidates(points, fixed)
        return Region(points, points, [])

    def combined(self, fixed_features: FixedFeatures | None) -> Combinations:
        points = domains.checked_points("candidates", self.points)
        points = domains.fixed_candidates(points, fixed_features)
        rows = [dict(enumerate(row)) for row in points.tolist()]
        return Combinations(torch.stack([points.amin(0), points.amax(0)]), rows, [])


@dataclass(frozen=True)
class Box:
    r"""All points between ``2 x d`` limits."""

    bounds: Tensor
    noun = "point"
    leaves_out = False

    def searched(self, dimension: int, fixed: FixedFeatures) -> Region:
        return Region.of(domains.checked_box(self.bounds, dimension)).at(fixed)

    def combined(self, fixed_features: FixedFeatures | None) -> Combinations:
        limits = domains.checked_limits(self.bounds).to(self.bounds)
        fixed = domains.checked_fixed(fixed_features, limits.shape[1])
        return Combinations(limits, [fixed], [])


class MixedSpace:
    r"""A box in which some inputs take listed values only.

    Numbers that vary are the box; integers, ordered choices and codes of categories are
    ``discrete_dims``; a category with one column for each of its values is a group of
    ``one_hot``. All combinations of listed values are enumerated, and only the continuous
    inputs are searched.

    Example:
        >>> space = MixedSpace(
        ...     bounds,                                 # 2 x 6
        ...     discrete_dims={1: [1, 2, 3, 4]},        # an integer
        ...     one_hot=[[3, 4, 5]],                    # three solvents
        ... )
        >>> regret_certificate(acqf, space=space, fixed_features={0: 21.0})
        >>> optimize_acqf_safely(acqf, safe_set, space=space, fixed_features={0: 21.0})

    Args:
        bounds: ``2 x d`` lower and upper limits; the limits of columns with listed values
            are ignored.
        discrete_dims: The listed values of each such column, as in
            ``optimize_acqf_mixed_alternating``.
        one_hot: Groups of columns; in each group one column is 1 and the others are 0.
        inequality_constraints: As in ``optimize_acqf``, on single points: triples of
            columns, coefficients and the least allowed value of the weighted sum.
        max_combinations: Largest number of combinations of listed values.

    Attributes:
        bounds: ``2 x d`` limits, as given.
        constraints: The linear constraints, as given; empty if there are none.
        dimension: Number of columns ``d``.
        listed_columns: Columns that take listed values only, from left to right.

    Raises:
        ValueError: If a column is listed twice, does not exist or has no values, if a lower
            limit is not below the upper limit, or if there are too many combinations.
        BotorchTensorDimensionError: If a tensor has the wrong shape.
        InputDataError: If a value is not finite.
    """

    noun = "point"

    def __init__(
        self,
        bounds: Tensor,
        *,
        discrete_dims: Mapping[int, Sequence[float]] | None = None,
        one_hot: Sequence[Sequence[int]] | None = None,
        inequality_constraints: LinearConstraints | None = None,
        max_combinations: int = 10_000,
    ) -> None:
        limits = domains.checked_limits(bounds)
        dimension, discrete, groups = limits.shape[1], discrete_dims or {}, one_hot or ()
        listed = domains.checked_columns([*discrete, *itertools.chain(*groups)], dimension)
        # For each choice the values that its columns take together.
        choices: list[list[dict[int, float]]] = []
        for column, values in zip(listed, discrete.values(), strict=False):
            numbers = [finite_scalar("discrete_dims", value) for value in values]
            choices.append([{column: value} for value in dict.fromkeys(numbers)])
        self._groups = [[column % dimension for column in group] for group in groups]
        for group in self._groups:
            codes = torch.eye(len(group), dtype=torch.float64).tolist()
            choices.append([dict(zip(group, code, strict=True)) for code in codes])
        if not all(choices):
            raise ValueError("discrete_dims and one_hot must list at least one value each.")
        domains.checked_box(limits[:, [i for i in range(dimension) if i not in listed]])
        count = math.prod(map(len, choices))
        if count > whole_number("max_combinations", max_combinations):
            raise ValueError(
                f"The listed values have {count} combinations, above max_combinations = "
                f"{max_combinations}; fix some (fixed_features), or allow more."
            )
        each = itertools.product(*choices)
        self._rows = [{i: x for part in row for i, x in part.items()} for row in each]
        self.bounds, self.dimension = limits, dimension
        self.constraints = domains.checked_inequalities(
            inequality_constraints or [], dimension
        )
        self.listed_columns = sorted(listed)  # from left to right

    @property
    def leaves_out(self) -> bool:
        r"""Whether the space is less than its box."""
        return bool(self.listed_columns or self.constraints)

    def searched(self, dimension: int, fixed: FixedFeatures) -> Region:
        r"""``region`` for a model of ``dimension`` inputs."""
        if self.dimension != dimension:
            raise BotorchTensorDimensionError(
                f"space has {self.dimension} columns; the model was trained on {dimension}."
            )
        region = self.region(fixed)
        return region.possible() if region.is_finite else region

    def region(self, fixed_features: FixedFeatures | None = None) -> Region:
        r"""One box for each combination of listed values, with some columns fixed.

        Raises:
            ValueError: If the space does not allow a fixed value.
        """
        fixed = domains.checked_fixed(fixed_features, self.dimension)
        given = {i: fixed.pop(i) for i in self.listed_columns if i in fixed}
        rows = [row for row in self._rows if given.items() <= row.items()]
        if not rows:
            raise ValueError(
                f"fixed_features sets columns {[*given]} to values that the space does not "
                f"list: {[*given.values()]}."
            )
        return Region.of(self.bounds, rows, self.constraints).at(fixed)

    def fixed_features_list(
        self, fixed_features: FixedFeatures | None = None
    ) -> list[dict[int, float]]:
        r"""All combinations of listed values, as ``optimize_acqf_mixed`` takes them.

        Combinations that a linear constraint rules out are left out; a space without listed
        values has one combination, ``{}``. The columns of ``fixed_features``, such as a
        context, are part of each combination. Errors as for ``region``, and
        ``InputDataError`` if the constraints rule out every combination.

        Example:
            >>> optimize_acqf_mixed(acqf, space.bounds, q=1, num_restarts=4, raw_samples=64,
            ...     fixed_features_list=space.fixed_features_list({0: 21.0}),
            ...     inequality_constraints=space.constraints or None)
        """
        fixed = domains.checked_fixed(fixed_features, self.dimension)
        rows = self.region(fixed).possible().lower
        columns = sorted({*self.listed_columns, *fixed})
        return [dict(zip(columns, row, strict=True)) for row in rows[:, columns].tolist()]

    def combined(self, fixed_features: FixedFeatures | None) -> Combinations:
        r"""The box of ``region``, and the combinations of ``fixed_features_list``."""
        region = self.region(fixed_features)
        rows = self.fixed_features_list(fixed_features)
        box = torch.stack([region.lower.amin(0), region.upper.amax(0)])
        return Combinations(box, rows, self.constraints)

    def label(self, values: Mapping[int, float], names: Sequence[str]) -> str:
        r"""A combination for print, from the values of its columns and all ``d`` names."""
        codes = [*itertools.chain(*self._groups)]
        alone = [i for i in self._rows[0] if i not in codes]
        parts = [f"{names[i]} {coordinate(values[i])}" for i in alone]
        return ", ".join([*parts, *(names[i] for i in codes if values[i] == 1.0)])


@dataclass(frozen=True)
class SearchDomain:
    r"""Where an optimum is sought, as users give it: places, and columns that are fixed."""

    places: Places
    fixed_features: FixedFeatures | None = None

    def in_context(self, fixed_features: FixedFeatures | None) -> Self:
        r"""The same places with other columns fixed."""
        return replace(self, fixed_features=fixed_features)

    def region(self, dimension: int, feasible: bool = False) -> Region:
        r"""The region for a model of ``dimension`` inputs, with its words.

        ``feasible`` says whether outcome constraints leave out points of it, for its words.
        """
        fixed, places = domains.checked_fixed(self.fixed_features, dimension), self.places
        words = DomainWords(places.noun, places.leaves_out, feasible, fixed)
        return places.searched(dimension, fixed)._replace(words=words)

    def combined(self) -> Combinations:
        r"""The places as searches take them that fix columns."""
        return self.places.combined(self.fixed_features)


def as_domain(
    *,
    candidates: Tensor | None = None,
    bounds: Tensor | None = None,
    space: MixedSpace | None = None,
    fixed_features: FixedFeatures | None = None,
) -> SearchDomain:
    r"""The domain that a user gives, in exactly one of three ways, with fixed columns."""
    domains.check_one_domain(candidates=candidates, bounds=bounds, space=space)
    places = None if candidates is None else Candidates(candidates)
    places = Box(bounds) if bounds is not None else places or space
    assert places is not None
    return SearchDomain(places, fixed_features)
