r"""Functions of known norm on a finite set of arms, and noise; all from named streams."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from gpytorch.kernels import Kernel
from scipy.integrate import quad
from torch import Tensor

from benchmarks.runner import fixed_kernel, rkhs_norm, stream
from benchmarks.unknown_kernel.settings import Family, Protocol, Setting

# Least distance of the two hills' centres, of the largest in the unit cube.
_APART = 0.4


@dataclass(frozen=True)
class Problem:
    r"""A function on arms, and what learners are told.

    Attributes:
        kernel: That the norm is known under; only the oracle is told.
        kernel_name: As ``fixed_kernel`` takes it.
        norm_bound: Under that kernel.
        family: What the others are told about the length scale.
        noise_std: Noise scale.
        delta: Failure probability.
        arms: ``n x d`` points of the unit cube.
        function: From ``b x d`` points to ``b`` values.
    """

    kernel: Kernel
    kernel_name: str
    norm_bound: float
    family: Family
    noise_std: float
    delta: float
    arms: Tensor
    function: Callable[[Tensor], Tensor]

    @cached_property
    def values(self) -> Tensor:
        r"""The function on the arms, ``n``."""
        return self.function(self.arms)

    @property
    def dimension(self) -> int:
        r"""Number of inputs."""
        return self.arms.shape[-1]

    @property
    def optimum(self) -> float:
        r"""Largest value on the arms."""
        return float(self.values.max())

    @classmethod
    def draw(cls, protocol: Protocol, setting: Setting, seed: int) -> "Problem":
        r"""The problem of a seed, the same for all methods."""
        names = setting.name, seed
        kernel = fixed_kernel(setting.kernel, setting.lengthscale)
        drawn = stream(protocol.seed, "arms", *names)
        arms = torch.from_numpy(drawn.random((protocol.arms, setting.dimension)))
        function = stream(protocol.seed, "function", *names)
        make = {"random": _random_function, "spike": _spike}[setting.function]
        unscaled, norm = make(protocol, setting, kernel, arms, function)
        return cls(
            kernel,
            setting.kernel,
            protocol.norm_factor * setting.norm,
            setting.family,
            protocol.noise_std,
            protocol.delta,
            arms,
            lambda X: unscaled(X) * (setting.norm / norm),
        )


def start_arms(protocol: Protocol, setting: Setting, seed: int) -> list[int]:
    r"""Indices of the arms that are played first."""
    drawn = stream(protocol.seed, "starts", setting.name, seed)
    return drawn.integers(protocol.arms, size=protocol.starts).tolist()


def noise_of(protocol: Protocol, setting: Setting, seed: int) -> np.ndarray:
    r"""The noise of every round, the same for all methods."""
    drawn = stream(protocol.seed, "noise", setting.name, seed)
    rounds = protocol.starts + protocol.rounds
    return protocol.noise_std * drawn.standard_normal(rounds)


def _random_function(
    protocol: Protocol,
    setting: Setting,
    kernel: Kernel,
    arms: Tensor,
    random: np.random.Generator,
) -> tuple[Callable[[Tensor], Tensor], float]:
    r"""An expansion with uniform centres and normal weights, and its norm."""
    centres = torch.from_numpy(random.random((protocol.centres, setting.dimension)))
    weights = torch.from_numpy(random.standard_normal(protocol.centres))
    norm = float(rkhs_norm(kernel, centres, weights))
    return lambda X: kernel(X, centres).to_dense() @ weights, norm


def _spike(
    protocol: Protocol,
    setting: Setting,
    kernel: Kernel,
    arms: Tensor,
    random: np.random.Generator,
) -> tuple[Callable[[Tensor], Tensor], float]:
    r"""A wide hill of height 1 and a narrow one of height 2 on an arm, and their norm.

    By the reproducing property their inner product under the narrow kernel is the wide
    one's value at the centre of the narrow one.
    """
    wide_kernel = fixed_kernel(setting.kernel, setting.family.longest)
    least = _APART * math.sqrt(setting.dimension)
    while True:
        pair = arms[torch.from_numpy(random.integers(protocol.arms, size=2))]
        if float((pair[0] - pair[1]).norm()) >= least:
            break
    wide, narrow = pair[:1], pair[1:]

    def function(X: Tensor) -> Tensor:
        low, high = wide_kernel(X, wide).to_dense(), kernel(X, narrow).to_dense()
        return (low + 2.0 * high).squeeze(-1)

    between = float(wide_kernel(wide, narrow).to_dense())
    squared = squared_section_norm(setting, setting.family.longest) + 4.0 * between + 4.0
    return function, math.sqrt(squared)


def squared_section_norm(setting: Setting, longer: float) -> float:
    r"""Squared norm, under the setting's kernel, of a section of one with a longer scale.

    The integral of the squared spectral density of the longer over that of the shorter.
    """
    d, short = setting.dimension, setting.lengthscale

    def log_density(frequency: float, length: float) -> float:
        squared = (length * frequency) ** 2
        if setting.kernel == "rbf":
            return d * math.log(length) - 0.5 * squared
        return d * math.log(length) - (2.5 + 0.5 * d) * math.log1p(squared / 5.0)

    def integral(power: int) -> float:
        def integrand(frequency: float) -> float:
            long = power * log_density(frequency, longer)
            log_value = long - (power - 1) * log_density(frequency, short)
            return frequency ** (d - 1) * math.exp(log_value)

        return quad(integrand, 0.0, math.inf)[0]

    return integral(2) / integral(1)
