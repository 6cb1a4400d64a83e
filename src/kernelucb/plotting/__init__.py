r"""Pictures of confidence bands (extra ``plot``); nothing else imports this package."""

from kernelucb.plotting.bands import band_widths, plot_bands, slice_points, slice_weights

__all__ = ["band_widths", "plot_bands", "slice_points", "slice_weights"]
