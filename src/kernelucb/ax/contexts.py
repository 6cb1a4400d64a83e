r"""Parameters that are fixed for a trial: checked, and handed out as they were given."""

# Ax has no public way to what is changed here.
# pyright: reportPrivateUsage=false

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

from ax.core.arm import Arm
from ax.core.generator_run import ArmWeight, GeneratorRun
from ax.core.search_space import SearchSpace

Parameters = Mapping[str, Any]


def checked_context(space: SearchSpace, context: Parameters | None) -> dict[str, Any]:
    r"""The fixed parameters, of the types of the search space.

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


def replace_arms(run: GeneratorRun, change: Callable[[Parameters], Parameters]) -> None:
    r"""Change the parameters of the arms of a run that no trial has yet."""
    table: OrderedDict[str, ArmWeight] = OrderedDict()
    for old in run._arm_weight_table.values():
        parameters = dict(change(old.arm.parameters))
        arm = old.arm if parameters == old.arm.parameters else Arm(parameters)
        weight = old.weight
        if arm.signature in table:
            weight += table[arm.signature].weight
        table[arm.signature] = ArmWeight(arm=arm, weight=weight)
    run._arm_weight_table = table
