r"""The optimum report: what it says is what enumeration says."""

import json
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelucb import (
    MartingaleMixtureUCB,
    MixedSpace,
    SrinivasUCB,
    optimum_report,
    regret_certificate,
)
from kernelucb.confidence.outcome_constraints import OutcomeConstraints
from problems import make_problem, uniform, with_point
from tolerances import ORDER

NORM, FLOOR = 3.0, 1e-9
SQUARE = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)


def problem_of(seed=2, **options):
    return make_problem(**{"n": 25, "d": 2, "norm": NORM, "seed": seed, **options})


def bound(problem, **options):
    return MartingaleMixtureUCB(problem.model, norm_bound=NORM, **options)


@given(seed=st.integers(0, 100), maximize=st.booleans())
@settings(max_examples=15)
def test_on_candidates_every_number_by_hand(seed, maximize):
    acqf, X = bound(problem_of(seed), maximize=maximize), uniform(60, 2, seed)
    report = optimum_report(acqf, X)
    lower, upper = acqf.bounds(X)
    sides = (lower.max(), upper.max()) if maximize else (lower.min(), upper.min())
    assert report.lower == pytest.approx(float(sides[0]), abs=ORDER)
    assert report.upper == pytest.approx(float(sides[1]), abs=ORDER)
    best = X[lower.argmax() if maximize else upper.argmin()]
    assert torch.equal(report.recommended, best)
    gains = acqf.confidence_set.max_gain_over(X, best.unsqueeze(0), acqf.direction)
    possible = X[(gains >= 0.0) | (best == X).all(-1)]
    assert report.share == report.share_at_most == pytest.approx(len(possible) / 60)
    assert torch.equal(report.region, torch.stack([possible.amin(0), possible.amax(0)]))
    assert report.gap == pytest.approx(max(float(gains.max()), 0.0))
    assert report.certified


@pytest.mark.parametrize("maximize", [True, False])
def test_on_a_box_it_encloses_a_fine_grid(maximize):
    acqf = bound(problem_of(kernel="matern52"), maximize=maximize)
    report = optimum_report(acqf, bounds=SQUARE)
    axis = torch.linspace(0.0, 1.0, 81, dtype=torch.float64)
    grid = torch.cartesian_prod(axis, axis)
    best = report.recommended
    other = optimum_report(acqf, with_point(grid, best), recommended=best)
    outer, inner = (report.lower, report.upper), (other.lower, other.upper)
    assert report.certified
    if maximize:
        assert outer[0] == pytest.approx(inner[0], abs=FLOOR)
        assert inner[1] - FLOOR <= outer[1] <= inner[1] + 0.06 * (inner[1] - inner[0])
    else:
        assert outer[1] == pytest.approx(inner[1], abs=FLOOR)
        assert inner[0] + FLOOR >= outer[0] >= inner[0] - 0.06 * (inner[1] - inner[0])
    assert bool((report.region[0] <= other.region[0] + FLOOR).all())
    assert bool((report.region[1] >= other.region[1] - FLOOR).all())
    assert other.share - 0.03 <= report.share_at_most <= other.share + 0.1
    assert report.share <= report.share_at_most


@given(seed=st.integers(0, 100), maximize=st.booleans(), index=st.integers(0, 59))
@settings(max_examples=8)
def test_the_interval_is_that_of_the_domain_whatever_is_recommended(seed, maximize, index):
    r"""Its near end is the best that any point is worth for certain."""
    acqf, X = bound(problem_of(seed), maximize=maximize), uniform(60, 2, seed)
    own, other = optimum_report(acqf, X), optimum_report(acqf, X, recommended=X[index])
    lower, upper = acqf.bounds(X)
    near, far = (lower.max(), upper.max()) if maximize else (upper.min(), lower.min())
    for report in (own, other):
        ends = sorted([float(near), float(far)])
        assert [report.lower, report.upper] == pytest.approx(ends, abs=ORDER)
    assert other.share >= own.share - FLOOR or other.gap >= own.gap - FLOOR


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("maximize", [True, False])
def test_the_best_of_another_context_says_nothing_of_this_one(seed, maximize):
    r"""Its value was reported as that of the optimum here, certified."""
    problem = problem_of(seed, n=60, noise_std=0.05)
    acqf = bound(problem, maximize=maximize, delta=1e-3)
    axis = torch.linspace(0.0, 1.0, 41, dtype=torch.float64)
    grid = torch.cartesian_prod(axis, axis)
    sign = 1.0 if maximize else -1.0
    best = grid[(sign * problem.function(grid)).argmax()]
    worst = float(axis[(sign * problem.function(grid)).reshape(41, 41).amax(0).argmin()])
    values = problem.function(torch.stack([axis, torch.full_like(axis, worst)], -1))
    optimum = float(values.max() if maximize else values.min())
    for domain in ({"bounds": SQUARE}, {"candidates": grid}):
        context = {"fixed_features": {1: worst}, "recommended": best}
        report = optimum_report(acqf, **domain, **context)
        assert report.certified
        assert report.lower - ORDER <= optimum <= report.upper + ORDER
        reached = float(problem.function(report.recommended.unsqueeze(0)))
        assert sign * (optimum - reached) <= report.gap + ORDER
        assert report.share > 0.0


def test_its_gap_is_that_of_the_regret_certificate():
    r"""On a box that uses up all evaluations 384 was reported beside 351."""
    acqf = bound(problem_of(n=30, d=5, kernel="matern52"))
    box = torch.stack([torch.zeros(5), torch.ones(5)]).double()
    report = optimum_report(acqf, bounds=box)
    certificate = regret_certificate(acqf, bounds=box)
    assert certificate.resolution > 0.1 * certificate.gap
    assert report.gap == certificate.gap
    assert report.certificate.resolution == certificate.resolution
    assert torch.equal(report.recommended, certificate.recommended)


def test_mixed_spaces_contexts_and_constraints():
    acqf = bound(problem_of())
    space = MixedSpace(SQUARE, discrete_dims={1: [0.0, 0.5, 1.0]})
    report = optimum_report(acqf, space=space, fixed_features={1: 0.5}, names=["a", "b"])
    assert report.region[:, 1].tolist() == [0.5, 0.5]
    assert "b 0.5" in str(report)
    other = bound(problem_of(40, n=40))
    constraints = OutcomeConstraints(
        other, float(other.bounds(SQUARE.new_full((1, 2), 0.5))[0])
    )
    limited = optimum_report(acqf, space=space, constraints=constraints)
    assert bool(constraints.is_feasible(limited.recommended))
    assert limited.upper <= optimum_report(acqf, space=space).upper + FLOOR
    assert limited.certificate.assumptions.delta == pytest.approx(0.1)


def test_prints_and_is_json():
    report = optimum_report(bound(problem_of()), bounds=SQUARE, names=["heat", "time"])
    text, found = str(report), json.loads(report.to_json())
    assert text.startswith("certified: the optimum is between")
    assert "at most" in text
    assert found["certified"] is True
    assert found["optimum"] == [report.lower, report.upper]
    assert found["region"].keys() == {"heat", "time"}
    assert found["gap_found"] <= found["gap"]


def test_a_bound_without_a_norm_is_not_rigorous_on_boxes():
    report = optimum_report(SrinivasUCB(problem_of().model), bounds=SQUARE)
    assert not report.certified
    assert report.share_at_most == 1.0
    assert "comes from a search" in str(report)
    assert math.isinf(report.certificate.resolution)


def test_bad_input():
    acqf = bound(problem_of())
    with pytest.raises(ValueError, match="3 names for 2 inputs"):
        optimum_report(acqf, bounds=SQUARE, names=["a", "b", "c"])
    with pytest.raises(ValueError, match="either candidates or bounds or space"):
        optimum_report(acqf)
    with pytest.raises(ValueError, match="tolerance"):
        optimum_report(acqf, bounds=SQUARE, tolerance=0.0)
