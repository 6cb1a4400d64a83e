r"""What every bound refuses of numbers and points, and bounds of their own arguments."""

import math
from functools import partial

import torch
from botorch.exceptions import BotorchTensorDimensionError as Shapes
from botorch.exceptions import InputDataError as Data
from botorch.exceptions import UnsupportedError

from kernelucb import (
    IGPUCB,
    AbbasiYadkoriUCB,
    KernelFamilyUCB,
    KernelRegression,
    KernelThompsonSampling,
    LikelihoodRegression,
    LikelihoodUCB,
    MartingaleMixtureUCB,
    MixedSpace,
    NormTracker,
    OutcomeConstraints,
    SafeSet,
    SrinivasUCB,
    StreamingKernelUCB,
    UnknownNoise,
    WangDeFreitasUCB,
    information_gain,
    regret_certificate,
)
from kernelucb.acquisition import outcome_bands
from kernelucb.papers import CompactDomain
from problems import make_problem

PROBLEM = make_problem(n=6, d=2)
X, Y, KERNEL, MODEL = PROBLEM.X, PROBLEM.Y, PROBLEM.kernel, PROBLEM.model
NORM, NOISE = {"norm_bound": 3.0}, {"noise_std": UnknownNoise(0.05, 1.0)}
BOX = torch.tensor([[0.0] * 2, [1.0] * 2], dtype=torch.float64)
NAN = torch.full((1, 2), torch.nan, dtype=torch.float64)
BOUNDS = {
    MartingaleMixtureUCB: NORM,
    AbbasiYadkoriUCB: NORM,
    IGPUCB: NORM,
    WangDeFreitasUCB: NORM,
    StreamingKernelUCB: NORM | NOISE,
    SrinivasUCB: {},
}
POSITIVE = "must be a finite number above 0"
NUMBERS = [
    ("norm_bound", -1.0, f"norm_bound {POSITIVE}"),
    ("norm_bound", math.nan, f"norm_bound {POSITIVE}"),
    ("norm_bound", 1e160, "norm_bound must be between 1e-75 and 1e"),
    ("norm_bound", "1", "norm_bound must be a number"),
    ("delta", 0.0, "delta must lie strictly between 0 and 1"),
    ("delta", 1.0, "delta must lie strictly between 0 and 1"),
    ("noise_std", 0.0, f"noise_std {POSITIVE}"),
    ("noise_std", -torch.ones(6), "Every value of noise_std must be a finite"),
    ("noise_std", torch.ones(5), r"one value per observation \(6"),
]
LEFT_OUT = {("norm_bound", SrinivasUCB), ("noise_std", StreamingKernelUCB)}


def build(bound=MartingaleMixtureUCB, **options):
    return partial(bound, MODEL, **(BOUNDS[bound] | options))


def family(kernels, **options):
    return partial(KernelFamilyUCB, MODEL, kernels, **(NORM | options))


BAND = build()()
COUNTS = LikelihoodRegression(X, torch.ones(6).double(), KERNEL, likelihood="poisson")
SPREAD = partial(MartingaleMixtureUCB.from_model, MODEL, **NORM)
SAMPLER = KernelThompsonSampling(MODEL, **NORM, replacement=False)
BOX_WITHOUT_WIDTH = torch.tensor([[0.0, 3.0], [1.0, 3.0]], dtype=torch.float64)
PAIR = partial(OutcomeConstraints, [BAND, build()()], -1.0)
STEEP = CompactDomain(lipschitz_a=1e-9)
ROWS = [
    *(
        (bound.__name__, build(bound, **{name: value}), (ValueError, Shapes), words)
        for bound in BOUNDS
        for name, value, words in NUMBERS
        if (name, bound) not in LEFT_OUT
    ),
    ("alpha", build(AbbasiYadkoriUCB, alpha=0.0), ValueError, f"alpha {POSITIVE}"),
    ("horizon", build(IGPUCB, horizon=5), ValueError, "horizon is 5, but there are 6"),
    ("length", lambda: CompactDomain(length=0.0), ValueError, "length must be a finite"),
    ("steepness", build(SrinivasUCB, theorem=STEEP), ValueError, "lipschitz_a >= 1"),
    ("theorem", build(SrinivasUCB, theorem=1), UnsupportedError, "theorem must be an inst"),
    (
        "a tracker of norms",
        build(StreamingKernelUCB, tracker=NormTracker()),
        UnsupportedError,
        "an instance of StreamingNoiseTracker",
    ),
    ("points for a witness", lambda: BAND.witness(X[:2]), Shapes, "X must be `1 x 2`"),
    ("no witness", lambda: BAND.witness(NAN), Data, "X contains NaN"),
    ("huge points", lambda: BAND.bounds(X * 1e80), Data, "units"),
    ("sparse points", lambda: BAND.bounds(X.to_sparse()), Data, "X.to_dense"),
    ("whole points", lambda: BAND.bounds(X.long()), Data, "must hold floating-point"),
    ("an array", lambda: BAND.bounds(X.numpy()), Data, "must be a torch tensor"),
    (
        "an array of data",
        lambda: KernelRegression(X.numpy(), Y, KERNEL, 0.1),
        Data,
        "torch",
    ),
    (
        "an array of safe points",
        lambda: SafeSet(BAND, safe_points=X.numpy()),
        Data,
        "torch",
    ),
    ("a model's gap", lambda: regret_certificate(MODEL, X), UnsupportedError, "of Band"),
    (
        "limits of a space",
        lambda: MixedSpace(X[:2].flip(0)),
        ValueError,
        "in bounds is above",
    ),
    (
        "equal limits of a space",
        lambda: MixedSpace(BOX_WITHOUT_WIDTH),
        ValueError,
        "limits of input 1 in bounds are 3. Every lower limit",
    ),
    ("no noise", lambda: information_gain(KERNEL, X), ValueError, "noise_std is needed"),
    ("a name for a model", lambda: information_gain("rbf", X), UnsupportedError, "BoTorch"),
    ("half a kernel", partial(SPREAD, lengthscale=0.3), ValueError, "name of a kernel"),
    (
        "three lengths",
        partial(SPREAD, kernel="rbf", lengthscale=[0.1] * 3),
        Shapes,
        "lengthscale has 3 entries",
    ),
    ("no models", lambda: outcome_bands([]), ValueError, "models is empty"),
    ("no kernels", family([]), ValueError, "kernels is empty"),
    ("two norms", family([KERNEL], norm_bound=[1.0, 2.0]), ValueError, "2 entries for 1"),
    ("names twice", partial(PAIR, names=["a", "a"]), ValueError, "another band"),
    ("too many arms", lambda: SAMPLER(X, 7), ValueError, "set replacement=True"),
    (
        "noise of counts",
        lambda: LikelihoodUCB(COUNTS, **NORM).band.relaxed(1.0, 2.0),
        UnsupportedError,
        "no noise scale",
    ),
    (
        "noise of a family of counts",
        partial(KernelFamilyUCB, COUNTS, [KERNEL], **NORM, noise_std=0.1),
        UnsupportedError,
        "noise_std",
    ),
]
