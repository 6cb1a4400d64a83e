r"""Widths of the three radii at one oversampling, and that of the exact posterior."""

from pathlib import Path

import torch

from benchmarks.papers.bkb_2019.configuration import Configuration, Widths
from benchmarks.runner import fixed_kernel, markdown_table, stream, write_summary
from kernelucb import BKBUCB
from kernelucb.models import BKBModel

_ALL = 1e12  # every observed point is inducing
_NAMES = {"rbf": "RBF", "matern52": "Matérn 5/2"}
_RADII = ("certified", "theorem2", "practical")


def run_widths(configuration: Configuration, results: Path) -> list[Path]:
    r"""A row for each kernel and norm bound."""
    settings = configuration.widths
    rows = [row for case in settings.cases for row in _rows(configuration, settings, *case)]
    header = ["kernel", "d", "length", "F", "m", *_RADII, "exact posterior"]
    lines = [
        f"Multipliers of the standard deviation with qbar = {settings.qbar:g} after "
        f"{settings.observations} observations at uniform points of the unit cube, noise "
        f"{configuration.protocol.noise_std:g}, its square the regulariser, delta "
        f"{configuration.protocol.delta:g}; *theorem2* is not covered by its theorem at "
        "this qbar, *practical* nowhere; *exact posterior* is Abbasi-Yadkori's width with "
        "every point inducing.",
        "",
        *markdown_table(header, [[str(value) for value in row.values()] for row in rows]),
    ]
    return write_summary(results, "widths", rows, lines)


def _rows(
    configuration: Configuration,
    settings: Widths,
    name: str,
    dimension: int,
    lengthscale: float,
) -> list[dict]:
    protocol = configuration.protocol
    random = stream(protocol.seed, "widths", name, dimension)
    X = torch.from_numpy(random.uniform(size=(settings.observations, dimension)))
    Y = protocol.noise_std * torch.from_numpy(random.standard_normal((len(X), 1)))
    kernel, alpha = fixed_kernel(name, lengthscale), protocol.noise_std**2
    model, exact = (
        BKBModel(X, Y, kernel, alpha, qbar, protocol.seed) for qbar in (settings.qbar, _ALL)
    )
    rows = []
    for norm_bound in settings.norm_bounds:
        given = {"norm_bound": norm_bound, "delta": protocol.delta}
        widths = {r: BKBUCB(model, radius=r, **given).width for r in _RADII}
        widths["exact"] = BKBUCB(exact, **given).width
        rows.append(
            {
                "kernel": _NAMES[name],
                "dimension": dimension,
                "lengthscale": f"{lengthscale:g}",
                "norm_bound": f"{norm_bound:g}",
                "inducing": len(model.inducing_points),
                **{radius: f"{width:.1f}" for radius, width in widths.items()},
            }
        )
    return rows
