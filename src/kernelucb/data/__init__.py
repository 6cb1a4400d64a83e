r"""Regression state: what the data say, at every regulariser, after one ``eigh``."""

from kernelucb.data.exact import KernelRegression, Projection, RidgeState
from kernelucb.data.nystrom import NystromRegression

__all__ = ["KernelRegression", "NystromRegression", "Projection", "RidgeState"]
