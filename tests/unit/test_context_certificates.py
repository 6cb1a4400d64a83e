r"""One band, many contexts: its certificates hold together, and how they relate."""

import pytest
import torch

from kernelucb import (
    CertifiedGapStopping,
    KernelRegression,
    MartingaleMixtureUCB,
    MixedSpace,
    optimum_report,
    regret_certificate,
)
from problems import float64, make_problem, normal, uniform, with_point
from tolerances import ORDER

NORM, FLOOR = 3.0, 1e-9
CUBE = torch.tensor([[0.0] * 3, [1.0] * 3], dtype=torch.float64)
LEVELS = [0.0, 0.5, 1.0]
# The context is the last column; the second takes listed values.
SPACE = MixedSpace(CUBE, discrete_dims={1: LEVELS})
CONTEXTS = [0.1, 0.4, 0.5, 0.9]
AXIS = torch.linspace(0.0, 1.0, 201).tolist()


def setting(seed=2, n=40, **options):
    r"""A function of known norm, and a bound in which it is."""
    problem = make_problem(d=3, norm=NORM, seed=seed)
    X = uniform(n, 3, seed)
    state = KernelRegression(
        X, problem.function(X) + 0.05 * normal(n, seed), problem.kernel, 0.05
    )
    return problem.function, MartingaleMixtureUCB(state, norm_bound=NORM, **options)


def slice_of(context):
    return float64([[a, b, context] for a in AXIS for b in LEVELS])


@pytest.mark.parametrize("maximize", [True, False])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_where_the_band_holds_all_contexts_do(seed, maximize):
    function, acqf = setting(seed, maximize=maximize)
    sign = 1.0 if maximize else -1.0
    whole = torch.cat([slice_of(context) for context in CONTEXTS])
    lower, upper = acqf.bounds(whole)
    assert bool(((lower <= function(whole)) & (function(whole) <= upper)).all())
    for context in CONTEXTS:
        options = {"space": SPACE, "fixed_features": {2: context}}
        found = regret_certificate(acqf, **options)
        assert found.certified
        assert float(found.recommended[2]) == context
        values = sign * function(slice_of(context))
        reached = sign * float(function(found.recommended.unsqueeze(0)))
        assert float(values.max()) - reached <= found.gap + ORDER
        report = optimum_report(acqf, **options, max_evaluations=2000)
        ends = sorted([sign * report.lower, sign * report.upper])
        assert ends[0] - ORDER <= float(values.max()) <= ends[1] + ORDER


def test_over_all_contexts_is_the_largest_over_each():
    _, acqf = setting()
    points = torch.cat([slice_of(context)[::10] for context in CONTEXTS])
    joint = regret_certificate(acqf, points)
    gaps = [
        regret_certificate(
            acqf,
            with_point(points[points[:, 2] == context], joint.recommended),
            recommended=joint.recommended,
        ).gap
        for context in CONTEXTS
    ]
    assert joint.gap == pytest.approx(max(gaps), abs=FLOOR)
    box = regret_certificate(acqf, space=SPACE)
    fixed = {"fixed_features": {2: float(box.recommended[2])}}
    found = regret_certificate(acqf, space=SPACE, recommended=box.recommended, **fixed)
    # What was found in the slice is no more than what is shown of the whole.
    assert found.gap - found.resolution <= box.gap + ORDER
    upper = optimum_report(acqf, space=SPACE, max_evaluations=4000).upper
    for context in CONTEXTS:
        points = slice_of(context)
        assert optimum_report(acqf, points).upper <= upper + ORDER


def test_the_best_of_a_context_is_at_least_as_good_there():
    r"""A recommended point of its own costs less than that of another context."""
    _, acqf = setting()
    everywhere = regret_certificate(acqf, space=SPACE).recommended
    for context in CONTEXTS:
        moved = everywhere.clone()
        moved[2] = context
        points = slice_of(context)
        moved_lower = float(acqf.bounds(moved.unsqueeze(0))[0])
        own = regret_certificate(acqf, torch.cat([points, moved.unsqueeze(0)]))
        own_lower = float(acqf.bounds(own.recommended.unsqueeze(0))[0])
        assert own_lower >= moved_lower - FLOOR


def test_each_context_stops_by_its_own_gap():
    _, acqf = setting()
    gaps = {
        context: regret_certificate(acqf, space=SPACE, fixed_features={2: context}).gap
        for context in CONTEXTS
    }
    middle = sum(sorted(gaps.values())[1:3]) / 2.0
    rule = CertifiedGapStopping(middle, space=SPACE)
    stops = {c: rule(acqf, fixed_features={2: c}).stop for c in CONTEXTS}
    assert stops == {context: gap <= middle for context, gap in gaps.items()}
    assert set(stops.values()) == {True, False}
