r"""Regression state: what the data say, at every regulariser, after one ``eigh``."""

from kernelucb.regression.exact import KernelRegression
from kernelucb.regression.nystrom import NystromRegression
from kernelucb.regression.state import Projection, RidgeState

__all__ = ["KernelRegression", "NystromRegression", "Projection", "RidgeState"]
