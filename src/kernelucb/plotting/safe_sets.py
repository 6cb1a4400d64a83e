r"""A safe set and its frontier."""

from collections.abc import Sequence
from typing import Any

import torch
from botorch.exceptions import UnsupportedError
from torch import Tensor

from kernelucb._numerics.checks import whole_number
from kernelucb._numerics.domains import checked_box, checked_points
from kernelucb.plotting.bands import (
    checked_columns,
    checked_names,
    elsewhere,
    scatter,
    slice_weights,
)
from kernelucb.plotting.style import BLACK, BLUE, CHOSEN, Axes, add_legend, new_axes
from kernelucb.safety import SafeSet

_SQUARE = (6.6, 4.2)


@torch.no_grad()
def plot_safe_set(
    safe_set: SafeSet,
    *,
    bounds: Tensor,
    coordinates: Sequence[int] | None = None,
    point: Tensor | None = None,
    earlier: SafeSet | None = None,
    chosen: Tensor | None = None,
    input_names: Sequence[str] | None = None,
    num_points: int = 60,
    ax: Axes | None = None,
) -> Axes:
    r"""Draw a safe set and its frontier, over two inputs or along one.

    Over two inputs the set is filled and its frontier drawn as a line; along one the curve
    is the least margin by which the bands keep the constraints, and the set is where it is
    not negative. The margin is computed on a grid and drawn between its points by
    interpolation: ask ``safe_set.is_safe`` of a point that is to be evaluated.

    Example:
        >>> plot_safe_set(safe_set, bounds=bounds, chosen=X)

    Args:
        safe_set: The set.
        bounds: ``2 x d`` lower and upper limits of the domain.
        coordinates: One or two inputs that vary, the horizontal one first; the first two
            (the only one) when absent.
        point: ``d`` or ``1 x d`` coordinates of a point that gives the other inputs; the
            middle of the domain when absent.
        earlier: The set of an earlier round, whose frontier is drawn dotted.
        chosen: ``n x d`` points, such as those evaluated; fainter the less near they are.
        input_names: Names of the ``d`` inputs.
        num_points: Number of values of each input that varies.
        ax: Where to draw.

    Raises:
        BotorchTensorDimensionError: If a tensor has the wrong shape.
        InputDataError: If a value is not finite.
        ValueError: If ``coordinates`` are no columns, or names do not fit the inputs.
        UncertifiedError: If the data now contradict a band of the set.
    """
    limits = checked_box(bounds)
    dimension, count = limits.shape[1], whole_number("num_points", num_points)
    names = checked_names(input_names, dimension)
    default = range(min(dimension, 2))
    columns = checked_columns(default if coordinates is None else coordinates, dimension)
    middle = limits.mean(0, keepdim=True)
    if point is not None:
        middle = checked_points("point", point.reshape(1, -1), dimension).to(limits)
    ends = limits[:, columns].double().T.tolist()
    sides = [torch.linspace(a, b, count, dtype=torch.float64) for a, b in ends]
    grid = torch.cartesian_prod(*sides).reshape(-1, len(columns))
    points = middle.repeat(len(grid), 1)
    points[:, columns] = grid

    def margins(of: SafeSet) -> Tensor:
        values = of.margin(points).detach().cpu()
        return values.reshape(count, count).mT if len(columns) == 2 else values

    ax = new_axes(_SQUARE) if ax is None else ax
    draw = _fill if len(columns) == 2 else _draw
    draw(ax, sides, margins(safe_set), f"safe set, {safe_set.assumptions.verdict}")
    if earlier is not None and len(columns) == 2:
        _draw_frontier(ax, sides, margins(earlier), "frontier, earlier", ls=":")
    elif earlier is not None:
        label = "least margin, earlier"
        ax.plot(*sides, margins(earlier), color=BLUE, lw=1.6, ls=":", label=label)
    if chosen is not None:
        X = checked_points("chosen", chosen, dimension)
        across, upwards = X[:, columns[0]], X[:, columns[-1]]
        style: dict[str, Any] = {**CHOSEN, "label": "evaluated"}
        if len(columns) == 1:
            upwards = torch.zeros_like(across)
            style |= {"transform": ax.get_xaxis_transform(), "clip_on": False}
        scatter(ax, across, upwards, _nearness(safe_set, X, points, columns), style)
    ax.set_xlabel(", ".join([names[columns[0]], *elsewhere(names, middle[0], *columns)]))
    if len(columns) == 2:
        ax.set_ylabel(names[columns[1]])
        ax.set(xlim=ends[0], ylim=ends[1])
    add_legend(ax, title=f"looked at {' x '.join([str(count)] * len(columns))} points")
    return ax


def _nearness(
    safe_set: SafeSet, X: Tensor, points: Tensor, columns: list[int]
) -> Tensor | None:
    r"""How near points are to a line or plane; None where all are equally so."""
    if len(columns) == X.shape[1]:
        return None
    try:
        return slice_weights(safe_set.constraints[0].band, X, points, *columns)  # type: ignore[arg-type]
    except UnsupportedError:
        return None


def _fill(ax: Axes, sides: list[Tensor], margins: Tensor, label: str) -> None:
    r"""Fill where a picture of margins is not negative, and draw its frontier."""
    low, high = float(margins.min()), float(margins.max())
    if high < 0.0:
        ax.plot([], [], " ", label=f"no point here is in the {label}")
        return
    filled: dict[str, Any] = {"levels": [0.0, high + 1.0], "colors": [BLUE], "alpha": 0.25}
    ax.contourf(*sides, margins, **filled)
    ax.fill_between([], [], [], color=BLUE, alpha=0.25, lw=0, label=label)
    if low < 0.0:
        _draw_frontier(ax, sides, margins, "frontier", ls="-")


def _draw(ax: Axes, sides: list[Tensor], margins: Tensor, label: str) -> None:
    (side,) = sides
    ax.plot(side, margins, color=BLUE, lw=1.6, label="least margin")
    across = ax.get_xaxis_transform()
    shading: dict[str, Any] = {"transform": across, "color": BLUE, "alpha": 0.2, "lw": 0}
    inside = (margins >= 0.0).tolist()
    ax.fill_between(side, 0.0, 1.0, where=inside, label=label, **shading)
    ax.axhline(0.0, color=BLACK, lw=1, label="frontier")
    ax.set_ylabel("margin (prior standard deviations)")
    ax.margins(x=0)


def _draw_frontier(
    ax: Axes, sides: list[Tensor], margins: Tensor, label: str, ls: str
) -> None:
    r"""The line where margins over two inputs are zero, if there is one."""
    if float(margins.min()) < 0.0 <= float(margins.max()):
        ax.contour(
            *sides, margins, levels=[0.0], colors=BLUE, linestyles=ls, linewidths=1.6
        )
    ax.plot([], [], color=BLUE, lw=1.6, ls=ls, label=label)
