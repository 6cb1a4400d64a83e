r"""The Nystrom state and its band: validity, identities, orderings, bookkeeping."""

import copy
import itertools
import math
import pickle
import warnings

import pytest
import torch
from botorch.exceptions import (
    BotorchTensorDimensionError,
    InputDataError,
    UnsupportedError,
)
from botorch.models.transforms import Normalize, Standardize
from botorch.optim import optimize_acqf
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from kernelucb import (
    MartingaleMixture,
    MartingaleMixtureUCB,
    NystromRegression,
    PrequentialRadius,
    SketchedMartingaleMixtureUCB,
)
from kernelucb.confidence.fit.radius import with_energy
from kernelucb.exceptions import (
    InconsistentConfidenceSetWarning,
)
from kernelucb.regression.prior import Prior
from oracles.weak_duality import (
    nystrom_split,
    span_weights,
    split_distance,
    squared_distance,
    weak_dual_bound,
)
from problems import frozen_model, make_problem, normal, uniform
from tolerances import GRADCHECK, ORDER, SKETCH_EQUAL, SKETCH_UPDATE

NORM = 3.0


# Numbers of further points for the remainder; None makes the pass over pairs.
FURTHER = (None, 0, 7)


def sketched(problem, m, further=None, **options):
    if further is not None:
        options["remainder_points"] = problem.X[m : m + further]
    return NystromRegression(
        problem.X, problem.Y, problem.kernel, problem.noise_std, problem.X[:m], **options
    )


def exact_bounds(problem, norm=NORM, **options):
    options = {"fit": "martingale", **options}
    acqf = MartingaleMixtureUCB(problem.state, norm_bound=norm, **options)
    return acqf.bounds(problem.test_X)


def sketched_bounds(state, X, norm=NORM, **options):
    options = {"fit": "martingale", **options}
    return SketchedMartingaleMixtureUCB(state, norm_bound=norm, **options).bounds(X)


@pytest.mark.parametrize("kernel", ["rbf", "matern32", "matern52"])
@pytest.mark.parametrize("further", FURTHER)
@pytest.mark.parametrize("duplicates", [True, False])
def test_equal_to_the_exact_band_where_the_inducing_points_span_the_data(
    kernel, further, duplicates
):
    problem = make_problem(n=40, d=2, kernel=kernel, duplicates=duplicates)
    state = sketched(problem, 40, further)
    ours = sketched_bounds(state, problem.test_X)
    for a, b in zip(ours, exact_bounds(problem), strict=True):
        assert_close(a, b, rtol=0.0, atol=SKETCH_EQUAL * NORM)


@given(
    seed=st.integers(0, 10_000),
    m=st.integers(1, 30),
    kernel=st.sampled_from(["rbf", "matern32", "matern52"]),
    noise=st.sampled_from([0.03, 0.1, 0.5]),
    further=st.sampled_from(FURTHER),
)
def test_never_narrower_than_the_exact_band(seed, m, kernel, noise, further):
    problem = make_problem(n=30, d=2, kernel=kernel, noise_std=noise, seed=seed)
    with warnings.catch_warnings():  # an empty set may happen, with probability delta
        warnings.simplefilter("ignore", InconsistentConfidenceSetWarning)
        lower, upper = exact_bounds(problem)
        low, high = sketched_bounds(sketched(problem, m, further), problem.test_X)
    slack = ORDER * NORM
    assert bool((low <= lower + slack).all())
    assert bool((high >= upper - slack).all())


def test_each_value_is_the_bound_of_explicit_weights():
    r"""Against the oracle's Eq. (1) with (2), and above (1) at the very same weights."""
    problem = make_problem(n=30, d=2, kernel="matern52")
    state, inducing = sketched(problem, 8), problem.X[:8]
    acqf = SketchedMartingaleMixtureUCB(state, norm_bound=NORM)
    radius = acqf.function_constraints.radius.squared(state) ** 0.5
    noise = torch.full((30,), problem.noise_std).double()
    points = acqf.confidence_set.project(problem.test_X)
    support = acqf.confidence_set.support(points, 1)
    for x, tau, value in zip(
        problem.test_X.split(1), support.regularizer, support.value, strict=True
    ):
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


def test_sums_against_dense_matrices():
    problem = make_problem(n=25, d=2, kernel="matern52", duplicates=True)
    state = sketched(problem, 6, chunk_size=4)
    spanned, rest = nystrom_split(problem.kernel, problem.X, problem.X[:6])
    variance = problem.noise_std**2
    z = state.basis(problem.X)
    assert_close(z @ z.mT, spanned)
    weights = torch.cat([z, problem.Y.unsqueeze(-1)], dim=-1) / problem.noise_std
    assert_close(state.sums.gram, weights.mT @ weights)
    assert_close(state.sums.residual, weights.mT @ (rest / variance) @ weights)
    assert float(state.sums.residual_variance.sum()) == pytest.approx(
        float(rest.trace() / variance)
    )
    assert float(state.sums.trace) == pytest.approx(25 / variance)
    assert len(state.sums.inputs) == 13  # distinct ones


@pytest.mark.parametrize("tau", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("m", [1, 5, 20])
def test_evidence_terms_are_upper_bounds(tau, m):
    problem = make_problem(n=20, d=2, kernel="matern32")
    form, log_det = sketched(problem, m).evidence_terms(
        torch.tensor([tau], dtype=torch.float64)
    )
    exact = problem.state
    assert float(form) >= float(exact.quadratic_form(tau)) * (1.0 - ORDER)
    assert float(log_det) >= float(exact.log_det(tau)) * (1.0 - ORDER)
    if m == 20:
        assert float(form) == pytest.approx(float(exact.quadratic_form(tau)), rel=1e-8)
        assert float(log_det) == pytest.approx(float(exact.log_det(tau)), rel=1e-8)


@pytest.mark.parametrize("scale", [0.3, [0.1, 1.0, 10.0], "mixture"])
def test_radius_is_an_upper_bound_on_the_closed_form(scale):
    problem = make_problem(n=20, d=2, kernel="matern32")
    options = {"norm_bound": NORM, "fit": MartingaleMixture(scale)}
    closed = MartingaleMixtureUCB(problem.state, **options)
    squared = closed.function_constraints.radius.squared(problem.state)
    for m in (4, 20):
        state = sketched(problem, m)
        acqf = SketchedMartingaleMixtureUCB(state, **options)
        ours = acqf.function_constraints.radius.squared(state)
        assert ours >= squared * (1.0 - ORDER)
        assert acqf.least_consistent_norm <= closed.least_consistent_norm * (1.0 + 1e-6)
    assert ours == pytest.approx(squared, rel=1e-8)


@pytest.mark.parametrize("further", FURTHER)
def test_wider_with_norm_and_confidence(further):
    problem = make_problem(n=30, d=2, kernel="matern52")
    state = sketched(problem, 8, further)
    settings = [
        {"norm": 3.0, "delta": 0.1},
        {"norm": 3.0, "delta": 0.01},
        {"norm": 6.0, "delta": 0.01},
    ]
    bands = [sketched_bounds(state, problem.test_X, **setting) for setting in settings]
    for (low, high), (lower, higher) in itertools.pairwise(bands):
        assert bool((lower <= low + ORDER).all())
        assert bool((higher >= high - ORDER).all())


def test_more_further_points_are_tighter_and_the_pairs_tightest():
    problem = make_problem(n=40, d=2, kernel="matern32")
    for m in (2, 8, 20):
        states = [sketched(problem, m, further) for further in (None, 40, 12, 4, 0)]
        remainders = [state.remainder for state in states]
        bands = [sketched_bounds(state, problem.test_X[:6]) for state in states]
        widths = [float((high - low).mean()) for low, high in bands]
        assert remainders[0] == pytest.approx(remainders[1], rel=1e-6)
        assert widths[1] <= widths[0] * (1.0 + 1e-6)  # its radius is smaller
        assert all(a < b for a, b in itertools.pairwise(remainders[1:]))
        assert all(a <= b for a, b in itertools.pairwise(widths[1:]))
        assert widths[0] < widths[-1]


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


@pytest.mark.parametrize("further", FURTHER)
@pytest.mark.parametrize("chunk_size", [3, 7, 1000])
def test_observations_may_come_in_parts(further, chunk_size):
    problem = make_problem(n=30, d=2, kernel="matern52", duplicates=True)
    whole = sketched(problem, 5, further)
    parts = NystromRegression(
        problem.X[:11],
        problem.Y[:11],
        problem.kernel,
        problem.noise_std,
        problem.X[:5],
        remainder_points=None if further is None else problem.X[5 : 5 + further],
        chunk_size=chunk_size,
    )
    for rows in (slice(11, 12), slice(12, 30)):
        parts = parts.observe(problem.X[rows], problem.Y[rows])
    assert parts.num_observations == 30
    assert_close(parts.sums.gram, whole.sums.gram)
    ours = sketched_bounds(parts, problem.test_X, fit=zeros_radius(problem))
    theirs = sketched_bounds(whole, problem.test_X, fit=zeros_radius(problem))
    for a, b in zip(ours, theirs, strict=True):
        assert_close(a, b, rtol=0.0, atol=SKETCH_UPDATE * NORM)


def zeros_radius(problem, delta=0.05):
    r"""A prequential radius of the prior's own predictions."""
    radius = PrequentialRadius(delta)
    variance = problem.kernel(problem.X, diag=True)
    radius.observe_predictions(
        torch.zeros_like(problem.Y), variance, problem.Y, problem.noise_std, problem.X
    )
    return radius


def test_prequential_radius_is_used():
    problem = make_problem(n=20, d=2)
    state, radius = sketched(problem, 10), zeros_radius(problem)
    acqf = SketchedMartingaleMixtureUCB(state, norm_bound=NORM, fit=radius)
    assert acqf.function_constraints.radius.squared(state) == pytest.approx(radius.squared)
    for options, message in (
        ({"delta": 0.01}, r"delta is 0\.01, but fit has delta 0\.05"),
    ):
        with pytest.raises(ValueError, match=message):
            SketchedMartingaleMixtureUCB(state, norm_bound=NORM, fit=radius, **options)
    longer = state.observe(problem.X[:1], problem.Y[:1])
    with pytest.raises(ValueError, match="holds 20 observations and the model 21"):
        SketchedMartingaleMixtureUCB(longer, norm_bound=NORM, fit=radius)


def test_a_hundred_thousand_predictions_are_added_in_chunks():
    radius, count = PrequentialRadius(0.05), 100_000
    outcomes = normal(count, 0)
    for rows in torch.arange(count).split(10_000):
        zeros, part = torch.zeros(len(rows)), outcomes[rows]
        radius.observe_predictions(zeros, zeros, part, 1.0, part.unsqueeze(-1))
    assert radius.num_observations == count
    predicted = float(outcomes.square().sum()) + 2.0 * math.log(20.0)
    expected = with_energy(predicted, count, 0.05)
    assert predicted < expected < predicted + 0.45
    assert radius.squared == pytest.approx(expected)


def test_no_block_is_larger_than_a_chunk_allows(monkeypatch):
    r"""Counted at the one place where covariances are computed."""
    n, m, chunk, sizes = 400, 7, 50, []
    problem = make_problem(n=n, d=2, kernel="matern52")
    covariance = Prior.covariance

    def counted(self, left, right):
        sizes.append(len(left) * len(right))
        return covariance(self, left, right)

    monkeypatch.setattr(Prior, "covariance", counted)
    state = sketched(problem, m, chunk_size=chunk)
    state = state.observe(problem.X[:60], problem.Y[:60])
    sketched_bounds(state, problem.test_X)
    assert max(sizes) <= chunk * chunk
    # Symmetry: half of all pairs of blocks, each once.
    assert sum(size == chunk * chunk for size in sizes) <= (n // chunk) * (n // chunk + 3)


@pytest.mark.parametrize("further", FURTHER)
def test_gradients(further):
    problem = make_problem(n=15, d=2, kernel="matern52")
    for maximize in (True, False):
        acqf = SketchedMartingaleMixtureUCB(
            sketched(problem, 5, further), norm_bound=NORM, maximize=maximize
        )
        X = problem.test_X[:6].unsqueeze(-2).requires_grad_(True)
        assert torch.autograd.gradcheck(acqf, X, **GRADCHECK)


def test_optimised_by_botorch():
    problem = make_problem(n=30, d=2, kernel="matern52")
    acqf = SketchedMartingaleMixtureUCB(sketched(problem, 8), norm_bound=NORM)
    bounds = torch.stack([torch.zeros(2), torch.ones(2)]).double()
    candidates, value = optimize_acqf(
        acqf, bounds, q=2, num_restarts=4, raw_samples=64, sequential=True
    )
    grid = uniform(500, 2, 1).unsqueeze(-2)
    assert float(value[0]) >= float(acqf(grid).max()) - 1e-6
    assert float((candidates[0] - candidates[1]).norm()) > 1e-3


@pytest.mark.parametrize("further", FURTHER)
def test_pending_points_narrow_the_scores_and_leave_the_band(further):
    problem = make_problem(n=20, d=2, kernel="matern52")
    acqf = SketchedMartingaleMixtureUCB(sketched(problem, 8, further), norm_bound=NORM)
    before, band = acqf(problem.test_X.unsqueeze(-2)), acqf.bounds(problem.test_X)
    acqf.set_X_pending(problem.test_X[:3])
    after = acqf(problem.test_X.unsqueeze(-2))
    assert bool((after[:3] < before[:3]).all())
    assert_close(acqf.bounds(problem.test_X), band)


@pytest.mark.parametrize("further", FURTHER)
def test_differences_are_bounded_from_above(further):
    problem = make_problem(n=20, d=2, kernel="matern52")
    radius = zeros_radius(problem)
    exact = MartingaleMixtureUCB(
        problem.state.with_noise_std(problem.noise_std), norm_bound=NORM, fit=radius
    )
    ours = SketchedMartingaleMixtureUCB(
        sketched(problem, 6, further), norm_bound=NORM, fit=radius
    )
    reference = problem.X[:1]
    for sign in (1, -1):
        tight = exact.confidence_set.max_gain_over(problem.test_X, reference, sign)
        wide = ours.confidence_set.max_gain_over(problem.test_X, reference, sign)
        assert bool((wide >= tight - ORDER * NORM).all())


@pytest.mark.parametrize("case", ["one", "collinear", "repeated", "equal", "zero"])
def test_edge_cases_stay_valid(case):
    problem = make_problem(n=20, d=2, kernel="matern52")
    inducing = problem.X[:5]
    if case == "one":
        inducing = inducing[:1]
    elif case == "collinear":
        inducing = inducing[:1] + 1e-9 * torch.arange(6).double().unsqueeze(-1)
    elif case == "repeated":
        inducing = inducing[:2].repeat(3, 1)
    elif case == "equal":
        problem.Y = torch.full_like(problem.Y, 0.5)
    else:
        problem.Y = torch.zeros_like(problem.Y)
    state = NystromRegression(problem.X, problem.Y, problem.kernel, 0.1, inducing)
    low, high = sketched_bounds(state, problem.test_X)
    lower, upper = exact_bounds(problem)
    assert bool(torch.isfinite(low).all())
    assert bool((low <= lower + ORDER * NORM).all())
    assert bool((high >= upper - ORDER * NORM).all())
    assert bool((high - low <= 2.0 * NORM + ORDER).all())
    assert bool((state.variance(problem.test_X) >= 0.0).all())


def test_noise_of_each_observation_and_a_mean():
    problem = make_problem(n=20, d=2)
    noise = 0.1 + 0.3 * uniform(20, 1, 5)[:, 0]
    model = frozen_model(problem.X, problem.Y, problem.kernel, noise, mean=0.7)
    state = NystromRegression.from_model(model, problem.X)
    assert state.estimated == frozenset()
    ours = sketched_bounds(state, problem.test_X)
    exact = MartingaleMixtureUCB(model, norm_bound=NORM, fit="martingale")
    theirs = exact.bounds(problem.test_X)
    for a, b in zip(ours, theirs, strict=True):
        assert_close(a, b, rtol=0.0, atol=SKETCH_EQUAL * NORM)
    with pytest.raises(ValueError, match="noise_std is needed"):
        state.observe(problem.X[:1], problem.Y[:1])
    assert len(state.observe(problem.X[:1], problem.Y[:1], 0.2).noise_std) == 21


def test_units_follow_the_models_transforms():
    problem = make_problem(n=20, d=2)
    X, Y = 5.0 * problem.X, 100.0 + 20.0 * problem.Y
    model = frozen_model(
        X,
        Y,
        problem.kernel,
        0.1,
        outcome_transform=Standardize(1),
        input_transform=Normalize(2, bounds=torch.tensor([[0.0] * 2, [5.0] * 2]).double()),
    )
    options = {"norm_bound": 60.0, "fit": "martingale"}
    ours = SketchedMartingaleMixtureUCB(
        NystromRegression.from_model(model, X, noise_std=2.0), **options
    )
    theirs = MartingaleMixtureUCB(model, noise_std=2.0, **options)
    for a, b in zip(
        ours.bounds(5.0 * problem.test_X), theirs.bounds(5.0 * problem.test_X), strict=True
    ):
        assert_close(a, b, rtol=0.0, atol=SKETCH_EQUAL * 60.0)
    assert "mean" in ours.regression.estimated
    assert not ours.assumptions.certified


def test_empty_set_is_reported():
    problem = make_problem(n=30, d=2)
    state = sketched(problem, 15)
    with pytest.warns(InconsistentConfidenceSetWarning):
        acqf = SketchedMartingaleMixtureUCB(state, norm_bound=0.01)
    assert acqf.assumptions.violated
    assert acqf.norm_bound >= acqf.least_consistent_norm > 0.01
    with pytest.raises(InconsistentConfidenceSetWarning):
        SketchedMartingaleMixtureUCB(state, norm_bound=0.01)


def test_copies_and_pickles_agree():
    problem = make_problem(n=20, d=2)
    acqf = SketchedMartingaleMixtureUCB(sketched(problem, 5), norm_bound=NORM)
    X = problem.test_X.unsqueeze(-2)
    for other in (copy.deepcopy(acqf), pickle.loads(pickle.dumps(acqf))):
        assert torch.equal(other(X), acqf(X))


def test_bad_input():
    problem = make_problem(n=5, d=2)
    X, Y, kernel, S = problem.X, problem.Y, problem.kernel, problem.X[:2]
    build = NystromRegression
    with pytest.raises(
        BotorchTensorDimensionError, match="inducing_points must be `b x 2`"
    ):
        build(X, Y, kernel, 0.1, S[:, :1])
    with pytest.raises(BotorchTensorDimensionError, match="must be an inducing point"):
        build(X, Y, kernel, 0.1, S[:0])
    with pytest.raises(InputDataError, match="inducing_points contains NaN"):
        build(X, Y, kernel, 0.1, S * torch.nan)
    with pytest.raises(
        BotorchTensorDimensionError, match="remainder_points must be `b x 2`"
    ):
        build(X, Y, kernel, 0.1, S, remainder_points=S[:, :1])
    with pytest.raises(InputDataError, match="remainder_points contains NaN"):
        build(X, Y, kernel, 0.1, S, remainder_points=S * torch.nan)
    with pytest.raises(InputDataError, match="train_Y contains NaN"):
        build(X, Y * torch.nan, kernel, 0.1, S)
    with pytest.raises(ValueError, match="noise_std must be a finite number above 0"):
        build(X, Y, kernel, 0.0, S)
    with pytest.raises(ValueError, match="chunk_size must be a whole number"):
        build(X, Y, kernel, 0.1, S, chunk_size=0)
    state = build(X, Y, kernel, 0.1, S)
    with pytest.raises(InputDataError, match="train_X contains NaN"):
        state.observe(X * torch.nan, Y)
    with pytest.raises(BotorchTensorDimensionError, match="X must be `b x 2`"):
        state.observe(X[:, :1], Y)
    with pytest.raises(UnsupportedError, match="Expected a NystromRegression"):
        SketchedMartingaleMixtureUCB(problem.model, norm_bound=1.0)
    with pytest.raises(UnsupportedError, match="Expected a BoTorch model"):
        MartingaleMixtureUCB(state, norm_bound=1.0)
    for options in ({"norm_bound": 0.0}, {"norm_bound": 1.0, "delta": 1.0}):
        with pytest.raises(ValueError, match=r"norm_bound|delta"):
            SketchedMartingaleMixtureUCB(state, **options)
