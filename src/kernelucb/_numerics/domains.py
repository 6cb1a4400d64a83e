r"""Checks of the domains that users give: points, boxes, fixed columns."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np
from botorch.exceptions import BotorchTensorDimensionError, InputDataError
from torch import Tensor

from kernelucb._numerics.checks import finite, finite_scalar, tensor

# Columns, their coefficients, and what the sum must at least be, as in BoTorch.
LinearConstraints = list[tuple[Tensor, Tensor, float]]
FixedFeatures = Mapping[int, float]
Given = ParamSpec("Given")
Result = TypeVar("Result")


def points_or_box(function: Callable[Given, Result]) -> Callable[Given, Result]:
    r"""Refuse two rows given by position as ``candidates``: they could be ``bounds``."""
    place = list(inspect.signature(function).parameters).index("candidates")

    # By name it is clear which is meant; two points by position are refused as well.
    @wraps(function)
    def call(*arguments: Given.args, **options: Given.kwargs) -> Result:
        shape = np.shape(cast(Any, arguments[place])) if len(arguments) > place else ()
        if len(shape) == 2 and shape[0] == 2:
            raise ValueError(
                "Two rows given by position are either two points or the limits of a box: "
                "say candidates= for the points, or bounds= for the box."
            )
        return function(*arguments, **options)

    return call


def check_one_domain(**domains: object) -> None:
    r"""Refuse two domains, and none; each under the name of its argument."""
    if sum(each is not None for each in domains.values()) != 1:
        raise ValueError(f"The domain: give either {' or '.join(domains)}.")


def checked_points(name: str, X: Tensor, dimension: int | None = None) -> Tensor:
    r"""Return ``n x d`` points in float64, at least one and all finite.

    ``name`` is for the message; ``dimension`` is ``d``, or None where any will do.
    """
    shape = tuple(tensor(name, X).shape)
    if len(shape) != 2 or shape[1] != (dimension or shape[1]):
        raise BotorchTensorDimensionError(
            f"{name} must be `n x {dimension or 'd'}`, got shape {shape}."
        )
    if len(X) == 0:
        raise InputDataError(f"There are no {name}; give at least one point.")
    return finite(name, X).detach().double()


def checked_limits(
    bounds: Tensor, dimension: int | None = None, may_be_equal: bool = True
) -> Tensor:
    r"""Return ``2 x d`` limits in float64, finite and in order; ``d`` as for points."""
    shape = tuple(tensor("bounds", bounds).shape)
    if len(shape) != 2 or shape != (2, dimension or shape[1]):
        raise BotorchTensorDimensionError(
            f"bounds must be `2 x {dimension or 'd'}`, got shape {shape}."
        )
    limits = finite("bounds", bounds).detach().double()
    for column, (lower, upper) in enumerate(limits.mT.tolist()):
        if lower > upper:
            raise ValueError(
                f"The lower limit of input {column} in bounds is above the upper one: "
                f"{lower:.6g} and {upper:.6g}. The first row of bounds are the lower "
                "limits of all inputs, the second row their upper limits."
            )
        if lower == upper and not may_be_equal:
            raise ValueError(
                f"Both limits of input {column} in bounds are {lower:.6g}. Every lower "
                "limit must be below its upper one: widen them, and give the value of an "
                "input that does not change as fixed_features."
            )
    return limits


def checked_box(bounds: Tensor, dimension: int | None = None) -> Tensor:
    r"""Return ``2 x d`` limits of a box as above, each lower one below its upper one."""
    return checked_limits(bounds, dimension, may_be_equal=False)


def rows_of(X: Tensor) -> Tensor:
    r"""Points as float64 rows: a margin rounded to float32 could be on the wrong side."""
    if tensor("X", X).dim() < 1 or X.shape[-1] == 0:
        raise BotorchTensorDimensionError(
            f"X must be `... x d` with d >= 1, got shape {tuple(X.shape)}."
        )
    return X.reshape(-1, X.shape[-1]).double()


def fixed_candidates(X: Tensor, fixed_features: FixedFeatures | None) -> Tensor:
    r"""``n x d`` candidates with some columns set, each once."""
    fixed = checked_fixed(fixed_features, X.shape[1])
    return with_fixed(X, fixed).unique(dim=0) if fixed else X


def with_fixed(X: Tensor, fixed: FixedFeatures) -> Tensor:
    r"""``n x d`` points, or limits, with some columns set."""
    X = X.clone()  # of which the caller is the owner
    for column, value in fixed.items():
        X[:, column] = value
    return X


def checked_fixed(fixed_features: FixedFeatures | None, dimension: int) -> dict[int, float]:
    r"""Values of columns that exist, as numbers, from left to right."""
    given = fixed_features or {}
    numbers = [finite_scalar("fixed_features", value) for value in given.values()]
    columns = checked_columns(given, dimension)
    return dict(sorted(zip(columns, numbers, strict=True)))


def checked_columns(columns: Iterable[int], dimension: int) -> list[int]:
    r"""Columns that exist, each listed once; as in BoTorch, -1 is the last one."""
    found: list[int] = []
    for column in columns:
        if not -dimension <= column < dimension:
            raise ValueError(f"There is no column {column}; there are {dimension}.")
        found.append(column % dimension)
        if found.count(found[-1]) > 1:
            raise ValueError(f"Column {found[-1]} is listed twice.")
    return found


def checked_inequalities(
    constraints: LinearConstraints, dimension: int
) -> LinearConstraints:
    r"""Linear constraints on single points, whose columns exist."""
    checked: LinearConstraints = []
    for columns, coefficients, limit in constraints:
        if columns.dim() != 1 or columns.shape != coefficients.shape:
            raise BotorchTensorDimensionError(
                "inequality_constraints needs as many columns as coefficients, on single "
                f"points; got shapes {tuple(columns.shape)} and "
                f"{tuple(coefficients.shape)}."
            )
        finite("inequality_constraints", coefficients)
        finite_scalar("inequality_constraints", limit)
        places = checked_columns(columns.tolist(), dimension)
        checked.append((columns.new_tensor(places), coefficients, limit))
    return checked
