r"""An Ax search space in the inputs of the bounds: points, choices, boxes."""

from collections.abc import Mapping, Sequence
from itertools import product
from math import prod
from typing import Any

import torch
from ax.adapter.torch import TorchAdapter
from ax.adapter.transforms.one_hot import OH_PARAM_INFIX
from ax.core.observation import ObservationFeatures
from ax.core.parameter import (
    ChoiceParameter,
    FixedParameter,
    Parameter,
    ParameterType,
    RangeParameter,
)
from ax.core.search_space import SearchSpace, SearchSpaceDigest
from torch import Tensor

from kernelucb.certificates import MixedSpace
from kernelucb.safety.starts import LinearConstraints

Parameters = Mapping[str, Any]

_MOST_CANDIDATES = 2000
# Branch and bound starts with one box for each combination.
_MOST_BOXES = 200


def inputs_of(adapter: TorchAdapter, points: Sequence[Parameters]) -> Tensor:
    r"""``n x d`` inputs of the bound, from parameters."""
    features = [ObservationFeatures(parameters=dict(point)) for point in points]
    return adapter.transform_observation_features(features)


def candidates_of(
    space: SearchSpace, adapter: TorchAdapter, context: Parameters
) -> Tensor | None:
    r"""All points of a small finite search space in a context; None if there are more."""
    values = [
        [context[name]] if name in context else values_of(parameter)
        for name, parameter in space.parameters.items()
    ]
    finite = [choices for choices in values if choices is not None]
    if len(finite) < len(values) or prod(map(len, finite)) > _MOST_CANDIDATES:
        return None
    points = [dict(zip(space.parameters, row, strict=True)) for row in product(*finite)]
    return inputs_of(adapter, [p for p in points if space.check_membership(p)])


def values_of(parameter: Parameter) -> Sequence[Any] | None:
    r"""The values of a parameter that is an integer, a choice or fixed, else None."""
    if isinstance(parameter, ChoiceParameter):
        return parameter.values
    if isinstance(parameter, FixedParameter):
        return [parameter.value]
    is_range = isinstance(parameter, RangeParameter)
    if is_range and parameter.parameter_type is ParameterType.INT:
        return range(int(parameter.lower), int(parameter.upper) + 1)
    return None


def choices_of(digest: SearchSpaceDigest) -> list[list[dict[int, float]]]:
    r"""The values that columns may have together, for each integer or choice."""
    choices = [
        [{column: float(value)} for value in values]
        for column, values in digest.discrete_choices.items()
    ]
    for columns in _encoded(digest):
        if len(columns) == 1:  # of two values
            choices.append([{columns[0]: value} for value in (0.0, 1.0)])
        else:
            units = torch.eye(len(columns)).tolist()
            choices.append([dict(zip(columns, unit, strict=True)) for unit in units])
    return choices


def mixed_space(
    digest: SearchSpaceDigest, fixed: Mapping[int, float], inequalities: LinearConstraints
) -> MixedSpace:
    r"""The space with integers and choices listed; as intervals where they are too many."""
    bounds = torch.tensor(digest.bounds, dtype=torch.float64).mT
    groups = _encoded(digest)
    listed = {
        c: [float(v) for v in values] for c, values in digest.discrete_choices.items()
    }
    listed |= {group[0]: [0.0, 1.0] for group in groups if len(group) == 1}
    listed = {c: [fixed[c]] if c in fixed else values for c, values in listed.items()}
    one_hot = [group for group in groups if len(group) > 1]
    counts = [len(values) for values in listed.values()]
    counts += [1 if group[0] in fixed else len(group) for group in one_hot]
    if prod(counts) > _MOST_BOXES:
        listed, one_hot = {}, []
    return MixedSpace(
        bounds,
        discrete_dims=listed,
        one_hot=one_hot,
        inequality_constraints=inequalities,
        max_combinations=max(1, prod(map(len, [*listed.values(), *one_hot]))),
    )


def parameters_of_columns(columns: Sequence[str]) -> list[str]:
    r"""For each input column the parameter that Ax has made it of."""
    parts = [column.rpartition(OH_PARAM_INFIX) for column in columns]
    return [
        name if infix and number.isdigit() else column
        for column, (name, infix, number) in zip(columns, parts, strict=True)
    ]


def _encoded(digest: SearchSpaceDigest) -> list[list[int]]:
    r"""The columns of each unordered choice."""
    encoded: dict[str, list[int]] = {}
    for column, name in enumerate(digest.feature_names):
        parameter, infix, _ = name.rpartition(OH_PARAM_INFIX)
        if infix:
            encoded.setdefault(parameter, []).append(column)
    return list(encoded.values())
