r"""The inputs that a search space makes of parameters, by now and at the first trial."""

# Ax has no public way to what is read here.
# pyright: reportPrivateUsage=false

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from ax.adapter.adapter_utils import extract_search_space_digest
from ax.adapter.registry import MBM_X_trans
from ax.adapter.transforms.map_key_to_float import MapKeyToFloat
from ax.adapter.transforms.one_hot import OH_PARAM_INFIX
from ax.core import Experiment, SearchSpace
from botorch.exceptions import UnsupportedError

from kernelucb.confidence.assumptions import Assumption, Status

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
        units: By column the name of its unit: the parameter's own (``"x"``), or
            ``"log10(x)"`` and ``"logit(x)"`` where it is scaled so. An unordered choice
            has a column ``"kind=a"`` for each value, of the unit ``"kind"``.
        ends: By unit its smallest and its largest value: the cube of the space.
        words: By unit the values of an ordered choice of words, which stand for positions.
    """

    units: dict[str, str]
    ends: dict[str, list[float]]
    words: dict[str, list[Any]]

    @classmethod
    def of(cls, space: SearchSpace) -> "Inputs":
        r"""The columns in Ax's order, where no outcome has a progression."""
        scaled, found = space.clone(), cls({}, {}, {})
        transforms: list[Any] = [each for each in MBM_X_trans if each is not MapKeyToFloat]
        for transform in transforms:  # which change the space that they are given
            scaled = transform(search_space=scaled).transform_search_space(scaled)
        columns = [*scaled.parameters]
        bounds = extract_search_space_digest(scaled, columns).bounds
        owners = parameters_of_columns(columns)
        for column, name, ends in zip(columns, owners, bounds, strict=True):
            parameter: Any = space.parameters[name]
            scale = "log10" * parameter.log_scale
            scale = scale or "logit" * getattr(parameter, "logit_scale", False)
            unit = f"{scale}({name})" if scale else name
            if column != name:
                column = f"{name}={parameter.values[int(column.rpartition('_')[2])]}"
            elif not parameter.is_numeric:
                found.words[unit] = [*parameter.values]
            found.units[column], found.ends[unit] = unit, [*map(float, ends)]
        return found

    @property
    def listed(self) -> list[str]:
        r"""Units of choices whose inputs follow from their list of values."""
        coded = (unit for key, unit in self.units.items() if key.startswith(f"{unit}="))
        return [*dict.fromkeys([*self.words, *coded])]

    def others(self, now: "Inputs") -> list[str]:
        r"""Units by now that were none, or of other inputs for the same values."""
        counts, before = (Counter(each.units.values()) for each in (now, self))

        def stays(unit: str) -> bool:
            # Values of a choice of words may be appended, or taken off at the end.
            pairs = zip(self.words.get(unit, []), now.words.get(unit, []), strict=False)
            one_each = (counts[unit] == 1) == (before[unit] == 1)
            both = (unit in self.words) == (unit in now.words)
            return before[unit] > 0 and one_each and both and all(a == b for a, b in pairs)

        return [unit for unit in now.ends if not stays(unit)]


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

    def notes(self, needed: Collection[str]) -> list[Assumption]:
        r"""Assumptions of a kernel to which some units mean what they meant at first.

        Raises:
            UnsupportedError: If they mean something else by now.
        """
        if self.first is None:
            words = (
                f"nothing recorded the search space before the first outcome, and "
                f"{', '.join(needed)} are scaled by it as it is by now"
            )
            return [Assumption("length scales", words, Status.ESTIMATED)] * bool(needed)
        if lost := [unit for unit in self.first.others(self.now) if unit in needed]:
            raise UnsupportedError(
                f"The search space has changed since the first trial: {', '.join(lost)} "
                f"cannot be input of the same kernel, whose inputs were "
                f"{', '.join(self.first.ends)}. Change it back, or make a strategy with "
                "lengthscale as a mapping from the inputs of now, in their own units."
            )
        return []
