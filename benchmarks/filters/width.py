r"""Mean widths of the two sets on the same data."""

from types import SimpleNamespace
from typing import Any

import torch

from benchmarks.filters.problems import Problem
from benchmarks.runner import unit_cube

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
