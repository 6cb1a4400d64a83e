r"""Confidence bands of several acquisition functions along a line."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from botorch.exceptions import BotorchTensorDimensionError
from torch import Tensor

from kernelucb.acquisition.base import KernelUCB
from kernelucb.plotting.planes import draw_weighted, nearness
from kernelucb.plotting.style import (
    BLACK,
    BLUE,
    CHOSEN,
    DATA,
    GREY,
    OUTLINES,
    Axes,
    add_legend,
    new_axes,
)

_HEADROOM = 2.0  # reach of the picture beyond the first band, in heights of that band


@torch.no_grad()
def plot_bands(
    acquisitions: Mapping[str, KernelUCB],
    X: Tensor,
    *,
    coordinate: int = 0,
    data: tuple[Tensor, Tensor] | None = None,
    chosen: tuple[Tensor, Tensor] | None = None,
    true_function: Callable[[Tensor], Tensor] | None = None,
    show_mean: bool = True,
    fade: bool = False,
    ax: Axes | None = None,
    legend: bool = True,
    x_label: str = "input x",
    y_label: str = "outcome y",
    data_name: str = "data",
) -> Axes:
    r"""Draw confidence bands along a line of points, with data and the true function.

    The band of the first acquisition function is filled and its posterior mean drawn; the
    others are outlines. Outlines far beyond the first band are cut off, and the picture
    says so.

    Example:
        >>> X = torch.linspace(-1, 1, 400, dtype=torch.float64).unsqueeze(-1)
        >>> bands = {"filters": MartingaleMixtureUCB(model, norm_bound=10.0),
        ...          "Abbasi-Yadkori": AbbasiYadkoriUCB(model, norm_bound=10.0)}
        >>> plot_bands(bands, X, data=(train_X, train_Y))

    Args:
        acquisitions: Acquisition functions by their names in the legend.
        X: ``n x d`` points along the line, in drawing order (see ``slice_points``).
        coordinate: Column of ``X`` on the horizontal axis.
        data: ``n x d`` inputs and ``n`` or ``n x 1`` outcomes, outcome units.
        chosen: Inputs and outcomes of the points that the bound chose, as ``data``.
        true_function: Maps ``n x d`` points to ``n`` values without noise.
        show_mean: Whether to draw the posterior mean.
        fade: Whether to draw marks fainter the less their points say about the line (see
            ``slice_weights``).
        ax: Where to draw; new axes when absent.
        legend: Whether to draw a legend.
        x_label: Horizontal label, with units.
        y_label: Vertical label, with units.
        data_name: Name of ``data`` in the legend.

    Returns:
        The axes.

    Raises:
        ImportError: If matplotlib is absent.
        ValueError: If ``acquisitions`` is empty.
        BotorchTensorDimensionError: If ``X`` is not ``n x d``.
    """
    if not acquisitions:
        raise ValueError("acquisitions must hold at least one acquisition function.")
    if X.dim() != 2:
        raise BotorchTensorDimensionError(f"X must be `n x d`, got shape {tuple(X.shape)}.")
    ax = new_axes() if ax is None else ax
    first = next(iter(acquisitions.values()))
    _draw_bands(ax, acquisitions, X, coordinate)
    abscissa = X[:, coordinate]
    if show_mean:
        mean = first.outcome_map.inverse(first.regression.mean(X))
        ax.plot(abscissa, mean, color=BLUE, lw=1.3, ls=(0, (4, 2)), label="mean")
    if true_function is not None:
        truth = true_function(X).reshape(-1)
        ax.plot(abscissa, truth, color=BLACK, lw=1.6, label="true function")
    for points, name in ((data, data_name), (chosen, "chosen points")):
        if points is not None:
            weights = slice_weights(first, points[0], X, coordinate) if fade else None
            style = CHOSEN if points is chosen else DATA
            X_marks, Y_marks = points[0][:, coordinate], points[1].reshape(-1)
            opaque = torch.ones(len(X_marks)) if weights is None else weights
            draw_weighted(ax, X_marks, Y_marks, opaque, {**style, "label": name})
    ax.set(xlabel=x_label, ylabel=y_label)
    ax.margins(x=0)
    _limit_height(ax, first, X)
    if legend:
        add_legend(ax)
    return ax


def slice_points(
    point: Tensor, coordinate: int, lower: float, upper: float, num_points: int = 300
) -> Tensor:
    r"""``num_points x d`` points through a point of ``d`` numbers.

    The coordinate runs from ``lower`` to ``upper``, the others stay.
    """
    line = point.detach().reshape(1, -1).repeat(num_points, 1)
    line[:, coordinate] = torch.linspace(lower, upper, num_points, dtype=line.dtype)
    return line


@torch.no_grad()
def slice_weights(
    acquisition: KernelUCB, X: Tensor, line: Tensor, coordinate: int
) -> Tensor:
    r"""How much points say about a line: squared correlation with their projections.

    That is the share of the variance at the projection that the point's value explains.

    Args:
        acquisition: Gives the kernel.
        X: ``n x d`` points.
        line: ``m x d`` points of the line; its first row gives the fixed coordinates.
        coordinate: The coordinate that varies along the line.

    Returns:
        ``n`` numbers from 0 (the line says nothing about the point) to 1 (on the line).

    Raises:
        UnsupportedError: If the bound is not computed from one kernel or a family.
    """
    return nearness(acquisition, X, line, [coordinate])


@torch.no_grad()
def band_widths(acquisitions: Mapping[str, KernelUCB], X: Tensor) -> dict[str, float]:
    r"""Mean width of each band over ``n x d`` points, outcome units."""
    sides = {name: acqf.bounds(X) for name, acqf in acquisitions.items()}
    return {name: float((upper - lower).mean()) for name, (lower, upper) in sides.items()}


def _limit_height(ax: Axes, first: KernelUCB, X: Tensor) -> None:
    r"""Cut off outlines far beyond the first band."""
    lower, upper = first.bounds(X)
    low, high = float(lower.min()), float(upper.max())
    reach = _HEADROOM * (high - low)
    bottom, top = ax.get_ylim()
    if bottom >= low - reach and top <= high + reach:
        return
    ax.set_ylim(max(bottom, low - reach), min(top, high + reach))
    style: dict[str, Any] = {"ha": "right", "va": "top", "fontsize": "small", "color": GREY}
    note = "what lies beyond is cut off"
    ax.annotate(note, (0.99, 0.98), xycoords="axes fraction", **style)


def _draw_bands(
    ax: Axes, acquisitions: Mapping[str, KernelUCB], X: Tensor, coordinate: int
) -> None:
    x = X[:, coordinate]
    for index, (name, acquisition) in enumerate(acquisitions.items()):
        lower, upper = acquisition.bounds(X)
        if index == 0:
            ax.fill_between(x, lower, upper, color=BLUE, alpha=0.25, lw=0, label=name)
            for side in (lower, upper):
                ax.plot(x, side, color=BLUE, lw=0.9, zorder=1.4)
            continue
        style = OUTLINES[(index - 1) % len(OUTLINES)]
        ax.plot(x, upper, label=name, zorder=1.5, **style)
        ax.plot(x, lower, zorder=1.5, **style)
