r"""A mixture over covariance scales: its radius, and what it costs."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from kernelucb import (
    Filters,
    Grid,
    KernelRegression,
    MartingaleMixture,
    MartingaleMixtureUCB,
    least_consistent_norm,
)
from kernelucb.confidence.fit.choice import fit_of
from kernelucb.confidence.fit.radius import covariance_scales, mixture_radius
from problems import make_problem
from tolerances import ORDER, POSTERIOR, REARRANGED

FORMS = [{}, {"form": Grid()}, {"form": "analytic"}, {"form": "convex"}]
DELTA = 0.05
scale_lists = st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=6)


def squared_radius(state, scales):
    return mixture_radius(state, DELTA, scales).squared(state)


@pytest.mark.parametrize("options", FORMS)
@pytest.mark.parametrize(
    "scales", [[0.4], (0.4,), torch.tensor([0.4], dtype=torch.float64)]
)
def test_one_scale_is_the_plain_bound(options, scales):
    problem = make_problem(n=12, d=2, kernel="matern52")
    options = {"norm_bound": 3.0, **options}
    plain = MartingaleMixtureUCB(problem.state, fit=Filters(0.4), **options)
    mixed = MartingaleMixtureUCB(problem.state, fit=Filters(scales), **options)
    for ours, theirs in zip(
        mixed.bounds(problem.test_X), plain.bounds(problem.test_X), strict=True
    ):
        assert_close(ours, theirs, rtol=0.0, atol=0.0)


@pytest.mark.parametrize("options", FORMS)
@pytest.mark.parametrize(
    ("kind", "name"), [(Filters, "filters"), (MartingaleMixture, "martingale")]
)
@pytest.mark.parametrize("scale", [None, 0.4, [0.4, 2.0], "mixture"])
def test_a_fit_holds_its_scale(options, kind, name, scale):
    problem, norm = make_problem(n=12, d=2, kernel="matern52"), {"norm_bound": 3.0}
    named = MartingaleMixtureUCB(problem.state, fit=name, **norm, **options)
    one = MartingaleMixtureUCB(problem.state, fit=kind(1.0), **norm, **options)
    for ours, theirs in zip(
        named.bounds(problem.test_X), one.bounds(problem.test_X), strict=True
    ):
        assert_close(ours, theirs, rtol=0.0, atol=0.0)
    assert kind(scale).scales == (covariance_scales(1.0 if scale is None else scale))


@pytest.mark.parametrize("scale", [0.0, -1.0, math.inf, [], [1.0, math.nan]])
def test_scales_of_a_fit_are_positive_numbers(scale):
    with pytest.raises(ValueError, match="covariance_scale must"):
        Filters(covariance_scale=scale)


def test_an_unknown_fit_is_refused():
    with pytest.raises(ValueError, match="fit must be"):
        fit_of("filter")


@given(scales=scale_lists, n=st.integers(1, 30), seed=st.integers(0, 50))
def test_costs_at_most_two_log_of_their_number(scales, n, seed):
    state = make_problem(n=n, d=2, seed=seed).state
    single = [squared_radius(state, scale) for scale in scales]
    mixed = squared_radius(state, scales)
    slack = ORDER * max(single)
    assert mixed <= min(single) + 2.0 * math.log(len(scales)) + slack
    assert mixed >= min(single) - slack


def test_is_the_logarithm_of_the_mean_evidence():
    problem, scales = make_problem(n=20, d=2), [0.1, 1.0, 3.0]
    K, eye = problem.kernel(problem.X).to_dense(), torch.eye(20).double()
    noise = problem.noise_std**2 * eye
    evidence = [
        float(problem.Y @ torch.linalg.solve(noise + c * K, problem.Y))
        + float(torch.linalg.slogdet(eye + c * K / problem.noise_std**2).logabsdet)
        for c in scales
    ]
    mean = sum(math.exp(-0.5 * (a - min(evidence))) for a in evidence) / len(scales)
    expected = min(evidence) - 2.0 * math.log(mean) + 2.0 * math.log(1.0 / DELTA)
    assert squared_radius(problem.state, scales) == pytest.approx(expected, rel=POSTERIOR)


def test_a_repeated_scale_changes_nothing():
    state = make_problem(n=15).state
    assert squared_radius(state, [0.7, 0.7, 0.7]) == pytest.approx(
        squared_radius(state, 0.7), rel=REARRANGED
    )


def test_refers_to_the_scale_that_explains_the_data_best():
    state, scales = make_problem(n=25, d=2, norm=20.0).state, [1e-3, 1.0, 1e2]
    best = min(scales, key=lambda scale: squared_radius(state, scale))
    radius = mixture_radius(state, DELTA, scales)
    assert radius.tau_ref == pytest.approx(1.0 / best)
    options = {"fit": MartingaleMixture(scales), "form": "analytic"}
    acqf = MartingaleMixtureUCB(state, norm_bound=30.0, **options)
    assert acqf.confidence_set.regularizer == pytest.approx(1.0 / best)


def test_nothing_cancels_at_small_noise():
    r"""Evidences of 1e12 whose differences of order one decide."""
    problem = make_problem(n=12, d=2)
    state = KernelRegression(problem.X, problem.Y, problem.kernel, 1e-6)
    scales = [1.0, 1.0 + 1e-9]
    both, one = (mixture_radius(state, DELTA, c) for c in (scales, 1.0))
    assert both.slack == pytest.approx(one.slack, rel=1e-6)


@pytest.mark.parametrize("options", FORMS)
def test_the_default_scales_contain_the_function(options):
    problem = make_problem(n=25, norm=2.0, seed=4)
    acqf = MartingaleMixtureUCB(
        problem.state, norm_bound=2.0, fit=Filters("mixture"), **options
    )
    lower, upper = acqf.bounds(problem.test_X)
    truth = problem.function(problem.test_X)
    assert bool(((lower <= truth) & (truth <= upper)).all())
    assert len(covariance_scales("mixture")) == 17


def test_the_least_consistent_norm_takes_a_mixture():
    problem = make_problem(n=30, norm=20.0, seed=2)
    mixed = least_consistent_norm(problem.state, fit=Filters("mixture"))
    single = [
        least_consistent_norm(problem.state, fit=Filters(c))
        for c in covariance_scales("mixture")
    ]
    # A larger radius consists with smaller norms; 2 ln 17 is little next to a bad scale.
    assert 0.0 < mixed <= max(single)
    assert mixed >= 0.5 * max(single)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("mixtures", 'several or "mixture"'),
        ([], "must hold at least one number"),
        ([1.0, 0.0], "covariance_scale must be a finite number above 0"),
        ([1.0, math.nan], "covariance_scale must be a finite number above 0"),
        (torch.zeros(2), "covariance_scale must be a finite number above 0"),
        ([1.0, "2"], "covariance_scale must be a number"),
    ],
)
def test_wrong_scales(value, message):
    with pytest.raises(ValueError, match=message):
        MartingaleMixtureUCB(make_problem().state, norm_bound=1.0, fit=Filters(value))
