r"""Confidence bands of several acquisition functions along a line."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch
from botorch.exceptions import BotorchTensorDimensionError, UnsupportedError
from torch import Tensor

from kernelucb.acquisition.base import KernelUCB
from kernelucb.plotting.style import BLACK, BLUE, CHOSEN, DATA, GREY, OUTLINES, load_pyplot
from kernelucb.regression import RidgeState

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_HEADROOM = 2.0  # reach of the picture beyond the first band, in heights of that band
_FAINTEST = 0.08  # opacity of marks that say nothing about the line


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
    axes: "Axes | None" = None,
    x_label: str = "input x",
    y_label: str = "outcome y",
    data_name: str = "data",
) -> "Axes":
    r"""Draw confidence bands along a line of points, with data and the true function.

    The band of the first acquisition function is filled and its posterior mean drawn; the
    others are outlines. Outlines far beyond the first band are cut off, and the picture
    says so.

    Example:
        >>> X = torch.linspace(-1, 1, 400, dtype=torch.float64).unsqueeze(-1)
        >>> bands = {"exact": MartingaleMixtureUCB(model, norm_bound=10.0),
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
        axes: Where to draw; new axes when absent.
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
    axes = _new_axes() if axes is None else axes
    first = next(iter(acquisitions.values()))
    _draw_bands(axes, acquisitions, X, coordinate)
    abscissa = X[:, coordinate]
    if show_mean:
        mean = first.regression.mean(X)
        axes.plot(abscissa, mean, color=BLUE, lw=1.3, ls=(0, (4, 2)), label="mean")
    if true_function is not None:
        truth = true_function(X).reshape(-1)
        axes.plot(abscissa, truth, color=BLACK, lw=1.6, label="true function")
    for points, name in ((data, data_name), (chosen, "chosen points")):
        if points is not None:
            weights = slice_weights(first, points[0], X, coordinate) if fade else None
            style = CHOSEN if points is chosen else DATA
            _draw_points(axes, points, coordinate, weights, {**style, "label": name})
    axes.set(xlabel=x_label, ylabel=y_label)
    axes.margins(x=0)
    _limit_height(axes, first, X)
    return axes


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
        UnsupportedError: If the bound is not computed from one kernel.
    """
    projected = line[:1].to(X).repeat(len(X), 1)
    projected[:, coordinate] = X[:, coordinate]
    state = acquisition.regression
    if not isinstance(state, RidgeState):
        raise UnsupportedError(
            f"{type(acquisition).__name__} is not computed from one kernel; leave out fade."
        )
    prior = state.prior
    left, right = prior.transform(X.double()), prior.transform(projected.double())
    scale = (prior.variance(left) * prior.variance(right)).sqrt()
    covariance = prior.covariance(left, right).diagonal()
    return (covariance / scale).square().clamp(0.0, 1.0)


@torch.no_grad()
def band_widths(acquisitions: Mapping[str, KernelUCB], X: Tensor) -> dict[str, float]:
    r"""Mean width of each band over ``n x d`` points, outcome units."""
    sides = {name: acqf.bounds(X) for name, acqf in acquisitions.items()}
    return {name: float((upper - lower).mean()) for name, (lower, upper) in sides.items()}


def _new_axes() -> "Axes":
    return load_pyplot().subplots()[1]


def _limit_height(axes: "Axes", first: KernelUCB, X: Tensor) -> None:
    r"""Cut off outlines far beyond the first band."""
    lower, upper = first.bounds(X)
    low, high = float(lower.min()), float(upper.max())
    reach = _HEADROOM * (high - low)
    bottom, top = axes.get_ylim()
    if bottom >= low - reach and top <= high + reach:
        return
    axes.set_ylim(max(bottom, low - reach), min(top, high + reach))
    style: dict[str, Any] = {"ha": "right", "va": "top", "fontsize": "small", "color": GREY}
    note = "what lies beyond is cut off"
    axes.annotate(note, (0.99, 0.98), xycoords="axes fraction", **style)


def _draw_bands(
    axes: "Axes", acquisitions: Mapping[str, KernelUCB], X: Tensor, coordinate: int
) -> None:
    x = X[:, coordinate]
    for index, (name, acquisition) in enumerate(acquisitions.items()):
        lower, upper = acquisition.bounds(X)
        if index == 0:
            axes.fill_between(x, lower, upper, color=BLUE, alpha=0.25, lw=0, label=name)
            for side in (lower, upper):
                axes.plot(x, side, color=BLUE, lw=0.9, zorder=1.4)
            continue
        style = OUTLINES[(index - 1) % len(OUTLINES)]
        axes.plot(x, upper, label=name, zorder=1.5, **style)
        axes.plot(x, lower, zorder=1.5, **style)


def _draw_points(
    axes: "Axes",
    points: tuple[Tensor, Tensor],
    coordinate: int,
    weights: Tensor | None,
    style: dict[str, Any],
) -> None:
    X, Y = points[0], points[1].reshape(-1)
    # The legend gets a mark of its own: the first point may be a faint one.
    axes.scatter([], [], **style)
    opacity = torch.ones(len(X)) if weights is None else weights.clamp_min(_FAINTEST)
    style = {**style, "label": None, "alpha": opacity.tolist()}
    axes.scatter(X[:, coordinate], Y, zorder=3, **style)
