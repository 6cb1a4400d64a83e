r"""No function fits the assumptions: said once, with both numbers, never a crash."""

import math
import re
import warnings

import pytest
import torch
from botorch.models.transforms.outcome import Standardize
from torch.testing import assert_close

from kernelucb import Grid, MartingaleMixtureUCB, least_consistent_norm
from kernelucb.confidence.assumptions import Status
from kernelucb.confidence.fit.radius import Radius
from kernelucb.confidence.martingale_mixture.problem import consistent_constraints
from kernelucb.confidence.norm.least import least_norm
from kernelucb.exceptions import (
    InconsistentConfidenceSetWarning,
)
from oracles import socp
from problems import frozen_model, make_problem
from tolerances import SOCP

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


@pytest.mark.parametrize("options", FORMS)
def test_warns_once_with_both_numbers_and_uses_the_least_norm(problem, options):
    least = least_consistent_norm(problem.model)
    assert least > 0.5
    acqf, messages = caught(
        lambda: MartingaleMixtureUCB(problem.model, norm_bound=0.25, **options)
    )
    assert len(messages) == 1
    assert re.search(f"norm at most 0.25 .* norm is {least:.4g}", messages[0])
    assert acqf.norm_bound == pytest.approx(least, rel=1e-5)
    assert acqf.assumptions["norm"].status is Status.VIOLATED
    assert not acqf.assumptions.certified
    lower, upper = acqf.bounds(problem.test_X)  # warnings are errors here
    assert bool((lower <= upper).all() & torch.isfinite(lower + upper).all())


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
def test_a_warning_filter_raises(problem, options):
    with pytest.raises(InconsistentConfidenceSetWarning, match=r"norm at most 0\.25 "):
        MartingaleMixtureUCB(problem.model, norm_bound=0.25, **options)


def test_a_consistent_norm_is_accepted(problem):
    least = float(least_consistent_norm(problem.model))  # stated by hand, to be given
    acqf = MartingaleMixtureUCB(problem.model, norm_bound=1.01 * least)
    assert acqf.assumptions["norm"].status is Status.GIVEN


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


def test_numbers_are_in_outcome_units():
    problem = make_problem(n=12, norm=5.0, seed=5)
    model = frozen_model(
        problem.X,
        100.0 * problem.Y,
        problem.kernel,
        0.05,
        outcome_transform=Standardize(m=1),
    )
    least = least_consistent_norm(model)
    acqf, messages = caught(lambda: MartingaleMixtureUCB(model, norm_bound=0.5 * least))
    assert f"at most {0.5 * least:.4g} fits" in messages[0]
    assert f"least consistent norm is {least:.4g}" in messages[0]
    assert acqf.norm_bound == pytest.approx(least, rel=1e-5, abs=0.0)


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
