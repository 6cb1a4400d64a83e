r"""``LikelihoodUCB``: its units, from tensors and from models, and what is built on it."""

import warnings

import pytest
import torch
from botorch.acquisition.input_constructors import get_acqf_input_constructor
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.exceptions import (
    BotorchTensorDimensionError,
    InputDataError,
    UnsupportedError,
)
from botorch.models import SingleTaskGP, SingleTaskVariationalGP
from botorch.models.transforms import Normalize, Standardize
from botorch.models.transforms.input import Warp
from gpytorch.distributions import MultivariateNormal
from gpytorch.likelihoods import BernoulliLikelihood
from gpytorch.means import ConstantMean
from gpytorch.models import ApproximateGP
from gpytorch.variational import CholeskyVariationalDistribution, VariationalStrategy
from torch.testing import assert_close

from kernelucb import (
    Filters,
    LikelihoodUCB,
    MartingaleMixtureUCB,
    SafeSet,
    optimum_report,
    regret_certificate,
)
from problems import (
    RKHSFunction,
    float64,
    frozen_kernel,
    generator,
    likelihood_ucb,
    uniform,
)

KERNEL = frozen_kernel("matern52", 0.4)
FUNCTION = RKHSFunction.random(KERNEL, 2.5, 2, 0)
X = uniform(40, 2, 1)
Y = torch.rand(40, dtype=torch.float64, generator=generator(2)) < FUNCTION(X).sigmoid()
Y = Y.double()
TRIALS = torch.rand(200, 40, dtype=torch.float64, generator=generator(4))
FAILURES = (FUNCTION(X).sigmoid() < TRIALS).double().sum(0)
DEFECTS = torch.poisson(2.0 * FUNCTION(X).exp(), generator=generator(5))
POINTS = uniform(12, 2, 3)
NORM = {"norm_bound": 3.0}
DOUBLE = ScalarizedPosteriorTransform(float64([2.0]))


@pytest.fixture(scope="module")
def acqf():
    return likelihood_ucb(X, Y, KERNEL, **NORM)


def variational(kernel=KERNEL, mean=None, outcomes=Y, **options):
    mean = ConstantMean().double().requires_grad_(False) if mean is None else mean
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of BoTorch, about input transforms
        return SingleTaskVariationalGP(
            X,
            None if outcomes is None else outcomes.unsqueeze(-1),
            likelihood=BernoulliLikelihood(),
            covar_module=kernel,
            mean_module=mean,
            **options,
        )


def same(one, other, tolerance=1e-9):
    for side, expected in zip(one.bounds(POINTS), other.bounds(POINTS), strict=True):
        assert_close(side, expected, rtol=0.0, atol=tolerance)


def test_bounds_are_probabilities_and_rates(acqf):
    latent = torch.stack(acqf.latent_bounds(POINTS))
    assert_close(torch.stack(acqf.bounds(POINTS)), latent.sigmoid())
    assert_close(acqf(POINTS.unsqueeze(-2)), latent[1])
    rates = likelihood_ucb(X, DEFECTS, KERNEL, likelihood="poisson", exposure=2.0, **NORM)
    latent = torch.stack(rates.latent_bounds(POINTS))
    assert_close(torch.stack(rates.bounds(POINTS)), latent.exp())


def test_what_it_rests_on(acqf):
    assumptions = acqf.assumptions
    names = [item.name for item in assumptions.items]
    assert names == ["kernel", "mean", "likelihood", "norm", "outcomes"]
    assert assumptions.certified
    assert assumptions.anytime
    assert assumptions.delta == 0.05
    assert "sigmoid(f(x))" in assumptions["likelihood"].statement
    trainable = frozen_kernel("rbf").requires_grad_(True)
    assert likelihood_ucb(X, Y, trainable, **NORM).assumptions.estimated == ("kernel",)
    estimated = likelihood_ucb(X, Y, KERNEL)
    assert estimated.assumptions.estimated == ("norm",)
    assert estimated.norm_bound >= estimated.least_consistent_norm
    # Pseudo-outcomes are no outcomes: a bound on them must not look certified.
    assert not MartingaleMixtureUCB(acqf.regression, **NORM).assumptions.certified


def test_from_a_variational_model(acqf):
    same(LikelihoodUCB.from_model(variational(), **NORM), acqf)
    same(LikelihoodUCB(variational(), **NORM), acqf)
    data = {"train_X": X, "train_Y": Y}
    same(LikelihoodUCB.from_model(variational(outcomes=None), **data, **NORM), acqf)
    constructor = get_acqf_input_constructor(LikelihoodUCB)
    same(LikelihoodUCB(**constructor(model=variational(), **NORM)), acqf)
    trained = LikelihoodUCB.from_model(variational(mean=ConstantMean().double()), **NORM)
    assert trained.assumptions.estimated == ("mean",)
    with pytest.raises(InputDataError, match="train_X and train_Y"):
        LikelihoodUCB.from_model(variational(outcomes=None), **NORM)


def test_a_transform_that_was_trained_needs_the_raw_inputs():
    r"""A variational model keeps inputs as its transform made them at the beginning."""
    model = variational(input_transform=Warp(2, [0, 1])).requires_grad_(False)
    model.input_transform.concentration0.fill_(2.0)
    data = {"train_X": X, "train_Y": Y}
    warped = LikelihoodUCB.from_model(model, **data, **NORM)
    assert_close(warped.data.train_inputs, model.transform_inputs(X))
    with pytest.raises(InputDataError, match="train_X and train_Y"):
        LikelihoodUCB.from_model(model, **NORM)


class Latent(ApproximateGP):
    r"""GPyTorch's own, with a forward of kernel and mean, or of something else."""

    def __init__(self, warp):
        distribution = CholeskyVariationalDistribution(5).double()
        super().__init__(VariationalStrategy(self, X[:5].clone(), distribution))
        self.mean_module = ConstantMean().double().requires_grad_(False)
        self.covar_module, self.warp = KERNEL, warp

    def forward(self, inputs):
        inputs = self.warp * inputs
        return MultivariateNormal(self.mean_module(inputs), self.covar_module(inputs))


def test_from_gpytorch(acqf):
    data = {"train_X": X, "train_Y": Y, "likelihood": "bernoulli"}
    same(LikelihoodUCB.from_model(Latent(1.0), **data, **NORM), acqf)
    with pytest.raises(UnsupportedError, match="forward"):
        LikelihoodUCB.from_model(Latent(0.5), **data, **NORM)
    with pytest.raises(UnsupportedError, match="what its outcomes are"):
        LikelihoodUCB.from_model(Latent(1.0), train_X=X, train_Y=Y, **NORM)


@pytest.mark.filterwarnings("ignore::botorch.exceptions.InputDataWarning")
@pytest.mark.parametrize("transform", [None, Standardize(1)])
def test_an_exact_model_gives_its_data_alone(acqf, transform):
    scaled = torch.tensor([[0.0, 0.0], [2.0, 5.0]], dtype=torch.float64)
    model = SingleTaskGP(
        X * scaled[1],
        Y.unsqueeze(-1),
        input_transform=Normalize(2, bounds=scaled),
        outcome_transform=transform,
    )
    described = {"kernel": "matern52", "lengthscale": 0.4, "likelihood": "bernoulli"}
    own = LikelihoodUCB.from_model(model, **described, **NORM)
    for side, expected in zip(
        own.bounds(POINTS * scaled[1]), acqf.bounds(POINTS), strict=True
    ):
        assert_close(side, expected, rtol=0.0, atol=1e-6)
    assert own.assumptions.certified
    with pytest.raises(UnsupportedError, match="log odds"):
        LikelihoodUCB.from_model(model, likelihood="bernoulli", **NORM)
    with pytest.raises(ValueError, match="lengthscale"):
        LikelihoodUCB.from_model(model, likelihood="bernoulli", kernel="rbf", **NORM)


def test_rates_are_counts_again():
    trials = torch.full_like(Y, 8.0)
    counts = (3.0 * Y + 4.0).round()
    model = SingleTaskGP(X, (counts / 8.0).unsqueeze(-1))
    options = {"likelihood": "binomial", "num_trials": 8.0, "kernel": KERNEL, **NORM}
    rates = LikelihoodUCB.from_model(model, outcomes="rates", **options)
    plain = likelihood_ucb(
        X, counts, KERNEL, likelihood="binomial", num_trials=trials, **NORM
    )
    same(rates, plain)
    with pytest.raises(InputDataError, match="whole numbers"):
        LikelihoodUCB.from_model(model, **options)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"train_Y": 2.0 * Y}, "0 or 1"),
        ({"train_Y": Y - 0.5, "likelihood": "poisson"}, "whole numbers"),
        ({"likelihood": "binomial"}, "needs num_trials"),
        ({"num_trials": 3.0}, "leave it out"),
        ({"likelihood": "binomial", "num_trials": 0.5}, "num_trials must hold whole"),
        (
            {"likelihood": "binomial", "num_trials": 2.0, "train_Y": 3.0 * Y},
            "more successes",
        ),
        ({"likelihood": "poisson", "exposure": 0.0}, "exposure"),
        ({"likelihood": "normal"}, "likelihood"),
        ({"norm_bound": -1.0}, "norm_bound"),
        ({"fit": Filters()}, "fit must be"),
        ({"form": "dual"}, "form"),
        ({"train_Y": Y[:-1]}, "train_Y"),
        ({"posterior_transform": DOUBLE}, "weight 1 or -1"),
    ],
)
def test_bad_input(options, words):
    arguments = {"Y": options.pop("train_Y", Y), **NORM} | options
    kinds = ValueError, InputDataError, BotorchTensorDimensionError, UnsupportedError
    with pytest.raises(kinds, match=words):
        likelihood_ucb(X, kernel=KERNEL, **arguments)


def test_a_certificate_is_in_probabilities(acqf):
    grid = uniform(60, 2, 8)
    certificate = regret_certificate(acqf, candidates=grid)
    lower, upper = acqf.bounds(grid)
    assert certificate.gap <= float(upper.max() - lower.max()) + 1e-9
    best = float(FUNCTION(grid).sigmoid().max())
    own = float(FUNCTION(certificate.recommended.unsqueeze(0)).sigmoid())
    assert best - own <= certificate.gap
    report = optimum_report(acqf, candidates=grid)
    assert 0.0 < report.lower <= best <= report.upper < 1.0


def test_safe_sets_have_thresholds_in_probabilities():
    often = likelihood_ucb(
        X, FAILURES, KERNEL, likelihood="binomial", num_trials=200.0, **NORM
    )
    safe = SafeSet(often, 0.85, sides="<=")
    kept = safe.filter(uniform(200, 2, 9))
    assert 0 < len(kept) < 200
    assert float(often.bounds(kept)[1].max()) <= 0.85
