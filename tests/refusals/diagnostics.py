r"""Refusals of the diagnostics."""

from functools import partial

from botorch.exceptions import BotorchTensorDimensionError, InputDataError, UnsupportedError

from kernelucb import (
    KernelRegression,
    LikelihoodRegression,
    LikelihoodUCB,
    check_consistency,
    describe_norm_bound,
    information_gain,
)
from problems import float64, frozen_kernel, uniform

X, KERNEL = uniform(5, 2, 1), frozen_kernel("rbf")
STATE = KernelRegression(X, X[:, 0], KERNEL, 0.1)
COUNTS = LikelihoodRegression(X, float64([0, 1, 2, 1, 0]), KERNEL, likelihood="poisson")
PSEUDO = LikelihoodUCB(COUNTS, norm_bound=3.0).band.confidence_set.regression
SQUARE = float64([[0.0, 0.0], [1.0, 1.0]])
FLAT = {"bounds": None, "candidates": float64([[0.0, 1.0], [0.5, 1.0]])}


def describe(model=STATE, **options):
    return partial(describe_norm_bound, model, 3.0, **{"bounds": SQUARE} | options)


no_points = partial(information_gain, KERNEL, X[:0], noise_std=0.1)
check = partial(check_consistency, PSEUDO, 3.0)
Data, Shape = InputDataError, BotorchTensorDimensionError
ROWS = [
    ("a step beyond the side", describe(steps=[0.1, 1.5]), ValueError, "longer than"),
    ("one name for two", describe(names=["x"]), Shape, "must be 2 names"),
    ("candidates in a line", describe(**FLAT), Data, "same value in column 1"),
    ("noise of counts", describe(COUNTS, noise_std=0.1), ValueError, "no noise scale"),
    ("pseudo-outcomes", check, UnsupportedError, "pseudo-outcomes in place of"),
    ("gain of no points", no_points, Data, "There are no X; give at least one"),
]
