r"""The inputs that a search space makes of parameters, by now and at the first trial."""

# Ax has no public way to what is read here.
# pyright: reportPrivateUsage=false

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from ax.adapter.adapter_utils import extract_search_space_digest
from ax.adapter.registry import MBM_X_trans
from ax.adapter.transforms.map_key_to_float import MapKeyToFloat
from ax.adapter.transforms.one_hot import OH_PARAM_INFIX
from ax.core import Experiment, SearchSpace
from ax.core.data import MAP_KEY
from botorch.exceptions import UnsupportedError
from torch import Tensor

from kernelucb.confidence.assumptions import Assumption, Status

# Options with an entry for each input of the bound, which may be by their names.
LENGTHS = ("shortest", "longest", "lengthscale")
# What a bound is told, by the names of its arguments: plain values and objects of values
Options = Mapping[str, Any]
_RECORD = "kernelucb: inputs at the first trial"  # among an experiment's properties


def parameters_of_columns(columns: Iterable[str]) -> list[str]:
    r"""For each input column the parameter that Ax has made it of."""
    parts = [(column, *column.rpartition(OH_PARAM_INFIX)) for column in columns]
    return [
        name if infix and number.isdigit() else column
        for column, name, infix, number in parts
    ]


@dataclass(frozen=True)
class Inputs:
    r"""Columns that a search space makes of its parameters, none of a constant.

    Attributes:
        units: By column the name of its unit: the parameter's own, or ``"log10(x)"`` and
            ``"logit(x)"`` where it is scaled so. An unordered choice has a column
            ``"k=a"`` for each value, an ordered one of words ``"k['low', 'high']"`` for
            their positions, both of the unit ``"k"``.
        ends: By unit its smallest and its largest value: the cube of the space.
    """

    units: dict[str, str]
    ends: dict[str, list[float]]

    @classmethod
    def of(cls, space: SearchSpace) -> "Inputs":
        r"""The columns in Ax's order, where no outcome has a progression."""
        scaled, found = space.clone(), cls({}, {})
        transforms: list[Any] = [each for each in MBM_X_trans if each is not MapKeyToFloat]
        for transform in transforms:  # which change the space that they are given
            scaled = transform(search_space=scaled).transform_search_space(scaled)
        columns, ranges = [*scaled.parameters], space.range_parameters
        bounds = extract_search_space_digest(scaled, columns).bounds
        for column, ends in zip(columns, bounds, strict=True):
            (name,) = parameters_of_columns([column])
            parameter: Any = space.parameters[name]
            scale = "log10" * parameter.log_scale
            scale = scale or "logit" * (name in ranges and ranges[name].logit_scale)
            key = unit = f"{scale}({name})" if scale else name
            if column != name:
                key = f"{name}={parameter.values[int(column.rpartition('_')[2])]}"
            elif not parameter.is_numeric:
                key = f"{name}{parameter.values}"
            found.units[key], found.ends[unit] = unit, [*map(float, ends)]
        return found

    @property
    def kinds(self) -> dict[str, str]:
        r"""By unit how its values become inputs; the unit itself for numbers."""
        return {
            unit: f"{unit}=" if key.startswith(f"{unit}=") else key
            for key, unit in self.units.items()
        }


class KernelInputs(NamedTuple):
    r"""What a kernel that was given before the data is a function of.

    Attributes:
        first: The inputs at the first trial; None where nothing recorded them.
        now: The inputs of the search space as it is by now.
    """

    first: Inputs | None
    now: Inputs

    @classmethod
    def of(cls, experiment: Experiment) -> "KernelInputs":
        r"""Of an experiment, which keeps a record from before its first outcome.

        A strategy takes it when it is given the experiment, and again when it hands out the
        first trial; Ax stores it with the experiment. Otherwise the generator of the first
        trial may have kept the search space.
        """
        properties, space = experiment._properties, experiment.search_space
        now = Inputs.of(space)
        unseen = _RECORD not in properties and experiment.lookup_data().empty
        if unseen or not experiment.trials:
            properties[_RECORD] = vars(now)
        if _RECORD in properties:
            return cls(Inputs(**properties[_RECORD]), now)
        runs = experiment.trials[min(experiment.trials)].generator_runs
        spaces = [run.search_space for run in runs if run.search_space is not None]
        return cls(Inputs.of(spaces[0]) if spaces else None, now)

    def listed(self, options: Options, steps: bool = False) -> tuple[dict[str, Any], bool]:
        r"""Options of an outcome with listed length scales, and if these are in own units.

        A mapping from the units of the inputs is in these units. A list has an entry for
        each input of the first trial; it or a number are in the cube of the space then.
        With ``steps`` the progression of a trial is an input, too.

        Raises:
            ValueError: If the entries do not fit the inputs, or ``noise_std`` is a list:
                the number of trials is still open.
        """
        listed, before = dict(options), (self.first or self.now).units
        if type(listed.get("noise_std")) is list:
            raise ValueError(
                "noise_std must be one number for an outcome; report a standard error with "
                "each trial instead, and leave out noise_std."
            )
        units = self.now.units | ({MAP_KEY: MAP_KEY} if steps else {})
        lengths = {option: listed[option] for option in LENGTHS if option in listed}
        kinds = {*map(type, lengths.values())}
        own = dict in kinds
        names = [*units.values()] if own else [*units]
        for option, given in lengths.items():
            if not own and type(given) is not list:
                continue
            entries: Any = given if kinds == {dict} else {}
            if not own and len(given) == len(before):
                entries = dict(zip(before, given, strict=True))
            # What was an input may be a constant by now.
            if not {*names} <= {*entries} <= {*names, *before, *before.values(), MAP_KEY}:
                raise ValueError(
                    f"{option} is {given}, and the inputs of the bound are "
                    f"{', '.join(units.values())} (none of a constant; one for each value "
                    "of an unordered choice)."
                )
            listed[option] = [entries[name] for name in names]
        return listed, own

    def notes(self, in_own_units: bool) -> list[Assumption]:
        r"""What a kernel assumes whose inputs mean what they meant at first.

        In its own units a number does so by its name; a choice depends on its list.

        Raises:
            UnsupportedError: If an input means something else by now.
        """
        kinds = self.now.kinds.items()
        needed = {unit: kind for unit, kind in kinds if not in_own_units or kind != unit}
        if self.first is None:
            words = "lengthscale is no mapping, and no search space was kept from before"
            words += f" the first outcome, as the scale of {', '.join(needed)}"
            return [Assumption("length scales", words, Status.ESTIMATED)] * bool(needed)
        before = self.first.kinds
        if lost := [unit for unit, kind in needed.items() if before.get(unit) != kind]:
            raise UnsupportedError(
                f"The search space has changed since the first trial: {', '.join(lost)} "
                f"cannot be input of a kernel whose inputs were {', '.join(before)}. "
                "Change it back, or set a strategy with length scales in the units of the "
                "inputs of now, as a mapping from their names."
            )
        return []

    def cube(self, bounds: Sequence[tuple[float, float]], in_own_units: bool) -> Tensor:
        r"""``2 x d`` ends of each input between which a kernel counts one unit of length.

        ``bounds`` are Ax's of now, for a progression and where nothing was recorded.
        """
        ends = torch.tensor(bounds, dtype=torch.float64).mT.clone()
        for column, unit in enumerate(self.now.units.values()):
            if in_own_units:
                ends[1, column] = ends[0, column] + 1.0
            elif self.first is not None:
                ends[:, column] = ends.new_tensor(self.first.ends[unit])
        return ends
