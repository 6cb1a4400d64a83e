r"""What is refused of fits, norms, noise scales and their trackers."""

import math
from functools import partial

import torch
from botorch.exceptions import BotorchTensorDimensionError
from botorch.exceptions import InputDataError as Data
from botorch.exceptions import UnsupportedError as Unsupported
from botorch.models import ModelListGP
from botorch.models.transforms import Log
from gpytorch.kernels import LinearKernel

from kernelucb import (
    KernelRegression,
    MartingaleMixtureUCB,
    NearNormBall,
    NormTracker,
    NystromRegression,
    PrequentialRadius,
    ReplicateNoise,
    SketchedMartingaleMixtureUCB,
    StreamingKernelUCB,
    StreamingNoiseTracker,
    UnknownNoise,
)
from kernelucb.confidence.band import Band
from problems import frozen_model, make_problem

PROBLEM = make_problem(n=3)
X, Y, KERNEL, STATE = PROBLEM.X, PROBLEM.Y, PROBLEM.kernel, PROBLEM.state
EACH = frozen_model(X, Y, KERNEL, torch.tensor([0.1, 0.2, 0.1]).double())
NOISE, SHAPE = UnknownNoise(0.1, 5.0), BotorchTensorDimensionError


def predicted(count=3, X=X, Y=Y, delta=0.1):
    radius = PrequentialRadius(delta)
    zeros, ones = torch.zeros(count), torch.ones(count)
    radius.observe_predictions(zeros, ones, Y[:count], 0.1, X[:count])
    return radius


def mixture(state=STATE, **options):
    given = {"norm_bound": 3.0, **options}
    return lambda: MartingaleMixtureUCB(state, **given)


def fitted(radius, state=STATE, delta=0.1, **options):
    return mixture(state, fit=radius, delta=delta, **options)


def sketched(radius):
    state = NystromRegression(X, Y, KERNEL, 0.1, X)
    given = {"norm_bound": 3.0, "delta": 0.1, "fit": radius}
    return lambda: SketchedMartingaleMixtureUCB(state, **given)


def observe(mean=0.0, variance=1.0, outcome=0.0, noise_std=0.1, X=X[0]):
    given = mean, variance, outcome, noise_std, X
    return lambda: PrequentialRadius().observe_predictions(*given)


def streaming(*limits, tracker=None, **options):
    def build():
        given = {"norm_bound": 1.0, "noise_std": UnknownNoise(*limits)} | options
        return StreamingKernelUCB(STATE, tracker=tracker, delta=0.3, **given)

    return build


def tracker(*limits):
    return lambda: StreamingNoiseTracker(1.0, UnknownNoise(*limits))


def other(**options):
    return streaming(0.1, 5.0, tracker=StreamingNoiseTracker(1.0, NOISE, 0.3), **options)


def watched(*states):
    found = StreamingNoiseTracker(1.0, NOISE)
    for each in states:
        found.observe(each)


def near(error, **options):
    return mixture(norm_bound=NearNormBall(3.0, error), **options)


def flat():
    kernel, X = LinearKernel().double(), torch.tensor([[0.0], [1.0]]).double()
    state = KernelRegression(X, X[:, 0], kernel.requires_grad_(False), 0.1)
    return mixture(state, noise_std=UnknownNoise())()


BAND, UNKNOWN = mixture()().band, mixture(noise_std=UnknownNoise())().band
NEAR, ONE = near(0.1)().band, (X[:1], Y[:1], 0.1)
BOTH = ModelListGP(PROBLEM.model, PROBLEM.model)
LINES = LinearKernel().double().requires_grad_(False)
LINEAR = mixture(KernelRegression(X, X[:, 0], LINES, 0.1))().band
RUNS = X.repeat(2, 1), torch.cat([Y, Y + 0.1]).exp()
LOGGED = frozen_model(*RUNS, KERNEL, 0.1, outcome_transform=Log())


class Elsewhere(Band):
    r"""A band that is made elsewhere."""

    assumptions = BAND.assumptions


ELSEWHERE = Elsewhere()
SWAPPED = KernelRegression(X.flip(0), Y, KERNEL, 0.1)
WIDER = KernelRegression(X.repeat(1, 2), Y, KERNEL, 0.1)
FEWER = KernelRegression(X[:2], Y[:2], KERNEL, 0.1)
CHANGED = KernelRegression(X, Y + 0.01, KERNEL, 0.1)
DIFFERENT = "hold different inputs or outcomes"
ROWS = [
    ("means of two", observe(torch.zeros(2)), SHAPE, "2 means"),
    ("no outcome", observe(outcome=math.nan), Data, "outcome contains NaN"),
    ("variance below 0", observe(variance=-1.0), ValueError, "must not be negative"),
    ("inputs of three", observe(X=X), SHAPE, "X must be `n x d`"),
    ("no input", observe(X=X[:0]), SHAPE, "X must be `n x d`"),
    ("a name", lambda: PrequentialRadius().observe("gp", *ONE), Unsupported, "no BoT"),
    ("two outputs", lambda: PrequentialRadius().observe(BOTH, *ONE), SHAPE, "one outcome"),
    ("fit and noise", fitted(predicted(), noise_std=0.1), ValueError, "leave out noise"),
    ("fit and scale", fitted(predicted(), covariance_scale=2.0), ValueError, "takes no"),
    ("other delta", fitted(predicted(), delta=0.01), ValueError, "but fit has delta 0.1"),
    ("no predictions", fitted(PrequentialRadius(0.1)), ValueError, "fit holds 0 obs"),
    ("too few, sketched", sketched(predicted(2)), ValueError, "fit holds 2 observations"),
    ("other inputs", fitted(predicted(), SWAPPED), ValueError, DIFFERENT),
    ("other columns", fitted(predicted(), WIDER), ValueError, DIFFERENT),
    ("other outcomes", fitted(predicted(), CHANGED), ValueError, DIFFERENT),
    ("sketch of others", sketched(predicted(X=X.flip(0))), ValueError, DIFFERENT),
    ("upper", streaming(0.1, math.inf), ValueError, "upper of UnknownNoise must be a fin"),
    ("limits swapped", tracker(0.1, 0.05), ValueError, "got 0.1 above 0.05"),
    ("no lower", streaming(None, 5.0), ValueError, "noise_std has no lower limit"),
    ("known noise", other(noise_std=0.1), Unsupported, "must be an UnknownNoise"),
    ("one limit", mixture(noise_std=UnknownNoise(0.1)), ValueError, "has one limit"),
    ("other norm", other(norm_bound=2.0), ValueError, "The tracker has"),
    ("several scales", mixture(EACH, noise_std=NOISE), Unsupported, "one scale for"),
    ("tracked scales", lambda: watched(EACH), Unsupported, "Leave out train_Yvar"),
    (
        "fewer observations",
        lambda: watched(STATE, FEWER),
        ValueError,
        "seen 3 observations, the model has 2",
    ),
    ("no variance", flat, ValueError, "prior variance of the first observation is 0"),
    ("error", near(0.1, noise_std=NOISE), ValueError, "needs a known noise scale"),
    ("error below 0", lambda: NearNormBall(3.0, -0.1), ValueError, "model_error must"),
    ("error that overflows", near(1e30), ValueError, "model_error is 1e"),
    ("inflation", lambda: NormTracker(inflation=0.9), ValueError, "inflation must be at"),
    ("name of a norm", mixture(norm_bound="bold"), ValueError, "must be a number, a Norm"),
    ("name of a fit", mixture(fit="filter"), ValueError, "fit must be "),
    ("name of a form", mixture(form="primal"), ValueError, 'form must be "dual", "anal'),
    ("no form", mixture(form=[]), ValueError, "form must hold at least one"),
    ("name of a scale", mixture(covariance_scale="mix"), ValueError, "mixture"),
    ("scale of 0", mixture(covariance_scale=0.0), ValueError, "must be a finite number a"),
    ("no scale", mixture(covariance_scale=X[:0, 0]), ValueError, "at least one number"),
    ("inputs counted", partial(BAND.with_replicates, 1), ValueError, "num_inputs is 1"),
    ("share", partial(BAND.with_replicates, share=1.0), ValueError, "share"),
    ("no domain", partial(BAND.with_fixed_design, 2), ValueError, "candidates or bounds"),
    ("runs", partial(BAND.with_fixed_design, 9, candidates=X), ValueError, "9 runs"),
    (
        "near a ball",
        partial(NEAR.with_fixed_design, 2, candidates=X),
        Unsupported,
        "one norm",
    ),
    ("noise", partial(UNKNOWN.with_replicates), Unsupported, "noise scale"),
    (
        "a box",
        partial(LINEAR.with_fixed_design, 2, bounds=X[:2]),
        Unsupported,
        "as candidates",
    ),
    ("no repeats", lambda: ReplicateNoise(X, Y), Data, "no repeated input"),
    (
        "replicates before a transform",
        lambda: MartingaleMixtureUCB(
            LOGGED, norm_bound=9.0, noise_std=ReplicateNoise(*RUNS)
        ),
        ValueError,
        "transform them too",
    ),
    ("elsewhere, at", lambda: ELSEWHERE.at(delta=0.1), Unsupported, "computed anew"),
    ("elsewhere, norm", lambda: ELSEWHERE.least_norm_factor, Unsupported, "least con"),
]
