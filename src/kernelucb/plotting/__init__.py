r"""Pictures of bands and reports (extra ``plot``); nothing else imports this package."""

from kernelucb.plotting.bands import band_widths, plot_bands, slice_points, slice_weights
from kernelucb.plotting.reports import plot_optimum_report

__all__ = [
    "band_widths",
    "plot_bands",
    "plot_optimum_report",
    "slice_points",
    "slice_weights",
]
