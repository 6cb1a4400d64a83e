r"""Laws of order between bounds and under their arguments, at every point tried."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kernelucb import (
    IGPUCB,
    AbbasiYadkoriUCB,
    MartingaleMixtureUCB,
    NearNormBall,
    least_consistent_norm,
)
from kernelucb.confidence.fit import fit_of
from oracles.closed_forms import log_det
from problems import KERNELS, make_problem, uniform
from tolerances import ORDER

some_problems = {
    "kernel": st.sampled_from(KERNELS),
    "seed": st.integers(0, 10_000),
    "duplicates": st.booleans(),
}
problems = st.builds(
    make_problem,
    n=st.integers(1, 12),
    d=st.integers(1, 2),
    norm=st.floats(0.1, 5.0),
    noise_std=st.floats(0.01, 2.0),
    **some_problems,
)
larger_problems = st.builds(
    make_problem,
    n=st.integers(1, 40),
    d=st.integers(1, 4),
    norm=st.floats(1.0, 10.0),
    noise_std=st.floats(0.02, 1.0),
    **some_problems,
)
deltas, usual_deltas = st.floats(1e-6, 0.9), st.floats(1e-4, 0.05)
scales = st.floats(0.05, 20.0)
factors, larger_factors = st.floats(1.01, 5.0), st.floats(1.2, 3.0)
FORMS = ({}, {"form": "grid"}, {"form": "analytic"})

# The weights of a mixture of filters are within 2 % of the best for any one set, so laws
# of the whole mixture hold for the chosen ellipsoid up to that.
WEIGHTS = 0.02


def consistent_norm(problem, factor, delta, *fits):
    r"""A norm bound that the data do not contradict."""
    norms = [
        least_consistent_norm(problem.state, delta=delta, fit=fit)
        for fit in fits or ("martingale",)
    ]
    return factor * max(*norms, problem.function.norm)


def bounds(problem, acqf_class=MartingaleMixtureUCB, **options):
    if acqf_class is MartingaleMixtureUCB:
        options.setdefault("fit", "martingale")
    return acqf_class(problem.state, **options).bounds(problem.test_X)


def assert_inside(inner, outer, half_width):
    r"""The inner band within the outer one, up to round-off of the half-width."""
    slack = ORDER * half_width
    assert bool((outer[0] - slack <= inner[0]).all())
    assert bool((inner[1] <= outer[1] + slack).all())


@given(problems, deltas, scales, factors)
def test_exact_within_grid_within_analytic_within_abbasi_yadkori(problem, delta, c, factor):
    r"""Flynn & Reeb (2024), Theorem 6.3; the grid contains the analytic alpha."""
    fit = fit_of("martingale", c)
    norm = consistent_norm(problem, factor, delta, fit)
    options = {"norm_bound": norm, "delta": delta, "fit": fit}
    alpha = problem.noise_std**2 / c
    exact, paper, analytic = (bounds(problem, **options, **form) for form in FORMS)
    grid = bounds(problem, form=[0.2 * alpha, alpha, 7.0 * alpha], **options)
    ay = bounds(problem, AbbasiYadkoriUCB, norm_bound=norm, delta=delta, alpha=alpha)
    for middle in (grid, paper):
        assert_inside(exact, middle, norm)
        assert_inside(middle, analytic, norm)
    ball = torch.full_like(exact[0], norm)  # k(x, x) = 1
    assert_inside(exact, (-ball, ball), norm)
    assert bool((exact[0] <= exact[1]).all())
    # Strictly: sqrt(a^2 + B^2) < a + B, by a margin that both widths share.
    noise_part = math.sqrt(
        c * log_det(problem.kernel(problem.X).to_dense(), alpha)
        + 2.0 * c * math.log(1.0 / delta)
    )
    ratio = math.hypot(noise_part, norm) / (noise_part + norm)
    assert ratio < 1.0
    half, ay_half = ((upper - lower) / 2.0 for lower, upper in (analytic, ay))
    assert bool(((half - ratio * ay_half).abs() <= 1e-9 * ay_half).all())


@given(problems, deltas, factors, st.integers(12, 5000))
def test_analytic_within_improved_gp_ucb(problem, delta, factor, horizon):
    r"""At ``alpha = 1 + eta``, that is ``c = sigma^2 / (1 + eta)``."""
    fit = fit_of("martingale", problem.noise_std**2 / (1.0 + 2.0 / horizon))
    norm = consistent_norm(problem, factor, delta, fit)
    options = {"norm_bound": norm, "delta": delta}
    analytic = bounds(problem, fit=fit, form="analytic", **options)
    igp = bounds(problem, IGPUCB, horizon=horizon, **options)
    assert bool((igp[0] < analytic[0]).all() & (analytic[1] < igp[1]).all())


@pytest.mark.parametrize("fit", ["filters", "martingale"])
@given(larger_problems, usual_deltas, larger_factors)
def test_the_truth_is_inside_where_the_set_holds_it(fit, problem, delta, factor):
    r"""Then the least norm is at most the true one as well."""
    norm = consistent_norm(problem, factor, delta, fit)
    acqf = MartingaleMixtureUCB(problem.state, norm_bound=norm, delta=delta, fit=fit)
    counted = acqf.band.confidence_set.regression
    residuals = (problem.Y - problem.function(problem.X)) / problem.noise_std
    # No direction counts more than once.
    if float(residuals @ residuals) <= acqf.band.function_constraints.radius.squared(
        counted
    ):
        truth = problem.function(problem.test_X)
        assert_inside((truth, truth), acqf.bounds(problem.test_X), norm)
        assert acqf.band.least_norms[0] <= problem.function.norm * (1.0 + 1e-6)


# Fifteen bands for each example: a second.
@given(problems, deltas, st.floats(0.1, 0.99), scales, factors, factors)
def test_more_confidence_or_norm_is_a_wider_band(problem, delta, share, c, factor, growth):
    fit = fit_of("martingale", c)
    norm = consistent_norm(problem, factor, delta, fit)
    kinds = [{"fit": fit, **form} for form in FORMS]
    kinds += [{"acqf_class": AbbasiYadkoriUCB}, {"acqf_class": IGPUCB}]
    for kind in kinds:
        narrow = bounds(problem, norm_bound=norm, delta=delta, **kind)
        sure = bounds(problem, norm_bound=norm, delta=share * delta, **kind)
        large = bounds(problem, norm_bound=growth * norm, delta=delta, **kind)
        assert_inside(narrow, sure, norm)
        assert_inside(narrow, large, growth * norm)


@given(problems, deltas, factors, st.floats(0.0, 1.0), st.floats(1e-3, 1.0))
def test_a_larger_model_error_is_a_wider_band(problem, delta, factor, error, more):
    r"""By the difference on either side at least, and the least norm is smaller."""
    norm, sizes = consistent_norm(problem, factor, delta), (error, error + more)
    for form in FORMS:
        (lower, upper), wide = (
            bounds(problem, norm_bound=NearNormBall(norm, size), delta=delta, **form)
            for size in sizes
        )
        assert_inside((lower - more, upper + more), wide, norm)
    options = {"delta": delta, "fit": "martingale"}
    options["model"] = problem.state
    least, smaller = (
        float(least_consistent_norm(**options, model_error=size)) for size in sizes
    )
    assert smaller <= least + ORDER * norm


@given(problems, deltas, scales, factors, factors)
def test_a_larger_noise_scale_is_a_wider_band(problem, delta, c, factor, growth):
    r"""In outcome units the radius grows with the noise scale: with ``v = sigma^2``,
    ``z^2 v / (v + c lam)``, ``v ln(1 + c lam / v)`` and ``v ln(1/delta)`` all do. At
    fixed ridge parameters so do the grid and analytic bounds; with the default ones,
    which move with the noise, nothing of the kind holds.
    """
    noise, fit = problem.noise_std, fit_of("martingale", c)
    norm = consistent_norm(problem, factor, delta, fit)
    options = {"norm_bound": norm, "delta": delta, "fit": fit}
    for form in ("dual", [0.1 * noise**2, noise**2], noise**2):
        narrow, wide = (
            bounds(problem, noise_std=scale * noise, form=form, **options)
            for scale in (1.0, growth)
        )
        assert_inside(narrow, wide, norm)


@given(problems, st.floats(0.01, 0.9), scales)
def test_least_norm_grows_with_delta_and_falls_with_noise(problem, delta, c):
    r"""A smaller set is farther from zero."""

    def least(noise_std, delta):
        fit = fit_of("martingale", c)
        return float(least_consistent_norm(problem.state, noise_std, delta=delta, fit=fit))

    base, slack = least(problem.noise_std, delta), ORDER * problem.function.norm
    assert least(problem.noise_std, 0.3 * delta) <= base + slack
    assert least(2.0 * problem.noise_std, delta) <= base + slack


# The mixture of filters.


def mean_width(problem, X, norm, delta, fit="filters"):
    options = {"norm_bound": norm, "delta": delta, "fit": fit}
    lower, upper = MartingaleMixtureUCB(problem.state, **options).bounds(X)
    return float((upper - lower).mean())


# Twelve bands for each example: half a second.
@given(
    *(larger_problems, usual_deltas, larger_factors),
    *(st.floats(0.1, 0.9), st.floats(0.0, 1.0), st.floats(0.01, 1.0)),
)
def test_filters_are_in_the_same_order(problem, delta, factor, share, error, more):
    r"""Forms always; delta and model error up to the choice of the weights; and hardly ever
    is the band wider than Flynn & Reeb's."""
    norm = consistent_norm(problem, factor, delta, "filters", "martingale")
    options = {"norm_bound": norm, "delta": delta, "fit": "filters"}
    exact, grid, analytic = (bounds(problem, **options, **form) for form in FORMS)
    assert_inside(exact, grid, norm)
    assert_inside(grid, analytic, norm)
    X, near = uniform(60, problem.X.shape[1], 3), problem.test_X
    theirs = mean_width(problem, X, norm, delta, "martingale")
    assert mean_width(problem, X, norm, delta) <= 1.03 * theirs
    narrow = mean_width(problem, near, norm, delta)
    assert narrow <= (1.0 + WEIGHTS) * mean_width(problem, near, norm, share * delta)
    small, large = (
        mean_width(problem, near, NearNormBall(norm, size), delta)
        for size in (error, error + more)
    )
    assert small <= (1.0 + WEIGHTS) * large
