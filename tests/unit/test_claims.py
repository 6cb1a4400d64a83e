r"""A known range, breakdown values, claims in a ladder, confirmation, planning."""

import math
from functools import partial

import pytest
import torch
from botorch.models.transforms import Normalize
from torch.testing import assert_close

from kernelucb import (
    IGPUCB,
    BandUCB,
    CertifiedGapStopping,
    ConstrainedUCB,
    GuardedAcquisition,
    KernelFamilyUCB,
    KernelRegression,
    LikelihoodRegression,
    LikelihoodUCB,
    MartingaleMixtureUCB,
    NearNormBall,
    NystromRegression,
    OutcomeConstraints,
    SafeSet,
    ScalarizedUCB,
    SketchedMartingaleMixtureUCB,
    UnknownNoise,
    breakdown,
    confirmation,
    lengthscale_family,
    optimum_report,
    regret_certificate,
    runs_needed,
)
from kernelucb._numerics.digits import at_least, between
from kernelucb._numerics.estimates import Estimate
from kernelucb.certificates.task import Task
from kernelucb.confidence.band import band_of
from kernelucb.confidence.filters import Hybrids
from kernelucb.confidence.radius import energy_levels
from kernelucb.exceptions import InconsistentConfidenceSetWarning
from problems import frozen_kernel, frozen_model, generator, make_problem

LINE = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
GRID = torch.linspace(0.0, 1.0, 401, dtype=torch.float64).unsqueeze(-1)
NORM = 4.0


def problem(**options):
    return make_problem(**{"n": 20, "d": 1, "norm": NORM, "seed": 3, **options})


def band(**options):
    options = {"norm_bound": 2.0 * NORM, **options}
    return MartingaleMixtureUCB(problem().model, **options)


def of_family(model=None, **options):
    kernels = lengthscale_family(frozen_kernel("rbf"), shortest=0.1, longest=0.4)
    given = {"norm_bound": 5.0, **options}
    return KernelFamilyUCB(model or problem().model, kernels, **given)


def width(of, X=GRID):
    lower, upper = of.bounds(X)
    return float((upper - lower).mean())


# One event for all norm bounds and noise scales.


@pytest.mark.parametrize("factor", [1.0, 1.7, 6.0])
def test_the_guesses_stay_what_they_are_in_outcome_units(factor):
    r"""Each member is that of ``h ~ N(0, c K + v I)`` with ``c`` and ``v`` of factor 1."""
    lam = torch.tensor([0.0, 0.1, 3.0, 200.0], dtype=torch.float64)
    first, later = Hybrids.for_norm(4.0), Hybrids.for_norm(4.0, factor)
    v = (first.floors / (1.0 - first.floors)).unsqueeze(-1)
    c = (1.0 + v) / first.corners.unsqueeze(-1)
    variance = (c * lam + v) / factor**2  # over the noise variance in use
    expected = variance / (1.0 + variance)
    torch.testing.assert_close(later.filters(lam / factor**2), expected)
    prices = variance.log1p().sum(-1)
    torch.testing.assert_close(later.prices(lam / factor**2, len(lam)), prices)
    before = torch.tensor([0.01, 0.5, 0.9], dtype=torch.float64)
    levels = energy_levels(before, factor)
    ratio = (levels / (1.0 - levels)) / (before / (1.0 - before))
    assert ratio.tolist() == pytest.approx([factor**-2.0] * 3)


def test_relaxed_bands_are_of_one_mixture_and_nested():
    own = band()
    assert width(own) < width(own.band.relaxed()) < 1.04 * width(own)
    for relax in (lambda t: own.band.relaxed(t), lambda t: own.band.relaxed(1.0, t)):
        widths = [width(relax(factor)) for factor in (1.0, 1.2, 2.0, 5.0)]
        assert widths == sorted(widths)
    twice = own.band.relaxed(2.0, 1.5).relaxed(2.0, 2.0)
    assert width(twice) == pytest.approx(width(own.band.relaxed(4.0, 3.0)), rel=1e-6)


COUNTS = LikelihoodRegression(
    problem().X, (problem().Y > 0.0).double(), frozen_kernel("rbf", 0.3)
)
ROADS = {
    "filters": band,
    "martingale": lambda **norm: band(fit="martingale", **norm),
    "unknown noise": lambda **norm: band(noise_std=UnknownNoise(), **norm),
    "near": lambda norm_bound: band(norm_bound=NearNormBall(norm_bound, 0.1)),
    "replicates": lambda **norm: band(**norm).band.with_replicates(20).within(-9.0, 9.0),
    "counts": lambda **norm: LikelihoodUCB(COUNTS, **norm),
    "family": of_family,
    "martingale family": lambda **norm: of_family(fit="martingale", **norm),
    "family of counts": lambda **norm: of_family(model=COUNTS, **norm),
    "sum": lambda **norm: ScalarizedUCB([band(**norm), of_family(**norm)], [1.0, -2.0]),
}


@pytest.mark.parametrize("road", ROADS)
def test_the_one_event_does_not_depend_on_the_norm_bound_that_was_given(road):
    r"""So the norm bound itself may come from the data, or be the best of many."""
    one, other = (
        band_of("band", ROADS[road](norm_bound=NORM * of)).relaxed(24.0 / of)
        for of in (3.0, 8.0)
    )
    assert one.norm_bounds == pytest.approx(other.norm_bounds)
    assert_close(one.bounds(GRID), other.bounds(GRID), rtol=1e-9, atol=1e-9)


# Breakdown values.


def test_a_breakdown_value_is_the_largest_norm_at_which_the_claim_holds():
    own, gap = band(), 1.0

    def holds(of):
        return regret_certificate(of, candidates=GRID).gap <= gap

    found = breakdown(own, holds)
    factor = found.norm_bound / (2.0 * NORM)
    assert holds(own.band.relaxed(factor))
    assert not holds(own.band.relaxed(1.06 * factor))
    noise = found.noise_std / problem().noise_std
    at = found.at_norm_bound / (2.0 * NORM)
    assert holds(own.band.relaxed(at, noise))
    assert not holds(own.band.relaxed(at, 1.06 * noise))
    least = own.band.relaxed().least_norms[0]
    assert found.margin == pytest.approx(found.norm_bound / least)
    assert f"above {at_least(found.norm_bound)}" in str(found)


def test_claims_that_stand_nowhere_and_everywhere():
    nowhere, always = breakdown(band(), lambda _: False), breakdown(band(), lambda _: True)
    assert nowhere.norm_bound == nowhere.margin == 0.0
    assert nowhere.noise_std is None
    assert always.stands_throughout
    assert always.margin == pytest.approx(1000.0, rel=0.06)
    report = optimum_report(IGPUCB(problem().model, norm_bound=NORM), GRID)
    assert all(claim.breakdown is None for claim in report.claims)  # no one event


def test_of_a_family_it_has_a_shortest_length_scale():
    r"""Also of a sum of families, which names a length scale twice."""
    smooth, sharp = (
        lengthscale_family(frozen_kernel(kind), 0.1, 0.4) for kind in ("rbf", "matern12")
    )
    both = KernelFamilyUCB(problem().state, smooth[::-1] + sharp, norm_bound=30.0)
    for own, most in ((of_family(), 2), (both, 4)):
        found = breakdown(own, lambda of, most=most: len(of.lengthscales) <= most)
        assert found.lengthscale == pytest.approx(0.2)
    own = of_family()
    assert breakdown(own, lambda of: len(of.lengthscales) <= 2).norm_bound == 0.0
    narrow = breakdown(own, lambda of: width(of) <= 2.0 * width(own))
    assert narrow.lengthscale == pytest.approx(0.1)


# A known range.


@pytest.mark.parametrize("maximize", [True, False])
def test_a_range_clips_certificate_and_report(maximize):
    own = band(maximize=maximize)
    lower, upper = own.bounds(GRID)
    high = float(torch.stack([lower, -upper]).max()) + 0.3
    ranged = own.band.within(-high, high)
    gaps = [regret_certificate(b, bounds=LINE, tolerance=1e-4).gap for b in (ranged, own)]
    assert gaps[0] <= (1.0 + 1e-4) * gaps[1]
    report = optimum_report(ranged, bounds=LINE)
    assert -high - 1e-9 <= report.lower <= report.upper <= high + 1e-9
    for factor in (1.0, 10.0, 1000.0):  # at any norm the gap is what the range leaves
        wide = ranged.relaxed(factor)
        found = regret_certificate(wide, bounds=LINE)
        sides = torch.cat(wide.bounds(found.recommended.unsqueeze(0)))
        assert found.gap <= high - float((sides * wide.direction).min()) + 1e-9


def test_a_search_in_parts_within_a_range_still_ranks_points():
    r"""Sums of such bands, and families with pending points, score by the plain band."""
    own, family, points = band(), of_family(), GRID[::20].unsqueeze(-2)
    high = float(own.bounds(GRID)[0].max()) + 0.1
    plain, ranged = (
        ScalarizedUCB([one], [-2.0]) for one in (own, own.band.within(-high, high))
    )
    assert width(ranged) < width(plain)
    torch.testing.assert_close(ranged(points), plain(points))
    upper = float(family.bounds(GRID)[0].max()) + 0.1
    limited = BandUCB(family.band.within(upper=upper))
    for pending in (GRID[:1], None):
        limited.set_X_pending(pending)
        family.set_X_pending(pending)
        torch.testing.assert_close(limited(points), family(points))


@pytest.mark.parametrize("bands", [1, 2])
def test_what_ranges_leave_to_a_sum_limits_its_gap_on_a_box(bands):
    r"""At any norm, however few points branch and bound may look at."""
    ranged = band(norm_bound=1000.0).band.within(-4.0, 4.0)
    weights = [1.0, -0.5][:bands]
    total = ScalarizedUCB([ranged] * bands, weights, offset=3.0)
    report = optimum_report(total, bounds=LINE, max_evaluations=10)
    assert report.certificate.rigorous
    assert report.gap <= 8.0 * sum(map(abs, weights))
    assert report.upper <= 3.0 + 4.0 * sum(map(abs, weights)) + 1e-9


def test_guard_constraints_safe_set_and_stop_keep_to_the_range():
    own = band()
    lower, upper = own.bounds(GRID)
    best = float(lower.max())
    high = best + 0.2 * float(upper.max() - best)
    ranged, room = own.band.within(upper=high), high - best + 1e-6
    acqf = BandUCB(ranged)
    guard = GuardedAcquisition(acqf, acqf, observed=GRID, temperature=0.0)
    assert float(guard.excess(GRID).max()) <= room
    for outer in (guard, ConstrainedUCB(ranged, OutcomeConstraints(ranged, 0.0))):
        assert f"at most {high} everywhere" in str(outer.assumptions)
        assert float(outer.band.at(norm_bound=50.0).bounds(GRID)[1].max()) <= high
    for of, inside in ((ranged, True), (own, False)):
        limits = OutcomeConstraints(of, high + 1e-6)
        assert bool(limits.may_be_feasible(GRID).any()) is not inside
        assert bool(SafeSet(of, high, sides="<=").is_safe(GRID).all()) is inside
        assert CertifiedGapStopping(room, bounds=LINE)(of).stop is inside


def test_a_band_with_a_kernel_of_its_own_finds_a_contradicted_range():
    r"""It has only the inputs that the model's transform made of those observed."""
    cube = torch.tensor([[0.0], [5.0]], dtype=torch.float64)
    data = problem()
    inputs = {"input_transform": Normalize(d=1, bounds=cube)}
    model = frozen_model(5.0 * data.X, data.Y, data.kernel, data.noise_std, **inputs)
    given = {"norm_bound": 2.0 * NORM, "kernel": "rbf", "lengthscale": 0.3}
    own = MartingaleMixtureUCB.from_model(model, **given)
    torch.testing.assert_close(own.band.observed, 5.0 * data.X)
    with pytest.warns(InconsistentConfidenceSetWarning):
        assert own.band.within(50.0, 60.0).assumptions.violated
    state = NystromRegression.from_model(model, 5.0 * data.X)
    sketched = SketchedMartingaleMixtureUCB(state, norm_bound=2.0 * NORM).band.within(50.0)
    assert "not compared with the data" in sketched.assumptions["range"].statement


def test_a_range_that_the_data_contradict_changes_no_side():
    own = band()
    with pytest.warns(InconsistentConfidenceSetWarning, match="range|lies"):
        wrong = own.band.within(5.0, 6.0)
    torch.testing.assert_close(wrong.bounds(GRID), own.bounds(GRID))


# The ladder.


def test_the_ladder_says_what_the_band_says():
    own, baseline = band(), GRID[40]
    relaxed, point = own.band.relaxed(), GRID[torch.argmax(own.bounds(GRID)[0])]
    asked = {"recommended": point, "baseline": baseline, "tolerance": 0.5}
    report = optimum_report(own, GRID, **asked)
    claims = {claim.kind: claim for claim in report.claims}
    sides = [float(side) for side in relaxed.bounds(point.unsqueeze(0))]
    assert claims["value"].numbers == pytest.approx(sides)
    loss = relaxed.max_gain_over(baseline.unsqueeze(0), point.unsqueeze(0))
    assert claims["baseline"].numbers == pytest.approx((-float(loss),))
    gains = relaxed.max_gain_over(GRID, point.unsqueeze(0))
    near = ((GRID - point).abs() <= 0.05 + 1e-12).squeeze(-1)
    assert claims["window"].numbers == pytest.approx((max(float(gains[near].max()), 0.0),))
    assert claims["anywhere"].numbers == pytest.approx((float(gains.max()),))
    margins = [claim.margin for claim in report.claims[1:]]
    assert margins == sorted(margins, reverse=True)
    gap = partial(regret_certificate, candidates=GRID, recommended=point)
    found = breakdown(own, lambda of: gap(of).gap <= 0.5)
    assert claims["anywhere"].breakdown.norm_bound == pytest.approx(found.norm_bound)


# Without a kernel.


def test_confirmation_by_its_formula_and_its_coverage():
    found = confirmation([3.0, 4.0, 5.0], noise_std=2.0, delta=0.1, expected_runs=4)
    rho = 8.2 / 4
    squared = math.log(1 + 3 * rho) + 2 * math.log(1 / 0.1)
    half = 2.0 * math.sqrt((1 + 1 / (3 * rho)) * squared / 3)
    assert found.upper == pytest.approx(4.0 + half)
    # False alarm of the check below 1e-4; a band at three times delta is found with 0.99.
    random, misses = generator(0), 0
    for _ in range(300):
        a, b = torch.randn(2, 40, generator=random).double()
        looks = [
            confirmation(a[:n] + 1.0, b[:m], noise_std=1.0, delta=0.2)
            for n, m in ((1, 1), (2, 5), (4, 8), (10, 10), (30, 12), (40, 40))
        ]
        misses += any(not look.lower <= 1.0 <= look.upper for look in looks)
    assert misses <= 88
    low, high = between(found.lower, found.upper)
    assert str(found).startswith(f"value 4, between {low} and {high} with probability 0.9 ")
    assert "(3 runs; independent of any kernel; noise scale 2, given)" in str(found)
    both = confirmation([3.0, 5.0], [1.0], noise_std=Estimate(2.0))
    assert "(2 and 1 runs; independent of any kernel; noise scale 2, estimated)" in str(
        both
    )


def test_a_plan_is_the_first_number_that_reaches_the_gap():
    kernel = frozen_kernel("matern52", 0.5)
    plan = runs_needed(kernel, LINE, 5.0, 0.1, 0.6)
    assert plan.gaps[plan.runs] <= 0.6
    assert f"about {plan.runs}" in str(plan)
    beyond = runs_needed(kernel, LINE, 5.0, 0.1, 0.01, max_runs=60)
    assert beyond.runs is None
    assert "more than 60" in str(beyond)


def test_noise_is_told_at_a_norm_that_the_data_do_not_contradict():
    with pytest.warns(InconsistentConfidenceSetWarning):
        found = breakdown(band(norm_bound=0.1), lambda _: True)
    assert found.at_norm_bound > 1.01 * found.least_consistent_norm


@pytest.mark.parametrize("count", [1, 3])
def test_the_default_tolerance_is_not_below_a_twentieth_of_the_noise(count):
    X = torch.linspace(0.1, 0.9, count, dtype=torch.float64).unsqueeze(-1)
    state = KernelRegression(X, 2.0 * X.squeeze(-1), frozen_kernel("rbf"), 30.0)
    report = optimum_report(MartingaleMixtureUCB(state, norm_bound=1.0), GRID, window=0.1)
    (near,) = [claim for claim in report.claims if claim.kind == "window"]
    assert near.tested == "by no more than 1.5"


# Claims that rest on several bands.


def hills(heights, noise_std, X, seed):
    r"""Hills at 0.2 and 0.8, and a state of noisy outcomes at ``n x 1`` points."""
    kernel = frozen_kernel("rbf", 0.12)
    centres = torch.tensor([[0.2], [0.8]], dtype=torch.float64)
    weights = torch.tensor(heights, dtype=torch.float64)

    def function(points):
        return kernel(points, centres).to_dense() @ weights

    noise = torch.randn(len(X), generator=generator(seed), dtype=torch.float64)
    return function, KernelRegression(X, function(X) + noise_std * noise, kernel, noise_std)


def line(end, count):
    return torch.linspace(0.0, end, count, dtype=torch.float64).unsqueeze(-1)


@pytest.mark.parametrize("seed", range(3))
def test_norm_bounds_of_others_are_not_lowered_and_are_named(seed):
    r"""False claims fall at the true norms: 2.24 of both outcomes, given as 6.7 and 2.35.

    The constraint was observed below 0.45 alone, so feasible hills may be beyond.
    """
    _, state = hills([1.0, 2.0], 0.05, line(1.0, 31), seed)
    _, other = hills([1.0, 2.0], 0.05, line(0.45, 15), seed + 50)
    objective = MartingaleMixtureUCB(state, norm_bound=6.7)
    purity = MartingaleMixtureUCB(other, norm_bound=2.35)
    limits = OutcomeConstraints(purity, 0.5, names=["purity"])
    points = line(1.0, 41)
    options = {"recommended": points[8], "tolerance": 0.3, "candidates": points}
    report = optimum_report(objective, constraints=limits, **options)
    (claim,) = [each for each in report.claims if each.kind == "anywhere"]
    assert not claim.tested.startswith("by no more than 0.3")  # 1.0 is true
    norms = dict(claim.breakdown.norms)
    assert list(norms) == ["objective", "purity"]
    assert norms["purity"] >= 2.35
    assert norms["objective"] == pytest.approx(claim.breakdown.norm_bound)
    assert isinstance(claim.breakdown.norm_bound, Estimate)


@pytest.mark.parametrize("seed", range(3))
def test_terms_of_a_sum_keep_their_norm_bounds(seed):
    r"""True norms 4 and 1.9, given as 9 and 2; a point is better by 1.1, not by 0.9."""
    first = hills([4.0, 0.0], 0.05, line(1.0, 31), seed)[1]
    second = hills([0.0, 1.9], 0.05, line(0.45, 15), seed + 50)[1]
    bands = [
        MartingaleMixtureUCB(state, norm_bound=bound)
        for state, bound in [(first, 9.0), (second, 2.0)]
    ]
    total = ScalarizedUCB(bands, [0.2, 1.0])
    at = torch.tensor([[0.2]], dtype=torch.float64)

    def within(level):
        points = line(1.0, 101)
        return breakdown(
            total, lambda band: float(band.max_gain_over(points, at).max()) <= level
        )

    assert within(0.9).norm_bound == 0.0
    norms = dict(within(3.0).norms)
    assert norms["term 1"] >= 9.0
    assert norms["term 2"] >= 2.0
    assert norms["term 1"] / norms["term 2"] == pytest.approx(4.5)


def test_the_length_scale_is_asked_of_the_objective_alone():
    r"""And a norm bound of a constraint is not lowered, whatever the objective's."""
    limits = OutcomeConstraints(of_family(), -9.0)
    task = Task.of(of_family(), limits, (line(1.0, 5), None, None, None), None)
    again = task.relaxed(0.9, 1.0, 0.2)
    other = again.bands["constraint 1"]
    assert len(again.bound.lengthscales) < len(other.lengthscales)
    assert again.bound.smallest_norm_bound == 4.5
    assert other.smallest_norm_bound == 5.0


@pytest.mark.filterwarnings("ignore::kernelucb.exceptions.InconsistentConfidenceSetWarning")
def test_where_no_norm_explains_the_data_no_claim_stands():
    X = line(1.0, 10).repeat(4, 1)
    Y = torch.sin(6.0 * X[:, 0]) + torch.arange(4.0).double().repeat_interleave(10)
    acqf = MartingaleMixtureUCB(
        KernelRegression(X, Y, frozen_kernel("rbf"), 0.01), norm_bound=3.0
    )
    found = breakdown(acqf, lambda own: True)
    assert (found.norm_bound, found.least_consistent_norm) == (0.0, math.inf)
    assert "no function of any norm" in str(found)
    assert "no function of any norm" in str(optimum_report(acqf, line(1.0, 5)))
