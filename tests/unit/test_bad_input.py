r"""Wrong arguments raise typed errors that say what to change."""

import math

import pytest
import torch
from botorch.exceptions import BotorchTensorDimensionError, InputDataError
from botorch.exceptions.errors import UnsupportedError

from kernelucb import (
    IGPUCB,
    AbbasiYadkoriUCB,
    Analytic,
    CertifiedGapStopping,
    Filters,
    Grid,
    GuardedAcquisition,
    KernelBandit,
    KernelFamily,
    KernelFamilyUCB,
    KernelRegression,
    MartingaleMixtureUCB,
    NormTracker,
    SafeSet,
    SrinivasUCB,
    StreamingKernelUCB,
    UnknownNoise,
    WangDeFreitasUCB,
    check_consistency,
    information_gain,
    least_consistent_norm,
    optimum_report,
    regret_certificate,
)
from kernelucb.acquisition import BoundedNorm, CompactDomain, FiniteDomain
from problems import frozen_kernel, make_problem

PROBLEM = make_problem(n=6, d=2)
KNOWN_NOISE = [
    MartingaleMixtureUCB,
    AbbasiYadkoriUCB,
    IGPUCB,
    WangDeFreitasUCB,
    SrinivasUCB,
]
CLASSES = [*KNOWN_NOISE, StreamingKernelUCB]
NORM_CLASSES = [acqf_class for acqf_class in CLASSES if acqf_class is not SrinivasUCB]
NOT_POSITIVE = [0.0, -1.0, math.nan, math.inf]


def build(acqf_class, **options):
    if acqf_class is not SrinivasUCB:
        options = {"norm_bound": 3.0, **options}
    if acqf_class is StreamingKernelUCB:
        options = {"noise_std": UnknownNoise(0.05, 1.0), **options}
    return acqf_class(PROBLEM.model, **options)


@pytest.mark.parametrize("value", NOT_POSITIVE)
@pytest.mark.parametrize("acqf_class", NORM_CLASSES)
def test_norm_bound(acqf_class, value):
    with pytest.raises(ValueError, match="norm_bound must be a finite number above 0"):
        build(acqf_class, norm_bound=value)


@pytest.mark.parametrize("value", [0.0, 1.0, -0.1, 1.1, math.nan])
@pytest.mark.parametrize("acqf_class", CLASSES)
def test_delta(acqf_class, value):
    with pytest.raises(ValueError, match="delta must lie strictly between 0 and 1"):
        build(acqf_class, delta=value)


@pytest.mark.parametrize("value", NOT_POSITIVE)
@pytest.mark.parametrize("acqf_class", KNOWN_NOISE)
def test_noise_std(acqf_class, value):
    with pytest.raises(ValueError, match="noise_std must be a finite number above 0"):
        build(acqf_class, noise_std=value)


@pytest.mark.parametrize("acqf_class", KNOWN_NOISE)
def test_noise_std_of_each_observation(acqf_class):
    with pytest.raises(BotorchTensorDimensionError, match=r"one value per observation \(6"):
        build(acqf_class, noise_std=torch.ones(5))
    noise = torch.ones(6)
    noise[3] = -1.0
    with pytest.raises(ValueError, match="Every value of noise_std must be a finite"):
        build(acqf_class, noise_std=noise)


@pytest.mark.parametrize("value", ["0.1", True, [0.1]])
def test_scalars_that_are_not_numbers(value):
    with pytest.raises(ValueError, match="norm_bound must be a number"):
        build(MartingaleMixtureUCB, norm_bound=value)


@pytest.mark.parametrize("value", NOT_POSITIVE)
def test_covariance_scale(value):
    message = "covariance_scale must be a finite number above 0"
    with pytest.raises(ValueError, match=message):
        build(MartingaleMixtureUCB, fit=Filters(value))
    with pytest.raises(ValueError, match=message):
        least_consistent_norm(PROBLEM.model, fit=Filters(value))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            lambda: {"form": "primal"},
            'form must be "dual", "analytic" or "convex", got \'primal\'',
        ),
        (lambda: {"form": Grid("theirs")}, 'a tensor, a number, "paper" or None'),
        (lambda: {"form": Grid([])}, "alphas must hold at least one number"),
        (
            lambda: {"form": Grid([0.1, 0.0])},
            "Every value of alphas must be a finite number above 0",
        ),
        (
            lambda: {"form": Grid([0.1, math.nan])},
            "Every value of alphas must be a finite number above 0",
        ),
    ],
)
def test_forms(options, message):
    with pytest.raises(ValueError, match=message):
        build(MartingaleMixtureUCB, **options())


@pytest.mark.parametrize("value", ["paper", [0.1, 1.0], -1.0, math.nan])
def test_alpha_is_one_positive_number(value):
    with pytest.raises(ValueError, match="alpha must be a"):
        Analytic(value)


@pytest.mark.parametrize(
    ("theorem", "options", "message"),
    [
        (FiniteDomain, {"size": 0}, "size must be a whole number of at least 1"),
        (CompactDomain, {"length": 0.0}, "length must be a finite number above 0"),
        (CompactDomain, {"lipschitz_a": math.inf}, "lipschitz_a must be a finite"),
        (CompactDomain, {"lipschitz_b": -1.0}, "lipschitz_b must be a finite"),
        (BoundedNorm, {"norm_bound": -1.0}, "norm_bound must be a finite"),
        (BoundedNorm, {"norm_bound": "large"}, "norm_bound must be a number"),
        (BoundedNorm, {"information_gain": 0.0}, "information_gain must be a finite"),
    ],
)
def test_theorems_check_what_they_are_given(theorem, options, message):
    with pytest.raises(ValueError, match=message):
        theorem(**options)


def test_a_theorem_is_an_object():
    with pytest.raises(UnsupportedError, match="theorem must be an instance of Fin"):
        SrinivasUCB(PROBLEM.model, theorem=1)


@pytest.mark.parametrize(
    ("acqf_class", "options", "message"),
    [
        (AbbasiYadkoriUCB, {"alpha": 0.0}, "alpha must be a finite number above 0"),
        (IGPUCB, {"horizon": 0}, "horizon must be a finite number above 0"),
        (IGPUCB, {"horizon": 5}, "horizon is 5, but there are 6 observations"),
        (SrinivasUCB, {"scale": 0.0}, "scale must be a finite number above 0"),
        (SrinivasUCB, {"theorem": CompactDomain(lipschitz_a=1e-3)}, "lipschitz_a >= 1"),
    ],
)
def test_options_of_the_baselines(acqf_class, options, message):
    with pytest.raises(ValueError, match=message):
        build(acqf_class, **options)


@pytest.mark.parametrize("acqf_class", CLASSES)
def test_query_points(acqf_class):
    acqf = build(acqf_class)
    point = torch.zeros(1, 2, dtype=torch.float64)
    with pytest.raises(BotorchTensorDimensionError, match="for q > 1 use optimize_acqf"):
        acqf(point.expand(5, 3, 2))
    with pytest.raises(BotorchTensorDimensionError, match="X must be `b x 1 x d`"):
        acqf(point[0])
    with pytest.raises(BotorchTensorDimensionError, match=r"3 columns; .* trained on 2"):
        acqf(torch.zeros(5, 1, 3, dtype=torch.float64))
    with pytest.raises(InputDataError, match="X contains NaN"):
        acqf(point * torch.nan)
    with pytest.raises(BotorchTensorDimensionError, match="X must be `n x d`"):
        acqf.bounds(point.expand(5, 1, 2))
    with pytest.raises(BotorchTensorDimensionError, match=r"1 columns; .* trained on 2"):
        acqf.bounds(torch.zeros(5, 1, dtype=torch.float64))
    with pytest.raises(InputDataError, match="X contains NaN or infinite"):
        acqf.bounds(point + torch.inf)


@pytest.mark.parametrize("acqf_class", CLASSES)
def test_pending_points(acqf_class):
    acqf = build(acqf_class)
    with pytest.raises(BotorchTensorDimensionError, match="X_pending must be `p x d`"):
        acqf.set_X_pending(torch.zeros(3, 1, 2, dtype=torch.float64))
    with pytest.raises(BotorchTensorDimensionError, match="X_pending has 3 columns"):
        acqf.set_X_pending(torch.zeros(1, 3, dtype=torch.float64))
    with pytest.raises(InputDataError, match="X_pending contains NaN"):
        acqf.set_X_pending(torch.full((1, 2), torch.nan, dtype=torch.float64))


def test_witness_takes_one_point():
    acqf = build(MartingaleMixtureUCB)
    with pytest.raises(BotorchTensorDimensionError, match="X must be `1 x 2`"):
        acqf.witness(torch.zeros(2, 2, dtype=torch.float64))
    with pytest.raises(InputDataError, match="X contains NaN"):
        acqf.witness(torch.full((1, 2), torch.nan, dtype=torch.float64))


def test_tensors_of_a_state():
    X, Y, kernel = PROBLEM.X, PROBLEM.Y, PROBLEM.kernel
    for bad_X, bad_Y in [
        (X[0], Y),
        (X, Y[:-1]),
        (X, Y.repeat(2, 1)),
        (X.unsqueeze(0), Y),
    ]:
        with pytest.raises(BotorchTensorDimensionError, match="must be `n x"):
            KernelRegression(bad_X, bad_Y, kernel, 0.1)
    with pytest.raises(InputDataError, match="at least one"):
        KernelRegression(X[:0], Y[:0], kernel, 0.1)
    with pytest.raises(InputDataError, match="train_X contains NaN"):
        KernelRegression(X * torch.nan, Y, kernel, 0.1)
    with pytest.raises(InputDataError, match="train_Y contains NaN or infinite"):
        KernelRegression(X, Y + torch.inf, kernel, 0.1)
    with pytest.raises(ValueError, match="noise_std must be a finite number above 0"):
        KernelRegression(X, Y, kernel, 0.0)


def test_information_gain_arguments():
    kernel, X = frozen_kernel("rbf"), PROBLEM.X
    with pytest.raises(ValueError, match="noise_std is needed"):
        information_gain(kernel, X)
    with pytest.raises(ValueError, match="X is needed"):
        information_gain(kernel, noise_std=0.1)
    with pytest.raises(ValueError, match="noise_std must be a finite number above 0"):
        information_gain(kernel, X, noise_std=-0.1)
    with pytest.raises(ValueError, match='must be "exact", "greedy", "spectral" or'):
        information_gain(kernel, X, noise_std=0.1, method="optimal")
    for count in (0, -1, 2.5):
        with pytest.raises(ValueError, match="num_points must be a whole number"):
            information_gain(kernel, X, noise_std=0.1, num_points=count)
    with pytest.raises(BotorchTensorDimensionError, match="X must be `n x d`"):
        information_gain(kernel, X[0], noise_std=0.1)
    with pytest.raises(InputDataError, match="X contains NaN"):
        information_gain(kernel, X * torch.nan, noise_std=0.1)
    with pytest.raises(UnsupportedError, match="Expected a BoTorch model or a GPyTorch"):
        information_gain("rbf", X, noise_std=0.1)


@pytest.mark.parametrize("acqf_class", NORM_CLASSES)
def test_numbers_whose_squares_are_not_safe(acqf_class):
    for value in (1e160, 1e-160, 1.1e75, 0.9e-75):
        with pytest.raises(
            ValueError, match="norm_bound must be between 1e-75 and 1e\\+75"
        ):
            build(acqf_class, norm_bound=value)
    with pytest.raises(ValueError, match="norm_bound is too large"):
        build(acqf_class, norm_bound=10**400)
    with pytest.raises(ValueError, match="delta must be at least 1e-300"):
        build(acqf_class, delta=5e-324)


@pytest.mark.parametrize("value", [1e160, 1e-160])
@pytest.mark.parametrize("acqf_class", KNOWN_NOISE)
def test_noise_whose_square_is_not_safe(acqf_class, value):
    with pytest.raises(ValueError, match="noise_std must be between"):
        build(acqf_class, noise_std=value)
    noise = torch.full((6,), 0.1, dtype=torch.float64)
    noise[2] = value
    with pytest.raises(ValueError, match="Every value of noise_std must be between"):
        build(acqf_class, noise_std=noise)


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.complex128])
@pytest.mark.parametrize("acqf_class", CLASSES)
def test_points_are_floating_point_numbers(acqf_class, dtype):
    acqf, X = build(acqf_class), torch.ones(3, 2, dtype=dtype)
    message = f"must hold floating-point numbers, got {dtype}; pass a float64 tensor"
    for use in (acqf.bounds, acqf.set_X_pending, lambda X: acqf(X.unsqueeze(-2))):
        with pytest.raises(InputDataError, match=message):
            use(X)


def test_data_whose_squares_are_not_safe():
    X, Y = PROBLEM.X.clone(), PROBLEM.Y.clone()
    for part in (X, Y):
        safe, part.view(-1)[0] = part.view(-1)[0].clone(), 1e80
        with pytest.raises(InputDataError, match=r"holds values beyond 1e\+75"):
            KernelRegression(X, Y, frozen_kernel("rbf"), 0.1)
        part.view(-1)[0] = safe
    with pytest.raises(InputDataError, match=r"X holds values beyond 1e\+75"):
        build(MartingaleMixtureUCB).bounds(X * 1e80)


def test_safe_points_are_as_wide_as_the_inputs():
    points = torch.zeros(1, 3, dtype=torch.float64)
    with pytest.raises(BotorchTensorDimensionError, match="safe_points must be `n x 2`"):
        SafeSet(build(MartingaleMixtureUCB), safe_points=points)


def test_two_rows_by_position_could_be_a_box():
    acqf, rows = build(MartingaleMixtureUCB), PROBLEM.X[:2]
    for use in (
        lambda: regret_certificate(acqf, rows),
        lambda: optimum_report(acqf, rows),
        lambda: CertifiedGapStopping(0.1, rows),
    ):
        with pytest.raises(ValueError, match="say candidates= for the points, or bounds="):
            use()
    regret_certificate(acqf, candidates=rows)
    optimum_report(acqf, PROBLEM.X[:3])


@pytest.mark.parametrize("call", [least_consistent_norm, check_consistency])
def test_a_misspelt_fit_is_not_another(call):
    norm = {"norm_bound": 3.0} if call is check_consistency else {}
    with pytest.raises(ValueError, match='fit must be "filters", "martingale"'):
        call(PROBLEM.model, **norm, fit="filter")


@pytest.mark.parametrize("kernel", ["rbf", type(PROBLEM.kernel), None])
def test_a_kernel_is_an_object(kernel):
    for build in (
        lambda: KernelRegression(PROBLEM.X, PROBLEM.Y, kernel, 0.1),
        lambda: KernelBandit(kernel, norm_bound=3.0, noise_std=0.1),
        lambda: KernelFamilyUCB(PROBLEM.model, kernels=[kernel], norm_bound=3.0),
    ):
        with pytest.raises(UnsupportedError, match="Expected a GPyTorch kernel or mean"):
            build()


def test_a_model_is_no_band():
    acqf = build(MartingaleMixtureUCB)
    for use, message in (
        (lambda: regret_certificate(PROBLEM.model, candidates=PROBLEM.X), "has no set of"),
        (lambda: optimum_report(PROBLEM.model, candidates=PROBLEM.X), "has no set of"),
        (lambda: SafeSet(PROBLEM.model, 0.0), "must be an instance of Band, got Sin"),
        (
            lambda: GuardedAcquisition(acqf, PROBLEM.model, observed=PROBLEM.X),
            "must be an instance of Band, got Sin",
        ),
    ):
        with pytest.raises(UnsupportedError, match=message):
            use()


def test_each_tracker_has_its_place():
    with pytest.raises(UnsupportedError, match="an instance of StreamingNoiseTracker"):
        build(StreamingKernelUCB, tracker=NormTracker())
    with pytest.raises(UnsupportedError, match="an instance of FamilyTracker"):
        KernelFamily([PROBLEM.kernel], tracker=NormTracker())
