r"""Mean widths of the two sets on the same data."""

from types import SimpleNamespace
from typing import Any

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
