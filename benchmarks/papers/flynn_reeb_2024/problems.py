r"""Reward functions of known norm, arms and noise, all from named random streams."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import cdist

from benchmarks.papers.flynn_reeb_2024.configuration import Protocol, Setting, Task
from benchmarks.runner import stream

Array = np.ndarray


def kernel_function(kernel: str, lengthscale: float) -> Callable[[Array, Array], Array]:
    r"""The kernel as a function of ``n x d`` and ``m x d`` inputs, variance one."""

    def rbf(left: Array, right: Array) -> Array:
        return np.exp(-0.5 * cdist(left / lengthscale, right / lengthscale, "sqeuclidean"))

    def matern32(left: Array, right: Array) -> Array:
        distance = np.sqrt(3.0) * cdist(left / lengthscale, right / lengthscale)
        return (1.0 + distance) * np.exp(-distance)

    def matern52(left: Array, right: Array) -> Array:
        distance = np.sqrt(5.0) * cdist(left / lengthscale, right / lengthscale)
        return (1.0 + distance + distance**2 / 3.0) * np.exp(-distance)

    return {"rbf": rbf, "matern32": matern32, "matern52": matern52}[kernel]


@dataclass(frozen=True)
class KernelExpansion:
    r"""``f(x) = sum_i weights_i k(x, centres_i)``."""

    kernel: Callable[[Array, Array], Array]
    centres: Array
    weights: Array

    @classmethod
    def draw(
        cls,
        kernel: Callable[[Array, Array], Array],
        centres: Array,
        norm: float,
        generator: np.random.Generator,
    ) -> "KernelExpansion":
        r"""Normal weights, scaled so that the RKHS norm is exactly ``norm``."""
        weights = generator.standard_normal(len(centres))
        squared_norm = weights @ kernel(centres, centres) @ weights
        return cls(kernel, centres, weights * (norm / np.sqrt(squared_norm)))

    def __call__(self, points: Array) -> Array:
        return self.kernel(points, self.centres) @ self.weights


def reward_function(
    protocol: Protocol, setting: Setting, repetition: int
) -> KernelExpansion:
    r"""The reward function of a repetition, the same for all methods."""
    generator = stream(protocol.seed, "reward", setting.problem, repetition)
    centres = generator.random((protocol.num_centres, setting.dimension))
    kernel = kernel_function(setting.kernel, setting.lengthscale)
    return KernelExpansion.draw(kernel, centres, protocol.norm, generator)


def arm_sets(task: Task) -> Iterator[Array]:
    r"""The arms offered in each round, the same for all methods."""
    protocol, setting = task.protocol, task.setting
    generator = stream(protocol.seed, "arms", setting.problem, task.repetition)
    for _ in range(task.rounds):
        yield generator.random((protocol.num_arms, setting.dimension))


def own_stream(task: Task) -> np.random.Generator:
    r"""Noise and random choices of one method in one repetition."""
    names = ("own", task.setting.problem, task.method.name, task.repetition)
    return stream(task.protocol.seed, *names)
