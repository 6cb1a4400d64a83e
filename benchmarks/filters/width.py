r"""Mean widths of the two sets on the same data."""

from types import SimpleNamespace
from typing import Any

import torch

from benchmarks.filters.problems import Problem

FITS = ("filters", "martingale")


def play_width(settings: dict[str, Any]) -> dict[str, Any]:
    r"""Mean widths of both bands over the domain and at the data, and misses, by fit."""
    problem, run = Problem.of(SimpleNamespace(**settings)), {}
    for fit in FITS:
        widths, missed = problem.measure(problem.band(fit))
        run |= {f"{fit}_{place}": width for place, width in widths.items()}
        run[f"{fit}_missed"] = missed
    return run


def play_design(settings: dict[str, Any]) -> dict[str, Any]:
    r"""The band of filters beside the same one with a design that looked at nothing.

    The design's intervals count at the points where widths are taken, or in the unit cube.
    """
    problem = Problem.of(SimpleNamespace(**settings))
    band, n, d = problem.band("filters"), settings["observations"], settings["dimension"]
    points = torch.cat([*problem.places.values()])
    box = torch.tensor([[0.0] * d, [1.0] * d], dtype=torch.float64)
    share = settings["share"]
    bands = {
        "band": band,
        "points": band.with_fixed_design(n, candidates=points, share=share),
        "box": band.with_fixed_design(n, bounds=box, share=share),
    }
    run: dict[str, Any] = {}
    for name, each in bands.items():
        widths, missed = problem.measure(each)
        run |= {f"{name}_{place}": width for place, width in widths.items()}
        run[f"{name}_missed"] = missed
    return run
