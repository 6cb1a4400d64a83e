r"""The likelihood-ratio set against cone programs, and its bound: units, models, claims.

Of Gaussian outcomes the set is the martingale mixture's.
"""

import math
import warnings

import pytest
import torch
from botorch.acquisition.input_constructors import get_acqf_input_constructor
from botorch.models import SingleTaskGP, SingleTaskVariationalGP
from botorch.models.transforms import Normalize, Standardize
from botorch.models.transforms.input import OneHotToNumeric, Warp
from gpytorch.likelihoods import BernoulliLikelihood
from gpytorch.means import ConstantMean
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from kernelucb import (
    KernelRegression,
    LikelihoodRegression,
    LikelihoodUCB,
    MartingaleMixtureUCB,
    NormTracker,
    check_consistency,
)
from kernelucb.confidence.counts import likelihood_level, likelihood_set, log_evidence
from kernelucb.data.prior import Prior
from kernelucb.exceptions import InconsistentConfidenceSetWarning
from oracles.gaussian_loss import GaussianLoss
from oracles.likelihood import extreme_values, least_norm
from oracles.likelihood import log_evidence as exact_log_evidence
from problems import (
    RKHSFunction,
    float64,
    frozen_kernel,
    generator,
    likelihood_ucb,
    normal,
    uniform,
)
from tolerances import LEAST_NORM, REARRANGED, SOCP

NORM, DELTA = 3.0, 0.05
GIVEN = {"norm_bound": NORM}
KINDS, FORMS = ("bernoulli", "binomial", "poisson"), ("cuts", "tangent")
# Outcomes, and the arguments that go with them.
AMOUNTS = {"bernoulli": {}, "binomial": {"num_trials": 6.0}, "poisson": {"exposure": 2.5}}
LARGE = "matern52", 2, 14.0
LINE = torch.linspace(0.0, 1.0, 60, dtype=torch.float64).unsqueeze(-1)


def drawn(kind, latent, seed):
    random = generator(seed)
    if kind == "poisson":
        return torch.poisson(2.5 * latent.exp(), generator=random)
    trials = 6 if kind == "binomial" else 1
    draws = torch.rand(trials, len(latent), dtype=torch.float64, generator=random)
    return (draws < latent.sigmoid()).double().sum(0)


def problem(kind, n=25, d=1, kernel="rbf", seed=0, norm=2.5):
    kernel, X = frozen_kernel(kernel, 0.3), uniform(n, d, seed + 10)
    X[-3:] = X[:3]  # repeated
    return X, drawn(kind, RKHSFunction.random(kernel, norm, d, seed)(X), seed + 20), kernel


def bound(kind, data, norm_bound=NORM, **options):
    options |= {"norm_bound": norm_bound, "likelihood": kind, **AMOUNTS[kind]}
    return likelihood_ucb(*data, **options)


def with_amounts(kind, Y):
    return Y, torch.full_like(Y, next(iter(AMOUNTS[kind].values()), 1.0))


def assert_holds(band, lowest, highest, points, most):
    r"""The band holds the set, and is at most ``most`` times as wide."""
    lower, upper = band.band.latent_bounds(points)
    assert bool(((lower <= lowest + SOCP) & (upper >= highest - SOCP)).all())
    assert float((upper - lower).mean()) <= most * float((highest - lowest).mean())


@pytest.mark.covering
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("kernel", "d", "norm", "cuts", "tangent"),
    [("rbf", 1, 3.0, 1.12, 1.02), ("matern32", 2, 3.0, 1.12, 1.02), (*LARGE, 1.2, 1.2)],
)
def test_both_forms_hold_the_set_and_are_close(kind, kernel, d, norm, cuts, tangent):
    X, Y, kernel = problem(kind, d=d, kernel=kernel, seed=2)
    points, most = torch.cat([uniform(3, d, 7), X[:1]]), {"cuts": cuts, "tangent": tangent}
    bands = {form: bound(kind, (X, Y, kernel), norm, form=form) for form in FORMS}
    ends = [extreme_values(bands["cuts"], points, sign) for sign in (-1, 1)]
    for form, band in bands.items():
        assert_holds(band, *ends, points, most[form])


@pytest.mark.parametrize("kind", KINDS)
def test_the_least_norm_is_that_of_the_cone_program(kind):
    X, Y, kernel = data = problem(kind, n=40, norm=8.0)
    band = bound(kind, data, 20.0).band
    given = kind, with_amounts(kind, Y), band.confidence_set.level
    exact, (least,) = least_norm(kernel(X).to_dense(), *given), band.least_norms
    assert exact > 0.5
    assert least == pytest.approx(exact, rel=10 * LEAST_NORM)
    assert least <= exact * (1.0 + LEAST_NORM)


@pytest.mark.covering
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scales", [(1.0,), (0.1, 1.0, 10.0)])
def test_the_evidence_is_bounded_from_below_and_closely(kind, scales):
    kernel, X = frozen_kernel("rbf", 0.3), float64([[0.1], [0.35]])
    Y = float64([1.0, 0.0]) * (1.0 if kind == "bernoulli" else 5.0)
    data = LikelihoodRegression(X, Y, kernel, likelihood=kind, **AMOUNTS[kind])
    given = kind, with_amounts(kind, Y), list(scales)
    exact = exact_log_evidence(kernel(X).to_dense(), *given)
    assert exact - 0.15 <= log_evidence(data, scales) <= exact + 1e-9


@pytest.mark.covering
@pytest.mark.parametrize("scale", [1.0, 0.3, (0.1, 1.0, 10.0)])
@pytest.mark.parametrize("noise", [0.1, 1.0])
def test_gaussian_outcomes_give_the_martingale_mixture(noise, scale):
    kernel, X = frozen_kernel("matern52", 0.3), uniform(30, 2, 3)
    Y = RKHSFunction.random(kernel, 2.0, 2, 0)(X) + noise * normal(30, 4)
    loss = GaussianLoss(Y, torch.full_like(Y, noise**-2))
    data = LikelihoodRegression.from_parts(Prior(kernel), X, loss, 2, frozenset())
    level = likelihood_level(data, DELTA, scale)
    ours = likelihood_set(data, NORM, DELTA, level, "tangent")
    state = KernelRegression(X, Y, kernel, noise)
    # A tenth of the mixture is for values at each input, of which Gaussians have none.
    options = {"fit": "martingale", "covariance_scale": scale, "delta": 0.9 * DELTA}
    theirs, points = MartingaleMixtureUCB(state, **GIVEN, **options), uniform(50, 2, 5)
    (low, high), (lowest, highest) = ours.bounds(points), theirs.bounds(points)
    assert bool(((low <= lowest + 1e-9) & (high >= highest - 1e-9)).all())
    assert float((high - low).mean()) <= 1.003 * float((highest - lowest).mean())


@pytest.mark.parametrize("kind", KINDS)
def test_repeated_inputs_count_like_their_sum(kind):
    X, Y, kernel = problem(kind, n=12)
    once, points, counts = X[:4], uniform(20, 1, 9), Y.reshape(3, 4)
    pooled = {"likelihood": "binomial", "num_trials": 18 if kind == "binomial" else 3}
    if kind == "poisson":
        pooled = {"likelihood": kind, "exposure": 7.5}
    many = bound(kind, (once.repeat(3, 1), Y, kernel))
    few = likelihood_ucb(once, counts.sum(0), kernel, **pooled, **GIVEN)
    assert_close(many.bounds(points), few.bounds(points), rtol=1e-8, atol=1e-8)
    assert many.band.data.num_observations == 12


def test_failures_are_the_mirror_of_successes():
    (X, Y, kernel), points = problem("bernoulli"), uniform(20, 1, 9)
    lower, upper = bound("bernoulli", (X, Y, kernel)).bounds(points)
    mirrored = bound("bernoulli", (X, 1.0 - Y, kernel)).bounds(points)
    turned = 1.0 - mirrored[1], 1.0 - mirrored[0]
    assert_close(turned, (lower, upper), rtol=1e-6, atol=1e-6)


# A norm of 8 would be contradicted: it allows no probability below sigmoid(-8) = 3e-4.
MANY = {"num_trials": 10_000, "norm_bound": 14.0}


@pytest.mark.covering
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("kind", "outcome", "options"),
    [
        ("bernoulli", 1.0, {}),
        ("binomial", 10_000.0, MANY),
        ("binomial", 0.0, MANY),
        ("poisson", 0.0, {}),
        ("poisson", 10_000.0, {"mean_module": 9.0}),
        ("poisson", 10_000.0, {"norm_bound": 20.0}),
    ],
)
def test_extreme_outcomes_give_bands_that_hold_the_extremes(kind, outcome, options, form):
    X, kernel = uniform(15, 1, 0), frozen_kernel("rbf")
    options = {"norm_bound": 8.0, "likelihood": kind, "form": form} | options
    acqf = likelihood_ucb(X, torch.full((15,), outcome).double(), kernel, **options)
    lower, upper = acqf.bounds(torch.cat([X, uniform(30, 1, 1)]))
    assert bool((lower <= upper).all() & torch.isfinite(lower).all())
    rate = outcome / options.get("num_trials", 1)
    ball = torch.tensor(options.get("mean_module", 0.0) - acqf.band.norm_bounds[0])
    most = max(rate, float(acqf.band.outcome_map.inverse(ball)))
    assert float(lower[:15].max()) <= most + 1e-4 * (1.0 + rate)
    assert rate in (0.0, 1.0) or float(upper[:15].min()) >= rate
    assert not acqf.assumptions.violated


STEPS = {"likelihood": "binomial", "num_trials": 50}


def test_a_norm_that_is_too_small_is_raised():
    outcomes, kernel = 50.0 * (LINE[:, 0] > 0.5).double(), frozen_kernel("rbf")
    with pytest.warns(InconsistentConfidenceSetWarning, match="least consistent norm"):
        acqf = likelihood_ucb(LINE, outcomes, kernel, norm_bound=0.5, **STEPS)
    assert acqf.assumptions.violated
    assert acqf.band.norm_bounds[0] >= acqf.band.least_norms[0] > 0.5
    lower, upper = acqf.band.latent_bounds(acqf.band.data.distinct_inputs)
    centre = acqf.band.confidence_set.centre.latent  # the function that it is raised to
    assert bool(((lower <= centre + 1e-6) & (centre - 1e-6 <= upper)).all())


# A set of each kernel of a grid is built: half a second.
def test_the_check_names_a_norm_or_a_kernel():
    X = LINE[::2]
    fast, slow = torch.sin(40.0 * X[:, 0]), 0.9 * torch.sin(6.0 * X[:, 0])
    data = [
        LikelihoodRegression(X, (25.0 + 25.0 * f).round(), frozen_kernel("rbf"), **STEPS)
        for f in (fast, slow)
    ]
    wrong, small = (check_consistency(*each) for each in zip(data, (3.0, 0.4), strict=True))
    assert (wrong.consistent, wrong.cause) == (False, "kernel")
    assert (small.consistent, small.cause) == (False, "norm")
    assert check_consistency(data[1], 1.01 * small.least_consistent_norm).consistent


@pytest.mark.slow
def test_the_check_names_the_norm_where_it_is_large():
    r"""Log odds far above those of a draw from the prior, under the right kernel."""
    kernel, X = frozen_kernel("rbf"), uniform(80, 2, 8)
    chances = torch.rand(50, 80, dtype=torch.float64, generator=generator(1))
    latent = RKHSFunction.random(kernel, 100.0, 2, seed=1)(X)
    outcomes = (chances < latent.sigmoid()).double().sum(0)
    result = check_consistency(LikelihoodRegression(X, outcomes, kernel, **STEPS), 10.0)
    assert result.cause == "norm"


def test_the_level_is_the_evidence_and_delta():
    one, other = (bound("bernoulli", problem("bernoulli"), delta=d) for d in (0.05, 0.2))
    difference = one.band.confidence_set.level - other.band.confidence_set.level
    assert difference == pytest.approx(math.log(4.0), abs=1e-9)


@pytest.mark.representatives("1.0", "1000000.0")
@pytest.mark.parametrize("rate", [1.0, 100.0, 1e4, 1e6])
def test_large_counts_do_not_contradict_a_true_norm_bound(rate):
    kernel, X, random = frozen_kernel("rbf", 0.25), LINE[::4], generator(1)
    latent = 0.9 * kernel(X, X[5:6]).to_dense().squeeze(-1)  # of norm 0.9
    given = {"likelihood": "poisson", "mean_module": math.log(rate), "norm_bound": 1.0}
    for _ in range(5):
        counts = torch.poisson(rate * latent.exp(), generator=random)
        band = likelihood_ucb(X, counts, kernel, **given)
        # The function may be left out, with probability delta; with this seed it is not.
        lower, upper = (side - math.log(rate) for side in band.band.latent_bounds(X))
        assert bool(((lower <= latent) & (latent <= upper)).all())
        assert band.band.norm_bounds[0] == 1.0
        assert not band.assumptions.violated


@pytest.mark.covering
@pytest.mark.parametrize("lengthscale", [0.3, 2.0])
@pytest.mark.parametrize("norm_bound", [0.25, 3.0, None])
def test_data_that_no_function_explains_still_give_a_band(lengthscale, norm_bound):
    # Neighbours differ by factors of 10,000: the norm that this needs overflows a rate.
    kernel, random = frozen_kernel("rbf", lengthscale), generator(35)
    X = torch.randint(49, (30, 1), generator=random).double() / 48.0
    latent = 9.0 * torch.randn(30, dtype=torch.float64, generator=random)
    counts = torch.poisson(latent.clamp(max=9.2).exp(), generator=random)
    options = {"likelihood": "poisson", "norm_bound": norm_bound}
    with pytest.warns(InconsistentConfidenceSetWarning):
        band = likelihood_ucb(X, counts, kernel, **options)
    lower, upper = band.band.latent_bounds(LINE)
    assert bool(((lower <= upper) & torch.isfinite(lower + upper)).all())
    assert band.assumptions.violated
    assert band.band.least_norms[0] > (norm_bound or 0.0)  # by the data, not the band


ROUGH = frozen_kernel("matern52", 0.4)
INPUTS, POINTS = uniform(40, 2, 1), uniform(12, 2, 2)
FUNCTION = RKHSFunction.random(ROUGH, 2.5, 2, 0)
LATENT = FUNCTION(INPUTS)
COUNTS = torch.poisson(LATENT.exp(), generator=generator(3))
SUCCESSES = torch.bernoulli(LATENT.sigmoid(), generator=generator(3))
OUTCOMES = {"bernoulli": SUCCESSES, "poisson": COUNTS}
ONE = likelihood_ucb(INPUTS, SUCCESSES, ROUGH, **GIVEN)


def of_counts(likelihood="poisson", form="tangent", **options):
    options = {"likelihood": likelihood, "form": form, **GIVEN} | options
    return likelihood_ucb(INPUTS, OUTCOMES[likelihood], ROUGH, **options)


SEARCHED = of_counts()
MAXIMA = {sign: sign * extreme_values(SEARCHED, POINTS[:3], sign) for sign in (-1, 1)}


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([0.01, 0.3, 3.0, 30.0]))
def test_tangents_at_any_values_give_a_bound(seed, scale):
    band = SEARCHED.band.confidence_set
    values = torch.randn(1, 40, dtype=torch.float64, generator=generator(seed))
    tangents = band.tangents(scale * values, band.observed_features)
    points = band.project(POINTS[:3])
    for sign in (-1, 1):
        found = band.bound(points.centre, sign, tangents)
        assert bool((found >= MAXIMA[sign] - SOCP).all())


@pytest.mark.covering
@pytest.mark.parametrize("likelihood", OUTCOMES)
@pytest.mark.parametrize("sign", [-1, 1])
def test_differences_of_values_are_bounded_and_closely(likelihood, sign):
    acqf = of_counts(likelihood)
    found = acqf.band.confidence_set.max_gain_over(POINTS[1:4], POINTS[:1], sign)
    exact = sign * extreme_values(acqf, POINTS[1:4], sign, POINTS[:1])
    assert bool((found >= exact - SOCP).all())
    assert float(found.mean()) <= 1.02 * float(exact.mean())
    itself = acqf.band.confidence_set.max_gain_over(POINTS[:1], POINTS[:1])
    assert_close(itself, float64([0.0]))


def check_gradient(acqf, points):
    points = points.requires_grad_()
    lower, upper = acqf.band.latent_bounds(points)
    ball = float(acqf.band.norm_bounds[0]) * (1.0 + REARRANGED)  # of a prior of variance 1
    assert bool(((-ball <= lower) & (lower <= upper) & (upper <= ball)).all())
    (grad,) = torch.autograd.grad((upper - lower).sum(), points)
    assert bool(torch.isfinite(grad).all())


def test_gradients_are_numbers_where_losses_overflow():
    # Far along a ray exp(f) is infinite; counts of this kind make the level negative.
    kernel, given = frozen_kernel("rbf", 0.3), {"likelihood": "poisson", "norm_bound": 1e4}
    acqf = likelihood_ucb(INPUTS, 20.0 * COUNTS, kernel, **given)
    check_gradient(acqf, torch.cat([POINTS, INPUTS[:2], float64([[50.0, 50.0]])]))


@pytest.mark.covering
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("Y", [0.0, 1.0, 40.0])
@pytest.mark.parametrize("norm_bound", [0.1, 5.0, 400.0])
def test_one_outcome_and_the_point_where_it_was_seen(Y, norm_bound, form):
    here = float64([[0.5, 0.5]])
    given = {"likelihood": "poisson", "norm_bound": norm_bound, "form": form}
    with warnings.catch_warnings():  # 40 contradicts the smallest norm bound
        warnings.simplefilter("ignore", InconsistentConfidenceSetWarning)
        acqf = likelihood_ucb(here, float64([Y]), ROUGH, **given)
    check_gradient(acqf, torch.cat([here, here + 1e-7, POINTS[:2]]))


@pytest.mark.parametrize(("maximize", "norm_bound"), [(True, 3.0), (False, 7.0)])
def test_the_gradient_does_not_jump(maximize, norm_bound):
    acqf = of_counts(form="cuts", maximize=maximize, norm_bound=norm_bound)

    def largest_change(steps):
        share = torch.linspace(0.0, 1.0, steps + 1, dtype=torch.float64).unsqueeze(-1)
        line = share.repeat(1, 2).requires_grad_()
        (gradient,) = torch.autograd.grad(acqf(line.unsqueeze(-2)).sum(), line)
        return float(gradient.diff(dim=0).norm(dim=-1).max())

    assert largest_change(3200) < 0.15 * largest_change(200)


MADE = ["None", "tracker"]


@pytest.mark.representatives("None")
@pytest.mark.parametrize(
    "make", [lambda: None, lambda: NormTracker(inflation=1.5, floor=4.0)], ids=MADE
)
def test_an_estimated_norm_costs_no_width(make):
    r"""The search begins inside the set, as with the same number given."""
    for kind in OUTCOMES:
        acqf = of_counts(kind, norm_bound=make())
        same_norm = of_counts(kind, norm_bound=float(acqf.band.norm_bounds[0]))
        assert acqf.assumptions.estimated == ("norm",)
        assert acqf.band.norm_bounds[0] >= acqf.band.least_norms[0]
        assert_close(acqf.band.latent_bounds(POINTS), same_norm.band.latent_bounds(POINTS))


@pytest.mark.representatives("1.03", "1.6")
@pytest.mark.parametrize("factor", [1.03, 1.1, 1.26, 1.6, 3.0])
def test_a_thin_set_is_searched_from_inside(factor):
    r"""From its edge bands of a few functions would be up to 1.4 times as wide."""
    X, kernel = uniform(40, 1, 2), frozen_kernel("matern52", 0.4)
    latent = RKHSFunction.random(kernel, 2.5, 1, 2)(X)
    won = torch.bernoulli(latent.sigmoid(), generator=generator(2))
    least = float(likelihood_ucb(X, won, kernel, **GIVEN).band.least_norms[0])
    acqf = likelihood_ucb(X, won, kernel, norm_bound=factor * least, form="tangent")
    assert acqf.band.confidence_set.room > 0.0
    point = POINTS[:1, :1]
    exact = float(extreme_values(acqf, point, 1))
    assert exact - SOCP <= float(acqf.band.latent_bounds(point)[1]) <= exact + 0.1


ZERO = ConstantMean().double().requires_grad_(False)


def variational(outcomes=SUCCESSES, mean_module=ZERO, **options):
    outcomes = None if outcomes is None else outcomes.unsqueeze(-1)
    options |= {"mean_module": mean_module, "covar_module": ROUGH}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of BoTorch, about input transforms
        return SingleTaskVariationalGP(INPUTS, outcomes, BernoulliLikelihood(), **options)


def same(one, other, tolerance=1e-9):
    assert_close(one.bounds(POINTS), other.bounds(POINTS), rtol=0.0, atol=tolerance)


def test_what_it_rests_on():
    assumptions = ONE.assumptions
    names = [item.name for item in assumptions.items]
    assert names == ["kernel", "mean", "likelihood", "norm", "outcomes"]
    assert assumptions.certified
    assert assumptions.anytime
    assert assumptions.delta == DELTA
    assert "sigmoid(f(x))" in assumptions["likelihood"].statement
    trainable = frozen_kernel("rbf").requires_grad_(True)
    trained = likelihood_ucb(INPUTS, SUCCESSES, trainable, **GIVEN)
    assert trained.assumptions.estimated == ("kernel",)
    # Pseudo-outcomes are no outcomes: a bound on them must not look certified.
    state = ONE.band.confidence_set.regression
    assert not MartingaleMixtureUCB(state, **GIVEN).assumptions.certified


SEEN = {"train_X": INPUTS, "train_Y": SUCCESSES}


# Six sets from as many doors: half a second.
def test_from_a_variational_model():
    same(LikelihoodUCB.from_model(variational(), **GIVEN), ONE)
    same(LikelihoodUCB(variational(), **GIVEN), ONE)
    same(LikelihoodUCB.from_model(variational(outcomes=None), **SEEN, **GIVEN), ONE)
    of_gpytorch = {"likelihood": "bernoulli", **SEEN, **GIVEN}
    same(LikelihoodUCB.from_model(variational().model, **of_gpytorch), ONE)
    constructor = get_acqf_input_constructor(LikelihoodUCB)
    same(LikelihoodUCB(**constructor(model=variational(), **GIVEN)), ONE)
    trained = LikelihoodUCB.from_model(
        variational(mean_module=ConstantMean().double()), **GIVEN
    )
    assert trained.assumptions.estimated == ("mean",)


def test_a_transform_that_was_trained_needs_the_raw_inputs():
    r"""A variational model keeps inputs as its transform made them at the beginning."""
    model = variational(input_transform=Warp(2, [0, 1])).requires_grad_(False)
    model.input_transform.concentration0.fill_(2.0)
    acqf = LikelihoodUCB.from_model(model, **SEEN, **GIVEN)
    assert_close(acqf.band.data.train_inputs, model.transform_inputs(INPUTS))


@pytest.mark.filterwarnings("ignore::botorch.exceptions.InputDataWarning")
@pytest.mark.filterwarnings("ignore:Using an input transform with")
def test_the_columns_of_a_model_that_keeps_its_data_are_the_raw_ones():
    r"""A code of two categories is one column of the kernel and two of the inputs."""
    code = (INPUTS[:, :1] > 0.5).double()
    raw = torch.cat([INPUTS[:, :1], code, 1.0 - code], -1)
    transform = OneHotToNumeric(3, categorical_features={1: 2})
    model = SingleTaskVariationalGP(
        raw, SUCCESSES.unsqueeze(-1), BernoulliLikelihood(), input_transform=transform
    ).double()
    data = LikelihoodRegression.from_model(model)
    assert data.dimension == 3
    assert torch.equal(data.observed_inputs, raw)


@pytest.mark.filterwarnings("ignore::botorch.exceptions.InputDataWarning")
@pytest.mark.parametrize("transform", [None, Standardize(1)])
def test_an_exact_model_gives_its_data_alone(transform):
    scaled = float64([[0.0, 0.0], [2.0, 5.0]])
    transforms = {"input_transform": Normalize(2, bounds=scaled)}
    transforms["outcome_transform"] = transform
    model = SingleTaskGP(INPUTS * scaled[1], SUCCESSES.unsqueeze(-1), **transforms)
    described = {"kernel": "matern52", "lengthscale": 0.4, "likelihood": "bernoulli"}
    acqf, points = LikelihoodUCB.from_model(model, **described, **GIVEN), POINTS * scaled[1]
    assert_close(acqf.bounds(points), ONE.bounds(POINTS), rtol=0.0, atol=1e-6)
    assert acqf.assumptions.certified


EIGHT = {"likelihood": "binomial", "num_trials": 8.0, "kernel": ROUGH, **GIVEN}


def test_rates_are_counts_again():
    counts = 3.0 * SUCCESSES + 4.0
    model = SingleTaskGP(INPUTS, counts.unsqueeze(-1) / 8.0)
    rates = LikelihoodUCB.from_model(model, outcomes="rates", **EIGHT)
    same(rates, likelihood_ucb(INPUTS, counts, **EIGHT))
