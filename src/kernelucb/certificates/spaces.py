r"""Domains that users give: finite sets, boxes, and boxes with inputs of listed values."""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import cast

import torch
from botorch.exceptions import BotorchTensorDimensionError, InputDataError
from torch import Tensor

from kernelucb._numerics.arguments import checked
from kernelucb._numerics.checks import finite_scalar, whole_number
from kernelucb._numerics.domains import (
    FixedFeatures,
    LinearConstraints,
    check_columns,
    check_one_domain,
    checked_box,
    checked_fixed,
    checked_inequalities,
    checked_limits,
    checked_points,
    fixed_candidates,
)
from kernelucb.certificates.regions import (
    Region,
    box_region,
    with_fixed,
)

_NOTHING = "No point of the space keeps inequality_constraints; loosen them."


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
        bounds: ``2 x d`` lower and upper limits. Those of discrete columns do not count.
        discrete_dims: For a column its values, as in ``optimize_acqf_mixed_alternating``.
        one_hot: Groups of columns of which one is 1 and the others 0.
        inequality_constraints: As in ``optimize_acqf``, on single points: triples of
            columns, coefficients and what the sum must at least be.
        max_combinations: Largest number of combinations of listed values.

    Attributes:
        bounds: ``2 x d`` limits, as given.
        constraints: The linear constraints, as given; empty if there are none.

    Raises:
        ValueError: If a column is listed twice, does not exist, has no values, has a lower
            limit that is not below its upper one, or there are too many combinations.
        BotorchTensorDimensionError: If a tensor has the wrong shape.
        InputDataError: If a value is not finite.
    """

    @checked
    def __init__(
        self,
        bounds: Tensor,
        *,
        discrete_dims: Mapping[int, Sequence[float]] | None = None,
        one_hot: Sequence[Sequence[int]] | None = None,
        inequality_constraints: LinearConstraints | None = None,
        max_combinations: int = 10_000,
    ) -> None:
        limits = checked_limits(bounds)
        dimension = limits.shape[1]
        # For each choice its columns, and the values that they take together.
        self._choices: list[tuple[list[int], list[list[float]]]] = []
        for column, values in (discrete_dims or {}).items():
            numbers = [finite_scalar("discrete_dims", value) for value in values]
            distinct = [[value] for value in dict.fromkeys(numbers)]
            self._choices.append(([column], distinct))
        for group in one_hot or ():
            codes = torch.eye(len(group), dtype=torch.float64).tolist()
            self._choices.append((list(group), codes))
        columns = [column for taken, _ in self._choices for column in taken]
        check_columns(columns, dimension)
        if not all(values for _, values in self._choices):
            raise ValueError("discrete_dims and one_hot must list at least one value each.")
        open_columns = [i for i in range(dimension) if i not in columns]
        if not bool((limits[0] < limits[1])[open_columns].all()):
            raise ValueError("Every lower limit in bounds must be below its upper limit.")
        count = math.prod(len(values) for _, values in self._choices)
        if count > whole_number("max_combinations", max_combinations):
            raise ValueError(
                f"The listed values have {count} combinations, above max_combinations = "
                f"{max_combinations}; fix some (fixed_features), or allow more."
            )
        self.bounds = limits
        self.constraints = checked_inequalities(inequality_constraints or [], dimension)

    @property
    def dimension(self) -> int:
        r"""Number of columns ``d``."""
        return self.bounds.shape[1]

    @property
    def listed_columns(self) -> list[int]:
        r"""Columns that take listed values only, from left to right."""
        return sorted(column for columns, _ in self._choices for column in columns)

    def region(self, fixed_features: FixedFeatures | None = None) -> Region:
        r"""One box for each combination of listed values, with some columns fixed.

        Raises:
            ValueError: If a fixed value is not one that the space allows.
        """
        fixed = checked_fixed(fixed_features, self.dimension)
        kept = [self._kept(choice, fixed) for choice in self._choices]
        lower, upper = [], []
        for row in itertools.product(*kept):
            low, high = self.bounds.clone()
            for (columns, _), values in zip(self._choices, row, strict=True):
                low[columns] = high[columns] = low.new_tensor(values)
            lower.append(low)
            upper.append(high)
        region = Region(torch.stack(lower), torch.stack(upper), self.constraints)
        listed = self.listed_columns
        others = {i: value for i, value in fixed.items() if i not in listed}
        return with_fixed(region, others)

    @checked
    def fixed_features_list(
        self, fixed_features: FixedFeatures | None = None
    ) -> list[dict[int, float]]:
        r"""All combinations of listed values, as ``optimize_acqf_mixed`` takes them.

        Those that a linear constraint rules out by itself are left out; a space without
        listed values has one combination, ``{}``.

        Example:
            >>> optimize_acqf_mixed(
            ...     acqf,
            ...     space.bounds,
            ...     q=1,
            ...     num_restarts=4,
            ...     raw_samples=64,
            ...     fixed_features_list=space.fixed_features_list({0: 21.0}),
            ...     inequality_constraints=space.constraints or None,
            ... )

        Args:
            fixed_features: Columns that are given, such as a context, and their values:
                part of each combination.

        Raises:
            ValueError: If a fixed value is not one that the space allows.
            InputDataError: If the constraints rule out every combination.
        """
        region = self.region(fixed_features)
        fixed = checked_fixed(fixed_features, self.dimension)
        columns = sorted({*self.listed_columns, *fixed})
        halves = 0.5 * (region.upper - region.lower)
        kept = region.lower[region.may_allow(region.lower + halves, halves)]
        if len(kept) == 0:
            raise InputDataError(_NOTHING)
        return [dict(zip(columns, row, strict=True)) for row in kept[:, columns].tolist()]

    def label(self, values: Mapping[int, float], names: Sequence[str]) -> str:
        r"""A combination for print; of a one-hot group the name of the column that is 1.

        Args:
            values: Those of all listed columns.
            names: Of all ``d`` columns.
        """
        parts = [
            f"{names[columns[0]]} {values[columns[0]]:.4g}"
            if len(columns) == 1
            else next(names[column] for column in columns if values[column] == 1.0)
            for columns, _ in self._choices
        ]
        return ", ".join(parts)

    @staticmethod
    def _kept(
        choice: tuple[list[int], list[list[float]]], fixed: FixedFeatures
    ) -> list[list[float]]:
        columns, rows = choice
        wanted = [fixed.get(column) for column in columns]
        kept = [
            row
            for row in rows
            if all(w is None or w == v for w, v in zip(wanted, row, strict=True))
        ]
        if not kept:
            raise ValueError(
                f"fixed_features sets columns {columns} to values that the space does not "
                f"list: {[w for w in wanted if w is not None]}."
            )
        return kept


def domain_of(
    dimension: int,
    candidates: Tensor | None,
    bounds: Tensor | None,
    space: MixedSpace | None,
    fixed_features: FixedFeatures | None,
) -> Tensor | Region:
    r"""All points of a finite domain, ``n x d``, or the region of another one.

    Raises:
        ValueError: If not exactly one domain is given, or a fixed value does not fit.
        BotorchTensorDimensionError: If its dimension is another.
        InputDataError: If a value is not finite, or the domain is empty.
    """
    check_one_domain(candidates=candidates, bounds=bounds, space=space)
    if candidates is not None:
        points = checked_points("candidates", candidates, dimension)
        return fixed_candidates(points, fixed_features)
    if space is None:
        limits = checked_box(cast(Tensor, bounds), dimension)
        region = box_region(limits, fixed_features)
    elif space.dimension == dimension:
        region = space.region(fixed_features)
    else:
        raise BotorchTensorDimensionError(
            f"space has {space.dimension} columns; the model was trained on {dimension}."
        )
    points = region.points
    if points is None:
        return region
    if len(points) == 0:
        raise InputDataError(_NOTHING)
    return points
