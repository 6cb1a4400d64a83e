r"""What an experiment consists of, read from ``config.toml``."""

import tomllib
from dataclasses import dataclass
from itertools import product
from pathlib import Path, PurePath
from typing import ClassVar

from benchmarks import runner

HERE = Path(__file__).parent

_SMOOTHNESS = {"rbf": None, "matern32": 1.5, "matern52": 2.5}


@dataclass(frozen=True)
class Protocol:
    r"""What all runs have in common."""

    norm: float
    noise_std: float
    num_centres: int
    num_arms: int
    rounds: int
    repetitions: int
    delta: float
    seed: int


@dataclass(frozen=True)
class Setting:
    r"""One problem, and what the learners believe about it.

    Attributes:
        kernel: ``"rbf"``, ``"matern52"`` or ``"matern32"``.
        lengthscale: Length scale of the kernel.
        dimension: Number of columns of an arm.
        norm_factor: Norm bound given to the learners, in multiples of the true norm.
        noise_factor: Noise scale given to the learners, in multiples of the true one.
    """

    kernel: str
    lengthscale: float
    dimension: int
    norm_factor: float = 1.0
    noise_factor: float = 1.0

    @property
    def smoothness(self) -> float | None:
        r"""The Matern kernel's ``nu``; None for the RBF kernel."""
        return _SMOOTHNESS[self.kernel]

    @property
    def problem(self) -> str:
        r"""Name of the problem; settings that differ in beliefs only share it."""
        return f"{self.kernel}_{self.lengthscale:g}_d{self.dimension}"

    @property
    def name(self) -> str:
        r"""Name of the setting, a legal file name."""
        norm = "" if self.norm_factor == 1.0 else f"_norm{self.norm_factor:g}x"
        noise = "" if self.noise_factor == 1.0 else f"_noise{self.noise_factor:g}x"
        return self.problem + noise + norm

    def covariance_scale(self, horizon: int) -> float:
        r"""The paper's ``c``: 1 (RBF) or ``horizon^(-d / (2 d + 2 nu))`` (Matern)."""
        if self.smoothness is None:
            return 1.0
        exponent = self.dimension / (2 * self.dimension + 2 * self.smoothness)
        return horizon**-exponent


@dataclass(frozen=True)
class Method:
    r"""A learner; ``bound`` is None for the one that plays at random."""

    name: str
    label: str
    bound: str | None = None
    covariance_scale: str | None = None


@dataclass(frozen=True)
class Task(runner.Task):
    r"""One run: everything that its result depends on."""

    cosmetic: ClassVar = frozenset({"label", "repetitions"})

    protocol: Protocol
    setting: Setting
    method: Method
    repetition: int
    rounds: int

    @property
    def location(self) -> PurePath:
        r"""One folder for each method in each setting."""
        file = f"{self.rounds}-rounds-repetition-{self.repetition:03d}.json"
        return PurePath(self.setting.name, self.method.name, file)


@dataclass(frozen=True)
class Experiment:
    r"""The runs of a table or figure: every method in every setting."""

    settings: tuple[Setting, ...]
    methods: tuple[Method, ...]
    repetitions: int


@dataclass(frozen=True)
class Configuration:
    r"""The whole of ``config.toml``."""

    protocol: Protocol
    methods: dict[str, Method]
    experiments: dict[str, Experiment]
    figure1: dict
    figure4: dict


def load_configuration(path: Path = HERE / "config.toml") -> Configuration:
    r"""Read the settings, methods and experiments."""
    raw = tomllib.loads(path.read_text(encoding="utf-8"))
    protocol = Protocol(**raw["protocol"])
    methods = {name: Method(name, **values) for name, values in raw["methods"].items()}
    experiments = {
        name: Experiment(
            _settings(experiment, raw["kernels"]),
            tuple(methods[method] for method in experiment.get("methods", methods)),
            experiment.get("repetitions", protocol.repetitions),
        )
        for name, experiment in raw["experiments"].items()
    }
    return Configuration(protocol, methods, experiments, raw["figure1"], raw["figure4"])


def _settings(experiment: dict, kernels: dict) -> tuple[Setting, ...]:
    r"""The settings of an experiment, in the order of the table's columns."""
    names = [experiment["kernel"]] if "kernel" in experiment else kernels["names"]
    lengths = (
        [experiment["lengthscale"]]
        if "lengthscale" in experiment
        else kernels["lengthscales"]
    )
    grid = product(
        names,
        lengths,
        experiment.get("norm_factors", [1.0]),
        experiment.get("noise_factors", [1.0]),
    )
    return tuple(
        Setting(kernel, length, experiment["dimension"], norm, noise)
        for kernel, length, norm, noise in grid
    )
