r"""A safe set and its frontier."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from kernelucb._numerics.arguments import checked
from kernelucb._numerics.domains import checked_box, checked_points
from kernelucb.plotting.planes import Plane, nearness_or_ones
from kernelucb.plotting.style import BLACK, BLUE, CHOSEN, Axes, add_legend, new_axes
from kernelucb.safety import SafeSet

_SQUARE = (6.6, 4.2)


@checked
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
    interpolation: ask ``safe_set.is_safe`` of a point that is to be evaluated. The legend
    says "certified" only where ``safe_set.assumptions`` do.

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
        input_names: Names of the ``d`` inputs, with units.
        num_points: Number of values of each input that varies.
        ax: Where to draw; new axes when absent.

    Returns:
        The axes.

    Raises:
        ImportError: If matplotlib is absent.
        BotorchTensorDimensionError: If a tensor has the wrong shape.
        InputDataError: If a value is not finite.
        ValueError: If ``coordinates`` are no columns, or names do not fit the inputs.
        UncertifiedError: If the data now contradict a band of the set.
    """
    limits = checked_box(bounds)
    dimension = limits.shape[1]
    columns = tuple(range(min(dimension, 2))) if coordinates is None else coordinates
    plane = Plane.through(point, limits, columns, num_points, input_names)
    margins = plane.picture(safe_set.margin(plane.points))
    before = None if earlier is None else plane.picture(earlier.margin(plane.points))
    ax = new_axes(_SQUARE) if ax is None else ax
    label = f"safe set, {safe_set.assumptions.verdict}"
    draw = _fill_margins if len(plane.coordinates) == 2 else _draw_margins
    draw(ax, plane, margins, label)
    if before is not None:
        _draw_earlier(ax, plane, before)
    if chosen is not None:
        X = checked_points("chosen", chosen, dimension)
        band = safe_set.constraints[0].band
        weights = nearness_or_ones(band, X, plane.points, plane.coordinates)
        plane.scatter(ax, X, weights, {**CHOSEN, "label": "evaluated"})
    plane.label(ax)
    add_legend(ax, title=plane.words)
    return ax


def _fill_margins(ax: Axes, plane: Plane, margins: Tensor, label: str) -> None:
    r"""Fill where a picture of margins is not negative, and draw its frontier."""
    low, high = float(margins.min()), float(margins.max())
    if high < 0.0:
        ax.plot([], [], " ", label=f"no point here is in the {label}")
        return
    filled: dict[str, Any] = {"levels": [0.0, high + 1.0], "colors": [BLUE], "alpha": 0.25}
    ax.contourf(*plane.sides, margins, **filled)
    ax.fill_between([], [], [], color=BLUE, alpha=0.25, lw=0, label=label)
    if low < 0.0:
        ax.contour(*plane.sides, margins, levels=[0.0], colors=BLUE, linewidths=1.6)
        ax.plot([], [], color=BLUE, lw=1.6, label="frontier")


def _draw_margins(ax: Axes, plane: Plane, margins: Tensor, label: str) -> None:
    side = plane.sides[0]
    ax.plot(side, margins, color=BLUE, lw=1.6, label="least margin")
    inside = (margins >= 0.0).tolist()
    across = ax.get_xaxis_transform()
    shading: dict[str, Any] = {"transform": across, "color": BLUE, "alpha": 0.2, "lw": 0}
    ax.fill_between(side, 0.0, 1.0, where=inside, label=label, **shading)
    ax.axhline(0.0, color=BLACK, lw=1, label="frontier")
    ax.set_ylabel("margin (prior standard deviations)")
    ax.margins(x=0)


def _draw_earlier(ax: Axes, plane: Plane, margins: Tensor) -> None:
    style: dict[str, Any] = {"color": BLUE, "ls": ":", "lw": 1.6}
    if len(plane.coordinates) == 1:
        ax.plot(plane.sides[0], margins, label="least margin, earlier", **style)
        return
    if float(margins.min()) < 0.0 <= float(margins.max()):
        shape: dict[str, Any] = {
            "levels": [0.0],
            "colors": BLUE,
            "linestyles": ":",
            "linewidths": 1.6,
        }
        ax.contour(*plane.sides, margins, **shape)
    ax.plot([], [], label="frontier, earlier", **style)
