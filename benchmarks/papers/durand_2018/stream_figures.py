r"""Figures 4 to 6: noise intervals against rounds, and bands around one function."""

from pathlib import Path

import numpy as np
import torch

from benchmarks.papers.durand_2018.problems import true_function
from benchmarks.papers.durand_2018.streams import query_grid, snapshots
from benchmarks.papers.durand_2018.summaries import Streams
from benchmarks.runner import legend_below, picture
from kernelucb.plotting import plot_bands
from kernelucb.plotting.style import BLACK, BLUE, OUTLINES

_INTERVALS = {
    "joint": {
        "color": BLUE,
        "linewidth": 2.0,
        "label": "joint set (ours), start [0.01, 1]",
    },
    "1": {**OUTLINES[0], "label": r"start $\sigma_+ = 1$"},
    "5": {**OUTLINES[1], "label": r"start $\sigma_+ = 5$"},
    "50": {**OUTLINES[2], "label": r"start $\sigma_+ = 50$"},
    "none": {**OUTLINES[4], "label": r"no start for $\sigma_+$"},
}
_PANELS = {
    r"fixed $\lambda$ (Theorem 3)": ("fixed 1", "fixed 5", "fixed 50"),
    r"adaptive $\lambda$ (Corollary 1)": (
        *("adaptive 1", "adaptive 5", "adaptive 50"),
        "adaptive none",
    ),
    "joint set and Corollary 1": ("joint", "adaptive 1"),
}
_BANDS = {
    "adaptive": "Corollary 1 (adaptive)",
    "fixed": "Theorem 1 (fixed)",
    "joint": "joint set (ours)",
}
# More of them would hide the narrow bands.
_SHOWN_DATA = 60


def draw_noise(streams: Streams, path: Path) -> Path:
    r"""Medians and quartiles of both noise bounds, three panels."""
    shape = {"figsize": (10.5, 3.9), "sharey": True, "dpi": 130}
    with picture(path, 1, len(_PANELS), **shape) as (figure, grid):
        for axes, (title, names) in zip(grid, _PANELS.items(), strict=True):
            for name in names:
                if name in streams.runs[0].intervals:
                    _draw_interval(axes, streams, name)
            axes.axhline(streams.protocol.noise_std, color=BLACK, ls=":", lw=1.2)
            axes.set(xscale="log", yscale="log", title=title)
            axes.set_xlabel("observations $t$")
            axes.margins(x=0)
        grid[0].set_ylabel(r"bounds on the noise scale $\sigma$")
        entries = {
            label: handle
            for axes in grid
            for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
        }
        entries[r"true $\sigma$"] = grid[0].lines[-1]
        figure.legend(entries.values(), entries.keys(), loc="outside lower center", ncols=3)
    return path


def _draw_interval(axes, streams: Streams, name: str) -> None:
    style = _INTERVALS[name.split()[-1]]
    bounds = streams.bounds(name)
    low, middle, high = np.quantile(bounds, (0.25, 0.5, 0.75), axis=0, method="nearest")
    for side in (0, 1):
        finite = np.isfinite(high[:, side])
        rounds = np.array(streams.rounds)[finite]
        line = {**style, "label": None} if side else style
        axes.plot(rounds, middle[finite, side], **line)
        axes.fill_between(
            rounds,
            low[finite, side],
            high[finite, side],
            color=style["color"],
            alpha=0.2,
            lw=0,
        )


def draw_band(streams: Streams, path: Path) -> Path:
    r"""Bands around the first function at the rounds of the table."""
    task = streams.tasks[0]
    function, queries = true_function(task.protocol, 0), query_grid(task.stream)
    shown = [
        snapshot
        for snapshot in snapshots(task)
        if snapshot.regression.num_observations in streams.table_rounds
    ]
    shape = {"figsize": (2.9 * len(shown), 3.9), "squeeze": False, "dpi": 130}
    with picture(path, 1, len(shown), **shape) as (figure, grid):
        for axes, snapshot in zip(grid[0], shown, strict=True):
            regression = snapshot.regression
            plot_bands(
                {label: snapshot.bands[name] for name, label in _BANDS.items()},
                queries,
                data=(
                    regression.train_inputs[:_SHOWN_DATA],
                    regression.train_targets[:_SHOWN_DATA],
                ),
                true_function=lambda points: torch.from_numpy(function(points.numpy())),
                show_mean=False,
                ax=axes,
                legend=False,
                x_label="input $x$",
                y_label="",
                data_name=f"data (the first {_SHOWN_DATA})",
            )
            axes.set_title(f"t = {regression.num_observations}")
        grid[0][0].set_ylabel("outcome $y$")
        legend_below(figure, grid[0][0], 5)
    return path
