r"""Functions of known norm, arms and noise, all from named random streams."""

import numpy as np
from gpytorch.kernels import Kernel

from benchmarks.papers.durand_2018.configuration import BanditTask, Protocol, StreamTask
from benchmarks.papers.flynn_reeb_2024.problems import KernelExpansion, kernel_function
from benchmarks.runner import fixed_kernel, stream


def true_function(protocol: Protocol, repetition: int) -> KernelExpansion:
    r"""The function of a repetition: the same for streams and all bandits.

    A random Gaussian-kernel expansion of exactly the paper's norm; the paper's own random
    function is not published.
    """
    generator = stream(protocol.seed, "function", repetition)
    centres = generator.random((protocol.num_centres, 1))
    kernel = kernel_function("rbf", protocol.lengthscale)
    return KernelExpansion.draw(kernel, centres, protocol.norm, generator)


def uniform_stream(task: StreamTask) -> tuple[np.ndarray, np.ndarray]:
    r"""Uniform inputs ``n x 1`` and outcomes ``n``; fewer rounds are the first of more."""
    protocol, size = task.protocol, task.stream.rounds
    inputs = stream(protocol.seed, "inputs", task.repetition).random((size, 1))
    noise = stream(protocol.seed, "noise", task.repetition).standard_normal(size)
    function = true_function(protocol, task.repetition)
    return inputs, function(inputs) + protocol.noise_std * noise


def arm_grid(protocol: Protocol) -> np.ndarray:
    r"""The arms, ``num_arms x 1``."""
    return np.linspace(0.0, 1.0, protocol.num_arms)[:, None]


def own_stream(task: BanditTask) -> np.random.Generator:
    r"""Noise and random choices of one method in one repetition."""
    return stream(task.protocol.seed, "own", task.method.name, task.repetition)


def covar_module(protocol: Protocol) -> Kernel:
    r"""The Gaussian kernel in GPyTorch, double precision, fixed."""
    return fixed_kernel("rbf", protocol.lengthscale)
