r"""Which points may be an optimum."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from botorch.exceptions import UnsupportedError
from torch import Tensor

from kernelucb._numerics.arguments import checked
from kernelucb._numerics.domains import checked_box
from kernelucb._numerics.parts import in_parts
from kernelucb.acquisition.base import KernelUCB
from kernelucb.certificates.spaces import Region
from kernelucb.certificates.task import Task
from kernelucb.plotting.planes import Data, Plane, checked_data, nearness_or_ones
from kernelucb.plotting.style import (
    BLUE,
    CHOSEN,
    GREEN,
    GREY,
    OUTLINED_DATA,
    Axes,
    add_legend,
    new_axes,
)
from kernelucb.regression.from_model import observed_inputs

_SQUARE = (6.6, 4.2)


@checked
@torch.no_grad()
def plot_possible_maximizers(
    acqf: Any,
    *,
    bounds: Tensor,
    coordinates: Sequence[int] | None = None,
    point: Tensor | None = None,
    reference: Tensor | None = None,
    data: Data | None = None,
    input_names: Sequence[str] | None = None,
    outcome_name: str = "outcome",
    num_points: int = 60,
    ax: Axes | None = None,
) -> Axes:
    r"""Draw which points may be the optimum, over two inputs or along one.

    These are the points at which some function of the confidence set is at least as good as
    at the ``reference``, and which no constraint excludes. A grid is looked at, and every
    point of it colours the part of the picture that is nearest to it: nothing is said of
    what lies between (``optimum_report`` covers a whole domain). Along one input the band
    is drawn as well. The legend says "certified" only where the assumptions of all bands
    do.

    Example:
        >>> plot_possible_maximizers(acqf, bounds=bounds, data=(train_X, train_Y))

    Args:
        acqf: Any bound of this package, a ``ConstrainedUCB``, or a ``GuardedAcquisition``,
            which searches among these points. Possible minimisers, where small outcomes are
            sought.
        bounds: ``2 x d`` lower and upper limits of the domain.
        coordinates: One or two inputs that vary, the horizontal one first; the first two
            (the only one) when absent.
        point: ``d`` or ``1 x d`` coordinates of a point that gives the other inputs; the
            middle of the domain when absent.
        reference: ``d`` or ``1 x d`` coordinates of the point of the domain to compare
            with; the one whose lower bound is largest (upper bound is smallest), of the
            grid and the observed points of the domain, when absent.
        data: ``n x d`` inputs, drawn fainter the less they say about the picture, and ``n``
            or ``n x 1`` outcomes.
        input_names: Names of the ``d`` inputs, with units.
        outcome_name: Name of the outcome, with its unit.
        num_points: Number of values of each input that varies.
        ax: Where to draw; new axes when absent.

    Returns:
        The axes.

    Raises:
        ImportError: If matplotlib is absent.
        BotorchTensorDimensionError: If a tensor has the wrong shape.
        InputDataError: If a value is not finite.
        ValueError: If ``coordinates`` are no columns, names do not fit the inputs, or
            ``reference`` lies outside the domain.
        UnsupportedError: If ``acqf`` has no confidence set.
        NoSafePointError: If no point is certainly feasible, or ``reference`` is not.
    """
    band = _band_of(acqf)
    dimension = band.regression.dimension
    columns = tuple(range(min(dimension, 2))) if coordinates is None else coordinates
    plane = Plane.through(
        point, checked_box(bounds, dimension), columns, num_points, input_names
    )
    limits = getattr(acqf, "outcome_constraints", None)
    task = Task(band, limits, Region.of(plane.limits))
    references, possible = _possible(task, plane, reference)
    what = "maximum" if task.sign == 1 else "minimum"
    label = f"where the {what} may be,\n{task.assumptions.verdict}"
    ax = new_axes(_SQUARE) if ax is None else ax
    draw = _draw_cells if len(plane.coordinates) == 2 else _draw_stretches
    draw(ax, plane, plane.picture(possible) > 0.0, label)
    if len(plane.coordinates) == 1:
        _draw_band(ax, plane, task)
        ax.set_ylabel(outcome_name)
    if data is not None:
        X, Y = checked_data(data, dimension)
        weights = nearness_or_ones(task.bound, X, plane.points, plane.coordinates)
        plane.scatter(ax, X, weights, OUTLINED_DATA, Y)
    if len(plane.coordinates) == 2:
        weights = nearness_or_ones(task.bound, references, plane.points, plane.coordinates)
        plane.scatter(ax, references, weights, {**CHOSEN, "label": "compared with"})
    plane.label(ax)
    add_legend(ax, title=plane.words)
    return ax


def _band_of(acqf: Any) -> KernelUCB:
    r"""The objective's band."""
    band = getattr(acqf, "band", acqf)
    if not isinstance(band, KernelUCB):
        raise UnsupportedError(
            f"{type(acqf).__name__} has no confidence band; give a bound of this package, "
            "or a ConstrainedUCB or GuardedAcquisition, which have one."
        )
    return band


def _possible(task: Task, plane: Plane, reference: Tensor | None) -> tuple[Tensor, Tensor]:
    r"""``k x d`` references, and which of the plane's points may be as good as they are."""
    points = known = plane.points
    if reference is None:
        try:
            model: Any = getattr(task.bound, "model", None)
            observed = observed_inputs(model).to(points)
            low, high = plane.limits
            inside = ((low <= observed) & (observed <= high)).all(-1)
            known = torch.cat([points, observed[inside]])
        except UnsupportedError:
            pass  # the model does not keep them: the grid alone will do
        on_points = replace(task, region=Region(known, known, []))
        references = on_points.best_points(known)
    else:
        references = task.given_point("reference", reference)
    gains = torch.stack([in_parts(points, task.gain(each)) for each in references])
    possible = task.where_possible(points, gains.amin(0)) >= 0.0
    # A point is as good as itself, whatever the rounding of its gain.
    return references, possible | (points == references.unsqueeze(1)).all(-1).any(0)


def _draw_cells(ax: Axes, plane: Plane, mask: Tensor, label: str) -> None:
    r"""Colour the cells around the points that may be an optimum."""
    style: dict[str, Any] = {"alpha": 0.35, "color": GREEN, "lw": 0}
    across, upwards = plane.sides
    step = float(upwards[1] - upwards[0]) if len(upwards) > 1 else 1.0
    for row, height in zip(mask, upwards.tolist(), strict=True):
        ax.broken_barh(stretches(across, row), (height - 0.5 * step, step), **style)
    ax.fill_between([], [], [], label=label, **style)


def _draw_stretches(ax: Axes, plane: Plane, mask: Tensor, label: str) -> None:
    r"""Colour the foot of the picture below the points that may be an optimum."""
    style: dict[str, Any] = {"transform": ax.get_xaxis_transform(), "color": GREEN}
    found = stretches(plane.sides[0], mask)
    ax.broken_barh(found, (0.0, 0.05), label=label, **style)


def stretches(side: Tensor, mask: Tensor) -> list[tuple[float, float]]:
    r"""Start and length of the parts of a line nearest to points that a mask has.

    Args:
        side: ``m`` places, evenly spaced.
        mask: ``m`` booleans.
    """
    step = float(side[1] - side[0]) if len(side) > 1 else 1.0
    low, high = float(side[0]), float(side[-1])
    found: list[tuple[float, float]] = []
    for place, inside in zip(side.tolist(), mask.tolist(), strict=True):
        if not inside:
            continue
        start, end = max(place - 0.5 * step, low), min(place + 0.5 * step, high)
        last, length = found[-1] if found else (0.0, -1.0)
        if found and start - (last + length) < 0.25 * step:
            found[-1] = (last, end - last)
        else:
            found.append((start, end - start))
    return found


def _draw_band(ax: Axes, plane: Plane, task: Task) -> None:
    side, band = plane.sides[0], task.bound
    lower, upper = (each.cpu() for each in band.bounds(plane.points))
    name = f"band, {band.assumptions.verdict}"
    ax.fill_between(side, lower, upper, color=BLUE, alpha=0.25, lw=0, label=name)
    best = float(lower.max() if task.sign == 1 else upper.min())
    name = "largest lower bound" if task.sign == 1 else "smallest upper bound"
    ax.axhline(best, color=GREY, lw=1, ls="--", label=f"{name} here")
    ax.margins(x=0)
