r"""Norms: the least that fits, a bound taken from the data, a bound they contradict."""

import json
import math
import re
import warnings

import pytest
import torch
from botorch.models.transforms.outcome import Standardize
from torch.testing import assert_close

from kernelucb import (
    IGPUCB,
    AbbasiYadkoriUCB,
    Grid,
    KernelRegression,
    KernelThompsonSampling,
    MartingaleMixture,
    MartingaleMixtureUCB,
    NormTracker,
    PrequentialRadius,
    SrinivasUCB,
    StreamingKernelUCB,
    StreamingNoiseTracker,
    UnknownNoise,
    WangDeFreitasUCB,
    least_consistent_norm,
)
from kernelucb.acquisition import BoundedNorm
from kernelucb.confidence.assumptions import Status
from kernelucb.confidence.fit.radius import Radius
from kernelucb.confidence.martingale_mixture.problem import consistent_constraints
from kernelucb.confidence.norm.least import least_norm
from kernelucb.exceptions import InconsistentConfidenceSetWarning
from oracles import socp
from oracles.filtered import counted
from problems import frozen_model, make_problem, uniform
from tolerances import LEAST_NORM, REARRANGED, SOCP, WITNESS_CONSTRAINT, WITNESS_VALUE

CASES = {
    "rbf": {"kernel": "rbf"},
    "matern32": {"kernel": "matern32", "d": 2, "n": 14},
    "much noise": {"noise_std": 2.0, "norm": 1.0},
    "duplicates": {"duplicates": True},
}


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


@pytest.mark.parametrize("upper", [True, False])
@pytest.mark.parametrize("units", ["plain", "standardized"])
@pytest.mark.parametrize("case", CASES)
def test_witness_is_in_the_set_and_attains_the_bound(case, units, upper):
    problem = make_problem(**CASES[case])
    acqf = MartingaleMixtureUCB(model_of(problem, units), norm_bound=20.0)
    bounds = acqf.bounds(problem.test_X)[int(upper)]
    for x, bound in zip(problem.test_X, bounds, strict=True):
        witness = acqf.witness(x.unsqueeze(0), upper=upper)
        assert witness.norm <= 20.0 * (1.0 + WITNESS_CONSTRAINT)
        assert witness.misfit <= witness.radius * (1.0 + WITNESS_CONSTRAINT)
        value = witness(x.unsqueeze(0))[0]
        assert_close(value, bound, rtol=WITNESS_VALUE, atol=WITNESS_VALUE)


@pytest.mark.parametrize("fit", ["filters", "martingale"])
@pytest.mark.parametrize("units", ["plain", "standardized"])
def test_witness_reports_its_norm_and_misfit_from_its_values(units, fit):
    r"""Recomputed from values alone: interpolation norm and distance to the outcomes."""
    problem = make_problem(n=5, kernel="matern32", noise_std=0.3)
    model = model_of(problem, units)
    acqf = MartingaleMixtureUCB(model, norm_bound=20.0, fit=fit)
    x = uniform(1, 1, seed=70)
    witness = acqf.witness(x)
    state = acqf.regression
    outcomes = state.train_targets
    misfit = (witness(problem.X) - outcomes) / state.noise_std
    misfit = (misfit @ counted(acqf) @ misfit).sqrt()
    assert_close(witness.misfit, float(misfit), rtol=WITNESS_VALUE, atol=0.0)
    nodes = torch.cat([problem.X, x])
    mean = float(state.project(x).baseline)
    values = witness(nodes) - mean
    K = problem.kernel(nodes).to_dense()  # the model's kernel as it stands
    norm = math.sqrt(float(values @ torch.linalg.solve(K, values)))
    scale = state.outcome_scale
    assert_close(witness.norm, norm, rtol=WITNESS_VALUE, atol=0.0)
    assert (scale != 1.0) == (units == "standardized")


def test_witness_under_the_norm_constraint_alone():
    r"""Far away from uninformative data: ``B k(x, .) / sqrt(k(x, x))``."""
    problem = make_problem(noise_std=3.0, norm=0.5, outputscale=4.0)
    acqf = MartingaleMixtureUCB(problem.model, norm_bound=3.0)
    x = torch.full((1, 1), 50.0, dtype=torch.float64)
    witness = acqf.witness(x)
    assert_close(witness.norm, 3.0, rtol=WITNESS_VALUE, atol=0.0)
    assert_close(float(witness(x)), 6.0, rtol=WITNESS_VALUE, atol=0.0)


def test_least_norm_is_finite_however_small_the_noise():
    r"""Eq. (8) grows with the data: ``quadratic_form(1/c) < r^2``, and the ridge estimate
    at ``tau = 1/c`` misfits by no more than that. No data make the norm infinite.
    """
    problem = make_problem(n=8, duplicates=True, noise_std=0.1)
    for noise_std in (1e-1, 1e-3, 1e-5):
        state = problem.state.with_noise_std(noise_std)
        ridge_norm = norm_of_ridge(problem, state.noise_std[0] ** 2)
        least = least_consistent_norm(problem.model, noise_std, fit="martingale")
        assert least <= ridge_norm


def norm_of_ridge(problem, alpha):
    K = problem.kernel(problem.X).to_dense()
    weights = torch.linalg.solve(K + alpha * torch.eye(len(K)).to(K), problem.Y)
    return float((weights @ K @ weights).sqrt())


def test_least_norm_is_infinite_when_repeated_inputs_disagree_by_more_than_the_radius():
    r"""Only for a radius other than Eq. (8)'s, which covers what repeats disagree by."""
    problem = make_problem(n=8, duplicates=True, noise_std=0.1)
    halves = problem.Y.reshape(2, 4)
    squared = float(((halves[0] - halves[1]) / 0.1).square().sum() / 2.0)
    state = problem.state
    for factor, infinite in [(0.9, True), (1.1, False)]:
        slack = factor * squared - float(state.quadratic_form(1.0))
        assert math.isinf(least_norm(state, Radius(1.0, slack))) == infinite


@pytest.mark.parametrize("units", ["plain", "standardized"])
@pytest.mark.parametrize("c", [0.3, 1.0])
@pytest.mark.parametrize("case", ["rbf", "matern32", "duplicates", "noise of each"])
def test_least_norm_is_the_cone_program(case, c, units):
    r"""Norms refer to ``f - mean`` in outcome units and to ``model.covar_module``."""
    problem = make_problem(norm=5.0, **CASES.get(case, {"n": 8}))
    model = model_of(problem, units)
    noise = 0.05 + 0.3 * uniform(8, 1, seed=71)[:, 0] if case == "noise of each" else None
    state = KernelRegression.from_model(model, noise)
    K = problem.kernel(problem.X).to_dense()
    deviations = state.train_targets - state.project(problem.X).baseline
    # Eq. (8) for the model's own prior, scale^2 k, but the norm under k itself.
    prior, noise_std = state.outcome_scale**2 * K, state.noise_std
    squared = socp.squared_radius(prior, deviations, noise_std, 0.05, c)
    expected = socp.least_norm(K, deviations, noise_std, squared)
    assert expected > 0.4  # the data say something
    least = least_consistent_norm(model, noise, fit=MartingaleMixture(c))
    assert least == pytest.approx(expected, rel=LEAST_NORM, abs=0.0)


UNKNOWN = {"noise_std": UnknownNoise(0.02, 1.0)}


def srinivas(model, norm_bound=None):
    return SrinivasUCB(model, theorem=BoundedNorm(norm_bound))


BOUNDS = {
    "exact": (MartingaleMixtureUCB, {}),
    "analytic": (MartingaleMixtureUCB, {"form": "analytic"}),
    "convex": (MartingaleMixtureUCB, {"form": "convex"}),
    "unknown noise": (MartingaleMixtureUCB, {"noise_std": UnknownNoise()}),
    "AY": (AbbasiYadkoriUCB, {}),
    "IGP": (IGPUCB, {}),
    "WdF": (WangDeFreitasUCB, {}),
    "Srinivas": (srinivas, {}),
    "streaming": (StreamingKernelUCB, UNKNOWN),
}


@pytest.mark.parametrize("name", BOUNDS)
def test_the_estimate_is_a_norm_bound_like_any_other(problem, name):
    r"""The band is that of the number it reports; only the assumptions differ."""
    acqf_class, options = BOUNDS[name]
    estimated = acqf_class(problem.model, **options)
    tracker = NormTracker()
    acqf_class(problem.model, norm_bound=tracker, **options)
    given = acqf_class(problem.model, norm_bound=float(tracker.norm_bound), **options)
    for one, other in zip(
        estimated.bounds(problem.test_X), given.bounds(problem.test_X), strict=True
    ):
        assert_close(one, other, rtol=REARRANGED, atol=REARRANGED)
    norm = estimated.assumptions["norm"]
    assert norm.status is Status.ESTIMATED
    assert not estimated.assumptions.certified
    assert given.assumptions["norm"].status is Status.GIVEN
    least = f"{tracker.least_consistent_norm:.6g}"
    assert re.search(rf"at most {tracker.norm_bound:.6g}, .* at least {least}", str(norm))


@pytest.mark.parametrize("options", [{"noise_std": 0.1}, UNKNOWN])
def test_thompson_sampling(problem, options):
    tracker = NormTracker()
    sampler = KernelThompsonSampling(problem.model, norm_bound=tracker, **options)
    number = float(tracker.norm_bound)
    given = KernelThompsonSampling(problem.model, norm_bound=number, **options)
    assert sampler.assumptions["norm"].status is Status.ESTIMATED
    assert sampler.inflation_factor == pytest.approx(given.inflation_factor)


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
    assert acqf.least_consistent_norm == math.inf
    assert acqf.assumptions["noise"].status is Status.VIOLATED
    lower, upper = acqf.bounds(problem.test_X)
    assert bool((lower <= upper).all() & torch.isfinite(upper - lower).all())


def test_a_noise_tracker_brings_its_norm_bound(problem):
    noise = StreamingNoiseTracker(norm_bound=7.0, delta=0.0375, **UNKNOWN)
    acqf = StreamingKernelUCB(problem.model, tracker=noise, **UNKNOWN)
    assert acqf.norm_bound == 7.0
    assert acqf.assumptions["norm"].status is Status.GIVEN


def test_without_information_it_is_the_floor():
    problem = make_problem(n=2, norm=1.0, noise_std=50.0)
    assert least_consistent_norm(problem.model) == 0.0
    acqf = MartingaleMixtureUCB(problem.model, norm_bound=NormTracker(floor=2.5))
    assert acqf.norm_bound == pytest.approx(2.5)


def test_it_never_falls_over_rounds(problem):
    r"""A smoother function, an outlier taken back: the least norm falls, the bound not."""
    smooth = frozen_model(problem.X, 0.1 * problem.Y, problem.kernel, 0.1)
    tracker = NormTracker()
    first = tracker.observe(problem.model)
    least = tracker.least_consistent_norm
    assert MartingaleMixtureUCB(smooth).norm_bound < 0.9 * first
    assert MartingaleMixtureUCB(smooth, norm_bound=tracker).norm_bound == first
    assert tracker.least_consistent_norm == least
    resumed = NormTracker()
    resumed.load_state_dict(json.loads(json.dumps(tracker.state_dict())))
    assert resumed.state_dict() == tracker.state_dict()
    with pytest.raises(ValueError, match=r"floor is 2\.0 in the state and 2\.5 here"):
        NormTracker(floor=2.5).load_state_dict(tracker.state_dict())


@pytest.mark.parametrize(
    "options", [{"inflation": 0.9}, {"inflation": math.nan}, {"floor": 0}]
)
def test_wrong_arguments(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        NormTracker(**options)


FORMS = [{}, {"form": Grid()}, {"form": "analytic"}, {"form": "convex"}]


@pytest.fixture
def problem():
    return make_problem(n=12, norm=5.0, seed=5)


def caught(build):
    with warnings.catch_warnings(record=True) as messages:
        warnings.simplefilter("always")
        acqf = build()
    kinds = [m for m in messages if m.category is InconsistentConfidenceSetWarning]
    return acqf, [str(m.message) for m in kinds]


def test_the_relaxed_bound_is_the_one_least_consistent_function(problem):
    r"""At ``B = B_min`` the set is a single function, the ridge estimate of that norm."""
    K, y = problem.kernel(problem.X).to_dense(), problem.Y
    noise = torch.full_like(y, problem.noise_std)
    squared = socp.squared_radius(K, y, noise, 0.05, 1.0)
    low, high = 1e-8, 1e8  # solve ||alpha (K + alpha I)^-1 y||^2 = sigma^2 r^2
    for _ in range(200):
        alpha = (low * high) ** 0.5
        weights = torch.linalg.solve(K + alpha * torch.eye(len(y)).to(K), y)
        small = float((alpha * weights).norm() / problem.noise_std) ** 2 < squared
        low, high = (alpha, high) if small else (low, alpha)
    function = problem.kernel(problem.test_X, problem.X).to_dense() @ weights
    options = {"norm_bound": 0.25, "fit": "martingale"}
    acqf, _ = caught(lambda: MartingaleMixtureUCB(problem.model, **options))
    lower, upper = acqf.bounds(problem.test_X)
    # The norm was widened by 1e-6 of itself, which opens the set by its square root.
    room = 3.0 * (2e-6) ** 0.5 * acqf.norm_bound
    assert bool((lower - SOCP <= function).all() & (function <= upper + SOCP).all())
    assert float((upper - lower).max()) < room


@pytest.mark.parametrize("options", FORMS)
def test_noise_far_too_small_never_crashes(options):
    r"""Repeated inputs that disagree by 1e3 to 1e8 times the noise scale."""
    problem = make_problem(n=8, duplicates=True, noise_std=0.1)
    for noise_std in (1e-4, 1e-9):
        acqf, messages = caught(
            lambda noise_std=noise_std: MartingaleMixtureUCB(
                problem.model, norm_bound=3.0, noise_std=noise_std, **options
            )
        )
        assert len(messages) <= 1
        lower, upper = acqf.bounds(problem.test_X)
        assert bool((lower <= upper).all() & torch.isfinite(lower + upper).all())


def test_a_radius_that_no_norm_can_meet_is_widened():
    r"""Repeats disagree by more than the radius: not with Eq. (8), see the least norm."""
    problem = make_problem(n=8, duplicates=True, noise_std=0.1)
    state = problem.state
    halves = (problem.Y / 0.1).reshape(2, 4)
    smallest = float((halves[0] - halves[1]).square().sum() / 2.0)
    radius = Radius(1.0, 0.5 * smallest - float(state.quadratic_form(1.0)))
    arguments = (state, radius, 3.0, math.inf)
    with pytest.raises(InconsistentConfidenceSetWarning, match="noise_std is too small"):
        consistent_constraints(*arguments)
    with pytest.warns(InconsistentConfidenceSetWarning) as messages:
        relaxed = consistent_constraints(*arguments)
    assert len(messages) == 1
    text = str(messages[0].message)
    assert "norm bound 3, least consistent norm inf" in text
    squared = relaxed.radius.squared(state)
    factor = math.sqrt(squared / radius.squared(state))
    assert f"a fit radius {factor:.3g} times as large" in text
    assert relaxed.norm == 3.0
    assert squared >= smallest
    assert least_norm(state, relaxed.radius) <= 3.0  # and now the set is not empty
    assert least_norm(state, Radius(1.0, relaxed.radius.slack - 0.01 * squared)) > 3.0


def test_a_noise_scale_that_filters_contradict_leaves_flynn_and_reebs_band():
    r"""Their set takes in that the noise is larger; the filters' would be one function."""
    problem = make_problem(n=40, d=2, norm=3.0, noise_std=0.5)
    options = {"norm_bound": 6.0, "noise_std": 0.1}
    acqf, messages = caught(lambda: MartingaleMixtureUCB(problem.model, **options))
    assert len(messages) == 1
    assert "norm at most 6 fits" in messages[0]
    assert "uses Flynn & Reeb's radius instead" in messages[0]
    assert acqf.assumptions["norm"].status is Status.VIOLATED
    assert acqf.norm_bound == pytest.approx(6.0)
    assert acqf.least_consistent_norm > 6.0
    # Its prior weight in the mixture is 0.7.
    theirs = {"fit": "martingale", "delta": 0.7 * 0.05, **options}
    other = MartingaleMixtureUCB(problem.model, **theirs)
    for one, two in zip(
        acqf.bounds(problem.test_X), other.bounds(problem.test_X), strict=True
    ):
        assert_close(one, two, rtol=1e-9, atol=1e-9)
    with pytest.raises(InconsistentConfidenceSetWarning):
        MartingaleMixtureUCB(problem.model, **options)


@pytest.mark.parametrize("units", ["plain", "standardized"])
@pytest.mark.parametrize("options", FORMS)
def test_warns_once_with_both_numbers_and_uses_the_least_norm(problem, options, units):
    model = model_of(problem, units)
    least = least_consistent_norm(model)
    assert least > 0.5
    given = {"norm_bound": 0.5 * float(least), **options}
    acqf, messages = caught(lambda: MartingaleMixtureUCB(model, **given))
    assert len(messages) == 1
    stated = re.escape(f"{0.5 * least:.4g} fits")
    assert re.search(f"norm at most {stated} .* norm is {least:.4g}", messages[0])
    assert acqf.norm_bound == pytest.approx(least, rel=1e-5)
    assert acqf.assumptions["norm"].status is Status.VIOLATED
    assert not acqf.assumptions.certified
    lower, upper = acqf.bounds(problem.test_X)  # warnings are errors here
    assert bool((lower <= upper).all() & torch.isfinite(lower + upper).all())
    with pytest.raises(InconsistentConfidenceSetWarning, match="norm at most"):
        MartingaleMixtureUCB(model, **given)
    accepted = MartingaleMixtureUCB(model, norm_bound=1.01 * float(least))
    assert accepted.assumptions["norm"].status is Status.GIVEN
    assert accepted.least_consistent_norm == pytest.approx(least, rel=REARRANGED)
