r"""Norms: the least that fits, a bound from the data, bounds that the data contradict."""

import math
import re
import warnings
from functools import partial

import pytest
import torch
from botorch.models.transforms.outcome import Standardize
from gpytorch.kernels import LinearKernel, RBFKernel
from torch.testing import assert_close

from kernelucb import (
    AbbasiYadkoriUCB,
    KernelRegression,
    MartingaleMixtureUCB,
    NearNormBall,
    NormTracker,
    PrequentialRadius,
    StreamingKernelUCB,
    UnknownNoise,
    check_consistency,
    least_consistent_norm,
)
from kernelucb._numerics.digits import at_least, at_most
from kernelucb.confidence.assumptions import Status
from kernelucb.confidence.least_norm import least_norm
from kernelucb.confidence.radius import Radius
from kernelucb.exceptions import InconsistentConfidenceSetWarning
from oracles import socp
from oracles.filtered import counted
from problems import (
    RKHSFunction,
    frozen_kernel,
    frozen_model,
    make_problem,
    normal,
    uniform,
)
from tolerances import LEAST_NORM, REARRANGED, SOCP, WITNESS_CONSTRAINT, WITNESS_VALUE

CASES = {
    "rbf": {"kernel": "rbf"},
    "matern32": {"kernel": "matern32", "d": 2, "n": 14},
    "much noise": {"noise_std": 2.0, "norm": 1.0},
    "duplicates": {"duplicates": True},
}


@pytest.fixture
def problem():
    return make_problem(n=12, norm=5.0, seed=5)


def standardized(problem):
    return frozen_model(
        problem.X,
        5.0 + 3.0 * problem.Y,
        problem.kernel,
        3.0 * problem.noise_std / float((3.0 * problem.Y).std()),
        mean=0.3,
        outcome_transform=Standardize(m=1),
    )


def model_of(problem, units):
    return standardized(problem) if units == "standardized" else problem.model


@pytest.mark.covering(2)
@pytest.mark.parametrize("upper", [True, False])
@pytest.mark.parametrize("units", ["plain", "standardized"])
@pytest.mark.parametrize("error", [0.0, 0.07])
@pytest.mark.parametrize("case", CASES)
def test_witness_is_in_the_set_and_attains_the_bound(case, error, units, upper):
    r"""But for the error, where ``f`` is only near a function of bounded norm."""
    problem, sign = make_problem(**CASES[case]), 1.0 if upper else -1.0
    near = NearNormBall(20.0, error)
    acqf = MartingaleMixtureUCB(model_of(problem, units), norm_bound=near)
    bounds = acqf.bounds(problem.test_X)[int(upper)]
    for x, bound in zip(problem.test_X, bounds, strict=True):
        witness = acqf.witness(x.unsqueeze(0), upper=upper)
        assert witness.norm <= 20.0 * (1.0 + WITNESS_CONSTRAINT)
        assert witness.misfit <= witness.radius * (1.0 + WITNESS_CONSTRAINT)
        value = witness(x.unsqueeze(0))[0] + sign * error
        assert_close(value, bound, rtol=WITNESS_VALUE, atol=WITNESS_VALUE)


@pytest.mark.parametrize("fit", ["filters", "martingale"])
@pytest.mark.parametrize("units", ["plain", "standardized"])
def test_witness_reports_its_norm_and_misfit_from_its_values(units, fit):
    r"""Recomputed from values alone: interpolation norm and distance to the outcomes."""
    problem, x = make_problem(n=5, kernel="matern32", noise_std=0.3), uniform(1, 1, seed=70)
    acqf = MartingaleMixtureUCB(model_of(problem, units), norm_bound=20.0, fit=fit)
    witness, state = acqf.witness(x), acqf.band.data
    misfit = (witness(problem.X) - state.train_targets) / state.noise_std
    squared = float(misfit @ counted(acqf) @ misfit)
    assert witness.misfit == pytest.approx(math.sqrt(squared), rel=WITNESS_VALUE)
    nodes = torch.cat([problem.X, x])
    values = witness(nodes) - float(state.project(x).baseline)
    K = problem.kernel(nodes).to_dense()  # the model's kernel as it stands
    squared = float(values @ torch.linalg.solve(K, values))
    assert witness.norm == pytest.approx(math.sqrt(squared), rel=WITNESS_VALUE)


def test_witness_under_the_norm_constraint_alone():
    r"""Far away from uninformative data: ``B k(x, .) / sqrt(k(x, x))``."""
    problem = make_problem(noise_std=3.0, norm=0.5, outputscale=4.0)
    x = torch.full((1, 1), 50.0, dtype=torch.float64)
    witness = MartingaleMixtureUCB(problem.model, norm_bound=3.0).witness(x)
    assert (witness.norm, float(witness(x))) == pytest.approx((3.0, 6.0), rel=WITNESS_VALUE)


@pytest.mark.parametrize("noise_std", [1e-1, 1e-3, 1e-5])
def test_least_norm_is_finite_however_small_the_noise(noise_std):
    r"""Eq. (8) grows with the data: ``quadratic_form(1/c) < r^2``, and the ridge estimate
    at ``tau = 1/c`` misfits by no more than that. No data make the norm infinite.
    """
    problem = make_problem(n=8, duplicates=True, noise_std=0.1)
    K = problem.kernel(problem.X).to_dense()
    weights = torch.linalg.solve(K + noise_std**2 * torch.eye(8).to(K), problem.Y)
    least = least_consistent_norm(problem.model, noise_std, fit="martingale")
    assert least <= float((weights @ K @ weights).sqrt())


@pytest.mark.parametrize("infinite", [True, False])
def test_least_norm_is_infinite_or_zero_by_the_radius(infinite):
    r"""Infinite only for a radius other than Eq. (8)'s, which covers what repeats disagree
    by; zero where no function is needed."""
    state = make_problem(n=8, duplicates=True, noise_std=0.1).state
    outcomes = state.train_targets / 0.1
    squared = outcomes.square().sum()
    if infinite:
        squared = (outcomes[:4] - outcomes[4:]).square().sum() / 2.0
    below, above = (
        least_norm(state, Radius.of(factor * float(squared), state, 1.0))
        for factor in (0.9, 1.1)
    )
    assert (math.isinf(below), above == 0.0) == (infinite, not infinite)
    assert 0.0 < (above if infinite else below) < math.inf


@pytest.mark.parametrize("units", ["plain", "standardized"])
@pytest.mark.parametrize(("case", "c"), [("matern32", 1.0), ("noise of each", 0.3)])
def test_least_norm_is_the_cone_program(case, c, units):
    r"""Norms refer to ``f - mean`` in outcome units and to ``model.covar_module``."""
    problem = make_problem(norm=5.0, **CASES.get(case, {"n": 8}))
    model = model_of(problem, units)
    noise = 0.05 + 0.3 * uniform(8, 1, seed=71)[:, 0] if case == "noise of each" else None
    state = KernelRegression.from_model(model, noise)
    K, noise_std = problem.kernel(problem.X).to_dense(), state.noise_std
    deviations = state.train_targets - state.project(problem.X).baseline
    # Eq. (8) for the model's own prior, scale^2 k, but the norm under k itself.
    prior = state.outcome_scale**2 * K
    squared = socp.squared_radius(prior, deviations, noise_std, 0.05, c)
    expected = socp.least_norm(K, deviations, noise_std, squared)
    assert expected > 0.4  # the data say something
    least = least_consistent_norm(model, noise, fit="martingale", covariance_scale=c)
    assert least == pytest.approx(expected, rel=LEAST_NORM, abs=0.0)


@pytest.mark.parametrize(
    "build",
    [
        MartingaleMixtureUCB,
        partial(MartingaleMixtureUCB, noise_std=UnknownNoise()),
        AbbasiYadkoriUCB,
        partial(StreamingKernelUCB, noise_std=UnknownNoise(0.02, 1.0)),
    ],
)
def test_the_estimate_is_a_norm_bound_like_any_other(problem, build):
    r"""The band is that of the number it reports; only the assumptions differ."""
    tracker = NormTracker()
    estimated, _ = build(problem.model), build(problem.model, norm_bound=tracker)
    given = build(problem.model, norm_bound=float(tracker.norm_bound))
    sides = estimated.bounds(problem.test_X), given.bounds(problem.test_X)
    assert_close(*sides, rtol=REARRANGED, atol=REARRANGED)
    norm = estimated.assumptions["norm"]
    assert norm.status is Status.ESTIMATED
    assert not estimated.assumptions.certified
    assert given.assumptions["norm"].status is Status.GIVEN
    least, most = at_least(tracker.least_consistent_norm), at_least(tracker.norm_bound)
    assert re.search(rf"at most {most}, .* at least {least}", str(norm))


def test_the_formula(problem):
    least = least_consistent_norm(problem.model)
    assert least > 0.5
    sd = math.sqrt(float(problem.kernel(problem.X[:1]).to_dense()))
    for inflation, floor in [(1.0, 2.0), (1.0, 0.1), (3.0, 0.1)]:
        tracker = NormTracker(inflation=inflation, floor=floor)
        expected = max(inflation * least, math.hypot(least, floor * sd))
        assert tracker.observe(problem.model) == pytest.approx(expected)
        assert tracker.least_consistent_norm == pytest.approx(least)


def test_no_norm_is_consistent(problem):
    r"""Repeated inputs whose outcomes differ by much more than the noise, under a radius
    from predictions that knew them: finite, and said to be wrong."""
    X, Y = torch.cat([problem.X, problem.X]), torch.cat([problem.Y, problem.Y + 1.0])
    state = KernelRegression(X, Y, problem.kernel, 1e-3)
    radius = PrequentialRadius()
    radius.observe_predictions(Y, torch.zeros_like(Y), Y, 1e-3, X)
    with pytest.warns(InconsistentConfidenceSetWarning, match="noise_std is too small"):
        acqf = MartingaleMixtureUCB(state, fit=radius)
    assert acqf.band.least_norms[0] == math.inf
    assert acqf.assumptions["noise"].status is Status.VIOLATED
    lower, upper = acqf.bounds(problem.test_X)
    assert bool((lower <= upper).all() & torch.isfinite(upper - lower).all())


def test_it_never_falls_over_rounds(problem):
    r"""A smoother function, an outlier taken back: the least norm falls, the bound not."""
    noisy = make_problem(n=2, norm=1.0, noise_std=50.0).model  # says nothing of the norm
    acqf = MartingaleMixtureUCB(noisy, norm_bound=NormTracker(floor=2.5))
    assert acqf.band.norm_bounds[0] == pytest.approx(2.5)
    smooth = frozen_model(problem.X, 0.1 * problem.Y, problem.kernel, 0.1)
    tracker = NormTracker()
    first = tracker.observe(problem.model)
    least = tracker.least_consistent_norm
    assert MartingaleMixtureUCB(smooth).band.norm_bounds[0] < 0.9 * first
    assert MartingaleMixtureUCB(smooth, norm_bound=tracker).band.norm_bounds[0] == first
    assert tracker.least_consistent_norm == least


FORMS = [{}, {"form": "grid"}, {"form": "analytic"}, {"form": "convex"}]


def caught(build):
    with warnings.catch_warnings(record=True) as messages:
        warnings.simplefilter("always")
        acqf = build()
    kinds = [m for m in messages if m.category is InconsistentConfidenceSetWarning]
    return acqf, [str(m.message) for m in kinds]


def ridge_of_misfit(K, y, noise_std, squared):
    r"""Weights of the ridge estimate with this squared distance from the data."""
    low, high = 1e-8, 1e8
    for _ in range(200):
        alpha = (low * high) ** 0.5
        weights = torch.linalg.solve(K + alpha * torch.eye(len(y)).to(K), y)
        small = float((alpha * weights).norm() / noise_std) ** 2 < squared
        low, high = (alpha, high) if small else (low, alpha)
    return weights


def test_the_relaxed_bound_is_the_one_least_consistent_function(problem):
    r"""At ``B = B_min`` the set is a single function, the ridge estimate of that norm."""
    K, y, noise_std = problem.kernel(problem.X).to_dense(), problem.Y, problem.noise_std
    squared = socp.squared_radius(K, y, noise_std * torch.ones_like(y), 0.05, 1.0)
    weights = ridge_of_misfit(K, y, noise_std, squared)
    function = problem.kernel(problem.test_X, problem.X).to_dense() @ weights
    options = {"norm_bound": 0.25, "fit": "martingale"}
    acqf, _ = caught(lambda: MartingaleMixtureUCB(problem.model, **options))
    lower, upper = acqf.bounds(problem.test_X)
    # The norm was widened by 1e-6 of itself, which opens the set by its square root.
    room = 3.0 * (2e-6) ** 0.5 * acqf.band.norm_bounds[0]
    assert bool((lower - SOCP <= function).all() & (function <= upper + SOCP).all())
    assert float((upper - lower).max()) < room


def test_a_noise_scale_that_filters_contradict_leaves_flynn_and_reebs_band():
    r"""Their set takes in that the noise is larger; the filters' would be one function."""
    problem = make_problem(n=40, d=2, norm=3.0, noise_std=0.5)
    options = {"norm_bound": 6.0, "noise_std": 0.1}
    acqf, (message,) = caught(lambda: MartingaleMixtureUCB(problem.model, **options))
    assert "uses Flynn & Reeb's radius instead" in message
    assert acqf.assumptions["norm"].status is Status.VIOLATED
    assert acqf.band.norm_bounds[0] == pytest.approx(6.0)
    assert acqf.band.least_norms[0] > 6.0
    # Its prior weight in the mixture is 0.7.
    theirs = {"fit": "martingale", "delta": 0.7 * 0.05, **options}
    other = MartingaleMixtureUCB(problem.model, **theirs)
    sides = acqf.bounds(problem.test_X), other.bounds(problem.test_X)
    assert_close(*sides, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("units", ["plain", "standardized"])
@pytest.mark.parametrize("options", FORMS)
def test_warns_once_with_both_numbers_and_uses_the_least_norm(problem, options, units):
    model = model_of(problem, units)
    least = float(least_consistent_norm(model))
    given = {"norm_bound": 0.5 * least, **options}
    acqf, (message,) = caught(lambda: MartingaleMixtureUCB(model, **given))
    found = re.search(r"norm at most (\S+) fits .* norm is (\S+)\. The", message)
    assert list(map(float, found.groups())) == pytest.approx([0.5 * least, least], rel=1e-3)
    assert acqf.band.norm_bounds[0] == pytest.approx(least, rel=1e-5)
    assert acqf.assumptions["norm"].status is Status.VIOLATED
    lower, upper = acqf.bounds(problem.test_X)  # warnings are errors here
    assert bool((lower <= upper).all() & torch.isfinite(lower + upper).all())
    accepted = MartingaleMixtureUCB(model, norm_bound=1.01 * least)
    assert accepted.assumptions["norm"].status is Status.GIVEN
    assert accepted.band.least_norms[0] == pytest.approx(least, rel=REARRANGED)


def cause(X, Y, kernel, noise_std, norm):
    check = check_consistency(KernelRegression(X, Y, kernel, noise_std), norm)
    return check.cause, check.least_consistent_norm, check.remedy


def test_noise_too_small_for_any_norm():
    problem = make_problem(n=40, duplicates=True, noise_std=1.0, seed=3)
    check = check_consistency(problem.model, 1e6, noise_std=0.02)
    assert (check.cause, check.least_consistent_norm) == ("noise", math.inf)
    words = r"repeated inputs scatter (.*) times .* so about (.*) \(given 0\.02\)"
    numbers = map(float, re.search(words, check.remedy).groups())
    one, two = problem.Y.reshape(2, 20)
    scale = math.sqrt(float((one - two).square().mean() / 2.0))
    assert list(numbers) == pytest.approx([scale / 0.02, scale], rel=5e-3)


@pytest.mark.parametrize("kernel", ["rbf", "matern52"])
@pytest.mark.parametrize("norm", [100.0, 1e5])
def test_the_norm_is_named_where_the_noise_is_right(norm, kernel):
    r"""Of a norm far above that of a draw from the prior, at the true noise."""
    for repeats in 1, 2:
        named, least, remedy = cause(*large(norm, 1.0, kernel, repeats), 1.0, norm / 20.0)
        assert named == "norm"
        assert f"no function of norm below {at_least(least)}" in remedy
        assert ("repeated inputs scatter" in remedy) == (repeats > 1)


class UnknownRBF(RBFKernel):
    r"""A kernel whose length scales are not known to be length scales."""


@pytest.mark.parametrize("smooth", [UnknownRBF, LinearKernel])
def test_repeated_inputs_decide_about_the_noise(smooth):
    r"""A rough function under a smooth kernel looks like noise, but for repeats.

    Under a linear kernel no norm is enough; of the norm beyond 1e5 round-off decides.
    """
    X, Y, _ = large(20.0, 0.1, "matern12", repeats=2)
    kernel = smooth().double().requires_grad_(False)
    if smooth is UnknownRBF:
        kernel.lengthscale = torch.tensor(0.3, dtype=torch.float64)
    once, least, remedy = cause(X[:40], Y[:40], kernel, 0.1, 5.0)
    assert once == "noise"
    named = f"If it is right, norm_bound must be at least {at_most(least)} (given 5)"
    assert (named in remedy) == (least < 1e5) != ("noise_std is too small" in remedy)
    twice, least, remedy = cause(X, Y, kernel, 0.1, 5.0)
    assert twice == ("norm" if smooth is UnknownRBF else "kernel")
    assert (least < 1e5) == (twice == "norm")
    assert re.search(r"repeated inputs scatter (0\.9|1\.0)\d* times", remedy)
    quiet, _, remedy = cause(X, Y, kernel, 0.01, 5.0)
    assert (quiet, "repeated inputs scatter" in remedy) == ("noise", True)


def test_length_scale_too_long():
    problem, long = make_problem(n=30, norm=5.0, seed=2), frozen_kernel("rbf", 1.5)
    named, _, remedy = cause(problem.X, problem.Y, long, problem.noise_std, 5.0)
    assert (named, "shorter" in remedy) == ("kernel", True)
    check = check_consistency(problem.model, 5.0)
    assert (check.consistent, check.cause) == (True, None)
    assert check.remedy.startswith("No contradiction")


def large(norm, noise_std, kernel, repeats):
    r"""Values of a function of large norm, with noise; each input several times."""
    kernel, X = frozen_kernel(kernel), uniform(40, 2, 1).repeat(repeats, 1)
    function = RKHSFunction.random(kernel, norm, d=2, seed=0)
    return X, function(X) + noise_std * normal(len(X), 2), kernel


@pytest.mark.parametrize("noise_std", [1e-3, 1e-9])
@pytest.mark.parametrize("options", FORMS)
def test_repeats_that_differ_contradict_any_small_noise_scale(options, noise_std):
    r"""At 1e-9 the radius was lost in round-off, and a division by it failed."""
    X = torch.tensor([[0.0], [0.0], [0.5], [0.5], [1.0]], dtype=torch.float64)
    Y = torch.tensor([1.0, 2.0, 3.0, 2.5, 0.0], dtype=torch.float64)
    state = KernelRegression(X, Y, frozen_kernel("matern52", 0.5), noise_std)
    with pytest.warns(InconsistentConfidenceSetWarning, match="noise_std is too small"):
        band = MartingaleMixtureUCB(state, norm_bound=3.0, **options)
    assert "noise" in band.assumptions.summary
    constraints = band.band.function_constraints
    least = least_norm(band.band.confidence_set.regression, constraints.radius)
    assert least <= constraints.norm == pytest.approx(3.0)  # no longer empty
    lower, upper = band.bounds(X)
    assert bool((lower <= upper).all() & torch.isfinite(lower + upper).all())
