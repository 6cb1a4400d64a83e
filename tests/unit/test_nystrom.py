r"""The Nystrom state and its band: validity, identities, orderings, costs, hard data."""

import warnings

import pytest
import torch
from botorch.models.transforms import Normalize, Standardize
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from kernelucb import (
    MartingaleMixtureUCB,
    NystromRegression,
    PrequentialRadius,
    SketchedMartingaleMixtureUCB,
)
from kernelucb.exceptions import InconsistentConfidenceSetWarning
from oracles.weak_duality import (
    nystrom_split,
    span_weights,
    split_distance,
    squared_distance,
    weak_dual_bound,
)
from problems import (
    frozen_kernel,
    frozen_model,
    generator,
    make_problem,
    normal,
    polynomial_kernels,
    uniform,
)
from tolerances import ORDER, SKETCH_EQUAL, SKETCH_UPDATE

NORM = 3.0
KERNELS = ["rbf", "matern32", "matern52"]
# Numbers of further points for the remainder; None makes the pass over pairs.
FURTHER = (None, 0, 7)


def sketched(problem, m, further=None, **options):
    if further is not None:
        options["remainder_points"] = problem.X[m : m + further]
    return NystromRegression(
        problem.X, problem.Y, problem.kernel, problem.noise_std, problem.X[:m], **options
    )


def exact_band(model, **options):
    options = {"norm_bound": NORM, "fit": "martingale", **options}
    return MartingaleMixtureUCB(model, **options)


def sketched_band(state, **options):
    options = {"norm_bound": NORM, "fit": "martingale", **options}
    return SketchedMartingaleMixtureUCB(state, **options)


def assert_near(ours, theirs, tolerance=SKETCH_EQUAL * NORM):
    assert_close(ours, theirs, rtol=0.0, atol=tolerance)


@pytest.mark.covering(2)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("further", FURTHER)
@pytest.mark.parametrize("duplicates", [True, False])
def test_equal_to_the_exact_band_where_the_inducing_points_span_the_data(
    kernel, further, duplicates
):
    problem = make_problem(n=40, d=2, kernel=kernel, duplicates=duplicates)
    ours, theirs = sketched_band(sketched(problem, 40, further)), exact_band(problem.state)
    assert_near(ours.bounds(problem.test_X), theirs.bounds(problem.test_X))


@pytest.mark.slow
@given(
    seed=st.integers(0, 10_000),
    m=st.integers(1, 30),
    kernel=st.sampled_from(KERNELS),
    noise=st.sampled_from([0.03, 0.1, 0.5]),
    further=st.sampled_from(FURTHER),
)
def test_never_narrower_than_the_exact_band(seed, m, kernel, noise, further):
    problem = make_problem(n=30, d=2, kernel=kernel, noise_std=noise, seed=seed)
    with warnings.catch_warnings():  # an empty set may happen, with probability delta
        warnings.simplefilter("ignore", InconsistentConfidenceSetWarning)
        lower, upper = exact_band(problem.state).bounds(problem.test_X)
        low, high = sketched_band(sketched(problem, m, further)).bounds(problem.test_X)
    slack = ORDER * NORM
    assert bool(((low <= lower + slack) & (high >= upper - slack)).all())


def test_each_value_is_the_bound_of_explicit_weights():
    r"""Against the oracle's Eq. (1) with (2), and above (1) at the very same weights."""
    problem = make_problem(n=30, d=2, kernel="matern52")
    state, inducing = sketched(problem, 8), problem.X[:8]
    band = sketched_band(state, fit="filters").band
    radius = band.function_constraints.radius.squared(state) ** 0.5
    noise = torch.full((30,), problem.noise_std).double()
    points = band.confidence_set.project(problem.test_X)
    values, taus = band.confidence_set.least(points, 1)
    for x, tau, value in zip(problem.test_X.split(1), taus, values, strict=True):
        data = (problem.kernel, problem.X)
        outcomes, rest = (problem.Y, noise), (float(tau), 1.0 + 1.0 / state.split)
        slopes = torch.logspace(-6, 1, 400).double()
        a = span_weights(*data, *outcomes, inducing, x, slopes, *rest)
        split = split_distance(*data, noise, x, a, inducing, state.split)
        true = squared_distance(*data, noise, x, a)
        assert bool((true <= split + ORDER).all())
        bounds = weak_dual_bound(*outcomes, a, radius, NORM, split)
        bound, best = bounds.min(0)
        tighter = weak_dual_bound(*outcomes, a, radius, NORM, true)[best]
        # The grid of slopes, a factor 1.04 apart, is that far from the best one.
        assert float(value) == pytest.approx(float(bound), rel=1e-3)
        assert float(value) >= float(tighter)


@pytest.mark.parametrize("scale", [0.3, [0.1, 1.0, 10.0], "mixture"])
def test_radius_is_an_upper_bound_on_the_closed_form(scale):
    problem = make_problem(n=20, d=2, kernel="matern32")
    closed = exact_band(problem.state, covariance_scale=scale).band
    squared = closed.function_constraints.radius.squared(problem.state)
    for m in (4, 20):
        state = sketched(problem, m)
        band = sketched_band(state, covariance_scale=scale).band
        ours = band.function_constraints.radius.squared(state)
        assert ours >= squared * (1.0 - ORDER)
        assert band.least_norms[0] <= closed.least_norms[0] * (1.0 + 1e-6)
    assert ours == pytest.approx(squared, rel=1e-8)


def test_further_points_against_dense_matrices():
    r"""``A^T E A <= A^T (Q' - Q) A + tr(K - Q')`` with equality in the first part."""
    problem = make_problem(n=25, d=2, kernel="matern52")
    m, variance = 6, problem.noise_std**2
    state = sketched(problem, m, further=9)
    spanned, rest = nystrom_split(problem.kernel, problem.X, problem.X[:m])
    more, left = nystrom_split(problem.kernel, problem.X, problem.X[: m + 9])
    z = state.basis(problem.X)
    weights = torch.cat([z, problem.Y.unsqueeze(-1)], dim=-1) / problem.noise_std
    span = torch.linalg.qr(weights).Q
    bound = span.mT @ (more - spanned) @ span / variance
    bound = bound + torch.eye(len(bound)).double() * left.trace() / variance
    assert state.remainder == pytest.approx(float(torch.linalg.eigvalsh(bound)[-1]))
    exact = span.mT @ rest @ span / variance
    assert float(torch.linalg.eigvalsh(bound - exact)[0]) >= -ORDER


def zeros_radius(problem):
    r"""A prequential radius of the prior's own predictions."""
    radius, zeros = PrequentialRadius(), torch.zeros_like(problem.Y)
    variance, outcomes = problem.kernel(problem.X, diag=True), (problem.Y, 0.1)
    radius.observe_predictions(zeros, variance, *outcomes, problem.X)
    return radius


@pytest.mark.parametrize("further", FURTHER)
@pytest.mark.parametrize("chunk_size", [3, 7, 1000])
def test_observations_may_come_in_parts(further, chunk_size):
    problem = make_problem(n=30, d=2, kernel="matern52", duplicates=True)
    whole, radius = sketched(problem, 5, further), zeros_radius(problem)
    more = None if further is None else problem.X[5 : 5 + further]
    given = problem.kernel, problem.noise_std, problem.X[:5]
    options = {"remainder_points": more, "chunk_size": chunk_size}
    parts = NystromRegression(problem.X[:11], problem.Y[:11], *given, **options)
    for rows in (slice(11, 12), slice(12, 30)):
        parts = parts.observe(problem.X[rows], problem.Y[rows])
    assert parts.num_observations == 30
    assert_close(parts.sums.gram, whole.sums.gram)
    bands = (sketched_band(state, fit=radius) for state in (parts, whole))
    ours, theirs = (band.bounds(problem.test_X) for band in bands)
    assert_near(ours, theirs, SKETCH_UPDATE * NORM)


@pytest.mark.parametrize("further", FURTHER)
def test_differences_are_bounded_from_above(further):
    problem = make_problem(n=20, d=2, kernel="matern52")
    radius = zeros_radius(problem)
    exact = exact_band(problem.state, fit=radius).band.confidence_set
    ours = sketched_band(sketched(problem, 6, further), fit=radius).band.confidence_set
    for sign in (1, -1):
        tight, wide = (
            each.max_gain_over(problem.test_X, problem.X[:1], sign)
            for each in (exact, ours)
        )
        assert bool((wide >= tight - ORDER * NORM).all())


def test_a_model_with_transforms_a_mean_and_noise_of_each_observation():
    problem = make_problem(n=20, d=2)
    X, Y, noise = 5.0 * problem.X, 100.0 + 20.0 * problem.Y, 2.0 + 6.0 * uniform(20, 1, 5)
    scaling = Normalize(2, bounds=torch.tensor([[0.0] * 2, [5.0] * 2]).double())
    transforms = {"outcome_transform": Standardize(1), "input_transform": scaling}
    model = frozen_model(X, Y, problem.kernel, noise[:, 0], mean=0.7, **transforms)
    state, points = NystromRegression.from_model(model, X), 5.0 * problem.test_X
    ours, theirs = sketched_band(state, norm_bound=60.0), exact_band(model, norm_bound=60.0)
    assert_near(ours.bounds(points), theirs.bounds(points), SKETCH_EQUAL * 60.0)
    assert ours.assumptions.estimated == ("mean",)
    assert len(state.observe(X[:1], Y[:1], 0.2).noise_std) == 21


# Hard data.

GROWING = {**polynomial_kernels(), "matern12": frozen_kernel("matern12")}


def truth_of(kernel, scale, seed=0):
    r"""``k(c, .)`` of norm one."""
    centre = scale * (2.0 * uniform(1, 2, seed) - 1.0)
    length = GROWING[kernel](centre, diag=True).sqrt()
    return lambda X: (GROWING[kernel](X, centre).to_dense() / length)[:, 0]


@pytest.mark.covering(2)
@pytest.mark.parametrize("kernel", ["linear", "square", "cube"])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e4])
@pytest.mark.parametrize("further", [None, 0])
def test_inputs_of_any_size(kernel, scale, further):
    r"""Of very different sizes within the data as well."""
    X = scale * (2.0 * uniform(30, 2, 1) - 1.0) * 10.0 ** (-9.0 * uniform(30, 1, 3))
    X = torch.cat([X, torch.zeros(2, 2).double()])
    f, deviation = truth_of(kernel, scale)(X), GROWING[kernel](X, diag=True).sqrt()
    # Above a thousand times the rounding of outcomes, where it is told from that.
    noise, slack = max(1e-3, 1e-12 * float(deviation.max())), SKETCH_EQUAL * deviation
    points = {} if further is None else {"remainder_points": X[:further]}
    for inducing in (X[:1], X[:7], X[-2:], X):
        state = NystromRegression(X, f, GROWING[kernel], noise, inducing, **points)
        band = SketchedMartingaleMixtureUCB(state, norm_bound=1.0)
        lower, upper = band.bounds(X)
        assert bool((lower <= upper).all())
        assert bool(((lower <= f + slack) & (upper >= f - slack)).all())


@pytest.mark.parametrize("kernel", GROWING)
@pytest.mark.parametrize("outcome", [0.0, 1.0])
def test_one_input_in_many_copies(kernel, outcome):
    r"""At the origin too, where linear kernels are zero: sections of no length."""
    points, Y = uniform(5, 2, 7), torch.full((5,), outcome, dtype=torch.float64)
    for X in (torch.zeros(5, 2).double(), uniform(1, 2, 0).expand(5, 2)):
        state = NystromRegression(X, Y, GROWING[kernel], 1.0, X[:2])
        band = sketched_band(state, fit="filters", X_pending=X[:1] + 1.0)
        lower, upper = band.bounds(points)
        assert bool(((lower <= upper) & torch.isfinite(upper - lower)).all())
        assert bool(band(points.unsqueeze(-2)).isfinite().all())
        again = state.observe(uniform(3, 2, 2), normal(3, 4))
        assert bool(again.mean(points).isfinite().all())


def test_duplicates_whose_remainder_is_round_off():
    r"""``a^T E a`` came out below zero, and its root as NaN."""
    for seed in range(40):
        X = uniform(8, 2, seed)[torch.randint(0, 3, (25,), generator=generator(seed))]
        f = truth_of("matern12", 20.0, seed=seed)
        state = NystromRegression(20.0 * X, f(X), GROWING["matern12"], 1e-3, 20.0 * X)
        assert 0.0 < state.split < float("inf")
        lower, upper = SketchedMartingaleMixtureUCB(state, norm_bound=5.0).bounds(X)
        assert bool((lower <= upper).all())


@pytest.mark.parametrize("seed", [10, 46, 53, 78])
def test_noise_scales_far_apart(seed):
    r"""A few observations 1e12 times as precise as others contradict nothing.

    The features they see are nearly collinear, and the sums lost their differences.
    """
    X = 10.0 ** (2.0 * uniform(20, 1, seed) - 1.0)
    noise = 10.0 ** (12.0 * uniform(20, 1, seed + 1000)[:, 0] - 8.0)
    kernel, weights = frozen_kernel("rbf"), normal(3, seed + 5)
    f = 5.0 * kernel(X, X[:3]).to_dense() @ weights
    norm = 5.0 * float((weights @ kernel(X[:3]).to_dense() @ weights).sqrt())
    state = NystromRegression(X, f, kernel, noise, X[5:17])
    band = SketchedMartingaleMixtureUCB(state, norm_bound=norm).band
    assert band.function_constraints.contradiction is None
    lower, upper = band.bounds(X)
    slack = SKETCH_EQUAL * norm
    assert bool((lower <= f + slack).all() and (upper >= f - slack).all())
