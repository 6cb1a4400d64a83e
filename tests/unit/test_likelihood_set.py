r"""The likelihood-ratio set against cone programs, and its bound: units, models, claims.

Of Gaussian outcomes the set is the martingale mixture's.
"""

import math
import warnings

import pytest
import torch
from botorch.acquisition.input_constructors import get_acqf_input_constructor
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.exceptions import BotorchTensorDimensionError, InputDataError, UnsupportedError
from botorch.models import SingleTaskGP, SingleTaskVariationalGP
from botorch.models.transforms import Normalize, Standardize
from botorch.models.transforms.input import Warp
from gpytorch.distributions import MultivariateNormal
from gpytorch.likelihoods import BernoulliLikelihood
from gpytorch.means import ConstantMean
from gpytorch.models import ApproximateGP
from gpytorch.variational import CholeskyVariationalDistribution, VariationalStrategy
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from kernelucb import (
    Filters,
    KernelRegression,
    LikelihoodRegression,
    LikelihoodUCB,
    MartingaleMixture,
    MartingaleMixtureUCB,
    SafeSet,
    check_consistency,
    optimum_report,
    regret_certificate,
)
from kernelucb.confidence.counts import likelihood_set
from kernelucb.confidence.evidence import Ratio, log_evidence
from kernelucb.exceptions import InconsistentConfidenceSetWarning
from kernelucb.regression.prior import Prior
from oracles.gaussian_loss import GaussianLoss
from oracles.likelihood import extreme_value, extreme_values, least_norm
from oracles.likelihood import log_evidence as exact_log_evidence
from problems import (
    RKHSFunction,
    float64,
    frozen_kernel,
    generator,
    likelihood_ucb,
    uniform,
)
from tolerances import LEAST_NORM, SOCP

NORM, DELTA = 3.0, 0.05
# A norm of 8 would be contradicted: it allows no probability below sigmoid(-8) = 3e-4.
MANY = {"num_trials": 10_000, "norm_bound": 14.0}
KINDS = ("bernoulli", "binomial", "poisson")
# Outcomes, and the arguments that go with them.
AMOUNTS = {"bernoulli": {}, "binomial": {"num_trials": 6.0}, "poisson": {"exposure": 2.5}}


def outcomes(kind, latent, seed):
    random = generator(seed)
    if kind == "poisson":
        return torch.poisson(2.5 * latent.exp(), generator=random)
    trials = 6 if kind == "binomial" else 1
    draws = torch.rand(trials, len(latent), dtype=torch.float64, generator=random)
    return (draws < latent.sigmoid()).double().sum(0)


def problem(kind, n=25, d=1, kernel="rbf", seed=0, norm=2.5):
    own = frozen_kernel(kernel, 0.3)
    X = uniform(n, d, seed + 10)
    X[-3:] = X[:3]  # repeated
    Y = outcomes(kind, RKHSFunction.random(own, norm, d, seed)(X), seed + 20)
    return X, Y, own


def bound(kind, data, **options):
    X, Y, kernel = data
    options = {"norm_bound": NORM, "delta": DELTA} | options
    return likelihood_ucb(X, Y, kernel, likelihood=kind, **AMOUNTS[kind], **options)


def as_the_oracle_wants(kind, Y):
    amount = next(iter(AMOUNTS[kind].values()), 1.0)
    return Y, torch.full_like(Y, amount)


def level(kind, data):
    own = LikelihoodRegression(*data, likelihood=kind, **AMOUNTS[kind])
    return Ratio(DELTA).level(own)


@pytest.mark.parametrize(("kernel", "d"), [("rbf", 1), ("matern32", 2)])
@pytest.mark.parametrize("kind", KINDS)
def test_ellipsoid_and_tangents_hold_the_set_and_are_close(kind, kernel, d):
    data = problem(kind, d=d, kernel=kernel, seed=2)
    X, Y, own = data
    points = torch.cat([uniform(3, d, 7), X[:1]])
    lower, upper = bound(kind, data, form="ellipsoid").latent_bounds(points)
    near_lower, near_upper = bound(kind, data, form="tangent").latent_bounds(points)
    total, exact = level(kind, data), 0.0
    for i, x in enumerate(points):
        joint = own(torch.cat([X, x.unsqueeze(0)])).to_dense()
        rest = kind, as_the_oracle_wants(kind, Y), total, NORM
        most, least = (extreme_value(joint, *rest, sign) for sign in (1, -1))
        assert min(float(upper[i]), float(near_upper[i])) >= most - SOCP
        assert max(float(lower[i]), float(near_lower[i])) <= least + SOCP
        exact += (most - least) / len(points)
    assert float((upper - lower).mean()) <= 1.12 * exact
    assert float((near_upper - near_lower).mean()) <= 1.02 * exact


@pytest.mark.parametrize("kind", KINDS)
def test_the_least_norm_is_that_of_the_cone_program(kind):
    data = problem(kind, n=40, norm=8.0)
    acqf = bound(kind, data, norm_bound=20.0)
    X, Y, kernel = data
    gram = kernel(X).to_dense()
    exact = least_norm(gram, kind, as_the_oracle_wants(kind, Y), level(kind, data))
    assert exact > 0.5
    assert acqf.least_consistent_norm == pytest.approx(exact, rel=10 * LEAST_NORM)
    assert acqf.least_consistent_norm <= exact * (1.0 + LEAST_NORM)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scales", [(1.0,), (0.1, 1.0, 10.0)])
def test_the_evidence_is_bounded_from_below_and_closely(kind, scales):
    own, X = frozen_kernel("rbf", 0.3), torch.tensor([[0.1], [0.35]], dtype=torch.float64)
    Y = torch.tensor([1.0, 0.0], dtype=torch.float64)
    Y = Y if kind == "bernoulli" else 5.0 * Y
    given = as_the_oracle_wants(kind, Y)
    data = LikelihoodRegression(X, Y, own, likelihood=kind, **AMOUNTS[kind])
    exact = exact_log_evidence(own(X).to_dense(), kind, given, list(scales))
    found = log_evidence(data, scales)
    assert exact - 0.15 <= found <= exact + 1e-9


@pytest.mark.parametrize("scale", [1.0, 0.3, (0.1, 1.0, 10.0)])
@pytest.mark.parametrize("noise", [0.1, 1.0])
def test_gaussian_outcomes_give_the_martingale_mixture(noise, scale):
    own, X = frozen_kernel("matern52", 0.3), uniform(30, 2, 3)
    Y = RKHSFunction.random(own, 2.0, 2, 0)(X)
    Y = Y + noise * torch.randn(30, dtype=torch.float64, generator=generator(4))
    loss = GaussianLoss(Y, torch.full_like(Y, noise**-2))
    data = LikelihoodRegression.from_parts(Prior(own), X, loss, 2, frozenset())
    ratio = Ratio(DELTA, scale)
    ours = likelihood_set(data, NORM, ratio, ratio.level(data))
    points = uniform(50, 2, 5)
    state = KernelRegression(X, Y, own, noise)
    # A tenth of the mixture is for values at each input, of which Gaussians have none.
    options = {"fit": MartingaleMixture(scale), "delta": 0.9 * DELTA}
    theirs = MartingaleMixtureUCB(state, norm_bound=NORM, **options)
    assert_close(ours.bounds(points), theirs.bounds(points), rtol=0.0, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_repeated_inputs_count_like_their_sum(kind):
    X, Y, kernel = problem(kind, n=12)
    once, again = X[:4], X[:4].repeat(3, 1)
    points, counts = uniform(20, 1, 9), Y.reshape(3, 4)
    options = {"norm_bound": NORM, "delta": DELTA}
    if kind == "poisson":
        pooled = {"likelihood": kind, "exposure": 7.5}
    else:
        pooled = {"likelihood": "binomial", "num_trials": 18 if kind == "binomial" else 3}
    many = bound(kind, (again, counts.reshape(-1), kernel))
    few = likelihood_ucb(once, counts.sum(0), kernel, **pooled, **options)
    assert_close(many.bounds(points), few.bounds(points), rtol=1e-8, atol=1e-8)
    assert many.regression.num_observations == 12


def test_failures_are_the_mirror_of_successes():
    X, Y, kernel = problem("bernoulli")
    points = uniform(20, 1, 9)
    lower, upper = bound("bernoulli", (X, Y, kernel)).bounds(points)
    mirrored = bound("bernoulli", (X, 1.0 - Y, kernel)).bounds(points)
    turned = 1.0 - mirrored[1], 1.0 - mirrored[0]
    assert_close(turned, (lower, upper), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("form", ["tangent", "ellipsoid"])
@pytest.mark.parametrize(
    ("kind", "Y", "options"),
    [
        ("bernoulli", torch.ones(15), {}),
        ("bernoulli", torch.zeros(15), {}),
        ("binomial", torch.full((15,), 10_000.0), MANY),
        ("binomial", torch.zeros(15), MANY),
        ("poisson", torch.zeros(15), {}),
        ("poisson", torch.full((15,), 10_000.0), {"mean_module": 9.0}),
        ("poisson", torch.full((15,), 10_000.0), {"norm_bound": 20.0}),
    ],
)
def test_extreme_outcomes_give_bands_that_hold_the_extremes(kind, Y, options, form):
    X, own, options = uniform(15, 1, 0), frozen_kernel("rbf"), {"norm_bound": 8.0} | options
    acqf = likelihood_ucb(X, Y.double(), own, likelihood=kind, form=form, **options)
    lower, upper = acqf.bounds(uniform(30, 1, 1))
    assert bool((lower <= upper).all())
    assert bool(torch.isfinite(lower).all())
    rate = float(Y[0]) / options.get("num_trials", 1)
    at_data = torch.stack(acqf.bounds(X))
    least = options.get("mean_module", 0.0) - acqf.norm_bound
    ball = acqf.outcome_map.inverse(torch.tensor(least))
    assert float(at_data[0].max()) <= max(rate, float(ball)) + 1e-4 * (1.0 + rate)
    if rate not in (0.0, 1.0):
        assert float(at_data[1].min()) >= rate
    assert not acqf.assumptions.violated


def test_a_norm_that_is_too_small_is_raised():
    X = torch.linspace(0, 1, 40, dtype=torch.float64).unsqueeze(-1)
    options = {"likelihood": "binomial", "num_trials": 50, "norm_bound": 0.5}
    steps = 50.0 * (X[:, 0] > 0.5).double()
    with pytest.warns(InconsistentConfidenceSetWarning, match="least consistent norm"):
        acqf = likelihood_ucb(X, steps, frozen_kernel("rbf"), **options)
    assert acqf.assumptions.violated
    assert acqf.norm_bound >= acqf.least_consistent_norm > 0.5
    data, centre = acqf.data, acqf.confidence_set.centre.latent
    lower, upper = acqf.latent_bounds(data.distinct_inputs)  # the function it is raised to
    assert bool(((lower <= centre + 1e-6) & (centre - 1e-6 <= upper)).all())


def test_the_check_names_a_norm_or_a_kernel():
    X = torch.linspace(0, 1, 60, dtype=torch.float64).unsqueeze(-1)
    own = frozen_kernel("rbf")
    steps = {"likelihood": "binomial", "num_trials": 40}
    fast = (20.0 * (1.0 + torch.sin(40.0 * X[:, 0]))).round()
    data = LikelihoodRegression(X, fast, own, **steps)
    wrong = check_consistency(data, norm_bound=3.0)
    assert not wrong.consistent
    assert wrong.cause == "kernel"
    slow = (20.0 + 18.0 * torch.sin(6.0 * X[:, 0])).round()
    low = LikelihoodRegression(X, slow, own, **steps)
    small = check_consistency(low, norm_bound=0.4)
    assert (small.consistent, small.cause) == (False, "norm")
    fine = check_consistency(low, norm_bound=1.01 * small.least_consistent_norm)
    assert fine.consistent
    with pytest.raises(ValueError, match="no noise scale"):
        check_consistency(low, norm_bound=1.0, noise_std=0.1)


def test_the_check_names_the_norm_where_it_is_large():
    r"""Log odds far above those of a draw from the prior, under the right kernel."""
    kernel, X = frozen_kernel("rbf"), uniform(80, 2, 8)
    function = RKHSFunction.random(kernel, 100.0, 2, seed=1)
    chances = torch.rand(30, 80, dtype=torch.float64, generator=generator(1))
    outcomes = (chances < function(X).sigmoid()).double().sum(0)
    steps = {"likelihood": "binomial", "num_trials": 30.0}
    result = check_consistency(LikelihoodRegression(X, outcomes, kernel, **steps), 10.0)
    assert result.cause == "norm"


def test_the_level_is_the_evidence_and_delta():
    data = problem("bernoulli")
    own = LikelihoodRegression(*data)
    levels = [Ratio(delta).level(own) for delta in (0.05, 0.2)]
    assert levels[0] - levels[1] == pytest.approx(math.log(4.0), abs=1e-9)


@pytest.mark.parametrize("rate", [1.0, 100.0, 1e4, 1e6])
def test_large_counts_do_not_contradict_a_true_norm_bound(rate):
    kernel = frozen_kernel("rbf", 0.25)
    X = torch.linspace(0.0, 1.0, 15, dtype=torch.float64).unsqueeze(-1)
    latent = 0.9 * kernel(X, X[5:6]).to_dense().squeeze(-1)  # of norm 0.9
    random = generator(1)
    for _ in range(5):
        counts = torch.poisson(rate * latent.exp(), generator=random)
        given = {"likelihood": "poisson", "mean_module": math.log(rate)}
        band = likelihood_ucb(X, counts, kernel, norm_bound=1.0, **given)
        # The function may be left out, with probability delta; with this seed it is not.
        lower, upper = band.latent_bounds(X)
        assert bool((lower <= math.log(rate) + latent).all())
        assert bool((upper >= math.log(rate) + latent).all())
        assert band.norm_bound == 1.0
        assert not band.assumptions.violated


@pytest.mark.parametrize("lengthscale", [0.3, 2.0])
@pytest.mark.parametrize("norm_bound", [0.25, 3.0, None])
def test_data_that_no_function_explains_still_give_a_band(lengthscale, norm_bound):
    # Neighbours differ by factors of 10,000: the norm that this needs overflows a rate.
    kernel = frozen_kernel("rbf", lengthscale)
    random = generator(35)
    X = torch.randint(49, (30, 1), generator=random).double() / 48.0
    latent = 9.0 * torch.randn(30, dtype=torch.float64, generator=random)
    counts = torch.poisson(latent.clamp(max=9.2).exp(), generator=random)
    options = {"likelihood": "poisson", "norm_bound": norm_bound}
    with pytest.warns(InconsistentConfidenceSetWarning):
        band = likelihood_ucb(X, counts, kernel, **options)
    lower, upper = band.latent_bounds(torch.linspace(0, 1, 9).double().unsqueeze(-1))
    assert bool((lower <= upper).all())
    assert bool(torch.isfinite(lower + upper).all())
    assert band.assumptions.violated
    assert band.least_consistent_norm > (norm_bound or 0.0)  # by the data, not the band


ROUGH = frozen_kernel("matern52", 0.3)
INPUTS, POINTS = uniform(40, 2, 1), uniform(12, 2, 2)
LATENT = RKHSFunction.random(ROUGH, 2.5, 2, 0)(INPUTS)
COUNTS = torch.poisson(LATENT.exp(), generator=generator(3))
SUCCESSES = torch.bernoulli(LATENT.sigmoid(), generator=generator(3))
OUTCOMES = {"bernoulli": SUCCESSES, "poisson": COUNTS}


def of_counts(likelihood="poisson", norm_bound=3.0, form="tangent", **options):
    options = {"likelihood": likelihood, "norm_bound": norm_bound, "form": form} | options
    return likelihood_ucb(INPUTS, OUTCOMES[likelihood], ROUGH, **options)


@pytest.mark.parametrize("likelihood", OUTCOMES)
def test_tangents_stay_close_to_the_set_where_the_ellipsoid_alone_does_not(likelihood):
    acqf = of_counts(likelihood, 14.0)
    upper, lower = (extreme_values(acqf, POINTS, sign) for sign in (1, -1))
    exact = float((upper - lower).mean())
    for form in ("tangent", "ellipsoid"):
        acqf = of_counts(likelihood, 14.0, form)
        lower, upper = acqf.latent_bounds(POINTS)
        assert exact - SOCP <= float((upper - lower).mean()) <= 1.2 * exact
    lower, upper = acqf.confidence_set.ellipsoid.bounds(POINTS)
    assert float((upper - lower).mean()) > 1.2 * exact


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([0.01, 0.3, 3.0, 30.0]))
def test_tangents_at_any_values_give_a_bound(seed, scale):
    band = SEARCHED.confidence_set
    values = scale * torch.randn(
        1, len(INPUTS), dtype=torch.float64, generator=generator(seed)
    )
    tangents = band.tangents(values, band.observed_features)
    points = band.project(POINTS[:3])
    for sign in (-1, 1):
        found = band.bound(points.centre, sign, tangents)
        assert bool((found >= MAXIMA[sign] - SOCP).all())


SEARCHED = of_counts()
MAXIMA = {sign: sign * extreme_values(SEARCHED, POINTS[:3], sign) for sign in (-1, 1)}


@pytest.mark.parametrize("likelihood", OUTCOMES)
def test_differences_of_values_lie_between_the_set_and_the_ellipsoid(likelihood):
    acqf = of_counts(likelihood)
    own = acqf.confidence_set
    ellipsoid = of_counts(likelihood, form="ellipsoid").confidence_set
    for sign in (-1, 1):
        pair = POINTS[1:4], POINTS[:1], sign
        near = own.max_gain_over(*pair)
        exact = sign * extreme_values(acqf, POINTS[1:4], sign, POINTS[:1])
        assert bool(
            ((near >= exact - SOCP) & (near <= ellipsoid.max_gain_over(*pair))).all()
        )
        assert float(near.mean()) <= 1.02 * float(exact.mean())
    assert_close(own.max_gain_over(POINTS[:1], POINTS[:1]), float64([0.0]))


def test_gradients_are_numbers_where_losses_overflow():
    # Far along a ray exp(f) is infinite; counts of this kind make the level negative.
    own = frozen_kernel("rbf", 0.3)
    acqf = likelihood_ucb(INPUTS, 20.0 * COUNTS, own, likelihood="poisson", norm_bound=1e4)
    points = torch.cat([POINTS, INPUTS[:2], float64([[50.0, 50.0]])]).requires_grad_()
    lower, upper = acqf.latent_bounds(points)
    assert bool((lower <= upper).all())
    (grad,) = torch.autograd.grad((upper - lower).sum(), points)
    assert bool(torch.isfinite(grad).all())


@pytest.mark.parametrize("form", ["tangent", "ellipsoid"])
@pytest.mark.parametrize("Y", [0.0, 1.0, 40.0])
@pytest.mark.parametrize("norm_bound", [0.1, 5.0, 400.0])
def test_one_outcome_and_the_point_where_it_was_seen(Y, norm_bound, form):
    here = float64([[0.5, 0.5]])
    given = {"likelihood": "poisson", "norm_bound": norm_bound}
    with warnings.catch_warnings():  # 40 contradicts the smallest norm bound
        warnings.simplefilter("ignore", InconsistentConfidenceSetWarning)
        near = likelihood_ucb(here, float64([Y]), ROUGH, form=form, **given)
    points = torch.cat([here, here + 1e-7, POINTS[:2]]).requires_grad_()
    lower, upper = near.latent_bounds(points)
    wide = near.confidence_set.ellipsoid.bounds(points)
    assert bool(((wide[0] <= lower) & (lower <= upper) & (upper <= wide[1])).all())
    (grad,) = torch.autograd.grad((upper - lower).sum(), points)
    assert bool(torch.isfinite(grad).all())


@pytest.mark.parametrize("maximize", [True, False])
def test_the_gradient_does_not_jump(maximize):
    acqf = of_counts(form="ellipsoid", maximize=maximize)

    def largest_change(steps):
        share = torch.linspace(0.0, 1.0, steps + 1, dtype=torch.float64).unsqueeze(-1)
        line = share.repeat(1, 2).requires_grad_()
        (gradient,) = torch.autograd.grad(acqf(line.unsqueeze(-2)).sum(), line)
        return float(gradient.diff(dim=0).norm(dim=-1).max())

    assert largest_change(3200) < 0.15 * largest_change(200)


KERNEL = frozen_kernel("matern52", 0.4)
FUNCTION = RKHSFunction.random(KERNEL, 2.5, 2, 0)
X = uniform(40, 2, 1)
Y = torch.rand(40, dtype=torch.float64, generator=generator(2)) < FUNCTION(X).sigmoid()
Y = Y.double()
TRIALS = torch.rand(200, 40, dtype=torch.float64, generator=generator(4))
FAILURES = (FUNCTION(X).sigmoid() < TRIALS).double().sum(0)
DEFECTS = torch.poisson(2.0 * FUNCTION(X).exp(), generator=generator(5))
PLACES = uniform(12, 2, 3)
GIVEN = {"norm_bound": 3.0}
DOUBLE = ScalarizedPosteriorTransform(float64([2.0]))


@pytest.fixture(scope="module")
def acqf():
    return likelihood_ucb(X, Y, KERNEL, **GIVEN)


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
    assert_close(one.bounds(PLACES), other.bounds(PLACES), rtol=0.0, atol=tolerance)


def test_bounds_are_probabilities_and_rates(acqf):
    latent = torch.stack(acqf.latent_bounds(PLACES))
    assert_close(torch.stack(acqf.bounds(PLACES)), latent.sigmoid())
    rates = likelihood_ucb(X, DEFECTS, KERNEL, likelihood="poisson", exposure=2.0, **GIVEN)
    latent = torch.stack(rates.latent_bounds(PLACES))
    assert_close(torch.stack(rates.bounds(PLACES)), latent.exp())


def test_what_it_rests_on(acqf):
    assumptions = acqf.assumptions
    names = [item.name for item in assumptions.items]
    assert names == ["kernel", "mean", "likelihood", "norm", "outcomes"]
    assert assumptions.certified
    assert assumptions.anytime
    assert assumptions.delta == 0.05
    assert "sigmoid(f(x))" in assumptions["likelihood"].statement
    trainable = frozen_kernel("rbf").requires_grad_(True)
    assert likelihood_ucb(X, Y, trainable, **GIVEN).assumptions.estimated == ("kernel",)
    estimated = likelihood_ucb(X, Y, KERNEL)
    assert estimated.assumptions.estimated == ("norm",)
    assert estimated.norm_bound >= estimated.least_consistent_norm
    # Pseudo-outcomes are no outcomes: a bound on them must not look certified.
    assert not MartingaleMixtureUCB(acqf.regression, **GIVEN).assumptions.certified


def test_from_a_variational_model(acqf):
    same(LikelihoodUCB.from_model(variational(), **GIVEN), acqf)
    same(LikelihoodUCB(variational(), **GIVEN), acqf)
    data = {"train_X": X, "train_Y": Y}
    same(LikelihoodUCB.from_model(variational(outcomes=None), **data, **GIVEN), acqf)
    constructor = get_acqf_input_constructor(LikelihoodUCB)
    same(LikelihoodUCB(**constructor(model=variational(), **GIVEN)), acqf)
    trained = LikelihoodUCB.from_model(variational(mean=ConstantMean().double()), **GIVEN)
    assert trained.assumptions.estimated == ("mean",)
    with pytest.raises(InputDataError, match="train_X and train_Y"):
        LikelihoodUCB.from_model(variational(outcomes=None), **GIVEN)


def test_a_transform_that_was_trained_needs_the_raw_inputs():
    r"""A variational model keeps inputs as its transform made them at the beginning."""
    model = variational(input_transform=Warp(2, [0, 1])).requires_grad_(False)
    model.input_transform.concentration0.fill_(2.0)
    data = {"train_X": X, "train_Y": Y}
    warped = LikelihoodUCB.from_model(model, **data, **GIVEN)
    assert_close(warped.data.train_inputs, model.transform_inputs(X))
    with pytest.raises(InputDataError, match="train_X and train_Y"):
        LikelihoodUCB.from_model(model, **GIVEN)


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
    same(LikelihoodUCB.from_model(Latent(1.0), **data, **GIVEN), acqf)
    with pytest.raises(UnsupportedError, match="forward"):
        LikelihoodUCB.from_model(Latent(0.5), **data, **GIVEN)
    with pytest.raises(UnsupportedError, match="what its outcomes are"):
        LikelihoodUCB.from_model(Latent(1.0), train_X=X, train_Y=Y, **GIVEN)


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
    own = LikelihoodUCB.from_model(model, **described, **GIVEN)
    points = PLACES * scaled[1]
    assert_close(own.bounds(points), acqf.bounds(PLACES), rtol=0.0, atol=1e-6)
    assert own.assumptions.certified
    with pytest.raises(UnsupportedError, match="log odds"):
        LikelihoodUCB.from_model(model, likelihood="bernoulli", **GIVEN)
    with pytest.raises(ValueError, match="lengthscale"):
        LikelihoodUCB.from_model(model, likelihood="bernoulli", kernel="rbf", **GIVEN)


def test_rates_are_counts_again():
    counts = (3.0 * Y + 4.0).round()
    model = SingleTaskGP(X, (counts / 8.0).unsqueeze(-1))
    options = {"likelihood": "binomial", "num_trials": 8.0, "kernel": KERNEL, **GIVEN}
    rates = LikelihoodUCB.from_model(model, outcomes="rates", **options)
    same(rates, likelihood_ucb(X, counts, **options))
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
        ({"likelihood": "binomial", "num_trials": 2, "train_Y": 3.0 * Y}, "more successes"),
        ({"likelihood": "poisson", "exposure": 0.0}, "exposure"),
        ({"fit": Filters()}, "fit must be"),
        ({"posterior_transform": DOUBLE}, "weight 1 or -1"),
    ],
)
def test_bad_input(options, words):
    arguments = {"Y": options.pop("train_Y", Y), **GIVEN} | options
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
    trials = {"likelihood": "binomial", "num_trials": 200.0}
    often = likelihood_ucb(X, FAILURES, KERNEL, **trials, **GIVEN)
    safe = SafeSet(often, 0.85, sides="<=")
    kept = safe.filter(uniform(200, 2, 9))
    assert 0 < len(kept) < 200
    assert float(often.bounds(kept)[1].max()) <= 0.85
