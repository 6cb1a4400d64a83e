r"""Functions of known norm, and mean widths of the two sets on the same data."""

import math
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from benchmarks.runner import KnownFunction, fixed_kernel, outside, stream, unit_cube
from kernelucb import Band, KernelRegression, MartingaleMixtureUCB

NORMS = (10.0, 5.0)  # of the functions, in turn


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
    def of(cls, task: SimpleNamespace) -> "Problem":
        r"""Draw the problem of a task; function and inputs do not depend on the noise."""
        d, norm = task.dimension, NORMS[task.function % len(NORMS)]
        where = task.kernel, d, task.function
        kernel = fixed_kernel(task.kernel, task.length_factor * math.sqrt(d))
        draw = stream(task.seed, "function", *where)
        function = KnownFunction.draw(draw, kernel, norm, d, task.num_centres)
        inputs = stream(task.seed, "inputs", *where).random((task.observations, d))
        X = torch.from_numpy(inputs)
        name = f"{task.kernel}_d{d}_n{task.observations}_noise_{task.noise_std:g}"
        noise = stream(task.seed, "noise", name, task.function).standard_normal(len(X))
        Y = function(X) + task.noise_std * torch.from_numpy(noise)
        queries = stream(task.seed, "queries", *where).random((task.queries, d))
        places = {"domain": torch.from_numpy(queries), "data": X[: task.queries]}
        return cls(
            KernelRegression(X, Y, kernel, task.noise_std),
            task.norm_factor * norm,
            task.delta,
            places,
            {name: function(points) for name, points in places.items()},
        )

    def band(self, fit: Any) -> Band:
        r"""The exact band of a fit, covariance scale 1."""
        options = {"norm_bound": self.norm_bound, "delta": self.delta}
        return MartingaleMixtureUCB(self.regression, fit=fit, **options).band

    def measure(self, band: Any) -> tuple[dict[str, float], bool]:
        r"""Mean width at the places, and whether the function leaves the band there.

        ``band`` is anything with ``bounds``; round-off does not count.
        """
        slack, widths, missed = 1e-9 * self.norm_bound, {}, False
        for name, points in self.places.items():
            lower, upper = band.bounds(points)
            truth = self.truth[name]
            widths[name] = float((upper - lower).mean())
            missed = missed or bool(outside(truth, lower, upper, slack).any())
        return widths, missed


FITS = ("filters", "martingale")


def play_width(settings: dict[str, Any]) -> dict[str, Any]:
    r"""Mean widths of both bands over the domain and at the data, and misses, by fit."""
    problem = Problem.of(SimpleNamespace(**settings))
    return _measured(problem, {fit: problem.band(fit) for fit in FITS})


def play_design(settings: dict[str, Any]) -> dict[str, Any]:
    r"""The band of filters beside the same one with a design that looked at nothing.

    The design's intervals count at the points where widths are taken, or in the unit cube.
    """
    problem = Problem.of(SimpleNamespace(**settings))
    band, n, d = problem.band("filters"), settings["observations"], settings["dimension"]
    points = torch.cat([*problem.places.values()])
    share = settings["share"]
    bands = {
        "band": band,
        "points": band.with_fixed_design(n, candidates=points, share=share),
        "box": band.with_fixed_design(n, bounds=unit_cube(d), share=share),
    }
    return _measured(problem, bands)


def _measured(problem: Problem, bands: dict[str, Any]) -> dict[str, Any]:
    run: dict[str, Any] = {}
    for name, band in bands.items():
        widths, missed = problem.measure(band)
        run |= {f"{name}_{place}": width for place, width in widths.items()}
        run[f"{name}_missed"] = missed
    return run
