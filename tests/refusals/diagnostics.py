r"""What is refused by the diagnostics."""

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
SQUARE = {"bounds": float64([[0.0, 0.0], [1.0, 1.0]])}
NOISELESS, PSEUDO = "no noise scale", "pseudo-outcomes in place of"


def describe(model=STATE, **options):
    return lambda: describe_norm_bound(model, 3.0, **SQUARE, **options)


def check(model, **options):
    return lambda: check_consistency(model, 3.0, **options)


def pseudo(ask):
    return lambda: ask(
        LikelihoodUCB(COUNTS, norm_bound=3.0).band.confidence_set.regression
    )()


def flat():
    return describe_norm_bound(STATE, 3.0, candidates=float64([[0.0, 1.0], [0.5, 1.0]]))


def no_points():
    return information_gain(KERNEL, X[:0], noise_std=0.1)


Data, Shape = InputDataError, BotorchTensorDimensionError
ROWS = [
    ("a step beyond the side", describe(steps=[0.1, 1.5]), ValueError, "longer than"),
    ("one name for two", describe(input_names=["x"]), Shape, "must be 2 names"),
    ("candidates in a line", flat, Data, "same value in column 1"),
    ("noise of counts", describe(COUNTS, noise_std=0.1), ValueError, NOISELESS),
    ("noise of counts, checked", check(COUNTS, noise_std=0.1), ValueError, NOISELESS),
    ("pseudo-outcomes", pseudo(describe), UnsupportedError, PSEUDO),
    ("pseudo-outcomes, checked", pseudo(check), UnsupportedError, PSEUDO),
    ("gain of no points", no_points, Data, "There are no X; give at least one"),
]
