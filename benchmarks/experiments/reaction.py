r"""A reaction in one of several solvents: from rate laws, not from a kernel.

``A -> P`` is wanted, ``P -> S`` and ``A -> D`` are not. All three are of first order, with
rates after Arrhenius that each solvent has its own of. Output and impurity are shares of
what was charged, 0 to 100 %. Recipes are solvent number, temperature, time.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig
from torch import Tensor

from benchmarks.runner import fixed_kernel, rkhs_norm, stream

SOLVENTS = ["water", "ethanol", "toluene"]
TEMPERATURE = (40.0, 70.0)  # degrees Celsius
HOURS = (1.0, 8.0)
LIMIT = 3.0  # most impurity, percent
NOISE_STD = (1.0, 0.3)  # of output and impurity, percent
# Of A to P, P to S, A to D: medians at 60 degrees, 1/h, and the standard deviation of
# their logarithms; means and standard deviation of the activation energies, kJ/mol.
_RATES, _RATE_SPREAD = (0.5, 0.02, 0.03), 0.5
_ENERGIES, _ENERGY_SPREAD = (60.0, 80.0, 75.0), 6.0
_GAS, _KELVIN, _REFERENCE = 8.314e-3, 273.15, 333.15  # kJ / (mol K), K
# What the certified bands are given. Length scales are in units of the unit cube, after
# the logarithm of the hours; kernels and norms were chosen on seeds from 100 on.
BELIEFS = {
    "output": {
        "kernel": "matern52",
        "lengthscale": {"temperature": 1.0, "hours": 1.0, "solvent": 2.0},
        "mean": 60.0,
        "norm_bound": 280.0,
    },
    "impurity": {
        "kernel": "matern52",
        "lengthscale": {"temperature": 2.0, "hours": 2.0, "solvent": 4.0},
        "mean": 10.0,
        "norm_bound": 500.0,
    },
}
PARAMETERS = [
    ChoiceParameterConfig(
        name="solvent", parameter_type="str", values=SOLVENTS, is_ordered=False
    ),
    RangeParameterConfig(name="temperature", parameter_type="float", bounds=TEMPERATURE),
    RangeParameterConfig(name="hours", parameter_type="float", bounds=HOURS, scaling="log"),
]


def point(parameters: dict) -> Tensor:
    r"""``1 x 3`` recipe."""
    solvent = SOLVENTS.index(parameters["solvent"])
    numbers = [solvent, parameters["temperature"], parameters["hours"]]
    return torch.tensor([numbers], dtype=torch.float64)


def named(recipe: Tensor) -> dict[str, str | float]:
    r"""Parameters of a recipe."""
    solvent, temperature, hours = recipe.tolist()
    return {"solvent": SOLVENTS[int(solvent)], "temperature": temperature, "hours": hours}


def grid(size: int) -> Tensor:
    r"""All solvents at so many temperatures and times, ``n x 3``."""
    warm = torch.linspace(*TEMPERATURE, size, dtype=torch.float64)
    times = torch.logspace(*map(math.log10, HOURS), size, dtype=torch.float64)
    solvents = torch.arange(len(SOLVENTS), dtype=torch.float64)
    return torch.cartesian_prod(solvents, warm, times)


@dataclass(frozen=True)
class Reactor:
    r"""The reaction of one seed.

    Attributes:
        rates: ``3 x s`` rates at 60 degrees, 1/h.
        energies: ``3 x s`` activation energies, kJ/mol.
    """

    rates: Tensor
    energies: Tensor

    @classmethod
    def draw(cls, number: int, seed: int) -> "Reactor":
        r"""From the streams of a number."""
        draws = stream(number, "reaction", seed).standard_normal((2, 3, len(SOLVENTS)))
        rates = np.log(_RATES)[:, None] + _RATE_SPREAD * draws[0]
        energies = np.array(_ENERGIES)[:, None] + _ENERGY_SPREAD * draws[1]
        return cls(torch.from_numpy(np.exp(rates)), torch.from_numpy(energies))

    def outcomes(self, X: Tensor) -> Tensor:
        r"""Output and impurity of ``n`` recipes, ``n x 2``, percent."""
        solvent, kelvin, hours = X[:, 0].long(), X[:, 1] + _KELVIN, X[:, 2]
        heat = (1.0 / _REFERENCE - 1.0 / kelvin) / _GAS
        wanted, over, side = (
            self.rates[:, solvent] * (self.energies[:, solvent] * heat).exp()
        )
        spent = wanted + side
        left = (-spent * hours).exp()
        difference = over - spent
        # (1 - exp(-d t)) / d, also where d is next to nothing
        product = wanted * left * -torch.expm1(-difference * hours) / difference
        return 100.0 * torch.stack([product, 1.0 - left - product], -1)

    def optimum(self, size: int) -> float:
        r"""Largest output of a pure enough recipe on a grid."""
        output, impurity = self.outcomes(grid(size)).unbind(-1)
        return float(output[impurity <= LIMIT].max())

    def norms(self, size: int) -> list[float]:
        r"""Norms of what interpolates output and impurity on a grid, under their kernels.

        The norms of the functions are at least these, and little above them.
        """
        X, found = grid(size), []
        warm = (X[:, 1] - TEMPERATURE[0]) / (TEMPERATURE[1] - TEMPERATURE[0])
        late = (X[:, 2] / HOURS[0]).log() / math.log(HOURS[1] / HOURS[0])
        choice = torch.eye(len(SOLVENTS), dtype=torch.float64)[X[:, 0].long()]
        for belief, values in zip(BELIEFS.values(), self.outcomes(X).mT, strict=True):
            scales, kernel = belief["lengthscale"], fixed_kernel(belief["kernel"], 1.0)
            numbers = [warm / scales["temperature"], late / scales["hours"]]
            parts = [torch.stack(numbers, -1), choice / scales["solvent"]]
            inputs = torch.cat(parts, -1)
            matrix = kernel(inputs).to_dense() + 1e-9 * torch.eye(len(X)).double()
            weights = torch.linalg.solve(matrix, values - belief["mean"])
            found.append(float(rkhs_norm(kernel, inputs, weights)))
        return found
