r"""Wrong arguments: typed errors that say what to change; defaults; printed words."""

import math
from functools import partial

import numpy as np
import pytest
import torch
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.exceptions import BotorchTensorDimensionError, InputDataError, UnsupportedError
from botorch.models import ModelListGP, SingleTaskGP
from botorch.models.transforms import Log
from gpytorch.kernels import PolynomialKernel

import kernelucb
from kernelucb import (
    BKBUCB,
    IGPUCB,
    AbbasiYadkoriUCB,
    BKBBandit,
    ConstrainedUCB,
    GuardedAcquisition,
    KernelBandit,
    KernelFamilyUCB,
    KernelRegression,
    KernelThompsonSampling,
    LikelihoodRegression,
    LikelihoodUCB,
    MartingaleMixtureUCB,
    MixedSpace,
    NearNormBall,
    NormTracker,
    NystromRegression,
    OutcomeConstraints,
    PrequentialRadius,
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
from kernelucb.acquisition import BOUNDS, CompactDomain, outcome_bands
from kernelucb.confidence.band import Band
from kernelucb.exceptions import (
    InconsistentConfidenceSetWarning,
    UncertifiedError,
)
from kernelucb.models import BKBModel
from kernelucb.optim import chunked
from kernelucb.safety import ConstraintWidth
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
NORM = {"norm_bound": 3.0}
GIVEN = NORM | {"noise_std": 0.1}
NAN = torch.full((1, 2), torch.nan, dtype=torch.float64)
DIMENSION = BotorchTensorDimensionError


def build(acqf_class=MartingaleMixtureUCB, **options):
    if acqf_class is not SrinivasUCB:
        options = NORM | options
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


EIGHTH = PolynomialKernel(8)
REFUSED = [
    (lambda: build(covariance_scale=0.0), ValueError, POSITIVE),
    (lambda: least_consistent_norm(MODEL, fit="filter"), ValueError, "fit must be "),
    (
        lambda: build(form="primal"),
        ValueError,
        'form must be "dual", "analytic"',
    ),
    (lambda: build(form=[]), ValueError, "form must hold at least one"),
    (lambda: build(AbbasiYadkoriUCB, alpha=0.0), ValueError, f"alpha {POSITIVE}"),
    (lambda: build(IGPUCB, horizon=5), ValueError, "horizon is 5, but there are 6"),
    (lambda: CompactDomain(length=0.0), ValueError, "length must be a finite"),
    (lambda: information_gain(KERNEL, X), ValueError, "noise_std is needed"),
    (lambda: build().witness(X[:2]), DIMENSION, "X must be `1 x 2`"),
    (lambda: PROBLEM.state.with_pending(X[:, :1]), DIMENSION, "b x 2"),
    (lambda: build().bounds(X * 1e80), InputDataError, "units"),
    (lambda: build().witness(NAN), InputDataError, "X contains NaN"),
    (lambda: build(SrinivasUCB, theorem=1), UnsupportedError, "theorem must be an inst"),
    (lambda: information_gain("rbf", X), UnsupportedError, "Expected a BoTorch model"),
    (
        lambda: build(StreamingKernelUCB, tracker=NormTracker()),
        UnsupportedError,
        "an instance of StreamingNoiseTracker",
    ),
]


BOX, NO_BOX = X[:2].sort(0).values, X[:2].sort(0, descending=True).values
SAFE_SET = SafeSet(build(), -9.0)
TWO = ModelListGP(MODEL, MODEL)
LIMITED = partial(ConstrainedUCB.from_model, TWO, **GIVEN)
LIMIT = {1: (None, 1.0)}
FLAT = (torch.zeros(1, 2).double(), torch.ones(1, 1).double())
WEIGHTS = ScalarizedPosteriorTransform(torch.ones(2).double())
SCALED = (Y - Y.mean()) / Y.std()
BATCHED = SingleTaskGP(X.expand(2, 6, 2), SCALED.expand(2, 6).unsqueeze(-1))
BKB = BKBModel(X, Y.unsqueeze(-1), KERNEL, alpha=0.01)
LOGGED = SingleTaskGP(X, SCALED.exp().unsqueeze(-1), outcome_transform=Log())
GAPS = [regret_certificate(build(), candidates=X)]
PREDICTED = PrequentialRadius()


def of_counts(X, kernel=KERNEL, likelihood="poisson", **options):
    ones = torch.ones(6, dtype=torch.float64)
    return LikelihoodRegression(X, ones, kernel, likelihood=likelihood, **options)


COUNTS = of_counts(X)


def family(kernels=(KERNEL,), **options):
    return lambda: KernelFamilyUCB(MODEL, kernels, **(NORM | options))


def counts(model=MODEL, **options):
    return lambda: LikelihoodRegression.from_model(model, **options)


# The calls of each exception, and the noun in its message that says what to change.
VALUE = [
    (lambda: NormTracker(inflation=1e80), "inflation must be at most"),
    (lambda: NormTracker(inflation=0.5), "inflation must be at least 1"),
    (lambda: regret_certificate(build(), bounds=NO_BOX), "Every lower limit"),
    (lambda: MixedSpace(NO_BOX), "Every lower limit"),
    (
        lambda: MartingaleMixtureUCB.from_model(MODEL, lengthscale=0.3, **NORM),
        "name of a kernel",
    ),
    (
        lambda: LIMITED(constraints=LIMIT, objective_index=1, posterior_transform=WEIGHTS),
        "objective_index",
    ),
    (lambda: LIMITED(constraints=LIMIT, constraints_tuple=FLAT), "give one of them"),
    (lambda: LIMITED(constraints_tuple=FLAT), "row without weights"),
    (lambda: LIMITED(constraints={1: 2.0}), "must be .lower, upper."),
    (lambda: LIMITED(constraints={1: (None, None)}), "has no limit"),
    (lambda: LIMITED(constraints={2: (0.0, 1.0)}), "outputs 0 to 1"),
    (lambda: outcome_bands([]), "models is empty"),
    (lambda: BKBBandit(X, KERNEL, **GIVEN, batch_growth=1.0), "batch_growth"),
    (lambda: KernelBandit(KERNEL, **GIVEN, fit=PREDICTED), "fit must be"),
    (family([]), "kernels is empty"),
    (family(norm_bound=[1.0, 2.0]), "norm_bound has 2 entries for 1"),
    (lambda: build(covariance_scale="mix"), "mixture"),
    (lambda: build(covariance_scale=X[:0, 0]), "at least one number"),
    (
        lambda: OutcomeConstraints([build(), build()], -1.0, names=["a", "a"]),
        "another band",
    ),
    (
        lambda: SrinivasUCB(MODEL, theorem=CompactDomain(lipschitz_a=1e-9)),
        "lipschitz_a >= 1",
    ),
    (lambda: KernelThompsonSampling(MODEL, tracker=NormTracker()), "UnknownNoise"),
    (
        lambda: KernelThompsonSampling(MODEL, **NORM, replacement=False)(X, 7),
        "set replacement=True",
    ),
    (lambda: of_counts(X, likelihood="bernoulli", exposure=2.0), "exposure is for"),
    (counts(likelihood="poisson", lengthscale=0.2), "name of a kernel"),
    (counts(COUNTS, likelihood="poisson"), "leave out what describes"),
]
INPUT = [
    (lambda: build().bounds(X.to_sparse()), "X.to_dense"),
    (lambda: of_counts(1e40 * X, EIGHTH), "Rescale the inputs"),
]
SHAPE = [
    (lambda: regret_certificate(build(), bounds=X), "bounds must be `2 x 2`"),
    (lambda: MixedSpace(BOX, inequality_constraints=[(X, X, 0.0)]), "columns as coeff"),
    (lambda: PREDICTED.observe(MODEL, X[:0], Y[:0], 0.1), "n x d"),
    (lambda: PREDICTED.observe(BATCHED, X[:1], Y[:1], 0.1), "one outcome"),
    (lambda: BKB.posterior(X[0]), "X must be"),
    (lambda: BKB.observe(X[:, :1], Y), "X must be `n x 2`"),
    (lambda: chunked.argmax(build(), X[0]), "candidates must be `n x d`"),
    (
        lambda: MartingaleMixtureUCB.from_model(
            MODEL, kernel="rbf", lengthscale=[0.1] * 3, **NORM
        ),
        "lengthscale has 3 entries",
    ),
]
UNSUPPORTED = [
    (lambda: LikelihoodUCB(COUNTS, **NORM).band.relaxed(1.0, 2.0), "no noise scale"),
    (lambda: LIMITED(constraints=LIMIT, objective_index=[0]), "weigh"),
    (lambda: KernelFamilyUCB(COUNTS, [KERNEL], **GIVEN), "noise_std"),
    (lambda: PREDICTED.observe("gp", X[:1], Y[:1], 0.1), "BoTorch model"),
    (lambda: BKB.observe(X[None], Y[None]), "without batch dim"),
    (lambda: BKB.float(), "leave its dtype alone"),
    (counts(LOGGED, likelihood="poisson"), "outcome_transform=None"),
]
CHANGES = {
    ValueError: VALUE,
    InputDataError: INPUT,
    DIMENSION: SHAPE,
    UnsupportedError: UNSUPPORTED,
}
ROWS = [(use, error, noun) for error, rows in CHANGES.items() for use, noun in rows]


@pytest.mark.parametrize(("use", "error", "noun"), REFUSED + ROWS)
def test_says_what_to_change(use, error, noun):
    with pytest.raises(error, match=noun):
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
    for use in (
        lambda: regret_certificate(MODEL, candidates=X),
        lambda: optimum_report(MODEL, candidates=X),
        lambda: SafeSet(bandit, 0.0),
        lambda: GuardedAcquisition(build(), MODEL, observed=X),
    ):
        with pytest.raises(UnsupportedError, match=r"has no set of|an instance of Band"):
            use()


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


def test_a_posterior_has_the_type_of_its_points():
    found, exact = BKB.posterior(X.float()), BKB.posterior(X)
    assert found.mean.dtype == found.variance.dtype == torch.float32
    torch.testing.assert_close(found.mean.double(), exact.mean, atol=1e-5, rtol=0.0)
    assert BKB.batch_shape == torch.Size()


def test_no_pending_points_are_no_change():
    sketched, acqf = BKBUCB(BKB, norm_bound=3.0).band.data, build()
    for state in (PROBLEM.state, NystromRegression.from_model(MODEL, X[:3], 0.1), sketched):
        assert state.with_pending(X[:0]) is state
    torch.testing.assert_close(
        acqf.band.confidence_set.regression.variance(X), acqf.band.data.variance(X)
    )


def test_a_constraints_width_rests_on_its_safe_set():
    width = ConstraintWidth(SAFE_SET)
    assert width.assumptions == SAFE_SET.assumptions


def test_names_and_numbers_of_what_is_printed():
    assert {"IGPUCB", "SafeSet"} <= set(dir(kernelucb))
    known = "norm=3, delta=0.05, num_observations=6"
    assert repr(build().band.confidence_set).startswith(f"ExactSet({known})")
    guarded = GuardedAcquisition(build(), build(), observed=X)
    assert "acqf=MartingaleMixtureUCB, band=MartingaleMixtureUCB" in repr(guarded)
    assert family()().band.lengthscales == ()


def test_a_ball_around_a_ball_is_wider_by_its_error_and_stays_in_relaxed_bands():
    ball = NearNormBall(3.0, 0.1)
    for make in (
        lambda norm: family(norm_bound=norm)(),
        lambda norm: build(norm_bound=norm),
    ):
        near, own = make(ball), make(3.0)
        lower, upper = own.bounds(X)
        low, high = near.bounds(X)
        assert bool((low <= lower).all())
        assert bool((high >= upper).all())
        assert "within 0.1 of a function g" in str(near.assumptions["norm"])
        assert "within 0.1 of a function g" in str(
            near.band.relaxed(2.0).assumptions["norm"]
        )


def test_relaxed_bands_of_counts_and_their_majorant():
    acqf = KernelFamilyUCB(COUNTS, [KERNEL], norm_bound=3.0)
    assert acqf.band.relaxed(2.0).norm_bounds == pytest.approx((6.0,))
    single = LikelihoodUCB(COUNTS, norm_bound=3.0)
    assert bool((single.majorant(X[:, None]) >= single(X[:, None]) - 1e-9).all())


def test_a_gain_has_a_gradient_by_its_reference():
    own, reference = build().band.confidence_set, X[:1].clone().requires_grad_()
    gain = own.max_gain_over(X[1:], reference)
    torch.testing.assert_close(gain.detach(), own.max_gain_over(X[1:], X[:1]).detach())
    (slope,) = torch.autograd.grad(gain.sum(), reference)
    step = 1e-5 * slope / slope.norm()
    ends = [own.max_gain_over(X[1:], X[:1] + s * step).sum() for s in (1.0, -1.0)]
    assert float(ends[0] - ends[1]) == pytest.approx(2e-5 * float(slope.norm()), rel=1e-3)


class Elsewhere(Band):
    r"""A band that is made elsewhere: the three members that it needs."""

    assumptions, prior_std = build().assumptions, 1.0

    def bounds(self, X):
        return X[:, 0] - 1.0, X[:, 0] + 2.0


def test_defaults_of_a_band_made_elsewhere():
    band, gain = Elsewhere(), X[1:, 0] - X[0, 0] + 3.0
    near = torch.testing.assert_close
    near(band.max_gain_over(X[1:], X[:1]), gain)
    near(band.max_gain_over(X[1:], X[:1], -1), 6.0 - gain)
    assert (band.direction, band.observed, band.norm_bounds) == (1, None, ())
    assert repr(band).startswith("Elsewhere(delta=0.05)")
    for use, noun in (
        (lambda: band.at(delta=0.1), "computed anew"),
        (lambda: band.least_norm_factor, "least consistent norm"),
    ):
        with pytest.raises(UnsupportedError, match=noun):
            use()
