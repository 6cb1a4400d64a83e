r"""Colours and lines that differ in grey and under colour-vision deficiency as well."""

from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
else:
    Axes = Any  # type hints can be read, and arguments checked, without matplotlib

# Okabe & Ito's palette.
BLUE = "#0072B2"
ORANGE = "#E69F00"
GREEN = "#009E73"
BLACK = "#222222"
GREY = "#6E6E6E"

# Styles of the outlines, in the order of the bands; each has dashes of its own.
OUTLINES: tuple[dict[str, Any], ...] = (
    {"color": GREEN, "linestyle": (0, (6, 2)), "linewidth": 1.5},
    {"color": "#D55E00", "linestyle": (0, (6, 2, 1.2, 2)), "linewidth": 1.5},
    {"color": "#AA4499", "linestyle": (0, (1.2, 1.6)), "linewidth": 1.8},
    {"color": "#56B4E9", "linestyle": (0, (3, 1.5)), "linewidth": 1.5},
    {"color": GREY, "linestyle": (0, (8, 3, 1, 3, 1, 3)), "linewidth": 1.5},
)

DATA: dict[str, Any] = {"marker": "o", "s": 14, "color": GREY, "linewidths": 0}
CHOSEN: dict[str, Any] = {
    "marker": "D",
    "s": 30,
    "color": ORANGE,
    "edgecolors": BLACK,
    "linewidths": 0.6,
}

WITNESS: dict[str, Any] = {"color": "#AA4499", "linestyle": "--", "linewidth": 1.6}
SOUGHT = "#D55E00"  # limits and levels that somebody has set

RC: dict[str, Any] = {
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 11,
    "axes.labelsize": 10.5,
    "font.size": 10,
    "legend.frameon": False,
    "legend.fontsize": 9.5,
    "figure.dpi": 110,
    "savefig.dpi": 200,
}


def load_pyplot() -> ModuleType:
    r"""``matplotlib.pyplot``, or an ``ImportError`` that says how to install it."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        message = "Pictures need matplotlib: pip install kernelucb[plot]"
        raise ImportError(message) from error
    return plt


def new_axes(size: tuple[float, float] = (7.0, 3.6)) -> Axes:
    r"""Axes in a figure of their own of this size in inches; a legend fits beside them."""
    return load_pyplot().subplots(figsize=size, layout="constrained")[1]


def add_legend(ax: Axes, **options: Any) -> None:
    r"""A legend beside the axes where the layout makes room for it, else on them."""
    if ax.figure.get_layout_engine() is None:
        ax.legend(**{"loc": "best", **options})
    else:
        ax.legend(**{"loc": "upper left", "bbox_to_anchor": (1.0, 1.0), **options})
