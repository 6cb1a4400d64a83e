r"""What an experiment consists of, read from ``config.toml``."""

from dataclasses import dataclass
from itertools import product
from pathlib import PurePath
from typing import ClassVar

from benchmarks import runner

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
    fit: str | None = None
    form: str | None = None
    alphas: str | None = None
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

    kernels: tuple[str, ...]
    lengthscales: tuple[float, ...]
    dimension: int
    methods: tuple[Method, ...]
    repetitions: int
    norm_factors: tuple[float, ...] = (1.0,)
    noise_factors: tuple[float, ...] = (1.0,)

    @property
    def settings(self) -> list[Setting]:
        r"""In the order of the table's columns."""
        beliefs = self.norm_factors, self.noise_factors
        grid = product(self.kernels, self.lengthscales, *beliefs)
        return [Setting(k, length, self.dimension, *b) for k, length, *b in grid]


@dataclass(frozen=True)
class Figure1:
    r"""Bands around functions with a gap in the data."""

    kernel: str
    lengthscale: float
    dimension: int
    points_per_side: int
    functions: int


@dataclass(frozen=True)
class Figure4:
    r"""Times; one cone program per arm is timed after ``socp_round`` observations."""

    kernel: str
    lengthscale: float
    dimension: int
    repetitions: int
    socp_round: int
    socp_arms: int


@dataclass(frozen=True)
class Configuration:
    r"""The whole of ``config.toml``."""

    kernels: tuple[str, ...]
    lengthscales: tuple[float, ...]
    protocol: Protocol
    methods: dict[str, Method]
    experiments: dict[str, Experiment]
    figure1: Figure1
    figure4: Figure4
