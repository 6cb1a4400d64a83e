r"""Functions to replay a search on: draws of priors, and processes with drawn constants.

Each is in the unit square. The constants of a process are drawn around ordinary values, as
an engineer would believe of an unmeasured system; none is fitted.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from botorch.models import SingleTaskGP
from botorch.models.utils.gpytorch_modules import (
    MIN_INFERRED_NOISE_LEVEL,
    get_gaussian_likelihood_with_lognormal_prior,
)
from gpytorch.constraints import GreaterThan
from gpytorch.kernels import MaternKernel
from gpytorch.likelihoods import GaussianLikelihood
from gpytorch.priors import GammaPrior
from torch import Tensor

from kernelucb.calibration import PriorDraws, Simulator
from kernelucb.calibration.policy import Functions

_GAS = 8.314  # J / (mol K)
REACTION_NOISE = 2.0  # % yield, standard deviation


def matern(X: Tensor, Y: Tensor, **options: Any) -> SingleTaskGP:
    r"""Matern 5/2: lengthscale prior of BoTorch before 0.12, noise prior of today."""
    kernel = MaternKernel(2.5, ard_num_dims=X.shape[1], lengthscale_prior=GammaPrior(3, 6))
    likelihood = get_gaussian_likelihood_with_lognormal_prior()
    return SingleTaskGP(X, Y, likelihood=likelihood, covar_module=kernel, **options)


def baybe(X: Tensor, Y: Tensor, **options: Any) -> SingleTaskGP:
    r"""Kernel and priors of BayBE 0.15.0's default for numerical inputs."""
    columns = X.shape[1]
    most_likely = math.exp(math.sqrt(2.0) - 3.0) * math.sqrt(columns)
    lengths, noise = GammaPrior(3.0, 2.0 / most_likely), GammaPrior(2.0, math.exp(5.0))
    kernel = MaternKernel(
        ard_num_dims=columns,
        lengthscale_prior=lengths,
        lengthscale_constraint=_above(2.5e-2, most_likely),
    )
    least = _above(MIN_INFERRED_NOISE_LEVEL, math.exp(-5.0))
    likelihood = GaussianLikelihood(noise_prior=noise, noise_constraint=least)
    return SingleTaskGP(X, Y, likelihood=likelihood, covar_module=kernel, **options)


def _above(least: float, first: float) -> GreaterThan:
    return GreaterThan(least, transform=None, initial_value=first)


def batch_reaction(generator: torch.Generator) -> tuple[Callable[[Tensor], Tensor], float]:
    r"""Yield (%) of B in A -> B -> C by temperature and time (log); four constants drawn.

    Rates at 350 K within a factor of 1.6 and 2, energies within 8 and 10 kJ/mol (standard
    deviations); 310 to 390 K, 0.2 to 20 h.
    """
    z = torch.randn(4, generator=generator).double()
    rates = 0.35 * math.exp(0.5 * z[0]), 0.04 * math.exp(0.7 * z[1])
    energies = 7e4 + 8e3 * z[2], 1.05e5 + 1e4 * z[3]

    def function(X: Tensor) -> Tensor:
        T, t = 310.0 + 80.0 * X[:, 0], 0.2 * 100.0 ** X[:, 1]
        colder = (1.0 / T - 1.0 / 350.0) / _GAS
        k1, k2 = (k * (-e * colder).exp() for k, e in zip(rates, energies, strict=True))
        k2 = torch.where((k1 - k2).abs() < 1e-9 * k1, k2 * (1.0 + 1e-6), k2)
        return 100.0 * k1 / (k2 - k1) * ((-k1 * t).exp() - (-k2 * t).exp())

    return function, REACTION_NOISE


def column(generator: torch.Generator) -> tuple[Callable[[Tensor], Tensor], float]:
    r"""Resolution less cost of time of a chromatography column; five constants drawn.

    By flow (0.2 to 3 ml/min, log) and share of the strong solvent (0.1 to 0.6). Drawn are
    the three terms of van Deemter's equation within a factor of 1.3, the retention within
    1.5 and the selectivity within a third of its excess over 1.
    """
    z = torch.randn(5, generator=generator).double()
    eddy, along, transfer = (
        middle * math.exp(0.3 * each)
        for middle, each in zip((3.6, 9.0, 0.4), z[:3], strict=True)
    )
    retention, excess = 12.0 * math.exp(0.4 * z[3]), 0.08 * math.exp(0.3 * z[4])

    def function(X: Tensor) -> Tensor:
        flow, share = 0.2 * 15.0 ** X[:, 0], 0.1 + 0.5 * X[:, 1]
        plates = 1e5 / (eddy + along / flow + transfer * flow)
        kept = retention * (-6.0 * share).exp()
        ratio = 1.0 + excess * (1.0 + (-(((share - 0.35) / 0.15) ** 2)).exp())
        resolution = plates.sqrt() / 4.0 * (ratio - 1.0) * kept / (1.0 + kept)
        time = 10.0 / flow * (1.0 + kept)  # minutes
        return 3.0 * (resolution / 3.0).tanh() - 0.012 * time

    return function, 0.05


class Family(NamedTuple):
    r"""Functions, and the level of claims about a level set, fixed before any replay."""

    functions: Functions
    level: float


def _draws(build: Callable[..., SingleTaskGP]) -> PriorDraws:
    return PriorDraws(2, partial(build, outcome_transform=None))


FAMILIES = {
    "prior of BoTorch": Family(PriorDraws(2), 0.5),
    "Matern prior": Family(_draws(matern), 0.5),
    "prior of BayBE": Family(_draws(baybe), 0.5),
    "reaction": Family(Simulator(batch_reaction), 60.0),
    "column": Family(Simulator(column), 1.2),
}
