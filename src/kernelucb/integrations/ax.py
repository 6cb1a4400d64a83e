r"""Ax without its modular BoTorch models: an ``ExternalGenerationNode``, and claims.

``kernelucb.ax`` has the whole of it inside Ax's own models: constraints, contexts, saving.
"""

import math
from typing import Any

import torch
from botorch.exceptions import UnsupportedError
from botorch.optim import optimize_acqf

from kernelucb.integrations.core import History, Settings, unit_cube

try:
    from ax.core.data import Data
    from ax.core.experiment import Experiment
    from ax.core.parameter import ParameterType, RangeParameter
    from ax.core.search_space import SearchSpace
    from ax.generation_strategy.external_generation_node import ExternalGenerationNode
except ImportError as error:  # pragma: no cover
    raise ImportError("This adapter needs Ax: pip install 'kernelucb[ax]'.") from error

NumericalParameters = dict[str, Any]


class BandGenerationNode(ExternalGenerationNode):
    r"""Trials at the largest upper confidence bound of a history and its settings.

    The first ``initial`` trials are a scrambled Sobol sequence. Pending trials enter the
    band as points under evaluation. For one objective and float parameters, linear or on a
    logarithmic scale, without constraints on parameters or outcomes. Ax cannot save an
    external node; ``kernelucb.ax.generation_strategy`` can be saved.

    Example:
        >>> node = BandGenerationNode(Settings(norm_bound=20.0, noise_std=1.0))
        >>> client.set_generation_strategy(GenerationStrategy(nodes=[node]))

    Args:
        settings: Numbers for inputs in the unit cube; log-scaled ones after the logarithm.
        initial: Trials before the band is used, at least 1.
        seed: Of the Sobol sequence.
    """

    def __init__(self, settings: Settings, initial: int = 5, seed: int = 0) -> None:
        super().__init__(name="BandGenerationNode")
        self.settings, self.initial, self.seed = settings, initial, seed
        self._experiment: Any = None
        self._data: Any = None

    def update_generator_state(self, experiment: Experiment, data: Data) -> None:
        r"""Take the completed trials."""
        _check(experiment)
        self._experiment, self._data = experiment, data

    def get_next_candidate(
        self, pending_parameters: list[NumericalParameters]
    ) -> NumericalParameters:
        r"""Parameters of the next trial."""
        space = self._experiment.search_space
        pending = _unit(space, pending_parameters)
        done = 0 if self._data.df.empty else len(self._data.df["arm_name"].unique())
        if done == 0 or done + len(pending) < self.initial:
            sobol = torch.quasirandom.SobolEngine(len(space.parameters), True, self.seed)
            drawn = sobol.draw(done + len(pending) + 1, dtype=torch.float64)
            return _parameters(space, drawn[-1].tolist())
        history = experiment_history(self._experiment, self._data)
        band = history.band(self.settings)
        band.set_X_pending(pending if len(pending) else None)
        found, _ = optimize_acqf(band, history.box, 1, num_restarts=8, raw_samples=256)
        return _parameters(space, found[0].tolist())


def experiment_history(experiment: Experiment, data: Data | None = None) -> History:
    r"""The outcomes of an experiment's objective, for ``History.gap`` and ``report``.

    Raises:
        UnsupportedError: If a parameter is no float range, if there are constraints, or not
            one objective.
    """
    metric = _check(experiment)
    frame: Any = (experiment.lookup_data() if data is None else data).df
    frame = frame[frame["metric_name"] == metric]
    arms = experiment.arms_by_name
    X = _unit(experiment.search_space, [arms[n].parameters for n in frame["arm_name"]])
    Y = torch.tensor(frame["mean"].to_numpy(), dtype=torch.float64)
    config: Any = experiment.optimization_config
    names = tuple(experiment.search_space.parameters)
    return History(X, Y, not config.objective.minimize, names)


def _check(experiment: Experiment) -> str:
    r"""The metric of the objective, if the experiment is of the kind that is taken."""
    space, config = experiment.search_space, experiment.optimization_config
    floats = all(
        isinstance(each, RangeParameter) and each.parameter_type == ParameterType.FLOAT
        for each in space.parameters.values()
    )
    objective: Any = config and config.objective
    several = objective is not None and not objective.is_single_objective
    limits = space.parameter_constraints or (config and config.outcome_constraints)
    if objective is None or several or not floats or limits:
        raise UnsupportedError(
            "A history takes float range parameters and one objective, no constraints; "
            "kernelucb.ax.generation_strategy takes the others."
        )
    return objective.metric_names[0]


def _unit(space: SearchSpace, rows: list[Any]) -> torch.Tensor:
    r"""``n x d`` parameters in the unit cube."""
    own = space.parameters
    values = [[_scaled(own[name], row[name]) for name in own] for row in rows]
    shape = len(rows), len(own)
    ends = zip(*map(_ends, own.values()), strict=True)
    return unit_cube(torch.tensor(values).double().reshape(shape), *ends)


def _parameters(space: SearchSpace, point: list[float]) -> NumericalParameters:
    found = {}
    for (name, own), share in zip(space.parameters.items(), point, strict=True):
        low, high = _ends(own)
        value = low + share * (high - low)
        found[name] = math.exp(value) if getattr(own, "log_scale", False) else value
    return found


def _ends(parameter: Any) -> tuple[float, float]:
    return _scaled(parameter, parameter.lower), _scaled(parameter, parameter.upper)


def _scaled(parameter: Any, value: Any) -> float:
    return math.log(value) if parameter.log_scale else float(value)
