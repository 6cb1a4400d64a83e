r"""Pictures of bands, gaps and safe sets (extra ``plot``); nothing else imports them.

A legend says "certified" only if the assumptions of the drawn band or certificate do. Every
function takes the axes ``ax`` to draw on (new axes when absent), returns the axes, and
raises ``ImportError`` without matplotlib. Inputs and outcomes are tensors in their own
units; names and labels are printed as given, so include units.
"""

from kernelucb.plotting.bands import (
    band_widths,
    plot_bands,
    plot_slice,
    slice_points,
    slice_weights,
)
from kernelucb.plotting.gaps import plot_gap
from kernelucb.plotting.replicates import plot_replicates
from kernelucb.plotting.safe_sets import plot_safe_set

__all__ = [
    "band_widths",
    "plot_bands",
    "plot_gap",
    "plot_replicates",
    "plot_safe_set",
    "plot_slice",
    "slice_points",
    "slice_weights",
]
