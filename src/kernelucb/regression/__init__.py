r"""Regression state: what the data say, at every regulariser, after one ``eigh``."""

from kernelucb.regression.exact import KernelRegression
from kernelucb.regression.projection import Projection

__all__ = ["KernelRegression", "Projection"]
