r"""Pictures of the regret curves, the times and the bands."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.papers.flynn_reeb_2024.configuration import Method, Setting
from benchmarks.papers.flynn_reeb_2024.summaries import Selection, cumulative_regret
from benchmarks.runner import RunStore, draw_spread, legend_below, picture

# Okabe & Ito's palette, and a dash pattern each, so that grey print tells them apart.
STYLES = {
    "filters": {"color": "#000000", "linestyle": "-", "linewidth": 2.0},
    "exact": {"color": "#0072B2", "linestyle": "-", "linewidth": 2.0},
    "mixture": {"color": "#56B4E9", "linestyle": (0, (3, 1.5))},
    "dmm": {"color": "#E69F00", "linestyle": (0, (6, 2))},
    "amm": {"color": "#009E73", "linestyle": (0, (6, 2, 1.2, 2))},
    "ay": {"color": "#D55E00", "linestyle": (0, (1.2, 1.6))},
    "igp": {"color": "#CC79A7", "linestyle": (0, (8, 3, 1, 3, 1, 3))},
    "random": {"color": "#6E6E6E", "linestyle": (0, (1, 4))},
    "numpy_dmm": {"color": "#222222", "linestyle": (0, (6, 2))},
    "numpy_amm": {"color": "#222222", "linestyle": (0, (1.2, 1.6))},
}
KERNELS = {"rbf": "RBF", "matern52": "Matérn 5/2", "matern32": "Matérn 3/2"}


def panel_title(setting: Setting) -> str:
    r"""What a panel shows, in words."""
    return f"{KERNELS[setting.kernel]}, length {setting.lengthscale:g}"


def draw_regret(store: RunStore, selection: Selection, path: Path, title: str) -> Path:
    r"""One panel per setting: mean ± standard deviation of the cumulative regret."""
    lengths = sorted({s.lengthscale for s in selection.settings}, reverse=True)
    kernels = list(dict.fromkeys(s.kernel for s in selection.settings))
    shape = len(lengths), len(kernels)
    size = (3.1 * shape[1] + 0.6, 2.6 * shape[0] + 0.8)
    with picture(path, *shape, figsize=size, squeeze=False, dpi=130) as (figure, grid):
        for setting in selection.settings:
            axes = grid[lengths.index(setting.lengthscale)][kernels.index(setting.kernel)]
            _draw_panel(axes, store, selection, setting, panel_title(setting))
        _finish(figure, grid, title)
    return path


def draw_figure7(store: RunStore, selection: Selection, path: Path) -> Path:
    r"""One panel for each pair of beliefs about noise and norm."""
    protocol, columns = selection.configuration.protocol, len(selection.settings)
    options = {"squeeze": False, "sharey": True, "dpi": 130}
    size = (2.7 * columns + 0.4, 3.6)
    with picture(path, 1, columns, figsize=size, **options) as (figure, grid):
        for axes, setting in zip(grid[0], selection.settings, strict=True):
            noise = setting.noise_factor * protocol.noise_std
            norm = setting.norm_factor * protocol.norm
            title = f"believed $\\sigma$ = {noise:g}, $B$ = {norm:g}"
            _draw_panel(axes, store, selection, setting, title)
        title = (
            f"True $\\sigma$ = {protocol.noise_std:g}, $B$ = {protocol.norm:g}; mean ± "
            f"standard deviation of {selection.repetitions} repetitions"
        )
        _finish(figure, grid, title)
    return path


def _draw_panel(
    axes, store: RunStore, selection: Selection, setting: Setting, title: str
) -> None:
    rounds = np.arange(1, selection.rounds + 1)
    top = 0.0
    for method in selection.methods:
        curves = cumulative_regret(store, selection, setting, method)
        mean, std = curves.mean(axis=0), curves.std(axis=0)
        style = STYLES[method.name]
        draw_spread(axes, rounds, mean, std, style, method.label, alpha=0.15, lw=0)
        if method.bound is not None:
            top = max(top, float((mean + std)[-1]))
    axes.set_title(title)
    # Random leaves every panel early; the learners are what the picture compares.
    axes.set(xlim=(0, selection.rounds), ylim=(0, 1.05 * top if top else None))


def _finish(figure, grid: np.ndarray, title: str) -> None:
    for axes in grid[-1]:
        axes.set_xlabel("round")
    for row in grid:
        row[0].set_ylabel("cumulative regret")
    legend_below(figure, grid[0][0], 4)
    figure.suptitle(title, fontsize=11)


def draw_times(
    curves: dict[str, np.ndarray], methods: Sequence[Method], path: Path
) -> Path:
    r"""Time per round, running median of 21 rounds, logarithmic."""
    labels = {method.name: method.label for method in methods}
    labels |= {"numpy_dmm": "NumPy DMM (plain)", "numpy_amm": "NumPy AMM (plain)"}
    with picture(path, figsize=(7.2, 4.2), dpi=130) as (figure, axes):
        for name, curve in curves.items():
            if name == "random":
                continue
            window = min(21, len(curve))
            parts = np.lib.stride_tricks.sliding_window_view(curve, window)
            rounds = np.arange(len(parts)) + window // 2 + 1
            medians = 1e3 * np.median(parts, axis=1)
            axes.plot(rounds, medians, label=labels[name], **STYLES[name])
        axes.set(yscale="log", xlabel="round", ylabel="milliseconds a round")
        legend_below(figure, axes, 4)
    return path
