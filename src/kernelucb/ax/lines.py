r"""Points of a search space, and outcomes, along one parameter."""

from collections.abc import Mapping
from typing import Any

import pandas as pd
import torch
from ax.core.experiment import Experiment
from ax.core.parameter import RangeParameter
from ax.core.search_space import SearchSpace
from ax.core.trial_status import TrialStatus

from kernelucb.ax.spaces import values_of


def observed_along(
    experiment: Experiment, metric: str, name: str, others: Mapping[str, Any]
) -> pd.DataFrame:
    r"""Outcomes of completed trials by their value of a parameter.

    Columns are that of the parameter, ``arm``, ``mean``, ``sem`` and ``here``: whether the
    ``others`` are those of the arm.
    """
    data: Any = experiment.lookup_data().df
    kept = {trial.index for trial in experiment.trials_by_status[TrialStatus.COMPLETED]}
    rows = [
        (arm.parameters[name], arm.name, row["mean"], row["sem"], others.items() <= own)
        for _, row in data[data["metric_name"] == metric].iterrows()
        if row["trial_index"] in kept
        for arm in [experiment.arms_by_name[row["arm_name"]]]
        for own in [arm.parameters.items()]
    ]
    return pd.DataFrame(rows, columns=[name, "arm", "mean", "sem", "here"])


def values_along(
    space: SearchSpace, centre: Mapping[str, Any], name: str, num_points: int
) -> tuple[list[dict[str, Any]], bool]:
    r"""Points through one, along a parameter, and whether these are all of its values.

    Points outside the search space, by its parameter constraints, are left out.

    Raises:
        ValueError: If there is no such parameter, or it has one value only.
    """
    parameter = space.parameters.get(name)
    if parameter is None:
        raise ValueError(f"No parameter {name!r}; there are {[*space.parameters]}.")
    values, discrete = values_of(parameter), True
    if values is None:
        if not isinstance(parameter, RangeParameter):
            raise ValueError(f"The parameter {name!r} is computed from others.")
        low, high = float(parameter.lower), float(parameter.upper)
        shares = torch.linspace(0.0, 1.0, num_points, dtype=torch.float64)[1:-1]
        if parameter.log_scale:
            between = low * (high / low) ** shares
        else:
            between = low + (high - low) * shares
        values, discrete = [low, *between.tolist(), high], False
    if len(values) < 2:
        raise ValueError(f"The parameter {name!r} has one value only.")
    points = [{**centre, name: value} for value in values]
    return [point for point in points if space.check_membership(point)], discrete
