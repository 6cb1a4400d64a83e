r"""Scatter of repeated runs, by their mean outcome."""

import torch
from torch import Tensor

from kernelucb._numerics.checks import training_targets
from kernelucb.diagnostics.consistency import noise_regions
from kernelucb.plotting.style import BLACK, BLUE, GREY, Axes, add_legend, new_axes
from kernelucb.regression.pooling import distinct_rows

_CHANCE = 0.025  # of each side of the intervals


def plot_replicates(
    train_X: Tensor,
    train_Y: Tensor,
    *,
    noise_std: float | None = None,
    x_label: str = "mean outcome",
    y_label: str = "standard deviation of replicates",
    ax: Axes | None = None,
) -> Axes:
    r"""Draw how much repeated runs scatter, against their mean outcome.

    A point for each repeated input, and the pooled scale where outcomes are low, middle and
    high, with 95 % intervals for Gaussian noise. A level line says that one noise scale
    will do; a slope asks for a transformed outcome, or a scale for each group of inputs.

    Args:
        train_X: ``n x d`` inputs, in which rows are repeated.
        train_Y: ``n`` or ``n x 1`` outcomes.
        noise_std: The noise scale in use, outcome units.
        x_label: Horizontal label.
        y_label: Vertical label.
        ax: Where to draw.

    Raises:
        ValueError: If no input is repeated.
    """
    targets = training_targets(train_X, train_Y)
    _, index = distinct_rows(train_X.detach().double())
    counts = torch.bincount(index).to(targets)
    means = torch.zeros_like(counts).index_add(0, index, targets) / counts
    squares = (targets - means[index]).square()
    squares = torch.zeros_like(counts).index_add(0, index, squares)
    repeated = counts > 1.0
    if not bool(repeated.any()):
        raise ValueError("train_X has no repeated input, so there is no scatter to draw.")
    deviations = (squares / (counts - 1.0))[repeated].sqrt()
    ax = new_axes() if ax is None else ax
    shown = means[repeated].tolist(), deviations.tolist()
    ax.plot(*shown, ".", color=GREY, ms=3, label="one input")
    label = "pooled, with 95 % interval"
    for region in noise_regions(train_X, targets):
        ends = region.limits(_CHANCE)
        apart = [[region.estimate - ends[0]], [ends[1] - region.estimate]]
        place = [region.label], [region.estimate]
        ax.errorbar(*place, yerr=apart, fmt="o", color=BLUE, capsize=4, label=label)
        label = None
    if noise_std is not None:
        ax.axhline(noise_std, color=BLACK, lw=1.0, ls="--", label="noise_std in use")
    ax.set_xlabel(x_label)
    ax.set_ylabel(y_label)
    ax.set_ylim(bottom=0.0)
    add_legend(ax)
    return ax
