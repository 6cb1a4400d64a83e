r"""A user's GPyTorch ``ExactGP`` gives the bounds of the same ``SingleTaskGP``."""

import math
import warnings
from copy import deepcopy
from pickle import dumps, loads

import pytest
import torch
from botorch.acquisition.analytic import UpperConfidenceBound
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.exceptions import (
    BotorchTensorDimensionError,
    InputDataError,
    UnsupportedError,
)
from botorch.models.transforms.outcome import Log
from botorch.optim import optimize_acqf
from gpytorch.constraints import GreaterThan
from gpytorch.distributions import MultivariateNormal
from gpytorch.kernels import RBFKernel
from gpytorch.likelihoods import FixedNoiseGaussianLikelihood, GaussianLikelihood
from gpytorch.means import ConstantMean, ZeroMean
from gpytorch.models import ExactGP, IndependentModelList
from torch.testing import assert_close

from kernelucb import (
    IGPUCB,
    AbbasiYadkoriUCB,
    GuardedAcquisition,
    KernelFamilyUCB,
    KernelRegression,
    KernelThompsonSampling,
    MartingaleMixtureUCB,
    NormTracker,
    NystromRegression,
    PrequentialRadius,
    SafeSet,
    ScalarizedUCB,
    SketchedMartingaleMixtureUCB,
    SrinivasUCB,
    StreamingKernelUCB,
    StreamingNoiseTracker,
    UnknownNoise,
    WangDeFreitasUCB,
    check_consistency,
    describe_norm_bound,
    information_gain,
    least_consistent_norm,
    regret_certificate,
)
from problems import float64, frozen_model, make_problem, uniform

PROBLEM = make_problem(n=9, d=2, noise_std=0.2, kernel="matern52", seed=5)
X, Y, POINTS = PROBLEM.X, PROBLEM.Y, PROBLEM.test_X
CUBE = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
MEAN = 0.3
# The same kernel, data and noise, read from another class: the promise of the project.
EQUAL = 1e-12


class PlainGP(ExactGP):
    def __init__(self, train_x, train_y, likelihood, kernel):
        super().__init__(train_x, train_y, likelihood)
        self.mean_module = ConstantMean().double()
        self.mean_module.constant = float64(MEAN)
        self.covar_module = kernel

    def forward(self, x):
        return MultivariateNormal(self.mean_module(x), self.covar_module(x))


def gaussian(noise_std=0.2):
    likelihood = GaussianLikelihood(noise_constraint=GreaterThan(1e-12)).double()
    likelihood.noise = float64(noise_std**2)
    return likelihood


def plain(train_x=X, train_y=Y, likelihood=None, kernel=None, kind=PlainGP):
    kernel = deepcopy(PROBLEM.kernel) if kernel is None else kernel
    model = kind(train_x, train_y, likelihood or gaussian(), kernel)
    return model.double().requires_grad_(False)


def botorch(noise_std=0.2):
    return frozen_model(X, Y, PROBLEM.kernel, noise_std, mean=MEAN)


NORM = {"norm_bound": 3.0}
LIMITS = UnknownNoise(0.05, 0.5)


def sketched(model):
    state = NystromRegression.from_model(model, X[:4])
    return SketchedMartingaleMixtureUCB(state, **NORM)


def total(model):
    transform = ScalarizedPosteriorTransform(torch.tensor([1.0, -2.0]).double())
    return ScalarizedUCB.from_model([model, model], **NORM, posterior_transform=transform)


BOUNDS = {
    "exact": lambda model: MartingaleMixtureUCB(model, **NORM),
    "unknown noise": lambda model: MartingaleMixtureUCB(model, **NORM, noise_std=LIMITS),
    "estimated norm": MartingaleMixtureUCB,
    "Abbasi-Yadkori": lambda model: AbbasiYadkoriUCB(model, **NORM),
    "IGP": lambda model: IGPUCB(model, **NORM),
    "Srinivas": SrinivasUCB,
    "Wang-de Freitas": lambda model: WangDeFreitasUCB(model, **NORM),
    "streaming": lambda model: StreamingKernelUCB(model, **NORM, noise_std=LIMITS),
    "sketched": sketched,
    "family": lambda model: KernelFamilyUCB(model, [PROBLEM.kernel], **NORM),
    "sum": total,
}
NUMBERS = {
    "least norm": least_consistent_norm,
    "consistency": lambda m: check_consistency(m, 3.0).least_consistent_norm,
    "norm tracker": lambda m: NormTracker().observe(m),
    "noise tracker": lambda m: StreamingNoiseTracker(**NORM, noise_std=LIMITS).observe(m),
    "norm in words": lambda m: describe_norm_bound(m, 3.0, bounds=CUBE).range,
    "information gain": information_gain,
    "safe": lambda m: SafeSet.from_models(m, -9.0, **NORM).margin(POINTS),
    "certificate": lambda m: (
        regret_certificate(MartingaleMixtureUCB(m, **NORM), candidates=X).gap
    ),
}


@pytest.mark.parametrize("bound", BOUNDS)
def test_bounds_are_those_of_the_botorch_model(bound):
    own, other = BOUNDS[bound](plain()), BOUNDS[bound](botorch())
    for one, expected in zip(own.bounds(POINTS), other.bounds(POINTS), strict=True):
        assert_close(one, expected, rtol=0.0, atol=EQUAL)
    candidates = POINTS.unsqueeze(-2)
    assert_close(own(candidates), other(candidates), rtol=0.0, atol=EQUAL)
    assert str(own.assumptions) == str(other.assumptions)


@pytest.mark.parametrize("number", NUMBERS)
def test_numbers_are_those_of_the_botorch_model(number):
    own, other = (NUMBERS[number](model) for model in (plain(), botorch()))
    assert_close(torch.as_tensor(own), torch.as_tensor(other), rtol=0.0, atol=EQUAL)


def test_samples_are_those_of_the_botorch_model():
    drawn = []
    for model in (plain(), botorch()):
        torch.manual_seed(1)
        sampler = KernelThompsonSampling(model, **NORM)
        drawn.append(sampler.sample_values(POINTS, 3))
    assert_close(*drawn, rtol=0.0, atol=1e-9)  # roots of equal covariances


def test_noise_of_each_observation():
    scales = torch.linspace(0.1, 0.4, len(X), dtype=torch.float64)
    likelihood = FixedNoiseGaussianLikelihood(scales.square())
    own = MartingaleMixtureUCB(plain(likelihood=likelihood), **NORM)
    other = MartingaleMixtureUCB(botorch(scales), **NORM)
    for one, expected in zip(own.bounds(POINTS), other.bounds(POINTS), strict=True):
        assert_close(one, expected, rtol=0.0, atol=EQUAL)


def test_optimisation_copies_and_pickles():
    acqf = MartingaleMixtureUCB(plain(), **NORM)
    options = {"num_restarts": 2, "raw_samples": 16, "options": {"maxiter": 20}}
    torch.manual_seed(0)
    point, value = optimize_acqf(acqf, CUBE, q=2, sequential=True, **options)
    assert point.shape == (2, 2)
    assert bool(value.isfinite().all())
    acqf.set_X_pending(None)
    for twin in (deepcopy(acqf), loads(dumps(acqf))):
        assert_close(twin.bounds(POINTS), acqf.bounds(POINTS), rtol=0.0, atol=0.0)


def test_guarded_search():
    band = MartingaleMixtureUCB(plain(), **NORM)
    guarded = GuardedAcquisition(UpperConfidenceBound(botorch(), beta=2.0), band)
    assert bool((guarded.reference == X).all(-1).any())


def test_radius_of_its_predictions():
    radii = []
    for model in (plain(), botorch()):
        radius = PrequentialRadius()
        radius.observe(model, POINTS[:4], Y[:4], 0.2)
        radii.append(radius.squared)
    assert math.isclose(*radii, rel_tol=1e-10)


def test_one_column_may_be_left_out():
    column = uniform(7, 1, seed=3)
    outcomes = column[:, 0].sin()
    flat, single = (
        MartingaleMixtureUCB(plain(x, outcomes), **NORM) for x in (column[:, 0], column)
    )
    points = uniform(5, 1, seed=4)
    assert_close(flat.bounds(points), single.bounds(points), rtol=0.0, atol=0.0)
    with pytest.raises(BotorchTensorDimensionError, match="must be `n x d`"):
        flat.bounds(points[:, 0])


def test_single_precision_is_read_exactly():
    model = plain(X.float(), Y.float(), kernel=deepcopy(PROBLEM.kernel).float()).float()
    state = KernelRegression.from_model(model)
    assert state.train_inputs.dtype == torch.float64
    assert torch.equal(state.train_inputs, X.float().double())
    assert torch.equal(state.train_targets, Y.float().double())


def test_estimated_parts():
    model = plain()
    model.covar_module.requires_grad_(True)
    model.likelihood.requires_grad_(True)
    acqf = MartingaleMixtureUCB(model, **NORM)
    assert acqf.assumptions.estimated == ("kernel", "noise")


def test_lists():
    transform = ScalarizedPosteriorTransform(torch.tensor([1.0, -2.0]).double())
    models = IndependentModelList(plain(), plain())
    acqf = ScalarizedUCB.from_model(models, **NORM, posterior_transform=transform)
    assert_close(acqf.bounds(POINTS), total(plain()).bounds(POINTS), rtol=0.0, atol=0.0)
    with pytest.raises(UnsupportedError, match="has 2 outputs"):
        MartingaleMixtureUCB(models, **NORM)
    with pytest.raises(UnsupportedError, match=r"model\.models\[0\]"):
        MartingaleMixtureUCB(IndependentModelList(plain()), **NORM)


class Warped(PlainGP):
    def forward(self, x):
        return super().forward(x.square())


class Shifted(PlainGP):
    def forward(self, x):
        return super().forward(x) + 1.0


class Transformed(PlainGP):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.outcome_transform = Log()


class WithoutMean(PlainGP):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.mean = self.mean_module
        del self.mean_module

    def forward(self, x):
        return MultivariateNormal(self.mean(x), self.covar_module(x))


REFUSED = {
    "warped inputs": (lambda: plain(kind=Warped), UnsupportedError, "its own `forward`"),
    "shifted": (lambda: plain(kind=Shifted), UnsupportedError, "its own `forward`"),
    "a transform": (
        lambda: plain(kind=Transformed),
        UnsupportedError,
        "outcome_transform, which GPyTorch does not apply",
    ),
    "no mean": (
        lambda: plain(kind=WithoutMean),
        UnsupportedError,
        "must have attributes `mean_module`",
    ),
    "no data": (lambda: plain(None, None), InputDataError, "no training data"),
    "a column of outcomes": (
        lambda: plain(X, Y.unsqueeze(-1)),
        BotorchTensorDimensionError,
        r"train_Y\.squeeze\(-1\)",
    ),
    "several outcomes": (
        lambda: plain(X, Y.unsqueeze(-1).repeat(1, 2)),
        UnsupportedError,
        "the bound is for one outcome",
    ),
    "fewer outcomes": (
        lambda: plain(X, Y[:-1]),
        BotorchTensorDimensionError,
        "outcomes of shape",
    ),
    "two inputs": (lambda: plain((X, X), Y), UnsupportedError, "takes 2 input tensors"),
    "a batch": (
        lambda: plain(X.expand(3, 9, 2), Y.expand(3, 9)),
        UnsupportedError,
        "has batch shape",
    ),
    "a batch of kernels": (
        lambda: plain(kernel=RBFKernel(batch_shape=torch.Size([2]))),
        UnsupportedError,
        "one value for each pair",
    ),
    "noise of others": (
        lambda: plain(likelihood=FixedNoiseGaussianLikelihood(Y[:4].square())),
        InputDataError,
        "4 noise variances for 9 observations",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case):
    build, error, message = REFUSED[case]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = build()
    with pytest.raises(error, match=message):
        MartingaleMixtureUCB(model, **NORM)


def test_zero_means_are_known_to_be_constant():
    model = plain()
    model.mean_module = ZeroMean()
    assert KernelRegression.from_model(model).prior.plain.mean == 0.0
