r"""One band along a line through a point."""

from collections.abc import Callable, Sequence

import torch
from botorch.exceptions import UnsupportedError
from torch import Tensor

from kernelucb._numerics.arguments import checked
from kernelucb._numerics.domains import checked_box
from kernelucb.acquisition.base import KernelUCB
from kernelucb.acquisition.martingale_mixture import MartingaleMixtureUCB
from kernelucb.plotting.bands import plot_bands
from kernelucb.plotting.planes import Data, Plane, checked_data, nearness
from kernelucb.plotting.style import DATA, GREY, WITNESS, Axes, add_legend


@checked
@torch.no_grad()
def plot_slice(
    acqf: KernelUCB,
    point: Tensor,
    *,
    bounds: Tensor,
    coordinate: int = 0,
    data: Data | None = None,
    witness: bool = False,
    true_function: Callable[[Tensor], Tensor] | None = None,
    show_mean: bool = True,
    input_names: Sequence[str] | None = None,
    outcome_name: str = "outcome",
    num_points: int = 300,
    ax: Axes | None = None,
) -> Axes:
    r"""Draw a band along one input through a point, the other inputs as at the point.

    Marks of the data are the fainter, the less they say about the line: their opacity is
    the squared correlation, under the band's kernel, of the function there and at their
    projection on the line. The legend calls the band certified only where its
    ``assumptions`` do.

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
        show_mean: Whether to draw the posterior mean.
        input_names: Names of the ``d`` inputs, with units.
        outcome_name: Name of the outcome, with its unit.
        num_points: How many points of the line are looked at.
        ax: Where to draw; new axes when absent.

    Returns:
        The axes.

    Raises:
        ImportError: If matplotlib is absent.
        BotorchTensorDimensionError: If a tensor has the wrong shape.
        InputDataError: If a value is not finite.
        ValueError: If ``coordinate`` is no column, or names do not fit the inputs.
        UnsupportedError: If a witness is asked of a bound that has none, or data are drawn
            for a band that is not computed from one kernel or a family.
    """
    dimension = acqf.regression.dimension
    line = Plane.through(
        point, checked_box(bounds, dimension), [coordinate], num_points, input_names
    )
    if witness and not isinstance(acqf, MartingaleMixtureUCB):
        raise UnsupportedError(
            f"{type(acqf).__name__} has no witness; leave out witness, or use "
            "MartingaleMixtureUCB."
        )
    ax = plot_bands(
        {f"band, {acqf.assumptions.verdict}": acqf},
        line.points,
        coordinate=coordinate,
        true_function=true_function,
        show_mean=show_mean,
        ax=ax,
        legend=False,
        y_label=outcome_name,
    )
    if data is not None:
        X, Y = checked_data(data, dimension)
        weights = X.new_ones(len(X))
        if dimension > 1:
            weights = nearness(acqf, X, line.points, [coordinate])
        faint = ", fainter the less\nthey say about this line" if dimension > 1 else ""
        line.scatter(ax, X, weights, {**DATA, "label": f"data{faint}"}, Y)
    if witness and isinstance(acqf, MartingaleMixtureUCB):
        _draw_witness(ax, acqf, point.reshape(1, -1).double(), line.points, coordinate)
    else:
        ax.axvline(float(point.reshape(-1)[coordinate]), color=GREY, lw=0.8, ls=":")
    line.label(ax)
    add_legend(ax)
    return ax


def _draw_witness(
    ax: Axes, acqf: MartingaleMixtureUCB, point: Tensor, line: Tensor, coordinate: int
) -> None:
    r"""The function that attains the bound at a ``1 x d`` point, and where it does."""
    function = acqf.witness(point, upper=acqf.direction == 1)
    values, top = (acqf.outcome_map.inverse(function(X)) for X in (line, point))
    ax.plot(line[:, coordinate].cpu(), values.cpu(), label="witness", **WITNESS)
    ax.scatter(
        point[:, coordinate].cpu(),
        top.cpu(),
        marker="*",
        s=150,
        color=WITNESS["color"],
        zorder=4,
        label="bound at the point",
    )
