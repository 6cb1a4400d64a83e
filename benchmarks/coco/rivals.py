r"""Optimisers of other packages, with their defaults, on the unit cube.

They fit models of their own; the benchmark's model only recommends. What has been
evaluated before the first call, the random starts, is handed to them first. Their seeds
follow from the run's.
"""

import logging
import tempfile
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from benchmarks.practical.learners import Chooser
from benchmarks.practical.model import LeanGP
from benchmarks.practical.problems import Environment

Point = dict[str, float]  # inputs by name
_TRIALS = 1000  # more than a run has


class Rival(ABC):
    r"""A chooser that hands new outcomes on and asks for a point."""

    def __init__(self) -> None:
        self.seen = 0

    def __call__(self, model: LeanGP, environment: Environment, count: int) -> Tensor:
        inputs, targets = model.train_inputs[0], model.train_targets[:, None]
        outcomes = model.outcome_transform.untransform(targets)[0][:, 0].tolist()
        names = [f"x{number}" for number in range(inputs.shape[-1])]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # remarks of the packages on their own code
            if not self.seen:
                noisy = environment.task.noise_std > 0.0
                self.start(names, int(torch.randint(2**31, ())), len(inputs), noisy)
            for number in range(self.seen, len(inputs)):
                point = dict(zip(names, inputs[number].tolist(), strict=True))
                self.tell(point, outcomes[number])
            self.seen = len(inputs)
            point = self.ask()
        return torch.tensor([[point[name] for name in names]], dtype=inputs.dtype)

    @abstractmethod
    def start(self, names: list[str], seed: int, starts: int, noisy: bool) -> None:
        r"""Inputs in [0, 1], before the first of ``starts`` outcomes is told."""

    @abstractmethod
    def tell(self, point: Point, outcome: float) -> None:
        r"""A large outcome is a good one."""

    @abstractmethod
    def ask(self) -> Point:
        r"""The next point; its outcome is told before it is asked again."""


class _Optuna(Rival):
    r"""Optuna's ``GPSampler``, from the first point after the starts on."""

    def start(self, names: list[str], seed: int, starts: int, noisy: bool) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self.create, side = optuna.create_trial, optuna.distributions.FloatDistribution
        self.sides = dict.fromkeys(names, side(0.0, 1.0))
        sampler = optuna.samplers.GPSampler(seed=seed, n_startup_trials=starts)
        self.study = optuna.create_study(direction="maximize", sampler=sampler)
        self.asked: Any = None

    def tell(self, point: Point, outcome: float) -> None:
        if self.asked is None:
            told = self.create(params=point, distributions=self.sides, value=outcome)
            self.study.add_trial(told)
        else:
            self.study.tell(self.asked, outcome)

    def ask(self) -> Point:
        self.asked = self.study.ask(self.sides)
        return self.asked.params


class _Smac(Rival):
    r"""SMAC's facade for continuous inputs, which knows whether there is noise."""

    def start(self, names: list[str], seed: int, starts: int, noisy: bool) -> None:
        from ConfigSpace import Configuration, ConfigurationSpace
        from smac import BlackBoxFacade, Scenario
        from smac.runhistory import TrialInfo, TrialValue

        self.value, self.asked = TrialValue, None
        space = ConfigurationSpace({name: (0.0, 1.0) for name in names}, seed=seed)
        self.info: Callable[[Point], Any] = lambda point: TrialInfo(
            Configuration(space, point), seed=0
        )
        self.folder = tempfile.TemporaryDirectory()
        scenario = Scenario(
            space,
            output_directory=self.folder.name,
            deterministic=not noisy,
            n_trials=_TRIALS,
            seed=seed,
        )
        self.facade = BlackBoxFacade(
            scenario,
            lambda config, seed: 0.0,  # never called
            initial_design=BlackBoxFacade.get_initial_design(scenario, n_configs=0),
            logging_level=logging.ERROR,
        )

    def tell(self, point: Point, outcome: float) -> None:
        info = self.info(point) if self.asked is None else self.asked
        self.facade.tell(info, self.value(cost=-outcome), save=False)

    def ask(self) -> Point:
        self.asked = self.facade.ask()
        return dict(self.asked.config)


class _Vizier(Rival):
    r"""Vizier's GP-UCB-PE."""

    def start(self, names: list[str], seed: int, starts: int, noisy: bool) -> None:
        import jax
        from vizier import algorithms, pyvizier
        from vizier._src.algorithms.designers.gp_ucb_pe import VizierGPUCBPEBandit

        self.kinds, self.told = (algorithms, pyvizier), 0
        problem = pyvizier.ProblemStatement()
        for name in names:
            problem.search_space.root.add_float_param(name, 0.0, 1.0)
        gain = pyvizier.ObjectiveMetricGoal.MAXIMIZE
        problem.metric_information.append(pyvizier.MetricInformation("value", goal=gain))
        self.designer = VizierGPUCBPEBandit(problem, rng=jax.random.PRNGKey(seed))

    def tell(self, point: Point, outcome: float) -> None:
        algorithms, pyvizier = self.kinds
        self.told += 1
        trial = pyvizier.Trial(id=self.told, parameters=point)
        trial.complete(pyvizier.Measurement(metrics={"value": outcome}))
        done = algorithms.CompletedTrials([trial])
        self.designer.update(done, algorithms.ActiveTrials())

    def ask(self) -> Point:
        (found,) = self.designer.suggest(1)
        return {name: float(each.value) for name, each in found.parameters.items()}


# A method's label, and what makes its chooser.
RIVALS: dict[str, tuple[str, Callable[[], Chooser]]] = {
    "optuna_gp": ("Optuna's GPSampler", _Optuna),
    "smac": ("SMAC's black-box facade", _Smac),
    "vizier": ("Vizier's GP-UCB-PE", _Vizier),
}
_PACKAGES = {"optuna_gp": "optuna", "smac": "smac", "vizier": "vizier"}
INSTALLED = [name for name, module in _PACKAGES.items() if find_spec(module)]
