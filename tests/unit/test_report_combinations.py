r"""Which combinations of listed values may hold the optimum: what enumeration says."""

import json

import pytest
import torch

from kernelucb import (
    KernelRegression,
    MartingaleMixtureUCB,
    MixedSpace,
    SrinivasUCB,
    optimum_report,
)
from kernelucb.confidence.outcome_constraints import OutcomeConstraints
from problems import float64, make_problem, normal, uniform

NORM, FLOOR, COST = 3.0, 1e-9, {"max_evaluations": 4000}
CUBE = torch.tensor([[0.0] * 4, [1.0] * 4], dtype=torch.float64)
LEVELS = [0.0, 0.5, 1.0]
CODES = ([1.0, 0.0], [0.0, 1.0])
NAMES = ["heat", "water", "oil", "time"]
AXIS = torch.linspace(0.0, 1.0, 101).tolist()
ROWS = [[a, *code, b] for a in LEVELS for code in CODES for b in AXIS]


def bound(seed=1, **options):
    r"""From 100 observations, all in the mixed space."""
    problem = make_problem(d=4, norm=NORM, seed=seed)
    X = float64(ROWS)[torch.linspace(0, len(ROWS) - 1, 100).long()]
    state = KernelRegression(
        X, problem.function(X) + 0.02 * normal(100, seed), problem.kernel, 0.02
    )
    return MartingaleMixtureUCB(state, norm_bound=NORM, **options)


def mixed(**options):
    return MixedSpace(CUBE, discrete_dims={0: LEVELS}, one_hot=[[1, 2]], **options)


def possible(acqf, report, points):
    r"""Those of some points that may be an optimum, by hand."""
    gains = acqf.confidence_set.max_gain_over(
        points, report.recommended.unsqueeze(0), acqf.direction
    )
    return points[gains >= 0.0]


@pytest.mark.parametrize("maximize", [True, False])
def test_of_a_mixed_space_they_hold_what_a_fine_grid_finds(maximize):
    acqf = bound(maximize=maximize)
    report = optimum_report(acqf, space=mixed(), names=NAMES, **COST)
    assert report.certified
    assert report.combination_count == 6
    assert 0 < len(report.combinations) < 6
    listed = {tuple(each.values.values()): each for each in report.combinations}
    assert len(listed) == len(report.combinations)
    found = possible(acqf, report, float64(ROWS))
    for row in found.tolist():
        own = listed[tuple(row[:3])]
        low, high = own.region["time"]
        assert low - FLOOR <= row[3] <= high + FLOOR
    for values, each in listed.items():
        own = found[(found[:, :3] == float64(values)).all(-1)]
        assert each.share_at_most >= len(own) / len(AXIS) - 0.02
        assert each.share_at_most <= len(own) / len(AXIS) + 0.1
        assert 0.0 <= each.share <= each.share_at_most <= 1.0
        assert set(each.region) == {"time"}
    # The whole is made of its parts.
    total = sum(each.share_at_most for each in report.combinations) / 6
    assert report.share_at_most == pytest.approx(total)
    lows, highs = zip(*(each.region["time"] for each in report.combinations), strict=True)
    assert report.region[:, 3].tolist() == [min(lows), max(highs)]
    shares = [each.share_at_most for each in report.combinations]
    assert shares == sorted(shares, reverse=True)


def test_of_a_finite_space_they_are_the_points_that_may_be_best():
    acqf = bound()
    space = MixedSpace(CUBE, discrete_dims={0: LEVELS, 3: LEVELS}, one_hot=[[1, 2]])
    report = optimum_report(acqf, space=space)
    points = space.region().points
    expected = possible(acqf, report, points).tolist()
    assert report.combination_count == len(points) == 18
    assert 0 < len(expected) < 18
    found = [[each.values[name] for name in report.names] for each in report.combinations]
    assert sorted(found) == sorted(expected)
    assert all(each.region == {} for each in report.combinations)
    assert all(each.share == each.share_at_most == 1.0 for each in report.combinations)


def test_prints_and_is_json():
    report = optimum_report(bound(), space=mixed(), names=NAMES, **COST)
    text, found = str(report), json.loads(report.to_json())
    count = len(report.combinations)
    assert f"combinations that may hold it: {count} of 6" in text
    first = report.combinations[0]
    code = "water" if first.values["water"] == 1.0 else "oil"
    assert first.label == f"heat {first.values['heat']:.4g}, {code}"
    assert f"  {first.label}: a share of {first.share:.3g} of it" in text
    assert found["combination_count"] == 6
    assert len(found["combinations"]) == count
    assert found["combinations"][0] == {
        "values": first.values,
        "region": {"time": list(first.region["time"])},
        "share": first.share,
        "share_at_most": first.share_at_most,
    }


def test_print_is_short_where_many_are_left():
    acqf = MartingaleMixtureUCB(make_problem(n=2, d=4).model, norm_bound=30.0)
    levels = torch.linspace(0.0, 1.0, 9).tolist()
    report = optimum_report(
        acqf, space=MixedSpace(CUBE, discrete_dims={0: levels}, one_hot=[[1, 2]])
    )
    assert len(report.combinations) == report.combination_count == 18
    assert "  and 13 more" in str(report)
    assert str(report).count(" of it") == 5


def test_in_a_context_those_of_the_context():
    acqf = bound()
    report = optimum_report(acqf, space=mixed(), fixed_features={1: 1.0, 3: 0.5})
    assert report.combination_count == 3
    assert all(each.values["x1"] == 1.0 for each in report.combinations)
    assert all(each.region == {} for each in report.combinations)
    one = optimum_report(acqf, space=mixed(), fixed_features={0: 0.5, 1: 1.0}, **COST)
    assert one.combination_count == len(one.combinations) == 1
    assert "combinations" not in str(one)
    assert set(one.combinations[0].region) == {"x3"}


def test_without_listed_values_there_are_none():
    acqf = bound()
    for domain in ({"bounds": CUBE}, {"space": MixedSpace(CUBE)}):
        report = optimum_report(acqf, **domain, max_evaluations=200)
        assert report.combinations == ()
        assert report.combination_count == 0
        assert "combinations" not in str(report)
    assert optimum_report(acqf, uniform(9, 4, 1)).combinations == ()


def test_constraints_rule_out_combinations():
    acqf = bound()
    limits = [(torch.tensor([0]), torch.tensor([-1.0]).double(), -0.7)]  # x0 <= 0.7
    report = optimum_report(acqf, space=mixed(inequality_constraints=limits), **COST)
    assert report.combinations
    assert all(each.values["x0"] <= 0.7 for each in report.combinations)
    assert all(each.share_at_most == 1.0 for each in report.combinations)
    other = bound(7)
    points = float64(ROWS)
    level = float(other.bounds(points)[0].quantile(0.9))
    constraints = OutcomeConstraints(other, level)
    limited = optimum_report(acqf, space=mixed(), constraints=constraints, **COST)
    allowed = points[constraints.may_be_feasible(points)]
    found = possible(acqf, limited, allowed)
    listed = {tuple(each.values.values()) for each in limited.combinations}
    assert {tuple(row[:3]) for row in found.tolist()} <= listed


def test_a_bound_without_a_norm_says_what_was_looked_at():
    report = optimum_report(SrinivasUCB(make_problem(n=20, d=4).model), space=mixed())
    assert not report.certificate.rigorous
    assert report.combinations
    assert all(each.share_at_most == 1.0 for each in report.combinations)
