r"""An Ax search space in the inputs of the bounds: points, choices, boxes."""

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import Any

import torch
from ax.adapter.registry import MBM_X_trans
from ax.adapter.transforms.map_key_to_float import MapKeyToFloat
from ax.adapter.transforms.one_hot import OH_PARAM_INFIX
from ax.core import ObservationFeatures
from ax.core.parameter import DerivedParameter
from ax.core.search_space import SearchSpace, SearchSpaceDigest
from torch import Tensor

from kernelucb._numerics.domains import LinearConstraints
from kernelucb.certificates import MixedSpace

Parameters = Mapping[str, Any]

# Branch and bound starts with one box for each combination; points are just evaluated.
_MOST_BOXES = 200
_MOST_POINTS = 2000


def checked_context(space: SearchSpace, context: Parameters | None) -> dict[str, Any]:
    r"""The fixed parameters of a trial, of the types of the search space.

    Raises:
        ValueError: If a name is unknown, or a value lies outside the search space. Ax would
            ignore the one, and move the other.
    """
    checked: dict[str, Any] = {}
    for name, value in (context or {}).items():
        parameter = space.parameters.get(name)
        if parameter is None or not parameter.validate(parameter.cast(value)):
            raise ValueError(
                f"fixed_parameters has {name}={value}, which is outside the search space: "
                f"{parameter or [*space.parameters]}."
            )
        checked[name] = parameter.cast(value)
    return checked


def setting_of(space: SearchSpace, *parts: Parameters) -> dict[str, Any]:
    r"""Parameters from parts, of which later ones count, and derived ones computed anew."""
    setting = {name: value for part in parts for name, value in part.items()}
    for name, each in space.parameters.items():
        if not isinstance(each, DerivedParameter) or name in parts[-1]:
            continue
        if each.parameter_names_to_weights.keys() <= setting.keys():
            setting[name] = each.compute(setting)
    return setting


def inputs_of(adapter: Any, points: Sequence[Parameters]) -> Tensor:
    r"""``n x d`` inputs of the bound, from parameters."""
    features = [ObservationFeatures(parameters=dict(point)) for point in points]
    return adapter.transform_observation_features(features)


def input_names(space: SearchSpace) -> list[str]:
    r"""The parameter of each input, where no outcome has a progression."""
    space = space.clone()
    transforms: list[Any] = [each for each in MBM_X_trans if each is not MapKeyToFloat]
    for transform in transforms:
        space = transform(search_space=space).transform_search_space(space)
    return parameters_of_columns(space.parameters)


def parameters_of_columns(columns: Iterable[str]) -> list[str]:
    r"""For each input column the parameter that Ax has made it of."""
    parts = [(column, *column.rpartition(OH_PARAM_INFIX)) for column in columns]
    return [
        name if infix and number.isdigit() else column
        for column, name, infix, number in parts
    ]


def choices_of(digest: SearchSpaceDigest) -> list[list[dict[int, float]]]:
    r"""For each integer and choice the values that its input columns take together."""
    choices = [
        [{c: float(v)} for v in values] for c, values in digest.discrete_choices.items()
    ]
    encoded: dict[str, list[int]] = {}  # unordered choices
    for column, name in enumerate(parameters_of_columns(digest.feature_names)):
        if name != digest.feature_names[column]:
            encoded.setdefault(name, []).append(column)
    for columns in encoded.values():
        codes = torch.eye(len(columns)).tolist() if len(columns) > 1 else [[0.0], [1.0]]
        choices.append([dict(zip(columns, code, strict=True)) for code in codes])
    return choices


def mixed_space(
    digest: SearchSpaceDigest,
    fixed: Mapping[int, float],
    inequalities: LinearConstraints | None,
    max_combinations: int | None = None,
) -> MixedSpace:
    r"""The space with integers and choices listed.

    Where their combinations are too many for branch and bound they are intervals instead,
    unless ``max_combinations`` says how many may be enumerated.
    """
    groups = choices_of(digest)
    listed = {column for each in groups for column in each[0]}
    is_finite = len(listed | fixed.keys()) == len(digest.bounds)
    open_groups = [each for each in groups if not each[0].keys() <= fixed.keys()]
    most = _MOST_POINTS if is_finite else _MOST_BOXES
    if max_combinations is None and prod(map(len, open_groups)) > most:
        groups = []
    return MixedSpace(
        torch.tensor(digest.bounds, dtype=torch.float64).mT,
        discrete_dims={
            column: [fixed.get(column, row[column]) for row in each]
            for each in groups
            for column in each[0]
            if len(each[0]) == 1
        },
        one_hot=[[*each[0]] for each in groups if len(each[0]) > 1],
        inequality_constraints=inequalities,
        max_combinations=max_combinations or max(1, prod(map(len, groups))),
    )
