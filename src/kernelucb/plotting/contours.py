r"""The sides of a band and its width over a plane."""

from collections.abc import Sequence

import torch
from torch import Tensor

from kernelucb._numerics.arguments import checked
from kernelucb._numerics.domains import checked_box
from kernelucb.acquisition.base import KernelUCB
from kernelucb.plotting.planes import Data, Plane, checked_data, nearness_or_ones
from kernelucb.plotting.style import OUTLINED_DATA, Axes, load_pyplot

_LEVELS = 12


@checked
@torch.no_grad()
def plot_contours(
    acqf: KernelUCB,
    *,
    bounds: Tensor,
    coordinates: tuple[int, int] = (0, 1),
    point: Tensor | None = None,
    data: Data | None = None,
    input_names: Sequence[str] | None = None,
    outcome_name: str = "outcome",
    num_points: int = 50,
    axes: Sequence[Axes] | None = None,
) -> tuple[Axes, Axes, Axes]:
    r"""Draw the lower bound, the upper bound and the width over a pair of inputs.

    Both sides share one scale of colours, so that they compare; the width has its own.
    Values are computed on a grid and drawn between its points by interpolation. The title
    calls the band certified only where its ``assumptions`` do.

    Example:
        >>> plot_contours(acqf, bounds=bounds, data=(train_X, train_Y))

    Args:
        acqf: Any bound of this package.
        bounds: ``2 x d`` lower and upper limits of the domain.
        coordinates: The two inputs that vary, the horizontal one first.
        point: ``d`` or ``1 x d`` coordinates of a point that gives the other inputs; the
            middle of the domain when absent.
        data: ``n x d`` inputs, drawn fainter the less they say about the plane (see
            ``plot_slice``), and ``n`` or ``n x 1`` outcomes.
        input_names: Names of the ``d`` inputs, with units.
        outcome_name: Name of the outcome, with its unit.
        num_points: Number of values of each input: the square of it is looked at.
        axes: Three axes, for lower bound, upper bound and width; new ones when absent.

    Returns:
        The three axes.

    Raises:
        ImportError: If matplotlib is absent.
        BotorchTensorDimensionError: If a tensor has the wrong shape.
        InputDataError: If a value is not finite.
        ValueError: If ``coordinates`` are not two columns, names do not fit the inputs, or
            there are not three axes.
    """
    dimension = acqf.regression.dimension
    plane = Plane.through(
        point, checked_box(bounds, dimension), coordinates, num_points, input_names
    )
    left, middle, right = _three_axes() if axes is None else _checked_three(axes)
    lower, upper = (plane.picture(side) for side in acqf.bounds(plane.points))
    shared = _levels(lower.minimum(upper), lower.maximum(upper))
    _fill(left, plane, lower, shared)
    _fill(middle, plane, upper, shared, f"both bounds, {outcome_name}")
    width = upper - lower
    _fill(right, plane, width, _levels(width, width), f"width, {outcome_name}")
    for ax in (middle, right):
        ax.set_ylabel("")
    left.set_title(f"lower bound; band {acqf.assumptions.verdict}", fontsize="medium")
    middle.set_title("upper bound, same scale", fontsize="medium")
    right.set_title("width of the band", fontsize="medium")
    if data is not None:
        X, _ = checked_data(data, dimension)
        weights = nearness_or_ones(acqf, X, plane.points, plane.coordinates)
        for ax in (left, middle, right):
            plane.scatter(ax, X, weights, OUTLINED_DATA)
        left.legend(loc="best", frameon=True, framealpha=0.9)
    return left, middle, right


def _levels(lowest: Tensor, largest: Tensor) -> list[float]:
    r"""Round numbers from the lowest to the largest value of pictures."""
    from matplotlib.ticker import MaxNLocator

    low, high = float(lowest.min()), float(largest.max())
    # A constant has no levels of its own.
    levels = MaxNLocator(_LEVELS).tick_values(low, high if high > low else low + 1.0)
    return [float(level) for level in levels]


def _fill(
    ax: Axes, plane: Plane, values: Tensor, levels: list[float], name: str | None = None
) -> None:
    r"""Fill a picture of values, with a scale beside it if that has a name."""
    drawn = ax.contourf(*plane.sides, values, levels=levels, cmap="viridis")
    plane.label(ax)
    if name is not None:
        ax.figure.colorbar(drawn, ax=ax, label=name)


def _three_axes() -> Sequence[Axes]:
    size = (11.5, 3.4)
    return load_pyplot().subplots(1, 3, figsize=size, sharey=True, layout="constrained")[1]


def _checked_three(axes: Sequence[Axes]) -> Sequence[Axes]:
    if len(axes) != 3:
        raise ValueError(
            f"axes must be three, for lower bound, upper bound and width, got {len(axes)}."
        )
    return axes
