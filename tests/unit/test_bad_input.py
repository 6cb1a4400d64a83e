r"""Wrong arguments, and words of other libraries: typed errors that say what to change."""

import math

import numpy as np
import pytest
import torch
from botorch.exceptions import BotorchTensorDimensionError, InputDataError, UnsupportedError
from botorch.models import SingleTaskGP
from gpytorch.kernels import PolynomialKernel

from kernelucb import (
    IGPUCB,
    AbbasiYadkoriUCB,
    BKBBandit,
    Filters,
    Grid,
    GuardedAcquisition,
    KernelBandit,
    KernelRegression,
    KernelThompsonSampling,
    MartingaleMixtureUCB,
    NormTracker,
    SafeSet,
    ScalarizedUCB,
    SrinivasUCB,
    StreamingKernelUCB,
    UnknownNoise,
    WangDeFreitasUCB,
    information_gain,
    least_consistent_norm,
    optimum_report,
    regret_certificate,
)
from kernelucb.acquisition import BOUNDS, CompactDomain
from kernelucb.exceptions import InconsistentConfidenceSetWarning, UncertifiedError
from problems import frozen_kernel, make_problem, uniform

PROBLEM = make_problem(n=6, d=2)
X, Y, KERNEL, MODEL = PROBLEM.X, PROBLEM.Y, PROBLEM.kernel, PROBLEM.model
KNOWN_NOISE = [
    MartingaleMixtureUCB,
    AbbasiYadkoriUCB,
    IGPUCB,
    WangDeFreitasUCB,
    SrinivasUCB,
]
CLASSES = [*KNOWN_NOISE, StreamingKernelUCB]
NAN = torch.full((1, 2), torch.nan, dtype=torch.float64)
DIMENSION = BotorchTensorDimensionError


def build(acqf_class=MartingaleMixtureUCB, **options):
    if acqf_class is not SrinivasUCB:
        options = {"norm_bound": 3.0, **options}
    if acqf_class is StreamingKernelUCB:
        options = {"noise_std": UnknownNoise(0.05, 1.0), **options}
    return acqf_class(MODEL, **options)


def of_each(value):
    noise = torch.full((6,), 0.1, dtype=torch.float64)
    noise[3] = value
    return noise


NOT_POSITIVE = [0.0, -1.0, math.nan, math.inf]
POSITIVE, SAFE = "must be a finite number above 0", "must be between 1e-75 and 1e"
NUMBERS = [
    *(("norm_bound", value, f"norm_bound {POSITIVE}") for value in NOT_POSITIVE),
    *(("norm_bound", value, f"norm_bound {SAFE}") for value in (1e160, 1.1e75, 0.9e-75)),
    *(("norm_bound", value, "norm_bound must be a number") for value in ("1", True, [1])),
    ("norm_bound", 10**400, "norm_bound is too large"),
    *(
        ("delta", value, "delta must lie strictly between 0 and 1")
        for value in (0.0, 1.0, -0.1, math.nan)
    ),
    ("delta", 5e-324, "delta must be at least 1e-300"),
    *(("noise_std", value, f"noise_std {POSITIVE}") for value in NOT_POSITIVE),
    *(("noise_std", value, "noise_std must be between") for value in (1e160, 1e-160)),
    ("noise_std", of_each(-1.0), "Every value of noise_std must be a finite"),
    ("noise_std", of_each(1e160), "Every value of noise_std must be between"),
    ("noise_std", torch.ones(5), r"one value per observation \(6"),
]


@pytest.mark.parametrize(("name", "value", "message"), NUMBERS)
def test_numbers_of_every_bound(name, value, message):
    takers = {"norm_bound": set(CLASSES) - {SrinivasUCB}, "delta": CLASSES}
    for acqf_class in takers.get(name, KNOWN_NOISE):
        with pytest.raises((ValueError, DIMENSION), match=message):
            build(acqf_class, **{name: value})


def state_of(X=X, Y=Y, kernel=KERNEL, noise_std=0.1):
    return lambda: KernelRegression(X, Y, kernel, noise_std)


EIGHTH = PolynomialKernel(8)
REFUSED = [
    (lambda: build(fit=Filters(0.0)), ValueError, POSITIVE),
    (lambda: least_consistent_norm(MODEL, fit="filter"), ValueError, "fit must be "),
    (lambda: build(form="primal"), ValueError, 'form must be "dual", "analytic" or'),
    (lambda: build(form=Grid([])), ValueError, "alphas must hold at least one"),
    (lambda: build(AbbasiYadkoriUCB, alpha=0.0), ValueError, f"alpha {POSITIVE}"),
    (lambda: build(IGPUCB, horizon=5), ValueError, "horizon is 5, but there are 6"),
    (lambda: CompactDomain(length=0.0), ValueError, "length must be a finite"),
    (lambda: information_gain(KERNEL, X), ValueError, "noise_std is needed"),
    (state_of(X[0]), DIMENSION, "must be `n x"),
    (state_of(X.unsqueeze(0)), DIMENSION, "must be `n x"),
    (state_of(X, Y[:-1]), DIMENSION, "must be `n x"),
    (lambda: build().witness(X[:2]), DIMENSION, "X must be `1 x 2`"),
    (lambda: PROBLEM.state.with_pending(X[:, :1]), DIMENSION, "b x 2"),
    (lambda: SafeSet(build(), safe_points=NAN[:, :1]), DIMENSION, "safe_points must be"),
    (state_of(X[:0], Y[:0]), InputDataError, "at least one"),
    (state_of(X * torch.nan), InputDataError, "train_X contains NaN"),
    (state_of(X, Y / 0.0), InputDataError, "train_Y contains NaN or inf"),
    (state_of(1e80 * X), InputDataError, r"beyond 1e\+75"),
    (state_of(1e40 * X, kernel=EIGHTH), InputDataError, "not finite"),
    (lambda: state_of(kernel=EIGHTH)().mean(1e40 * X), InputDataError, "not finite"),
    (lambda: build().bounds(X * 1e80), InputDataError, "units"),
    (lambda: build().witness(NAN), InputDataError, "X contains NaN"),
    (lambda: build(SrinivasUCB, theorem=1), UnsupportedError, "theorem must be an inst"),
    (lambda: information_gain("rbf", X), UnsupportedError, "Expected a BoTorch model"),
    (
        lambda: build(StreamingKernelUCB, tracker=NormTracker()),
        UnsupportedError,
        "an instance of StreamingNoiseTracker",
    ),
    (state_of(kernel="rbf"), UnsupportedError, "Expected a GPyTorch"),
]


@pytest.mark.parametrize(("use", "error", "message"), REFUSED)
def test_refused(use, error, message):
    with pytest.raises(error, match=message):
        use()


@pytest.mark.parametrize("dtype", [torch.int64, torch.complex128, np.float64])
def test_points_are_tensors_of_floating_point_numbers(dtype):
    acqf, state = build(), PROBLEM.state
    numpy = dtype is np.float64
    points = np.ones((3, 2)) if numpy else torch.ones(3, 2, dtype=dtype)
    message = "must be a torch tensor" if numpy else f"must hold floating-.*got {dtype}"
    uses = [acqf.bounds, acqf.set_X_pending, lambda X: acqf(X[:, None]), state.mean]
    if numpy:
        uses += [
            SafeSet(acqf, -9.0).is_safe,
            lambda X: KernelRegression(X, X[:, 0], KERNEL, 0.1),
            lambda X: regret_certificate(acqf, candidates=X),
            lambda X: regret_certificate(acqf, bounds=X[:2]),
            lambda X: SafeSet(acqf, 0.0, safe_points=X),
        ]
    for use in uses:
        with pytest.raises(InputDataError, match=message):
            use(points)


@pytest.mark.parametrize("acqf_class", [*BOUNDS, ScalarizedUCB])
def test_there_is_no_beta(acqf_class):
    with pytest.raises(TypeError, match=f"{acqf_class.__name__} has no beta"):
        acqf_class(MODEL, beta=2.0)


def test_what_is_no_band():
    bandit = BKBBandit(X, KERNEL, norm_bound=3.0, noise_std=0.1)
    sampler = KernelThompsonSampling(MODEL, norm_bound=3.0)
    for use in (
        lambda: regret_certificate(MODEL, candidates=X),
        lambda: optimum_report(MODEL, candidates=X),
        lambda: SafeSet(MODEL, 0.0),
        lambda: SafeSet(bandit, 0.0),
        lambda: SafeSet(sampler, 0.0),
        lambda: GuardedAcquisition(build(), MODEL, observed=X),
    ):
        with pytest.raises(UnsupportedError, match=r"has no set of|an instance of Band"):
            use()


def test_a_cautious_norm_bound_is_an_estimate_and_a_safe_set_needs_consent():
    for acqf_class in (MartingaleMixtureUCB, AbbasiYadkoriUCB):
        acqf = acqf_class(MODEL, norm_bound="cautious")
        tracked = acqf_class(MODEL, norm_bound=NormTracker.cautious())
        assert acqf.norm_bound == tracked.norm_bound > acqf_class(MODEL).norm_bound
        assert acqf.assumptions.summary == "heuristic: norm estimated"
        with pytest.raises(UncertifiedError, match="heuristic: norm estimated") as refusal:
            SafeSet(acqf, 0.0)
        assert "norm: pass norm_bound" in str(refusal.value)
        allowed = SafeSet(acqf, 0.0, allow_estimated=True)
        assert allowed.assumptions.estimated == ("constraint 1: norm",)


def test_a_bandit_that_comes_to_contradict_its_data():
    kernel = frozen_kernel("rbf", 0.3)
    bandit = KernelBandit(kernel, norm_bound=0.1, noise_std=0.1)
    bandit.observe(torch.zeros(1), 0.0)
    safe_set, points = SafeSet(bandit, -1.0), torch.zeros(3, 1).double()
    assert bool(safe_set.is_safe(points).all())
    for x in (0.1, 0.5, 1.0):
        bandit.observe(torch.full((1,), x), 5.0)
    with pytest.warns(InconsistentConfidenceSetWarning):
        bandit.bounds(points)
    with pytest.raises(UncertifiedError, match="norm violated"):
        safe_set.is_safe(points)


@pytest.mark.filterwarnings("ignore::botorch.exceptions.warnings.InputDataWarning")
@pytest.mark.parametrize("offset", [1e4, 1e8, 1e12])
@pytest.mark.parametrize("noise_std", [1e-4, 1e-2, 1.0])
def test_outcomes_far_from_the_prior_mean_keep_the_sides_apart(offset, noise_std):
    inputs = uniform(15, 3, 0)
    outcomes = torch.sin(5.0 * inputs).sum(-1, keepdim=True) + offset
    model = SingleTaskGP(inputs, outcomes, outcome_transform=None)
    acqf = MartingaleMixtureUCB(model, noise_std=noise_std)
    lower, upper = acqf.bounds(torch.cat([inputs, uniform(30, 3, 6)]))
    assert bool((lower <= upper).all())
