r"""What is known of the optimum, input by input."""

import textwrap

import torch
from torch import Tensor

from kernelucb._numerics.domains import checked_limits
from kernelucb.certificates import OptimumReport
from kernelucb.plotting.style import BLUE, CHOSEN, GREY, Axes, add_legend, new_axes

_BAR = 0.34  # height of the bars, rows being one apart
_LEAST = 0.008  # width that a region without any is drawn with
_TITLE = 70  # letters in a line of the title
_ROUNDING = 1e-9  # share of an input's range by which a point may lie outside


def plot_optimum_report(
    report: OptimumReport, *, bounds: Tensor | None = None, ax: Axes | None = None
) -> Axes:
    r"""Draw where the optimum may lie in each input, and the recommended point.

    Each input has a bar, from its lower to its upper limit. The part in colour is the
    side of ``report.region``, with its ends in the units of the input. An input with one
    value, such as a context, has its mark in the middle.

    Example:
        >>> report = optimum_report(acqf, bounds=bounds, names=["temperature", "time"])
        >>> plot_optimum_report(report, bounds=bounds)

    Args:
        report: From ``optimum_report``.
        bounds: ``2 x d`` lower and upper limits of the inputs, between which the bars
            reach. When absent, they reach as far as the report's region and points do.
        ax: Where to draw; new axes when absent.

    Returns:
        The axes.

    Raises:
        ImportError: If matplotlib is absent.
        ValueError: If ``bounds`` leaves out a part of the region or a point.
        BotorchTensorDimensionError: If ``bounds`` is not ``2 x d``.
    """
    named = torch.stack([*report.region, report.recommended])
    named = named.detach().double().cpu()
    limits = _limits(report, bounds, named)
    low, width = limits[0], limits[1] - limits[0]
    middle = torch.full_like(named, 0.5)
    scaled = torch.where(width > 0.0, (named - low) / width, middle)
    ax = new_axes((7.0, 1.3 + 0.55 * len(report.names))) if ax is None else ax
    rows = list(range(len(report.names)))
    ax.barh(rows, 1.0, height=_BAR, color=GREY, alpha=0.2, label="domain")
    _draw_region(ax, report, scaled[:2])
    ax.scatter(scaled[2], rows, zorder=3, label="recommended", **CHOSEN)
    ends = [f"{a:.4g}" if a == b else f"{a:.4g} to {b:.4g}" for a, b in limits.T.tolist()]
    labels = [f"{name}\n{end}" for name, end in zip(report.names, ends, strict=True)]
    ax.set(xlim=(-0.02, 1.02), xticks=[], xlabel="from lower to upper limit")
    ax.set_yticks(rows, labels)
    ax.set_ylim(len(rows) - 0.4, -0.6)  # the first input on top
    ax.set_title(_title(report), loc="left", fontsize="medium")
    add_legend(ax, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return ax


def _limits(report: OptimumReport, bounds: Tensor | None, named: Tensor) -> Tensor:
    r"""``2 x d`` ends of the bars, which hold all that is drawn."""
    around = torch.stack([named.amin(0), named.amax(0)])
    if bounds is None:
        return around
    limits = checked_limits(bounds, len(report.names)).cpu()
    room = _ROUNDING * torch.maximum(limits.abs().amax(0), around.abs().amax(0))
    outside = (around[0] < limits[0] - room) | (around[1] > limits[1] + room)
    if bool(outside.any()):
        column = int(outside.nonzero()[0])
        raise ValueError(
            f"bounds must hold the report: {report.names[column]} is from "
            f"{float(around[0, column]):g} to {float(around[1, column]):g} in it, beyond "
            f"{float(limits[0, column]):g} to {float(limits[1, column]):g}."
        )
    return limits


def _draw_region(ax: Axes, report: OptimumReport, scaled: Tensor) -> None:
    r"""The part where the optimum may lie; ``2 x d`` ends, as shares of the bars."""
    rows = list(range(len(report.names)))
    width = (scaled[1] - scaled[0]).clamp_min(_LEAST)
    left = 0.5 * (scaled[0] + scaled[1] - width)
    name = "where the optimum may be"
    name += "" if report.certificate.rigorous else ",\nof the points looked at"
    ax.barh(
        rows, width, height=_BAR, left=left, color=BLUE, alpha=0.5, label=name, zorder=2
    )
    for row, (low, high) in enumerate(report.region.T.tolist()):
        text = f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}"
        at = float(left[row] + 0.5 * width[row])
        align = "left" if at < 0.1 else "right" if at > 0.9 else "center"
        at = at if align == "center" else float(left[row] + (align == "right") * width[row])
        ax.annotate(
            text,
            (at, row - 0.5 * _BAR),
            xytext=(0, 2),
            textcoords="offset points",
            ha=align,
            va="bottom",
            fontsize="small",
            color=BLUE,
        )


def _title(report: OptimumReport) -> str:
    interval = f"the optimum is between {report.lower:.4g} and {report.upper:.4g}"
    gap = f"the recommended point is at most {report.gap:.4g} from it"
    lines = [report.summary, f"{interval};", gap]
    return "\n".join(part for line in lines for part in textwrap.wrap(line, _TITLE))
