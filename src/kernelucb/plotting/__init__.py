r"""Pictures of bands, sets and reports (extra ``plot``); nothing else imports this package.

A legend says "certified" only where the assumptions of what is drawn do. Every function
takes the axes to draw on and returns them.
"""

from kernelucb.plotting.bands import band_widths, plot_bands, slice_points, slice_weights
from kernelucb.plotting.contours import plot_contours
from kernelucb.plotting.families import plot_family_history, plot_family_report
from kernelucb.plotting.gaps import plot_gap
from kernelucb.plotting.maximizers import plot_possible_maximizers
from kernelucb.plotting.reports import plot_optimum_report
from kernelucb.plotting.safe_sets import plot_safe_set
from kernelucb.plotting.slices import plot_slice

__all__ = [
    "band_widths",
    "plot_bands",
    "plot_contours",
    "plot_family_history",
    "plot_family_report",
    "plot_gap",
    "plot_optimum_report",
    "plot_possible_maximizers",
    "plot_safe_set",
    "plot_slice",
    "slice_points",
    "slice_weights",
]
