r"""Figure 3: bounds on the maximum information gain of common kernels."""

import math
from collections.abc import Sequence

import torch
from gpytorch.kernels import Kernel, LinearKernel, MaternKernel, RBFKernel
from torch import Tensor

from benchmarks.papers.srinivas_2010.tabulated import TabulatedKernel, domain
from benchmarks.runner import stream
from kernelucb import information_gain

METHODS = ("greedy", "spectral", "upper_bound")
SHOWN_EIGENVALUES = 30
# Random points of [-1, 1]^d; the length scale is that of all kernels that have any.
POINTS, DIMENSION, LENGTHSCALE, SEED = 500, 2, 0.5, 2010
NOISE_SHARE = 0.025  # noise variance as a share of the mean prior variance
SAMPLES = (1, 2, 3, 5, 7, 10, 15, 20, 30, 40, 50, 60, 70, 80, 90, 100)


def covariances(size: int = POINTS) -> dict[str, Tensor]:
    r"""Covariance of each kernel on ``size`` random points, scaled to trace ``|D|``."""
    generator = stream(SEED, "information gain")
    inputs = torch.from_numpy(generator.uniform(-1.0, 1.0, (size, DIMENSION)))
    kernels: dict[str, Kernel] = {
        "linear": LinearKernel(),
        "squared exponential": RBFKernel(),
        "Matérn 5/2": MaternKernel(nu=2.5),
    }
    tables = {"independent": torch.diag(torch.ones_like(inputs[:, 0]))}
    for name, kernel in kernels.items():
        kernel.double()
        if kernel.has_lengthscale:
            kernel.lengthscale = inputs.new_tensor(LENGTHSCALE)
        table = kernel(inputs).to_dense().detach()
        tables[name] = table * (len(table) / table.trace())
    return tables


def bound_rows(tables: dict[str, Tensor], samples: Sequence[int] = SAMPLES) -> list[dict]:
    r"""The bounds for each kernel and number of samples, nats."""
    noise_std = math.sqrt(NOISE_SHARE)
    inputs = domain(len(tables["linear"]))
    return [
        {
            "kernel": name,
            "samples": number,
            **{
                method: f"{_bound(table, inputs, noise_std, number, method):.5g}"
                for method in METHODS
            },
        }
        for name, table in tables.items()
        for number in samples
    ]


def _bound(table: Tensor, inputs: Tensor, noise_std: float, samples: int, method) -> float:
    kernel = TabulatedKernel(table)
    return information_gain(
        kernel, inputs, noise_std=noise_std, num_points=samples, method=method
    )


def largest_eigenvalues(table: Tensor) -> list[float]:
    r"""As many as a picture shows, without those of round-off."""
    values = torch.linalg.eigvalsh(table).flip(0)[:SHOWN_EIGENVALUES]
    return values[values > 1e-9 * values[0]].tolist()
