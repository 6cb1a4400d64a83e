r"""Laws of order between bounds and under their arguments, at every point tried."""

import math

import torch
from hypothesis import given
from hypothesis import strategies as st

from kernelucb import (
    IGPUCB,
    AbbasiYadkoriUCB,
    Analytic,
    Grid,
    MartingaleMixture,
    MartingaleMixtureUCB,
    NearNormBall,
    least_consistent_norm,
)
from oracles.closed_forms import log_det
from problems import KERNELS, make_problem
from tolerances import ORDER

problems = st.builds(
    make_problem,
    n=st.integers(1, 12),
    d=st.integers(1, 2),
    kernel=st.sampled_from(KERNELS),
    norm=st.floats(0.1, 5.0),
    noise_std=st.floats(0.01, 2.0),
    seed=st.integers(0, 10_000),
    duplicates=st.booleans(),
)
deltas = st.floats(1e-6, 0.9)
scales = st.floats(0.05, 20.0)
factors = st.floats(1.01, 5.0)


def consistent_norm(problem, factor, delta, c=1.0, noise_std=None):
    r"""A norm bound that the data do not contradict."""
    least = least_consistent_norm(
        problem.state, noise_std, delta=delta, fit=MartingaleMixture(c)
    )
    return factor * max(least, problem.function.norm)


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
    norm = consistent_norm(problem, factor, delta, c)
    options = {"norm_bound": norm, "delta": delta, "fit": MartingaleMixture(c)}
    alpha = problem.noise_std**2 / c
    exact = bounds(problem, **options)
    grid = bounds(problem, form=Grid([0.2 * alpha, alpha, 7.0 * alpha]), **options)
    paper = bounds(problem, form=Grid(), **options)
    analytic = bounds(problem, form="analytic", **options)
    ay = bounds(problem, AbbasiYadkoriUCB, norm_bound=norm, delta=delta, alpha=alpha)
    assert_inside(exact, grid, norm)
    assert_inside(exact, paper, norm)
    assert_inside(grid, analytic, norm)
    assert_inside(paper, analytic, norm)
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
    ridge = 1.0 + 2.0 / horizon
    c = problem.noise_std**2 / ridge
    norm = consistent_norm(problem, factor, delta, c)
    analytic = bounds(
        problem, norm_bound=norm, delta=delta, fit=MartingaleMixture(c), form="analytic"
    )
    igp = bounds(problem, IGPUCB, norm_bound=norm, delta=delta, horizon=horizon)
    assert bool((igp[0] < analytic[0]).all() & (analytic[1] < igp[1]).all())


@given(problems, deltas, scales, factors)
def test_lower_below_upper_and_within_the_norm_ball(problem, delta, c, factor):
    norm = consistent_norm(problem, factor, delta, c)
    band = bounds(problem, norm_bound=norm, delta=delta, fit=MartingaleMixture(c))
    assert bool((band[0] <= band[1]).all())
    ball = torch.full_like(band[0], norm)  # k(x, x) = 1
    assert_inside(band, (-ball, ball), norm)


@given(problems, deltas, scales, factors)
def test_true_function_inside_when_the_set_contains_it(problem, delta, c, factor):
    norm = consistent_norm(problem, factor, delta, c)
    options = {"delta": delta, "fit": MartingaleMixture(c)}
    acqf = MartingaleMixtureUCB(problem.state, norm_bound=norm, **options)
    residual = (problem.function(problem.X) - problem.Y) / problem.noise_std
    radius = acqf.function_constraints.radius.squared(acqf.regression)
    if residual.square().sum() <= radius:
        truth = problem.function(problem.test_X)
        assert_inside((truth, truth), acqf.bounds(problem.test_X), norm)


@given(problems, deltas, st.floats(0.1, 0.99), scales, factors)
def test_more_confidence_is_a_wider_band(problem, delta, share, c, factor):
    norm = consistent_norm(problem, factor, delta, c)
    for options in ({}, {"form": Grid()}, {"form": "analytic"}):
        options = {"norm_bound": norm, "fit": MartingaleMixture(c), **options}
        narrow = bounds(problem, delta=delta, **options)
        assert_inside(narrow, bounds(problem, delta=share * delta, **options), norm)
    for baseline in (AbbasiYadkoriUCB, IGPUCB):
        narrow = bounds(problem, baseline, norm_bound=norm, delta=delta)
        wide = bounds(problem, baseline, norm_bound=norm, delta=share * delta)
        assert_inside(narrow, wide, norm)


@given(problems, deltas, scales, factors, factors)
def test_a_larger_norm_is_a_wider_band(problem, delta, c, factor, growth):
    norm = consistent_norm(problem, factor, delta, c)
    for options in ({}, {"form": Grid()}, {"form": "analytic"}):
        options = {"delta": delta, "fit": MartingaleMixture(c), **options}
        narrow = bounds(problem, norm_bound=norm, **options)
        wide = bounds(problem, norm_bound=growth * norm, **options)
        assert_inside(narrow, wide, growth * norm)


@given(problems, deltas, factors, st.floats(0.0, 1.0), st.floats(1e-3, 1.0))
def test_a_larger_model_error_is_a_wider_band(problem, delta, factor, error, more):
    r"""By the difference on either side at least, and the least norm is smaller."""
    norm = consistent_norm(problem, factor, delta)
    for options in ({}, {"form": Grid()}, {"form": "analytic"}):
        options = {"delta": delta, **options}
        lower, upper = bounds(problem, norm_bound=NearNormBall(norm, error), **options)
        wide = bounds(problem, norm_bound=NearNormBall(norm, error + more), **options)
        assert_inside((lower - more, upper + more), wide, norm)
    norms = [
        least_consistent_norm(
            problem.state, delta=delta, fit="martingale", model_error=size
        )
        for size in (error, error + more)
    ]
    assert norms[1] <= norms[0] + ORDER * norm


@given(problems, deltas, scales, factors, factors)
def test_a_larger_noise_scale_is_a_wider_band(problem, delta, c, factor, growth):
    r"""In outcome units the radius grows with the noise scale: with ``v = sigma^2``,
    ``z^2 v / (v + c lam)``, ``v ln(1 + c lam / v)`` and ``v ln(1/delta)`` all do. At
    fixed ridge parameters so do the grid and analytic bounds; with the default ones,
    which move with the noise, nothing of the kind holds.
    """
    noise = problem.noise_std
    norm = consistent_norm(problem, factor, delta, c)
    for options in (
        {},
        {"form": Grid([0.1 * noise**2, noise**2])},
        {"form": Analytic(noise**2)},
    ):
        options = {
            "norm_bound": norm,
            "delta": delta,
            "fit": MartingaleMixture(c),
            **options,
        }
        narrow = bounds(problem, noise_std=noise, **options)
        assert_inside(narrow, bounds(problem, noise_std=growth * noise, **options), norm)


@given(problems, st.floats(0.01, 0.9), scales)
def test_least_norm_grows_with_delta_and_falls_with_noise(problem, delta, c):
    r"""A smaller set is farther from zero."""

    def least(noise_std, delta):
        return least_consistent_norm(
            problem.state, noise_std, delta=delta, fit=MartingaleMixture(c)
        )

    base, slack = least(problem.noise_std, delta), ORDER * problem.function.norm
    assert least(problem.noise_std, 0.3 * delta) <= base + slack
    assert least(2.0 * problem.noise_std, delta) <= base + slack
