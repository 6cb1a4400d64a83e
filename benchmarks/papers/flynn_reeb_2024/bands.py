r"""Figure 1: bands around one function, and their widths over many."""

from pathlib import Path

import numpy as np
import torch

from benchmarks.papers.flynn_reeb_2024.configuration import Configuration, Setting
from benchmarks.papers.flynn_reeb_2024.learners import covar_module
from benchmarks.papers.flynn_reeb_2024.problems import KernelExpansion, kernel_function
from benchmarks.runner import (
    Folders,
    legend_below,
    markdown_table,
    picture,
    stream,
    write_summary,
)
from kernelucb import (
    IGPUCB,
    AbbasiYadkoriUCB,
    Grid,
    KernelRegression,
    MartingaleMixture,
    MartingaleMixtureUCB,
)

QUERIES = np.linspace(-1.0, 1.0, 1001)[:, None]


def _data(configuration: Configuration, setting: Setting, repetition: int):
    r"""A function on [-1, 1] and 25 points on each side of a gap."""
    protocol, per_side = configuration.protocol, configuration.figure1.points_per_side
    generator = stream(protocol.seed, "figure1", repetition)
    kernel = kernel_function(setting.kernel, setting.lengthscale)
    centres = generator.uniform(-1.0, 1.0, (protocol.num_centres, 1))
    function = KernelExpansion.draw(kernel, centres, protocol.norm, generator)
    inputs = np.concatenate(
        [generator.uniform(-0.8, -0.2, per_side), generator.uniform(0.2, 0.8, per_side)]
    )[:, None]
    noise = protocol.noise_std * generator.standard_normal(len(inputs))
    return function, inputs, function(inputs) + noise


def _bands(configuration: Configuration, setting: Setting, inputs, outcomes) -> dict:
    r"""Lower and upper bounds of each method at the queries."""
    protocol = configuration.protocol
    horizon = len(inputs)
    scale = setting.covariance_scale(horizon)
    regression = KernelRegression(
        torch.from_numpy(inputs),
        torch.from_numpy(outcomes),
        covar_module(setting),
        protocol.noise_std,
    )
    common = {"norm_bound": protocol.norm, "delta": protocol.delta}
    paper = {**common, "fit": MartingaleMixture(scale)}
    acquisitions = {
        "filters": MartingaleMixtureUCB(regression, **common),
        "exact": MartingaleMixtureUCB(regression, **paper),
        "dmm": MartingaleMixtureUCB(regression, form=Grid(), **paper),
        "amm": MartingaleMixtureUCB(regression, form="analytic", **paper),
        "ay": AbbasiYadkoriUCB(regression, alpha=protocol.noise_std**2 / scale, **common),
        "igp": IGPUCB(regression, horizon=horizon, **common),
    }
    queries = torch.from_numpy(QUERIES)
    return {
        name: tuple(bound.numpy() for bound in acquisition.bounds(queries))
        for name, acquisition in acquisitions.items()
    }


def run_figure1(
    configuration: Configuration, functions: int, folders: Folders
) -> list[Path]:
    r"""Draw the bands of the first function; widths and coverage of all."""
    figure = configuration.figure1
    setting = Setting(figure.kernel, figure.lengthscale, figure.dimension)
    whole = functions == figure.functions
    stem = "figure1" if whole else f"figure1_{functions}_functions"
    path = folders.picture(stem)
    widths: dict[str, list[float]] = {}
    covered: dict[str, int] = {}
    for repetition in range(functions):
        function, inputs, outcomes = _data(configuration, setting, repetition)
        bands = _bands(configuration, setting, inputs, outcomes)
        truth = function(QUERIES)
        for name, (lower, upper) in bands.items():
            widths.setdefault(name, []).append(float((upper - lower).mean()))
            inside = bool(((lower <= truth) & (truth <= upper)).all())
            covered[name] = covered.get(name, 0) + inside
        if repetition == 0:
            _draw(configuration, bands, truth, inputs, outcomes, path)
    rows = [
        {
            "method": name,
            "mean_width": round(float(np.mean(values)), 4),
            "median_ratio_to_exact": round(
                float(np.median(np.divide(values, widths["exact"]))), 4
            ),
            "functions_inside": covered[name],
            "functions": functions,
        }
        for name, values in widths.items()
    ]
    lines = _table(configuration, rows)
    return [*write_summary(folders.results, stem, rows, lines), path]


def _table(configuration: Configuration, rows: list[dict]) -> list[str]:
    cells = [
        (
            configuration.methods[row["method"]].label,
            f"{row['mean_width']:.3f}",
            f"{row['median_ratio_to_exact']:.2f}",
            f"{row['functions_inside']} of {row['functions']}",
        )
        for row in rows
    ]
    sizes = ("mean width", "median ratio to exact", "functions inside everywhere")
    return markdown_table(("band", *sizes), cells)


def _draw(configuration, bands: dict, truth, inputs, outcomes, path: Path) -> None:
    shown = ("filters", "exact", "amm", "ay", "igp")
    shape = {"figsize": (13.0, 3.2), "sharey": True, "dpi": 130}
    with picture(path, 1, len(shown), **shape) as (figure, grid):
        for axes, name in zip(grid, shown, strict=True):
            lower, upper = bands[name]
            axes.fill_between(
                QUERIES[:, 0], lower, upper, color="#0072B2", alpha=0.25, lw=0
            )
            axes.plot(QUERIES[:, 0], truth, color="#222222", ls="--", label="true function")
            axes.scatter(inputs[:, 0], outcomes, s=8, color="#D55E00", label="data", lw=0)
            width = float((upper - lower).mean())
            label = configuration.methods[name].label
            axes.set_title(f"{label}: mean width {width:.2f}")
            axes.set_xlabel("$x$")
        grid[0].set_ylabel("$f(x)$")
        legend_below(figure, grid[0], 2)
