r"""An Ax search space in the inputs of the bounds: points, choices, boxes."""

from collections.abc import Iterable, Mapping, Sequence
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

from kernelucb._numerics.domains import LinearConstraints
from kernelucb.certificates import MixedSpace

Parameters = Mapping[str, Any]
Limits = Sequence[tuple[float, float]]

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
    digest: SearchSpaceDigest,
    fixed: Mapping[int, float],
    inequalities: LinearConstraints | None,
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


class ParameterNames:
    r"""Points of the bounds as parameters of the experiment, in the units of the user.

    Attributes:
        names: Of the parameters.
    """

    def __init__(
        self, adapter: TorchAdapter, space: SearchSpace, digest: SearchSpaceDigest
    ) -> None:
        self._adapter, self._space = adapter, space
        self.names = [*space.parameters]
        self._columns = digest.feature_names
        groups: dict[str, list[int]] = {}
        for column, name in enumerate(parameters_of_columns(self._columns)):
            groups.setdefault(name, []).append(column)
        self._groups = groups
        self._choices = {next(iter(each[0])): each for each in choices_of(digest)}

    def is_choice(self, name: str) -> bool:
        r"""Whether a parameter has listed values instead of two limits."""
        return isinstance(self._space.parameters.get(name), ChoiceParameter)

    def of_columns(self, columns: Iterable[str]) -> list[str]:
        r"""The parameters of the experiment among those of some input columns."""
        own = {*parameters_of_columns([*columns])}
        return [name for name in self.names if name in own]

    def parameters(self, point: Sequence[float]) -> dict[str, Any]:
        r"""The parameters of a point of ``d`` inputs, with the listed values next to it."""
        row = dict(zip(self._columns, point, strict=True))
        for choices in self._choices.values():
            nearest = min(choices, key=lambda each: _distance(point, each))
            row |= {self._columns[i]: value for i, value in nearest.items()}
        features = [ObservationFeatures(parameters=row)]  # pyright: ignore[reportArgumentType]
        for transform in reversed([*self._adapter.transforms.values()]):
            features = transform.untransform_observation_features(features)
        found = features[0].parameters
        return {name: found[name] for name in self.names if name in found}

    def values(
        self, point: Sequence[float], low: Sequence[float], high: Sequence[float]
    ) -> dict[str, list[Any]]:
        r"""What each parameter may be in a box around a point.

        Two limits of a number; of a choice, those of its values that are in the box.
        """
        ends = [self.parameters(each) for each in (low, high)]
        found: dict[str, list[Any]] = {}
        for name, columns in self._groups.items():
            if not self.is_choice(name):
                found[name] = [end.get(name) for end in ends]
                continue
            found[name] = [
                self.parameters([choice.get(i, x) for i, x in enumerate(point)])[name]
                for choice in self._choices[columns[0]]
                if all(low[i] <= value <= high[i] for i, value in choice.items())
            ]
        return {name: found[name] for name in self.names if name in found}

    def shares(self, limits: Limits, point: Sequence[float]) -> dict[str, float]:
        r"""Where a point lies between the limits of each parameter, from 0 to 1."""
        own, found = self.parameters(point), dict[str, float]()
        for name in self.of_columns(self._columns):
            column = self._groups[name][0]
            if self.is_choice(name):
                known = self._listed(name)
                found[name] = (known.index(own[name]) + 0.5) / len(known)
            else:
                found[name] = _share(point[column], limits[column])
        return found

    def stretches(
        self, limits: Limits, low: Sequence[float], high: Sequence[float]
    ) -> dict[str, list[tuple[float, float, str]]]:
        r"""Stretches of each parameter that a box leaves, as shares, and in words."""
        left, found = self.values(low, low, high), dict[str, list[Any]]()
        for name, values in left.items():
            column = self._groups[name][0]
            if self.is_choice(name):
                known = self._listed(name)
                size, places = 1.0 / len(known), map(known.index, values)
                found[name] = [
                    (i * size, (i + 1) * size, in_words(known[i])) for i in places
                ]
            else:
                ends = (_share(side[column], limits[column]) for side in (low, high))
                words = dict.fromkeys(map(in_words, values))
                found[name] = [(*ends, " to ".join(words))]
        return found

    def _listed(self, name: str) -> list[Any]:
        r"""The values of a choice, in the order of their columns."""
        start = [0.0] * len(self._columns)
        return [
            self.parameters([choice.get(i, x) for i, x in enumerate(start)])[name]
            for choice in self._choices[self._groups[name][0]]
        ]


def _distance(point: Sequence[float], choice: Mapping[int, float]) -> float:
    return sum((point[i] - value) ** 2 for i, value in choice.items())


def _share(value: float, limits: tuple[float, float]) -> float:
    low, high = limits
    return (value - low) / (high - low) if high > low else 0.5


def in_words(value: Any) -> str:
    r"""A parameter's value, for print."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


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
