r"""An Ax search space in the inputs of the bounds: points, choices, boxes, names."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from math import log, prod
from typing import Any

import torch
from ax.adapter.registry import MBM_X_trans
from ax.adapter.torch import TorchAdapter
from ax.adapter.transforms.map_key_to_float import MapKeyToFloat
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

from kernelucb._numerics.domains import LinearConstraints
from kernelucb.certificates import MixedSpace

Parameters = Mapping[str, Any]

_MOST_CANDIDATES = 2000
# Branch and bound starts with one box for each combination.
_MOST_BOXES = 200


def checked_context(space: SearchSpace, context: Parameters | None) -> dict[str, Any]:
    r"""The fixed parameters of a trial, of the types of the search space.

    Raises:
        ValueError: If a name is unknown, or a value lies outside the search space. Ax would
            ignore the one, and move the other.
    """
    context = context or {}
    for name, value in context.items():
        if name not in space.parameters:
            known = ", ".join(space.parameters)
            raise ValueError(
                f"fixed_parameters has `{name}`, which is not a parameter of the "
                f"experiment; it has {known}."
            )
        parameter = space.parameters[name]
        if not parameter.validate(parameter.cast(value)):
            raise ValueError(
                f"fixed_parameters has {name}={value}, which is outside the search space: "
                f"{parameter}. Widen the range of the parameter when it is configured."
            )
    return {name: space.parameters[name].cast(value) for name, value in context.items()}


def inputs_of(adapter: TorchAdapter, points: Sequence[Parameters]) -> Tensor:
    r"""``n x d`` inputs of the bound, from parameters."""
    features = [ObservationFeatures(parameters=dict(point)) for point in points]
    return adapter.transform_observation_features(features)


def input_names(space: SearchSpace) -> list[str]:
    r"""The columns of the bound's inputs, where no outcome has a progression."""
    space = space.clone()
    transforms: list[Any] = [each for each in MBM_X_trans if each is not MapKeyToFloat]
    for transform in transforms:
        space = transform(search_space=space).transform_search_space(space)
    return [*space.parameters]


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
    groups = _encoded(digest)
    listed = {
        c: [fixed[c]] if c in fixed else [float(v) for v in values]
        for c, values in digest.discrete_choices.items()
    }
    for group in groups:
        if len(group) == 1:  # a choice of two values
            (c,) = group
            listed[c] = [fixed[c]] if c in fixed else [0.0, 1.0]
    one_hot = [group for group in groups if len(group) > 1]
    counts = [len(values) for values in listed.values()]
    counts += [1 if group[0] in fixed else len(group) for group in one_hot]
    if max_combinations is None and prod(counts) > _MOST_BOXES:
        listed, one_hot = {}, []
    return MixedSpace(
        torch.tensor(digest.bounds, dtype=torch.float64).mT,
        discrete_dims=listed,
        one_hot=one_hot,
        inequality_constraints=inequalities,
        max_combinations=max_combinations
        or max(1, prod(map(len, [*listed.values(), *one_hot]))),
    )


def parameters_of_columns(columns: Iterable[str]) -> list[str]:
    r"""For each input column the parameter that Ax has made it of."""
    parts = [(column, *column.rpartition(OH_PARAM_INFIX)) for column in columns]
    return [
        name if infix and number.isdigit() else column
        for column, name, infix, number in parts
    ]


def _encoded(digest: SearchSpaceDigest) -> list[list[int]]:
    r"""The columns of each unordered choice."""
    encoded: dict[str, list[int]] = {}
    names = digest.feature_names
    for column, parameter in enumerate(parameters_of_columns(names)):
        if parameter != names[column]:
            encoded.setdefault(parameter, []).append(column)
    return list(encoded.values())


class ParameterNames:
    r"""Points of the bounds as parameters of the experiment, in the units of the user.

    Args:
        adapter: Ax's, with the transforms of the bound's inputs.
        space: The search space of the experiment.
        digest: The same as inputs of the bound.
    """

    def __init__(
        self, adapter: TorchAdapter, space: SearchSpace, digest: SearchSpaceDigest
    ) -> None:
        self._adapter, self.space, self._columns = adapter, space, digest.feature_names
        # For each choice the values that its columns may have together.
        choices = [
            [{c: float(v)} for v in values] for c, values in digest.discrete_choices.items()
        ]
        for group in _encoded(digest):
            units = torch.eye(len(group)).tolist() if len(group) > 1 else [[0.0], [1.0]]
            choices.append([dict(zip(group, unit, strict=True)) for unit in units])
        owners = parameters_of_columns(self._columns)
        self._choices = {owners[min(each[0])]: each for each in choices}

    def of_columns(self, columns: Iterable[str]) -> list[str]:
        r"""The parameters of the experiment among those of some input columns."""
        own = {*parameters_of_columns(columns)}
        return [name for name in self.space.parameters if name in own]

    def is_choice(self, name: str) -> bool:
        r"""Whether a parameter has listed values instead of two limits."""
        return isinstance(self.space.parameters[name], ChoiceParameter)

    def parameters(self, point: Sequence[float]) -> dict[str, Any]:
        r"""The parameters of a point of ``d`` inputs, with the listed values next to it."""
        row = dict(enumerate(point))
        for choices in self._choices.values():
            row |= min(choices, key=lambda each: _distance(point, each))
        named: Any = {self._columns[i]: value for i, value in row.items()}
        features = [ObservationFeatures(parameters=named)]
        for transform in reversed([*self._adapter.transforms.values()]):
            features = transform.untransform_observation_features(features)
        found = features[0].parameters
        return {name: found[name] for name in self.space.parameters if name in found}

    def values(
        self, point: Sequence[float], low: Sequence[float], high: Sequence[float]
    ) -> dict[str, list[Any]]:
        r"""What each parameter may be in a box around a point.

        Two limits of a number; of a choice, those of its values that are in the box.
        """
        ends = [self.parameters(each) for each in (low, high)]
        found: dict[str, list[Any]] = {}
        for name in self.of_columns(self._columns):
            if not self.is_choice(name):
                found[name] = [end[name] for end in ends]
                continue
            found[name] = [
                self.parameters([choice.get(i, x) for i, x in enumerate(point)])[name]
                for choice in self._choices[name]
                if all(low[i] <= value <= high[i] for i, value in choice.items())
            ]
        return found

    def stretches(self, name: str, left: Sequence[Any]) -> list[tuple[float, float, str]]:
        r"""Start, width and words of what is left of a parameter, as shares of its range.

        ``left`` are two limits of a number, or values of a choice.
        """
        parameter = self.space.parameters[name]
        if isinstance(parameter, ChoiceParameter):
            width, index = 1.0 / len(parameter.values), parameter.values.index
            return [(index(value) * width, width, in_words(value)) for value in left]
        start, end = 0.5, 0.5
        if isinstance(parameter, RangeParameter) and parameter.lower < parameter.upper:
            scale = log if parameter.log_scale else float
            low, high = scale(float(parameter.lower)), scale(float(parameter.upper))
            start, end = ((scale(value) - low) / (high - low) for value in left)
        return [(start, end - start, " to ".join(dict.fromkeys(map(in_words, left))))]


def in_words(value: Any) -> str:
    r"""A parameter's value, for print."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _distance(point: Sequence[float], choice: Mapping[int, float]) -> float:
    return sum((point[i] - value) ** 2 for i, value in choice.items())
