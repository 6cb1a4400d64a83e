r"""Functions of known norm, their data, and where widths are taken."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.filters.configuration import Task
from benchmarks.runner import fixed_kernel, rkhs_norm, stream
from kernelucb import KernelRegression, MartingaleMixtureUCB


@dataclass(frozen=True)
class Problem:
    r"""One function's data.

    Attributes:
        regression: Inputs and outcomes, decomposed.
        norm_bound: What the bands are told.
        delta: Failure probability.
        places: ``q x d`` uniform points, and at most as many observed ones.
        truth: The function there.
    """

    regression: KernelRegression
    norm_bound: float
    delta: float
    places: dict[str, Tensor]
    truth: dict[str, Tensor]

    @classmethod
    def of(cls, task: Task) -> "Problem":
        r"""Draw the problem of a task; function and inputs do not depend on the noise."""
        protocol, setting, d = task.protocol, task.setting, task.setting.dimension
        where = setting.kernel, d, task.function
        kernel = fixed_kernel(setting.kernel, task.lengthscale)
        draw = stream(protocol.seed, "function", *where)
        centres = torch.from_numpy(draw.random((protocol.num_centres, d)))
        weights = torch.from_numpy(draw.standard_normal(protocol.num_centres))
        weights *= task.norm / rkhs_norm(kernel, centres, weights)

        def function(X: Tensor) -> Tensor:
            return kernel(X, centres).to_dense() @ weights

        inputs = stream(protocol.seed, "inputs", *where).random((setting.observations, d))
        X = torch.from_numpy(inputs)
        noise = stream(protocol.seed, "noise", setting.name, task.function)
        Y = function(X) + setting.noise_std * _normal(noise, len(X))
        queries = stream(protocol.seed, "queries", *where).random((protocol.queries, d))
        places = {"domain": torch.from_numpy(queries), "data": X[: protocol.queries]}
        return cls(
            KernelRegression(X, Y, kernel, setting.noise_std),
            protocol.norm_factor * task.norm,
            protocol.delta,
            places,
            {name: function(points) for name, points in places.items()},
        )

    def band(self, fit: Any) -> MartingaleMixtureUCB:
        r"""The exact band of a fit, covariance scale 1."""
        options = {"norm_bound": self.norm_bound, "delta": self.delta}
        return MartingaleMixtureUCB(self.regression, fit=fit, **options)

    def measure(self, band: Any) -> tuple[dict[str, float], bool]:
        r"""Mean width at the places, and whether the function leaves the band there.

        ``band`` is anything with ``bounds``; round-off does not count.
        """
        slack, widths, missed = 1e-9 * self.norm_bound, {}, False
        for name, points in self.places.items():
            lower, upper = band.bounds(points)
            truth = self.truth[name]
            outside = (truth < lower - slack) | (truth > upper + slack)
            widths[name] = float((upper - lower).mean())
            missed = missed or bool(outside.any())
        return widths, missed


def _normal(generator: np.random.Generator, count: int) -> Tensor:
    return torch.from_numpy(generator.standard_normal(count))
