r"""Figure 3: bounds on the maximum information gain of common kernels."""

import math
from pathlib import Path

import pandas as pd
import torch
from gpytorch.kernels import Kernel, LinearKernel, MaternKernel, RBFKernel
from torch import Tensor

from benchmarks.papers.srinivas_2010.configuration import GainSettings
from benchmarks.papers.srinivas_2010.tabulated import TabulatedKernel, domain
from benchmarks.runner import Folders, markdown_table, stream, write_summary
from kernelucb import information_gain

METHODS = ("greedy", "spectral", "upper_bound")
SHOWN_EIGENVALUES = 30


def covariances(settings: GainSettings) -> dict[str, Tensor]:
    r"""Covariance of each kernel on the domain, scaled to trace ``|D|``."""
    generator = stream(settings.seed, "information gain")
    points = generator.uniform(-1.0, 1.0, (settings.points, settings.dimension))
    inputs = torch.from_numpy(points)
    kernels: dict[str, Kernel] = {
        "linear": LinearKernel(),
        "squared exponential": RBFKernel(),
        "Matérn 5/2": MaternKernel(nu=2.5),
    }
    tables = {"independent": torch.diag(torch.ones_like(inputs[:, 0]))}
    for name, kernel in kernels.items():
        kernel.double()
        if kernel.has_lengthscale:
            kernel.lengthscale = inputs.new_tensor(settings.lengthscale)
        table = kernel(inputs).to_dense().detach()
        tables[name] = table * (len(table) / table.trace())
    return tables


def bound_rows(settings: GainSettings, tables: dict[str, Tensor]) -> list[dict]:
    r"""The bounds for each kernel and number of samples, nats."""
    noise_std = math.sqrt(settings.noise_share)
    inputs = domain(settings.points)
    return [
        {
            "kernel": name,
            "samples": samples,
            **{
                method: f"{_bound(table, inputs, noise_std, samples, method):.5g}"
                for method in METHODS
            },
        }
        for name, table in tables.items()
        for samples in settings.samples
    ]


def _bound(table: Tensor, inputs: Tensor, noise_std: float, samples: int, method) -> float:
    kernel = TabulatedKernel(table)
    return information_gain(
        kernel, inputs, noise_std=noise_std, num_points=samples, method=method
    )


def run_information_gain(settings: GainSettings, folders: Folders) -> list[Path]:
    r"""Tables and picture of the bounds."""
    from benchmarks.papers.srinivas_2010.figures import draw_gain

    tables = covariances(settings)
    rows = pd.DataFrame(bound_rows(settings, tables))
    spectra = {name: _largest_eigenvalues(table) for name, table in tables.items()}
    stem = "information_gain"
    files = write_summary(folders.results, stem, rows, _table(settings, rows))
    return [*files, draw_gain(spectra, rows, folders.picture(stem))]


def _largest_eigenvalues(table: Tensor) -> list[float]:
    values = torch.linalg.eigvalsh(table).flip(0)[:SHOWN_EIGENVALUES]
    return values[values > 1e-9 * values[0]].tolist()


def _table(settings: GainSettings, rows: pd.DataFrame) -> list[str]:
    shown = [n for n in (10, 30, 100) if n in settings.samples]
    bounds = rows[list(METHODS)].astype(float).to_numpy()
    cells = rows.assign(cell=[" / ".join(f"{each:.1f}" for each in row) for row in bounds])
    table = cells.pivot(index="kernel", columns="samples", values="cell")
    kernels = rows["kernel"].unique()
    return [
        "Bounds on the maximum information gain in nats, greedy (Eq. 5) / spectral (Eq. 8 "
        f"without its factor) / upper_bound, {settings.points} points in "
        f"[-1, 1]^{settings.dimension}, noise variance {settings.noise_share:g} of the "
        "mean prior variance.",
        "",
        *markdown_table(
            ["kernel", *(f"T = {number}" for number in shown)],
            [[kernel, *table.loc[kernel, shown]] for kernel in kernels],
        ),
    ]
