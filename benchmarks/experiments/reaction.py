r"""A reaction in one of several solvents: from rate laws, not from a kernel.

``A -> P`` is wanted, ``P -> S`` and ``A -> D`` are not. All three are of first order, with
rates after Arrhenius that each solvent has its own of. Output and impurity are shares of
what was charged, 0 to 100 %.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig
from torch import Tensor

from benchmarks.experiments.configuration import Protocol, Reaction
from benchmarks.runner import fixed_kernel, rkhs_norm, stream

_GAS, _KELVIN, _REFERENCE = 8.314e-3, 273.15, 333.15  # kJ / (mol K), K


@dataclass(frozen=True)
class Reactor:
    r"""The reaction of one seed; recipes are solvent number, temperature, time.

    Attributes:
        rates: ``3 x s`` rates at 60 degrees, 1/h: of A to P, P to S, A to D.
        energies: ``3 x s`` activation energies, kJ/mol.
    """

    setting: Reaction
    rates: Tensor
    energies: Tensor

    @classmethod
    def draw(cls, protocol: Protocol, setting: Reaction, seed: int) -> "Reactor":
        r"""The one of a seed."""
        random = stream(protocol.seed, "reaction", seed)
        count = len(setting.solvents)

        def normal(means: tuple[float, ...], spread: tuple[float, ...]) -> np.ndarray:
            draws = random.standard_normal((3, count))
            return np.array(means)[:, None] + np.array(spread)[:, None] * draws

        rates = np.log(setting.rates)
        return cls(
            setting,
            torch.from_numpy(np.exp(normal(tuple(rates), setting.rate_spread))),
            torch.from_numpy(normal(setting.energies, setting.energy_spread)),
        )

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

    @property
    def parameters(self) -> list[ChoiceParameterConfig | RangeParameterConfig]:
        r"""As Ax takes them; times on a logarithmic scale."""
        own = self.setting
        solvents = [*own.solvents]
        return [
            ChoiceParameterConfig(
                name="solvent", parameter_type="str", values=solvents, is_ordered=False
            ),
            RangeParameterConfig(
                name="temperature", parameter_type="float", bounds=own.temperature
            ),
            RangeParameterConfig(
                name="hours", parameter_type="float", bounds=own.hours, scaling="log"
            ),
        ]

    def point(self, parameters: dict) -> Tensor:
        r"""``1 x 3`` recipe."""
        solvent = self.setting.solvents.index(parameters["solvent"])
        numbers = [solvent, parameters["temperature"], parameters["hours"]]
        return torch.tensor([numbers], dtype=torch.float64)

    def named(self, point: Tensor) -> dict[str, str | float]:
        r"""Parameters of a recipe."""
        solvent, temperature, hours = point.tolist()
        own = {"temperature": temperature, "hours": hours}
        return {"solvent": self.setting.solvents[int(solvent)], **own}

    def grid(self, size: int) -> Tensor:
        r"""All solvents at so many temperatures and times, ``n x 3``."""
        own = self.setting
        warm = torch.linspace(*own.temperature, size, dtype=torch.float64)
        times = torch.logspace(*map(math.log10, own.hours), size, dtype=torch.float64)
        solvents = torch.arange(len(own.solvents), dtype=torch.float64)
        return torch.cartesian_prod(solvents, warm, times)

    def optimum(self, size: int) -> float:
        r"""Largest output of a pure enough recipe on a grid."""
        output, impurity = self.outcomes(self.grid(size)).unbind(-1)
        return float(output[impurity <= self.setting.limit].max())

    def norms(self, size: int) -> list[float]:
        r"""Norms of what interpolates output and impurity on a grid, under their kernels.

        The norms of the functions are at least these, and little above them.
        """
        X, own = self.grid(size), self.setting
        unit = torch.stack(
            [
                (X[:, 1] - own.temperature[0]) / (own.temperature[1] - own.temperature[0]),
                (X[:, 2] / own.hours[0]).log() / math.log(own.hours[1] / own.hours[0]),
            ],
            -1,
        )
        choice = torch.eye(len(own.solvents), dtype=torch.float64)[X[:, 0].long()]
        found = []
        columns = self.outcomes(X).unbind(-1)
        for belief, values in zip(own.beliefs.values(), columns, strict=True):
            scales = belief.lengthscale
            numbers = unit / torch.tensor([scales["temperature"], scales["hours"]])
            inputs = torch.cat([numbers, choice / scales["solvent"]], -1)
            kernel = fixed_kernel(belief.kernel, 1.0)
            matrix = kernel(inputs).to_dense()
            matrix = matrix + 1e-9 * torch.eye(len(matrix), dtype=torch.float64)
            weights = torch.linalg.solve(matrix, values - belief.mean)
            found.append(float(rkhs_norm(kernel, inputs, weights)))
        return found
