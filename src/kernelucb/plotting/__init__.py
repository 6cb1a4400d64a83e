r"""Pictures of bands, gaps and safe sets (extra ``plot``); nothing else imports them.

A legend says "certified" only where the assumptions of what is drawn do. Every function
takes the axes ``ax`` to draw on (new ones when absent) and returns them; without matplotlib
it raises ``ImportError``. Points are tensors in outcome and input units, names and labels
those of print, with their units.
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
