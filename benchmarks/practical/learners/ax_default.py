r"""Ax's own default way of choosing trials, asked for one after the other."""

import logging
import warnings
from typing import Any

import torch
from botorch.acquisition import AcquisitionFunction
from torch import Tensor

from benchmarks.practical.learners.base import Learner
from benchmarks.practical.model import LeanGP
from benchmarks.practical.problems import Environment

_OBJECTIVE = "value"


class AxDefault(Learner):
    r"""The default generation strategy of ``ax.api.client.Client``, on continuous domains.

    Ax fits models of its own; the benchmark's model only recommends. Random starts and
    outcomes are attached as trials, and the seed follows from the run's.
    """

    def __init__(self) -> None:
        self.client: Any = None
        self.waiting: list[int] = []
        self.known = 0

    def select(self, model: LeanGP, environment: Environment, count: int) -> Tensor:
        inputs, targets = model.train_inputs[0], model.train_targets[:, None]
        outcomes = model.outcome_transform.untransform(targets)[0][:, 0]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Ax's and pandas' remarks on Ax's code
            self.client = self.client or _client(inputs.shape[-1])
            self._tell(inputs, outcomes)
            trials = self.client.get_next_trials(max_trials=count)
        self.waiting = list(trials)
        names = _names(inputs.shape[-1])
        rows = [[trial[name] for name in names] for trial in trials.values()]
        return torch.tensor(rows, dtype=inputs.dtype)

    def acquisition(self, model: LeanGP) -> AcquisitionFunction:
        raise NotImplementedError("Ax makes its acquisition functions itself.")

    def _tell(self, inputs: Tensor, outcomes: Tensor) -> None:
        r"""Attach what has been evaluated since the last call."""
        names, new = _names(inputs.shape[-1]), slice(self.known, None)
        for point, outcome in zip(inputs[new], outcomes[new], strict=True):
            if self.waiting:
                index = self.waiting.pop(0)
            else:
                values = dict(zip(names, point.tolist(), strict=True))
                index = self.client.attach_trial(values)
            self.client.complete_trial(index, {_OBJECTIVE: float(outcome)})
        self.known = len(inputs)


def _names(dimension: int) -> list[str]:
    return [f"x{number}" for number in range(dimension)]


def _client(dimension: int) -> Any:
    from ax.api.client import Client
    from ax.api.configs import RangeParameterConfig
    from ax.utils.common.logger import set_stderr_log_level

    set_stderr_log_level(logging.WARNING)  # it remarks on every trial
    cube = [
        RangeParameterConfig(name=name, parameter_type="float", bounds=(0.0, 1.0))
        for name in _names(dimension)
    ]
    client = Client(random_seed=int(torch.randint(2**31, ())))
    client.configure_experiment(parameters=cube, name="practical")
    client.configure_optimization(objective=_OBJECTIVE)
    return client
