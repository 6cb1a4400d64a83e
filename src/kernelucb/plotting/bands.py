r"""Confidence bands along a line of points."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from botorch.exceptions import BotorchTensorDimensionError, UnsupportedError
from torch import Tensor

from kernelucb._numerics.domains import checked_box, checked_points
from kernelucb.acquisition.ucb import BandUCB
from kernelucb.confidence.combined import CombinedState, WeightedSum
from kernelucb.plotting.style import (
    BLACK,
    BLUE,
    CHOSEN,
    DATA,
    GREY,
    OUTLINES,
    WITNESS,
    Axes,
    add_legend,
    new_axes,
)
from kernelucb.regression import RidgeState

_HEADROOM = 2.0  # reach of the picture beyond the first band, in heights of that band
_FAINTEST = 0.08  # opacity of marks that say nothing about what is drawn


@torch.no_grad()
def plot_bands(
    acquisitions: Mapping[str, BandUCB],
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
        show_mean: Whether to draw the posterior mean, within a known range.
        fade: Whether to draw marks fainter the less their points say about the line (see
            ``slice_weights``).
        ax: Where to draw.
        legend: Whether to draw a legend.
        x_label: Horizontal label.
        y_label: Vertical label.
        data_name: Name of ``data`` in the legend.

    Raises:
        ValueError: If ``acquisitions`` is empty.
        BotorchTensorDimensionError: If ``X`` is not ``n x d``.
    """
    if not acquisitions:
        raise ValueError("acquisitions must hold at least one acquisition function.")
    if X.dim() != 2:
        raise BotorchTensorDimensionError(f"X must be `n x d`, got shape {tuple(X.shape)}.")
    ax = new_axes() if ax is None else ax
    sides = {name: acqf.bounds(X) for name, acqf in acquisitions.items()}
    first, x = next(iter(acquisitions.values())), X[:, coordinate]
    for index, (name, (lower, upper)) in enumerate(sides.items()):
        style: dict[str, Any] = OUTLINES[(index - 1) % len(OUTLINES)] | {"zorder": 1.5}
        if index == 0:
            ax.fill_between(x, lower, upper, color=BLUE, alpha=0.25, lw=0, label=name)
            style = {"color": BLUE, "linewidth": 0.9, "zorder": 1.4}
        ax.plot(x, lower, **style)
        ax.plot(x, upper, label=name if index else None, **style)
    if show_mean:
        own = first.confidence_set
        latent = first.regression.mean(X).clamp(-own.limit(-1), own.limit(1))
        mean = first.outcome_map.inverse(latent)
        ax.plot(x, mean, color=BLUE, lw=1.3, ls=(0, (4, 2)), label="mean")
    if true_function is not None:
        truth = true_function(X).reshape(-1)
        ax.plot(x, truth, color=BLACK, lw=1.6, label="true function")
    for points, name in ((data, data_name), (chosen, "chosen points")):
        if points is not None:
            weights = slice_weights(first, points[0], X, coordinate) if fade else None
            style = {**(CHOSEN if points is chosen else DATA), "label": name}
            scatter(ax, points[0][:, coordinate], points[1].reshape(-1), weights, style)
    ax.set(xlabel=x_label, ylabel=y_label)
    ax.margins(x=0)
    lower, upper = next(iter(sides.values()))
    _limit_height(ax, float(lower.min()), float(upper.max()))
    if legend:
        add_legend(ax)
    return ax


@torch.no_grad()
def plot_slice(
    acqf: BandUCB,
    point: Tensor,
    *,
    bounds: Tensor,
    coordinate: int = 0,
    data: tuple[Tensor, Tensor] | None = None,
    witness: bool = False,
    true_function: Callable[[Tensor], Tensor] | None = None,
    input_names: Sequence[str] | None = None,
    outcome_name: str = "outcome",
    num_points: int = 300,
    ax: Axes | None = None,
) -> Axes:
    r"""Draw a band along one input through a point, the other inputs as at the point.

    Marks of the data are the fainter, the less they say about the line (see
    ``slice_weights``).

    Example:
        >>> plot_slice(acqf, x[0], bounds=bounds, data=(train_X, train_Y), witness=True)

    Args:
        acqf: Any bound of this package.
        point: ``d`` or ``1 x d`` coordinates of a point of the domain.
        bounds: ``2 x d`` lower and upper limits of the domain.
        coordinate: The input that varies.
        data: ``n x d`` inputs and ``n`` or ``n x 1`` outcomes, outcome units.
        witness: Whether to draw the function of the confidence set that attains the bound
            at the point: the upper one, or the lower where small outcomes are sought.
        true_function: Maps ``n x d`` points to ``n`` values without noise.
        input_names: Names of the ``d`` inputs.
        outcome_name: Name of the outcome.
        num_points: How many points of the line are looked at.
        ax: Where to draw.

    Raises:
        BotorchTensorDimensionError: If a tensor has the wrong shape.
        InputDataError: If a value is not finite.
        ValueError: If ``coordinate`` is no column, or names do not fit the inputs.
        UnsupportedError: If a witness is asked of a bound that has none, or data are drawn
            for a band that is not computed from one kernel or a family.
    """
    dimension = acqf.regression.dimension
    limits = checked_box(bounds, dimension)
    place = checked_points("point", point.reshape(1, -1), dimension)
    names = checked_names(input_names, dimension)
    checked_columns([coordinate], dimension)
    if witness and not hasattr(acqf, "witness"):
        raise UnsupportedError(
            f"{type(acqf).__name__} has no witness; leave out witness, or use "
            "MartingaleMixtureUCB."
        )
    if data is not None:
        data = checked_points("data", data[0], dimension), data[1].detach().reshape(-1)
        if len(data[0]) != len(data[1]):
            raise BotorchTensorDimensionError(
                f"data has {len(data[0])} inputs and {len(data[1])} outcomes; give one for "
                "each."
            )
    low, high = limits[:, coordinate].tolist()
    line = slice_points(place, coordinate, low, high, num_points)
    fade = dimension > 1
    ax = plot_bands(
        {f"band, {acqf.assumptions.verdict}": acqf},
        line,
        coordinate=coordinate,
        data=data,
        true_function=true_function,
        fade=fade,
        ax=ax,
        legend=False,
        x_label=", ".join([names[coordinate], *elsewhere(names, place[0], coordinate)]),
        y_label=outcome_name,
        data_name="data, fainter the less\nthey say about this line" if fade else "data",
    )
    if witness:
        _draw_witness(ax, acqf, place, line, coordinate)
    else:
        ax.axvline(float(place[0, coordinate]), color=GREY, lw=0.8, ls=":")
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
    acquisition: BandUCB, X: Tensor, line: Tensor, coordinate: int, *others: int
) -> Tensor:
    r"""How much points say about a line or plane: squared correlation with their images.

    For each of ``n x d`` points the share of the variance at the projection that the
    point's value explains, from 0 to 1 (on the line); of several kernels, the largest
    share. The first row of ``line`` gives the inputs that are fixed; ``coordinate`` varies,
    and ``others`` of a plane.

    Raises:
        UnsupportedError: If the bound is not computed from one kernel or a family.
    """
    columns = [coordinate, *others]
    images = line[:1].to(X).repeat(len(X), 1)
    images[:, columns] = X[:, columns]
    state: Any = acquisition.regression
    combined = isinstance(state, CombinedState) and not isinstance(state.rule, WeightedSum)
    states: list[Any] = [*state.states] if combined else [state]
    shares: list[Tensor] = []
    for each in states:
        if not isinstance(each, RidgeState):
            raise UnsupportedError(
                f"{type(acquisition).__name__} is not computed from one kernel; leave out "
                "fade."
            )
        prior = each.prior
        left, right = prior.transform(X.double()), prior.transform(images.double())
        scale = (prior.variance(left) * prior.variance(right)).sqrt()
        shares.append((prior.covariance(left, right).diagonal() / scale).square())
    return torch.stack(shares).amax(0).clamp(0.0, 1.0).cpu()


@torch.no_grad()
def band_widths(acquisitions: Mapping[str, BandUCB], X: Tensor) -> dict[str, float]:
    r"""Mean width of each band over ``n x d`` points, outcome units."""
    sides = {name: acqf.bounds(X) for name, acqf in acquisitions.items()}
    return {name: float((upper - lower).mean()) for name, (lower, upper) in sides.items()}


def scatter(
    ax: Axes, across: Tensor, upwards: Tensor, weights: Tensor | None, style: dict[str, Any]
) -> None:
    r"""Marks at ``n`` places, with ``n`` weights from 0 to 1 as their opacity."""
    # The legend gets a mark of its own: the first point may be a faint one.
    ax.scatter([], [], **style)
    weights = torch.ones(len(across)) if weights is None else weights
    opacity = weights.clamp_min(_FAINTEST).tolist()
    own: dict[str, Any] = {"zorder": 3, **style, "label": None, "alpha": opacity}
    ax.scatter(across.detach().cpu(), upwards.detach().cpu(), **own)


def checked_names(names: Sequence[str] | None, dimension: int) -> list[str]:
    r"""The names of ``d`` inputs; ``"input 1"`` and so on where none are given."""
    if names is None:
        return [f"input {i}" for i in range(1, dimension + 1)]
    if len(names) != dimension:
        raise ValueError(
            f"input_names has {len(names)} entries for {dimension} inputs; give each one a "
            "name."
        )
    return list(names)


def checked_columns(coordinates: Sequence[int], dimension: int) -> list[int]:
    r"""One or two different columns of ``d``."""
    columns = list(coordinates)
    known = all(0 <= c < dimension for c in columns)
    if not known or len(set(columns)) < len(columns) or not 1 <= len(columns) <= 2:
        raise ValueError(
            f"coordinates must be one or two different columns from 0 to {dimension - 1}, "
            f"got {columns}."
        )
    return columns


def elsewhere(names: Sequence[str], point: Tensor, *shown: int) -> list[str]:
    r"""Where the inputs that are not shown stand: ``["at time (h) 3.5"]``; may be empty."""
    fixed = [i for i in range(len(names)) if i not in shown]
    if len(fixed) > 3:
        return [f"at the point's other {len(fixed)} inputs"]
    listed = ", ".join(f"{names[i]} {float(point[i]):.4g}" for i in fixed)
    return [f"at {listed}"] if listed else []


def _limit_height(ax: Axes, low: float, high: float) -> None:
    r"""Cut off outlines far beyond the first band, which lies between these."""
    reach = _HEADROOM * (high - low)
    bottom, top = ax.get_ylim()
    if bottom >= low - reach and top <= high + reach:
        return
    ax.set_ylim(max(bottom, low - reach), min(top, high + reach))
    style: dict[str, Any] = {"ha": "right", "va": "top", "fontsize": "small", "color": GREY}
    note = "what lies beyond is cut off"
    ax.annotate(note, (0.99, 0.98), xycoords="axes fraction", **style)


def _draw_witness(
    ax: Axes, acqf: Any, point: Tensor, line: Tensor, coordinate: int
) -> None:
    r"""The function that attains the bound at a ``1 x d`` point, and where it does."""
    function = acqf.witness(point, upper=acqf.direction == 1)
    values, top = (acqf.outcome_map.inverse(function(X)) for X in (line, point))
    ax.plot(line[:, coordinate].cpu(), values.cpu(), label="witness", **WITNESS)
    star: dict[str, Any] = {"marker": "*", "s": 150, "color": WITNESS["color"], "zorder": 4}
    ax.scatter(point[:, coordinate].cpu(), top.cpu(), label="bound at the point", **star)
