r"""The methods of the comparison: BoTorch's, Ax's, and those of this package.

A method makes, for each run, what chooses the next points from the model of all
observations so far, the problem, and the number of points; it may carry state along.
"""

import logging
import warnings
from collections.abc import Callable
from typing import Any

import torch
from botorch import acquisition
from botorch.acquisition import AcquisitionFunction
from botorch.acquisition.thompson_sampling import PathwiseThompsonSampling
from botorch.sampling import SobolQMCNormalSampler
from torch import Tensor

from benchmarks.practical.model import LeanGP
from benchmarks.practical.problems import Environment
from kernelucb import GuardedAcquisition, MartingaleMixtureUCB
from kernelucb.acquisition.turns import Turn

Chooser = Callable[[LeanGP, Environment, int], Tensor]
_SAMPLES = torch.Size([128])  # quasi-random


def maximised(
    function: Callable[[LeanGP], AcquisitionFunction], **search: bool
) -> Callable[[], Chooser]:
    r"""Plays the maximiser of an acquisition function; ``search`` as for ``maximize``."""

    def choose(model: LeanGP, environment: Environment, count: int) -> Tensor:
        return environment.maximize(function(model), count, **search)

    return lambda: choose


def _ucb(beta: float) -> Callable[[], Chooser]:
    return maximised(lambda model: acquisition.UpperConfidenceBound(model, beta))


def _batch_ucb(model: LeanGP) -> AcquisitionFunction:
    sampler = SobolQMCNormalSampler(_SAMPLES)
    return acquisition.qUpperConfidenceBound(model, 2.0, sampler)


def _randomized_ucb(model: LeanGP) -> AcquisitionFunction:
    r"""IRGP-UCB of Takeno et al. (2023): a new beta from an exponential law of mean 2.

    Without the shift that its theorem adds to beta.
    """
    beta = float(torch.distributions.Exponential(0.5).sample())
    return acquisition.UpperConfidenceBound(model, beta)


def _log_ei(model: LeanGP) -> AcquisitionFunction:
    r"""Over the largest posterior mean among the evaluated points."""
    best = model.posterior(model.train_inputs[0]).mean.max()
    return acquisition.LogExpectedImprovement(model, best)


def log_nei(model: LeanGP) -> AcquisitionFunction:
    sampler = SobolQMCNormalSampler(_SAMPLES)
    return acquisition.qLogNoisyExpectedImprovement(
        model, model.train_inputs[0], sampler, prune_baseline=True
    )


def _mixture(model: LeanGP) -> AcquisitionFunction:
    return MartingaleMixtureUCB(model.plain())


def in_turns(*turns: Turn) -> Callable[[LeanGP], AcquisitionFunction]:
    return lambda model: MartingaleMixtureUCB(model.plain(), turns=turns)


def _log_nei_in_turns(model: LeanGP) -> AcquisitionFunction:
    r"""Upper bound, qLogNEI itself, mean."""
    acqf = MartingaleMixtureUCB(model.plain(), turns=("upper", "improvement", "mean"))
    return log_nei(model) if acqf.turn == "improvement" else acqf


def _thompson(model: LeanGP, environment: Environment, count: int) -> Tensor:
    r"""The maximum of a path of the posterior (random features and Matheron's rule)."""
    paths = (PathwiseThompsonSampling(model) for _ in range(count))
    return torch.cat([environment.maximize(path, 1) for path in paths])


def _random(_: LeanGP, environment: Environment, count: int) -> Tensor:
    return torch.stack([environment.random_point() for _ in range(count)])


def _guarded(every: int | None = None, **search: bool) -> Callable[[], Chooser]:
    r"""Improvement within the default band's possible maximisers."""

    def function(model: LeanGP) -> AcquisitionFunction:
        return GuardedAcquisition(log_nei(model), _mixture(model), ucb_every=every)

    return maximised(function, **search)


class _AxDefault:
    r"""The default generation strategy of ``ax.api.client.Client``, on continuous domains.

    Ax fits models of its own; the benchmark's model only recommends. Random starts and
    outcomes are attached as trials, and the seed follows from the run's.
    """

    def __init__(self) -> None:
        self.client: Any = None
        self.waiting: list[int] = []
        self.known = 0

    def __call__(self, model: LeanGP, environment: Environment, count: int) -> Tensor:
        inputs, targets = model.train_inputs[0], model.train_targets[:, None]
        outcomes = model.outcome_transform.untransform(targets)[0][:, 0]
        names = [f"x{number}" for number in range(inputs.shape[-1])]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Ax's and pandas' remarks on Ax's code
            self.client = self.client or self._client(names)
            self._tell(names, inputs, outcomes)
            trials = self.client.get_next_trials(max_trials=count)
        self.waiting = list(trials)
        rows = [[trial[name] for name in names] for trial in trials.values()]
        return torch.tensor(rows, dtype=inputs.dtype)

    def _tell(self, names: list[str], inputs: Tensor, outcomes: Tensor) -> None:
        r"""Attach what has been evaluated since the last call."""
        new = slice(self.known, None)
        for point, outcome in zip(inputs[new], outcomes[new], strict=True):
            if self.waiting:
                index = self.waiting.pop(0)
            else:
                values = dict(zip(names, point.tolist(), strict=True))
                index = self.client.attach_trial(values)
            self.client.complete_trial(index, {"value": float(outcome)})
        self.known = len(inputs)

    @staticmethod
    def _client(names: list[str]) -> Any:
        from ax.api.client import Client
        from ax.api.configs import RangeParameterConfig
        from ax.utils.common.logger import set_stderr_log_level

        set_stderr_log_level(logging.WARNING)  # it remarks on every trial
        side = {"parameter_type": "float", "bounds": (0.0, 1.0)}
        client = Client(random_seed=int(torch.randint(2**31, ())))
        cube = [RangeParameterConfig(name=name, **side) for name in names]
        client.configure_experiment(parameters=cube, name="practical")
        client.configure_optimization(objective="value")
        return client


# A method's label, and what makes its chooser.
METHODS: dict[str, tuple[str, Callable[[], Chooser]]] = {
    "ucb_02": ("UCB, beta 0.2", _ucb(0.2)),
    "ucb_2": ("UCB, beta 2", _ucb(2.0)),
    "ucb_4": ("UCB, beta 4", _ucb(4.0)),
    "log_ei": ("LogEI", maximised(_log_ei)),
    "q_log_nei": ("qLogNEI", maximised(log_nei)),
    "thompson": ("Thompson sampling", lambda: _thompson),
    "irgp_ucb": ("IRGP-UCB", maximised(_randomized_ucb)),
    "random": ("Random search", lambda: _random),
    "q_log_nei_joint": ("qLogNEI, joint batches", maximised(log_nei, joint=True)),
    "q_ucb_2": ("qUCB, beta 2", maximised(_batch_ucb)),
    "ax_default": ("Ax's default", _AxDefault),
    "guarded": ("Guarded qLogNEI", _guarded()),
    "guarded_every_4": ("Guarded qLogNEI, every fourth by U", _guarded(4)),
    "guarded_joint": ("Guarded qLogNEI, joint batches", _guarded(joint=True)),
    "mixture_ucb": ("MartingaleMixtureUCB", maximised(_mixture)),
    "two_turns": ("Upper, mean", maximised(in_turns("upper", "mean"))),
    "three_turns": (
        "Upper, improvement, mean",
        maximised(in_turns("upper", "improvement", "mean")),
    ),
    "log_nei_in_turns": ("Upper, qLogNEI, mean", maximised(_log_nei_in_turns)),
}
