r"""The picture of the demo."""

import warnings
from heapq import nlargest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from kernelucb._demo.loop import NUM_CANDIDATES, Run
from kernelucb.acquisition import IGPUCB, AbbasiYadkoriUCB, MartingaleMixtureUCB
from kernelucb.acquisition.base import KernelUCB
from kernelucb.exceptions import InconsistentConfidenceSetWarning
from kernelucb.plotting import plot_bands, slice_points
from kernelucb.plotting.style import BLACK, BLUE, CHOSEN, DATA, RC, load_pyplot

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def write_picture(run: Run, path: Path) -> None:
    r"""Bands along one or two lines through the recommended point, and the gap.

    The run has at least one round; the suffix of the path decides the format.
    """
    plt = load_pyplot()
    with plt.rc_context(RC):
        figure = _draw(run, plt)
        figure.savefig(path)
        plt.close(figure)


def _draw(run: Run, plt: Any) -> "Figure":
    dimension = run.problem.dimension
    size = (8.6, 6.4) if dimension == 1 else (10.4, 7.6)
    figure = plt.figure(figsize=size, layout="constrained")
    with warnings.catch_warnings():
        # The run has reported it.
        warnings.simplefilter("ignore", InconsistentConfidenceSetWarning)
        bands = comparison(run)
    best, _ = run.certificate()
    if dimension == 1:
        band_axes, gap_axes = figure.subplots(2, 1, height_ratios=(2.4, 1))
        slices = [(band_axes, 0)]
    else:
        grid = figure.subplots(2, 2, height_ratios=(1.25, 1))
        slices = list(zip(grid[0], interesting_coordinates(run, best), strict=True))
        gap_axes = grid[1, 1]
        _draw_points(run, best, grid[1, 0])
    for axes, coordinate in slices:
        _draw_slice(run, bands, best, coordinate, axes)
    _draw_gap(run, gap_axes)
    handles, labels = slices[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4)
    figure.suptitle(_title(run), fontsize=11)
    return figure


def _title(run: Run) -> str:
    level = f"of level {1 - run.settings.delta:.6g}" if run.certified else "not certified"
    title = (
        f"{run.problem.name}: {len(run.X)} noisy observations, bands {level} "
        f"(norm {run.norm_status})"
    )
    if run.problem.dimension > 1:
        title += "\nmarks on the lines are projected: the fainter, the less they say there"
    return title


def comparison(run: Run) -> dict[str, KernelUCB]:
    r"""The exact band and the bands in common use, for the same data and assumptions."""
    settings, model = run.settings, run.acquisition.model
    common: dict[str, Any] = {
        "norm_bound": run.acquisition.norm_bound,
        "noise_std": run.noise_std,
        "delta": settings.delta,
    }
    mixture: dict[str, Any] = {**common, "covariance_scale": settings.covariance_scale}
    alpha = run.noise_std**2 / settings.covariance_scale
    return {
        f"exact band (norm {run.norm_status})": MartingaleMixtureUCB(model, **mixture),
        "AMM": MartingaleMixtureUCB(model, fit="martingale", form="analytic", **mixture),
        "Abbasi-Yadkori": AbbasiYadkoriUCB(model, alpha=alpha, **common),
        "IGP": IGPUCB(model, horizon=run.num_initial + settings.rounds, **common),
    }


@torch.no_grad()
def interesting_coordinates(run: Run, best: Tensor) -> list[int]:
    r"""The two coordinates along which the mean through a point varies the most."""
    variation: dict[int, float] = {}
    for coordinate, (low, high) in enumerate(run.problem.bounds.T.tolist()):
        line = slice_points(best, coordinate, low, high, num_points=100)
        mean = run.acquisition.regression.mean(line)
        variation[coordinate] = float(mean.max() - mean.min())
    return sorted(nlargest(2, variation, key=variation.__getitem__))


def _draw_slice(
    run: Run, bands: dict[str, KernelUCB], best: Tensor, coordinate: int, axes: "Axes"
) -> None:
    line = slice_points(best, coordinate, *run.problem.bounds[:, coordinate].tolist())
    initial = run.num_initial
    one = run.problem.dimension == 1
    plot_bands(
        bands,
        line,
        coordinate=coordinate,
        data=(run.X[:initial], run.Y[:initial]),
        chosen=(run.X[initial:], run.Y[initial:]),
        true_function=None if run.known is None else run.known.function,
        fade=not one,
        ax=axes,
        legend=False,
        x_label="input $x$" if one else f"input $x_{{{coordinate + 1}}}$",
        y_label="outcome, to be minimised",
        data_name="initial points",
    )
    if not one:
        axes.set_title(f"line along $x_{{{coordinate + 1}}}$ through recommended point")


def _draw_points(run: Run, best: Tensor, axes: "Axes") -> None:
    r"""Chosen points on the plane of the two most interesting coordinates."""
    first, second = interesting_coordinates(run, best)
    title = "points, other inputs ignored (star: recommended)"
    if run.problem.dimension == 2 and run.known is None:
        title = "points on the band's mean (darker: lower; star: recommended)"
        _draw_contour(run, axes)
    elif run.problem.dimension == 2:
        title = "points on the true function (darker: lower; star: recommended)"
        _draw_contour(run, axes)
    old, new = run.X[: run.num_initial], run.X[run.num_initial :]
    axes.scatter(old[:, first], old[:, second], zorder=3, **DATA)
    axes.scatter(new[:, first], new[:, second], zorder=3, **CHOSEN)
    axes.scatter(
        best[first], best[second], marker="*", s=220, color="white", ec=BLACK, zorder=4
    )
    low, high = run.problem.bounds[:, [first, second]]
    margin = 0.03 * (high - low)
    across, upwards = torch.stack([low - margin, high + margin], dim=1).tolist()
    names = [f"input $x_{{{coordinate + 1}}}$" for coordinate in (first, second)]
    axes.set(xlabel=names[0], ylabel=names[1], xlim=across, ylim=upwards, title=title)


@torch.no_grad()
def _draw_contour(run: Run, axes: "Axes") -> None:
    sides = [
        torch.linspace(low, high, 80, dtype=torch.float64)
        for low, high in run.problem.bounds.T.tolist()
    ]
    first, second = torch.meshgrid(*sides, indexing="xy")
    points = torch.stack([first.flatten(), second.flatten()], dim=-1)
    known, mean = run.known, run.acquisition.regression.mean
    values = mean(points) if known is None else known.function(points)
    # Levels at quantiles show the valleys of functions with a huge range.
    levels = values.quantile(torch.linspace(0.0, 1.0, 13, dtype=values.dtype))
    levels = levels.unique().tolist()
    darkness = torch.linspace(0.35, 1.0, len(levels) - 1).tolist()
    shades = load_pyplot().get_cmap("Blues_r")(darkness)
    axes.contourf(first, second, values.reshape(first.shape), levels, colors=shades)


def _draw_gap(run: Run, axes: "Axes") -> None:
    numbers = [row.number for row in run.rounds]
    gaps = [row.gap for row in run.rounds]
    regrets = [row.regret for row in run.rounds if row.regret is not None]
    name = "certified gap" if run.certified else "gap, if the band holds"
    axes.plot(numbers, gaps, color=BLUE, label=f"largest possible ({name})")
    if regrets:
        axes.plot(numbers, regrets, color=BLACK, ls=(0, (4, 2)), label="true")
    positive = min(value for value in gaps + regrets if value > 0)
    if min(gaps + regrets) > 0:
        axes.set_yscale("log")
    else:  # nothing may be left to regret, and zero has no logarithm
        axes.set_yscale("symlog", linthresh=positive)
        axes.set_ylim(bottom=-0.1 * positive)
    title = f"regret of the recommended point on {NUM_CANDIDATES} candidates"
    axes.set(xlabel="round", ylabel="outcome units", title=title)
    axes.legend(loc="best")
