r"""What is compared on, read from ``config.toml``."""

import math
from dataclasses import dataclass
from itertools import product
from pathlib import PurePath

from benchmarks import runner
from benchmarks.filters.branin import Branin


@dataclass(frozen=True)
class Protocol:
    r"""What all problems have in common."""

    num_centres: int
    norms: tuple[float, ...]
    norm_factor: float
    length_factor: float
    delta: float
    queries: int
    seed: int


@dataclass(frozen=True)
class Setting:
    r"""A kernel, and how much of what data there are."""

    kernel: str
    dimension: int
    observations: int
    noise_std: float

    @property
    def name(self) -> str:
        r"""A legal file name."""
        noise = f"noise_{self.noise_std:g}"
        return f"{self.kernel}_d{self.dimension}_n{self.observations}_{noise}"


@dataclass(frozen=True)
class Task(runner.Task):
    r"""One function of a setting, and its data."""

    protocol: Protocol
    setting: Setting
    function: int

    @property
    def location(self) -> PurePath:
        r"""One folder for each setting."""
        return PurePath(self.setting.name, f"function-{self.function:02d}.json")

    @property
    def lengthscale(self) -> float:
        r"""Of the kernel, the same in every direction."""
        return self.protocol.length_factor * math.sqrt(self.setting.dimension)

    @property
    def norm(self) -> float:
        r"""Norm of the function."""
        norms = self.protocol.norms
        return norms[self.function % len(norms)]


@dataclass(frozen=True)
class Width:
    r"""Every setting of a grid."""

    kernels: tuple[str, ...]
    dimensions: tuple[int, ...]
    observations: tuple[int, ...]
    noise_stds: tuple[float, ...]
    functions: int

    @property
    def settings(self) -> list[Setting]:
        r"""Few observations first."""
        grid = product(self.observations, self.kernels, self.dimensions, self.noise_stds)
        return [Setting(kernel, d, n, noise) for n, kernel, d, noise in grid]


@dataclass(frozen=True)
class Lengths(Width):
    r"""A grid for each of several length scales.

    Attributes:
        length_factors: Each in place of the protocol's.
    """

    length_factors: tuple[float, ...]


@dataclass(frozen=True)
class Calibrated:
    r"""Settings with fixed inputs, whose noise is simulated."""

    settings: tuple[Setting, ...]
    functions: int
    simulations: int


@dataclass(frozen=True)
class Weights:
    r"""Settings in which better weights are looked for."""

    settings: tuple[Setting, ...]
    functions: int
    steps: int
    points: int


@dataclass(frozen=True)
class Configuration:
    r"""The whole of ``config.toml``."""

    protocol: Protocol
    width: Width
    lengths: Lengths
    calibrated: Calibrated
    weights: Weights
    branin: Branin
