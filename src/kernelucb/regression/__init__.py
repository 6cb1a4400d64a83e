r"""Regression state: what the data say, at every regulariser, after one ``eigh``."""

from kernelucb.regression.exact import KernelRegression, Projection, RidgeState
from kernelucb.regression.nystrom import NystromRegression

__all__ = ["KernelRegression", "NystromRegression", "Projection", "RidgeState"]
