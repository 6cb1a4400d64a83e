r"""Level sets, failure probabilities and the next run for a level."""

import pytest
import torch
from botorch.exceptions import UnsupportedError
from botorch.models.transforms.outcome import Log
from botorch.optim import optimize_acqf
from gpytorch.kernels import PeriodicKernel
from scipy.stats import binom, binomtest

from kernelucb import (
    ConstrainedUCB,
    KernelFamilyUCB,
    KernelRegression,
    LevelSetAmbiguity,
    MartingaleMixtureUCB,
    MixedSpace,
    OutcomeConstraints,
    ParetoWidth,
    failure_probability,
    level_set,
)
from problems import float64, frozen_kernel, frozen_model, generator, make_problem, uniform

SQUARE = float64([[0.0, 0.0], [1.0, 1.0]])
LEVEL = 0.2


def problem(seed=1, n=60, **options):
    options = {"d": 2, "norm": 2.0, "noise_std": 0.02, **options}
    made = make_problem(n=n, seed=seed, **options)
    return made, MartingaleMixtureUCB(made.model, norm_bound=options["norm"]).band


@pytest.mark.parametrize("side", [">=", "<="])
def test_candidates_are_sorted_by_the_sides_of_the_band(side):
    made, band = problem()
    X = uniform(300, 2, 5)
    found = level_set(band, LEVEL, X, side=side)
    lower, upper = band.bounds(X)
    above, below = (lower >= LEVEL).int(), (upper < LEVEL).int()
    if side == "<=":
        above, below = (upper <= LEVEL).int(), (lower > LEVEL).int()
    assert torch.equal(found.status, above - below)
    assert {-1, 0, 1} == set(found.status.tolist())
    assert found.inside + found.outside + found.open == pytest.approx(1.0)
    truth = made.function(X) * (1.0 if side == ">=" else -1.0)
    level = LEVEL if side == ">=" else -LEVEL
    assert bool((truth[found.status == 1] >= level).all())
    assert bool((truth[found.status == -1] < level).all())


@pytest.mark.representatives("rbf")
@pytest.mark.parametrize("kernel", ["rbf", "matern32"])
def test_boxes_cover_the_domain_once_and_each_point_is_what_its_box_says(kernel):
    _, band = problem(kernel=kernel)
    found = level_set(band, LEVEL, bounds=SQUARE, max_evaluations=2_000)
    X = uniform(2_000, 2, 7)
    inside = ((found.lower <= X[:, None]) & (X[:, None] <= found.upper)).all(-1)
    assert bool((inside.sum(1) == 1).all())
    status = found.status[inside.int().argmax(1)]
    lower, upper = band.bounds(X)
    assert bool((lower[status == 1] >= LEVEL).all())
    assert bool((upper[status == -1] < LEVEL).all())
    sides = (found.upper - found.lower).prod(-1)
    assert torch.allclose(found.shares, sides)
    assert float(found.shares.sum()) == pytest.approx(1.0)
    # Open parts shrink to what the band itself leaves open, and say what is missing.
    more = level_set(band, LEVEL, bounds=SQUARE, max_evaluations=8_000)
    itself = float(((lower < LEVEL) & (upper >= LEVEL)).double().mean())
    assert itself - 0.03 < more.open < found.open
    assert 0.0 < more.unresolved < found.unresolved
    assert more.open - more.unresolved < itself + 0.03
    assert f"{more.unresolved:.2%} for want of evaluations" in str(more)


def test_listed_values_and_contexts_are_boxes_of_their_own():
    _, band = problem()
    space = MixedSpace(SQUARE, discrete_dims={1: [0.1, 0.5, 0.9]})
    found = level_set(band, LEVEL, space=space, max_evaluations=1_000)
    assert {0.1, 0.5, 0.9} == set(found.lower[:, 1].tolist())
    assert float(found.shares.sum()) == pytest.approx(1.0)
    one = level_set(
        band, LEVEL, bounds=SQUARE, fixed_features={1: 0.5}, max_evaluations=400
    )
    third = found.shares[found.lower[:, 1] == 0.5]
    assert float(third.sum()) == pytest.approx(1.0 / 3.0)
    line = torch.stack([torch.linspace(0, 1, 501).double(), torch.full((501,), 0.5)], 1)
    listed = level_set(band, LEVEL, line.double())
    assert one.inside == pytest.approx(listed.inside, abs=0.02)
    assert "in this context" in str(one)
    one_row = (torch.tensor([0, 1]), float64([1.0, 1.0]), 0.5)
    constrained = MixedSpace(SQUARE, inequality_constraints=[one_row])
    with pytest.raises(UnsupportedError, match="give candidates"):
        level_set(band, LEVEL, space=constrained)


def test_several_outcomes_count_where_all_limits_are_kept():
    (_, first), (_, second) = problem(1), problem(2)
    limits = OutcomeConstraints(
        [first, second], [LEVEL, 0.4], sides=[">=", "<="], names=["yield", "cost"]
    )
    X = uniform(300, 2, 5)
    both, one = level_set(limits, candidates=X), level_set(first, LEVEL, X)
    other = level_set(second, 0.4, X, side="<=")
    assert torch.equal(both.status == 1, (one.status == 1) & (other.status == 1))
    assert torch.equal(both.status == -1, (one.status == -1) | (other.status == -1))
    boxes = level_set(limits, bounds=SQUARE, max_evaluations=4_000)
    assert boxes.inside <= both.inside + 0.05
    assert "yield is at least 0.2 and cost is at most 0.4" in str(both)
    assert both.assumptions.delta == pytest.approx(0.1)
    with pytest.raises(ValueError, match="leave threshold out"):
        level_set(limits, 0.1, X)
    with pytest.raises(ValueError, match="Give the threshold"):
        level_set(first, candidates=X)


def test_transformed_outcomes_have_their_thresholds_in_outcome_units():
    made, _ = problem()
    model = frozen_model(
        made.X, made.Y.exp(), frozen_kernel("rbf"), 0.02, outcome_transform=Log()
    )
    band = MartingaleMixtureUCB(model, norm_bound=2.0).band
    X, level = uniform(200, 2, 5), float(float64(LEVEL).exp())
    lower, upper = band.bounds(X)
    found = level_set(band, level, X)
    assert torch.equal(found.status, (lower >= level).int() - (upper < level).int())
    ambiguity = LevelSetAmbiguity(band, level)(X.unsqueeze(1))
    assert torch.equal(ambiguity >= 0.0, found.status == 0)


def test_a_kernel_without_bounded_changes_needs_candidates():
    made, _ = problem()
    kernel = PeriodicKernel().double().requires_grad_(False)
    state = KernelRegression(made.X, made.Y, kernel, 0.02)
    band = MartingaleMixtureUCB(state, norm_bound=90.0).band
    with pytest.raises(UnsupportedError, match="give candidates"):
        level_set(band, LEVEL, bounds=SQUARE)
    assert level_set(band, LEVEL, made.X).open >= 0.0


def test_limits_on_a_failure_are_exact_binomial_ones():
    made, together = problem(norm=3.0, seed=4)
    X = uniform(500, 2, 9)
    # Of the closed form each point counts by itself.
    band = MartingaleMixtureUCB(made.model, norm_bound=3.0, form="analytic").band
    found = failure_probability(band, LEVEL, X, sample_delta=0.02)
    lower, upper = band.bounds(X)
    surely, possibly = int((upper < LEVEL).sum()), int((lower < LEVEL).sum())
    assert 0 < surely < possibly < 500
    exact = [binomtest(k, 500).proportion_ci(0.98, "exact") for k in (surely, possibly)]
    assert found.lower == pytest.approx(exact[0].low)
    assert found.upper == pytest.approx(exact[1].high)
    assert found.assumptions.delta == pytest.approx(0.07)
    assert "with probability 0.93" in str(found)
    assert "[given] the 500 points of the sample are independent draws" in str(found)
    narrow = failure_probability(together, LEVEL, X, sample_delta=0.02)
    counts = OutcomeConstraints(together, LEVEL).num_failing(X)
    exact = [binomtest(k, 500).proportion_ci(0.98, "exact") for k in counts]
    assert narrow.lower == pytest.approx(exact[0].low)
    assert narrow.upper == pytest.approx(exact[1].high)
    lower, upper = together.bounds(X)
    alone = int((upper < LEVEL).sum()), int((lower < LEVEL).sum())
    assert alone[0] <= counts[0] <= counts[1] <= alone[1]
    assert counts != alone


def test_certain_failures_and_none_have_limits_too():
    _, band = problem()
    X = uniform(50, 2, 9)
    never, always = (failure_probability(band, x, X) for x in (-50.0, 50.0))
    assert (never.lower, always.upper) == (0.0, 1.0)
    assert never.upper == pytest.approx(1.0 - 0.005 ** (1 / 50))
    assert always.lower == pytest.approx(0.005 ** (1 / 50))


@pytest.mark.slow
def test_one_sample_serves_all_rounds():
    r"""Runs are chosen from the sample, and every round is looked at.

    100 sequences, delta .05 of the band and .2 of the sample: more than 40 false intervals
    have probability below 1e-3 where 25 % may fail; a share without the binomial limit, of
    20 draws, fails nearly always (the power of this test).
    """
    missed = naive = 0
    for seed in range(100):
        made, _ = problem(seed=seed, n=3)
        sample = uniform(20, 2, 1000 + seed)
        truth = made.function(uniform(20_000, 2, 77))
        level = float(truth.quantile(0.3))
        share = float((truth < level).double().mean())
        rows = torch.randint(20, (25,), generator=generator(seed))
        X = torch.cat([made.X, sample[rows]])
        noise = 0.02 * torch.randn(len(X), generator=generator(seed), dtype=torch.float64)
        Y = made.function(X) + noise
        found = []
        for count in (10, 28):
            state = KernelRegression(X[:count], Y[:count], made.kernel, 0.02)
            band = MartingaleMixtureUCB(state, norm_bound=2.0)
            found.append(failure_probability(band, level, sample, sample_delta=0.2))
        missed += any(not x.lower <= share <= x.upper for x in found)
        naive += any(not x.surely <= share <= x.possibly for x in found)
    assert binom.sf(40, 100, 0.25) < 1e-3
    assert missed <= 40
    assert naive > 40


def test_an_ambiguity_is_no_upper_bound_where_one_is_asked_for():
    _, band = problem()
    limits, X = OutcomeConstraints(band, -9.0), uniform(20, 2, 5).unsqueeze(1)
    by_band, by_function = (
        ConstrainedUCB(each, limits)(X) for each in (band, LevelSetAmbiguity(band, LEVEL))
    )
    assert torch.equal(by_band, by_function)


@pytest.mark.parametrize("every", [1, 8, None])
def test_of_a_family_all_kernels_count_whatever_it_searches(every):
    made, _ = problem(n=13)
    kernels = [made.kernel, frozen_kernel("rbf", lengthscale=0.15)]
    band = KernelFamilyUCB(
        made.model, kernels, norm_bound=[2.0, 4.0], widest_every=every
    ).band
    X = uniform(60, 2, 5)
    lower, upper = band.bounds(X)
    ambiguity = LevelSetAmbiguity(band, LEVEL)(X.unsqueeze(1))
    assert torch.allclose(ambiguity, torch.minimum(upper - LEVEL, LEVEL - lower))
    width = ParetoWidth([band, band], 0.5)(X.unsqueeze(1))
    assert torch.allclose(width, (upper - lower) / 0.5)


def test_failure_probabilities_add_up_to_less_than_one():
    _, band = problem()
    with pytest.raises(ValueError, match="sample_delta"):
        failure_probability(band.at(delta=0.5), LEVEL, uniform(9, 2, 1), sample_delta=0.6)


@pytest.mark.slow
def test_the_next_run_is_where_the_band_reaches_to_both_sides():
    _, band = problem()
    acqf = LevelSetAmbiguity(band, LEVEL)
    X = uniform(200, 2, 5)
    lower, upper = band.bounds(X)
    values = acqf(X.unsqueeze(1))
    assert torch.allclose(values, torch.minimum(upper - LEVEL, LEVEL - lower))
    assert torch.equal(acqf.majorant(X.unsqueeze(1)), values)
    points, _ = optimize_acqf(
        acqf, SQUARE, q=2, num_restarts=2, raw_samples=32, sequential=True
    )
    assert float((points[0] - points[1]).norm()) > 0.05
    pending = LevelSetAmbiguity(band, LEVEL, X_pending=points[:1])
    assert float(pending(points[:1].unsqueeze(1))) < float(acqf(points[:1].unsqueeze(1)))
    # A smaller level for small outcomes is the same set of open points.
    assert torch.equal(values >= 0.0, level_set(band, LEVEL, X).status == 0)
    assert acqf.bounds(X)[0].equal(lower)


def test_sentences_have_names_and_units():
    _, band = problem()
    X, named = uniform(50, 2, 5), {"outcome": "yield", "units": {"yield": "%", "heat": "C"}}
    found = level_set(band, LEVEL, X, **named)
    assert found.sentence.startswith("yield is at least 0.2 % in at least ")
    share = failure_probability(band, LEVEL, X, side="<=", **named)
    assert share.sentence.endswith("it is not true that yield is at most 0.2 %")
    limits = OutcomeConstraints(band, LEVEL, names=["yield"])
    given = {"bounds": SQUARE, "fixed_features": {1: 0.5}, "max_evaluations": 50}
    box = level_set(limits, names=["time", "heat"], units=named["units"], **given)
    assert "yield is at least 0.2 % in " in box.sentence
    assert "of the domain in this context (heat 0.5 C)" in box.sentence
    plain = level_set(band, LEVEL, **given)
    assert "the outcome is at least 0.2 in " in plain.sentence
    assert "in this context (x1 0.5)" in plain.sentence
    with pytest.raises(ValueError, match="1 names for 2 inputs"):
        level_set(band, LEVEL, X, names=["time"])
