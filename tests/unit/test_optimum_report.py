r"""The optimum report: every number and combination is what enumeration says."""

import json
import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kernelucb import (
    KernelRegression,
    MartingaleMixtureUCB,
    MixedSpace,
    SrinivasUCB,
    optimum_report,
)
from kernelucb.confidence.band import band_of
from kernelucb.confidence.outcome_constraints import OutcomeConstraints
from problems import float64, make_problem, normal, uniform, with_point
from tolerances import ORDER

NORM, FLOOR, COST = 3.0, 1e-9, {"max_evaluations": 4000}
SQUARE, CUBE = (float64([[0.0] * d, [1.0] * d]) for d in (2, 4))


def plane(axis):
    return torch.cartesian_prod(axis, axis)


def problem_of(seed=2, **options):
    return make_problem(**{"n": 25, "d": 2, "norm": NORM, "seed": seed, **options})


def bound(problem, **options):
    # The reports are of the event that all norm bounds share.
    return MartingaleMixtureUCB(problem.model, norm_bound=NORM, **options).band.relaxed()


def reported(acqf, *domain, **options):
    r"""A report without its claims, which take long and have tests of their own."""
    return replace(optimum_report(acqf, *domain, **options), said=tuple)


def gains_over(acqf, best, X):
    band = band_of("band", acqf)
    return band.max_gain_over(X, best.unsqueeze(0), band.direction)


@given(seed=st.integers(0, 100), maximize=st.booleans(), index=st.integers(0, 59))
def test_on_candidates_every_number_by_hand(seed, maximize, index):
    r"""The interval is of the domain, whatever is recommended."""
    acqf, X = bound(problem_of(seed), maximize=maximize), uniform(60, 2, seed)
    report = optimum_report(acqf, X)
    lower, upper = acqf.bounds(X)
    best = X[lower.argmax() if maximize else upper.argmin()]
    assert torch.equal(report.recommended, best)
    gains = gains_over(acqf, best, X)
    possible = X[(gains >= 0.0) | (best == X).all(-1)]
    assert report.share == report.share_at_most == pytest.approx(len(possible) / 60)
    assert torch.equal(report.region, torch.stack([possible.amin(0), possible.amax(0)]))
    assert report.gap == pytest.approx(max(float(gains.max()), 0.0))
    ends = (lower.max(), upper.max()) if maximize else (lower.min(), upper.min())
    other = optimum_report(acqf, X, recommended=X[index])
    for each in (report, other):
        assert [each.lower, each.upper] == pytest.approx([*map(float, ends)], abs=ORDER)
    assert other.share >= report.share - FLOOR or other.gap >= report.gap - FLOOR


# A whole report on a box, and one on a fine grid: a second and a half.
@pytest.mark.representatives("True")
@pytest.mark.parametrize("maximize", [True, False])
def test_on_a_box_it_encloses_a_fine_grid(maximize):
    acqf = bound(problem_of(kernel="matern52"), maximize=maximize)
    report = reported(acqf, bounds=SQUARE, names=["heat", "time"])
    best, axis = report.recommended, torch.linspace(0.0, 1.0, 61, dtype=torch.float64)
    other = optimum_report(acqf, with_point(plane(axis), best), recommended=best)
    order, room = (1 if maximize else -1), 0.06 * (other.upper - other.lower)
    ends = [(x.lower, x.upper)[::order] for x in (report, other)]
    assert ends[0][0] == pytest.approx(ends[1][0], abs=FLOOR)
    assert -FLOOR <= order * (ends[0][1] - ends[1][1]) <= room
    assert bool((report.region[0] <= other.region[0] + FLOOR).all())
    assert bool((report.region[1] >= other.region[1] - FLOOR).all())
    assert other.share - 0.03 <= report.share_at_most <= other.share + 0.1
    assert report.share <= report.share_at_most
    found = json.loads(report.to_json())
    assert found["optimum"] == [report.lower, report.upper]
    assert found["region"].keys() == {"heat", "time"}
    assert found["gap_found"] <= found["gap"]


def test_a_bound_without_a_norm_is_not_rigorous_on_boxes():
    space = MixedSpace(CUBE, discrete_dims={0: LEVELS})
    report = optimum_report(SrinivasUCB(problem_of(d=4).model), space=space)
    assert not report.certified
    assert "comes from a search" in str(report)
    assert math.isinf(report.certificate.resolution)
    assert {1.0} == {each.share_at_most for each in (report, *report.combinations)}


LEVELS, CODES = [0.0, 0.5, 1.0], ([1.0, 0.0], [0.0, 1.0])
NAMES = ["heat", "water", "oil", "time"]
AXIS = torch.linspace(0.0, 1.0, 101).tolist()
ROWS = float64([[a, *code, b] for a in LEVELS for code in CODES for b in AXIS])


def mixed_bound(seed=1, **options):
    r"""From 100 observations, all in the mixed space."""
    problem = make_problem(d=4, norm=NORM, seed=seed)
    X = ROWS[torch.linspace(0, len(ROWS) - 1, 100).long()]
    Y = problem.function(X) + 0.02 * normal(100, seed)
    state = KernelRegression(X, Y, problem.kernel, 0.02)
    return MartingaleMixtureUCB(state, norm_bound=NORM, **options)


def mixed(**options):
    return MixedSpace(CUBE, discrete_dims={0: LEVELS}, one_hot=[[1, 2]], **options)


def possible(acqf, report, points):
    r"""The points of some that may be an optimum, by hand."""
    return points[gains_over(acqf, report.recommended, points) >= 0.0]


@pytest.mark.representatives("False")
@pytest.mark.parametrize("maximize", [True, False])
def test_combinations_hold_what_a_fine_grid_finds(maximize):
    acqf = mixed_bound(maximize=maximize)
    report = optimum_report(acqf, space=mixed(), names=NAMES, **COST)
    listed = {tuple(each.values.values()): each for each in report.combinations}
    assert 0 < len(listed) == len(report.combinations) < report.combination_count == 6
    found = possible(acqf, report, ROWS)
    for row in found.tolist():
        low, high = listed[tuple(row[:3])].region["time"]
        assert low - FLOOR <= row[3] <= high + FLOOR
    for values, each in listed.items():
        share = (found[:, :3] == float64(values)).all(-1).sum() / len(AXIS)
        assert share - 0.02 <= each.share_at_most <= share + 0.1
        assert 0.0 <= each.share <= each.share_at_most <= 1.0
        assert set(each.region) == {"time"}
    # The whole is made of its parts.
    shares = [each.share_at_most for each in report.combinations]
    assert report.share_at_most == pytest.approx(sum(shares) / 6)
    assert shares == sorted(shares, reverse=True)
    lows, highs = zip(*(each.region["time"] for each in report.combinations), strict=True)
    assert report.region[:, 3].tolist() == [min(lows), max(highs)]


def test_of_a_finite_space_they_are_the_points_that_may_be_best():
    acqf = mixed_bound()
    space = MixedSpace(CUBE, discrete_dims={0: LEVELS, 3: LEVELS}, one_hot=[[1, 2]])
    report = reported(acqf, space=space)
    expected = possible(acqf, report, space.region().points).tolist()
    assert report.combination_count == 18
    found = [
        [each.values[name] for name in report.wording.names] for each in report.combinations
    ]
    assert sorted(found) == sorted(expected)
    for each in report.combinations:
        assert (each.region, each.share, each.share_at_most) == ({}, 1.0, 1.0)


def test_combinations_are_named_in_print_which_is_short():
    acqf = MartingaleMixtureUCB(make_problem(n=2, d=4).model, norm_bound=30.0)
    levels = {"discrete_dims": {0: torch.linspace(0.0, 1.0, 9).tolist()}}
    space = MixedSpace(CUBE, one_hot=[[1, 2]], **levels)
    report = reported(acqf, space=space, names=NAMES, **COST)
    text, first = str(report), report.combinations[0]
    code = "water" if first.values["water"] == 1.0 else "oil"
    assert first.label == f"heat {first.values['heat']:.4g}, {code}"
    assert f"  {first.label}: a share of {first.share:.3g} of it" in text
    assert "combinations that may hold it: 18 of 18" in text
    assert "  and 13 more" in text
    assert text.count(" of it") == 5


def test_in_a_context_those_of_the_context():
    report = reported(mixed_bound(), space=mixed(), fixed_features={1: 1.0, 3: 0.5})
    assert report.combination_count == 3
    assert all(each.values["x1"] == 1.0 for each in report.combinations)
    assert all(each.region == {} for each in report.combinations)
    assert report.region[:, 3].tolist() == [0.5, 0.5]


def test_linear_constraints_rule_out_combinations():
    limits = [(torch.tensor([0]), torch.tensor([-1.0]).double(), -0.7)]  # x0 <= 0.7
    space = mixed(inequality_constraints=limits)
    found = reported(mixed_bound(), space=space, **COST).combinations
    assert found
    assert all(each.values["x0"] <= 0.7 for each in found)
    assert all(each.share_at_most == 1.0 for each in found)


@pytest.mark.slow
def test_outcome_constraints_rule_out_combinations():
    acqf, other = mixed_bound(), mixed_bound(7)
    constraints = OutcomeConstraints(other, float(other.bounds(ROWS)[0].quantile(0.9)))
    limited = reported(acqf, space=mixed(), constraints=constraints, **COST)
    assert bool(constraints.is_feasible(limited.recommended))
    assert limited.upper <= reported(acqf, space=mixed(), **COST).upper + FLOOR
    assert limited.certificate.assumptions.delta == pytest.approx(0.1)
    found = possible(acqf, limited, ROWS[constraints.may_be_feasible(ROWS)])
    listed = {tuple(each.values.values()) for each in limited.combinations}
    assert {tuple(row[:3]) for row in found.tolist()} <= listed
