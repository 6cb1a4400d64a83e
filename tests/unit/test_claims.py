r"""A known range, breakdown values, claims in a ladder, confirmation, planning."""

import math
from functools import partial

import pytest
import torch
from botorch.exceptions import UnsupportedError
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
    failure_probability,
    lengthscale_family,
    optimum_report,
    regret_certificate,
    runs_needed,
)
from kernelucb._numerics.estimates import Estimate
from kernelucb.certificates.spaces import as_domain
from kernelucb.certificates.task import Task
from kernelucb.confidence.band import band_of
from kernelucb.confidence.filters import Hybrids
from kernelucb.confidence.radius import energy_levels
from kernelucb.exceptions import InconsistentConfidenceSetWarning
from problems import float64, frozen_kernel, frozen_model, generator, make_problem, normal

LINE = float64([[0.0], [1.0]])
GRID = torch.linspace(0.0, 1.0, 101, dtype=torch.float64).unsqueeze(-1)
NORM = 4.0
PROBLEM = make_problem(n=20, norm=NORM, seed=3)


def band(**options):
    return MartingaleMixtureUCB(PROBLEM.model, **{"norm_bound": 2.0 * NORM, **options})


def of_family(model=None, **options):
    kernels = lengthscale_family(frozen_kernel("rbf"), shortest=0.1, longest=0.4)
    return KernelFamilyUCB(
        model or PROBLEM.model, kernels, **{"norm_bound": 5.0, **options}
    )


def width(of, X=GRID):
    lower, upper = of.bounds(X)
    return float((upper - lower).mean())


# One event for all norm bounds and noise scales.


@pytest.mark.parametrize("factor", [1.0, 1.7, 6.0])
def test_the_guesses_stay_what_they_are_in_outcome_units(factor):
    r"""Each member is that of ``h ~ N(0, c K + v I)`` with ``c`` and ``v`` of factor 1."""
    lam, before = float64([0.0, 0.1, 3.0, 200.0]), float64([0.01, 0.5, 0.9])
    first, later = Hybrids.for_norm(4.0), Hybrids.for_norm(4.0, factor)
    v = (first.floors / (1.0 - first.floors)).unsqueeze(-1)
    c = (1.0 + v) / first.corners.unsqueeze(-1)
    variance = (c * lam + v) / factor**2  # over the noise variance in use
    assert_close(later.filters(lam / factor**2), variance / (1.0 + variance))
    assert_close(later.prices(lam / factor**2, len(lam)), variance.log1p().sum(-1))
    odds = [p / (1.0 - p) for p in (energy_levels(before, factor), before)]
    assert (odds[0] / odds[1]).tolist() == pytest.approx([factor**-2.0] * 3)


COUNTS = LikelihoodRegression(PROBLEM.X, (PROBLEM.Y > 0.0).double(), frozen_kernel("rbf"))
ROADS = {
    "filters": band,
    "martingale": partial(band, fit="martingale"),
    "unknown noise": partial(band, noise_std=UnknownNoise()),
    "near": lambda norm_bound: band(norm_bound=NearNormBall(norm_bound, 0.1)),
    "replicates": lambda **norm: band(**norm).band.with_replicates(20).within(-9.0, 9.0),
    "counts": partial(LikelihoodUCB, COUNTS),
    "family": of_family,
    "martingale family": partial(of_family, fit="martingale"),
    "family of counts": partial(of_family, COUNTS),
    "sum": lambda **norm: ScalarizedUCB([band(**norm), of_family(**norm)], [1.0, -2.0]),
}


@pytest.mark.parametrize(
    "road",
    [
        pytest.param(each, marks=[pytest.mark.slow] if each == "family of counts" else [])
        for each in ROADS
    ],
)
def test_the_one_event_does_not_depend_on_the_norm_bound_that_was_given(road):
    r"""So the norm bound itself may come from the data, or be the best of many."""
    built = [band_of("band", ROADS[road](norm_bound=NORM * of)) for of in (3.0, 8.0)]
    one, other = built[0].relaxed(8.0), built[1].relaxed(3.0)
    assert one.norm_bounds == pytest.approx(other.norm_bounds)
    few = GRID[::4]
    assert_close(one.bounds(few), other.bounds(few), rtol=1e-9, atol=1e-9)
    widths = [width(built[0].relaxed(factor), few) for factor in (1.0, 1.2, 2.0)]
    assert widths == sorted(widths)  # nested


def test_relaxed_bands_compose():
    plain = band()
    assert width(plain) < width(plain.band.relaxed()) < 1.04 * width(plain)
    twice = plain.band.relaxed(2.0, 1.5).relaxed(2.0, 2.0)
    assert width(twice) == pytest.approx(width(plain.band.relaxed(4.0, 3.0)), rel=1e-6)


# Breakdown values.


def test_a_breakdown_value_is_the_largest_norm_at_which_the_claim_holds():
    whole = band().band

    def holds(of):
        return regret_certificate(of, candidates=GRID).gap <= 1.0

    found = breakdown(whole, holds)
    assert isinstance(found.norm_bound, Estimate)
    norms = float(found.norm_bound), float(found.at_norm_bound)
    factor, at = (norm / (2.0 * NORM) for norm in norms)
    noise = float(found.noise_std) / PROBLEM.noise_std
    tried = [(factor,), (1.06 * factor,), (at, noise), (at, 1.06 * noise)]
    assert [holds(whole.relaxed(*each)) for each in tried] == [True, False] * 2
    least = float(whole.relaxed().least_norms[0])
    assert found.margin == pytest.approx(norms[0] / least)


def test_claims_that_stand_nowhere_and_everywhere():
    nowhere, always = breakdown(band(), lambda _: False), breakdown(band(), lambda _: True)
    assert nowhere.norm_bound == nowhere.margin == 0.0
    assert nowhere.noise_std is None
    assert "does not stand even at" in str(nowhere)
    assert always.stands_throughout
    assert always.margin == pytest.approx(1000.0, rel=0.06)
    report = optimum_report(IGPUCB(PROBLEM.model, norm_bound=NORM), GRID)
    assert all(claim.breakdown is None for claim in report.claims)  # no one event


@pytest.mark.slow
def test_of_a_family_it_has_a_shortest_length_scale():
    r"""Also of a sum of families, which names a length scale twice."""
    smooth, sharp = (
        lengthscale_family(frozen_kernel(kind), 0.1, 0.4) for kind in ("rbf", "matern12")
    )
    both = KernelFamilyUCB(PROBLEM.state, smooth[::-1] + sharp, norm_bound=30.0)
    family = of_family()
    for acqf, most in ((family, 2), (both, 4)):
        found = breakdown(acqf, lambda of, most=most: len(of.lengthscales) <= most)
        assert found.lengthscale == pytest.approx(0.2)
    assert breakdown(family, lambda of: len(of.lengthscales) <= 2).norm_bound == 0.0
    narrow = breakdown(family, lambda of: width(of) <= 2.0 * width(family))
    assert narrow.lengthscale == pytest.approx(0.1)


def test_noise_is_told_at_a_norm_that_the_data_do_not_contradict():
    with pytest.warns(InconsistentConfidenceSetWarning):
        found = breakdown(band(norm_bound=0.1), lambda _: True)
    assert found.at_norm_bound > 1.01 * found.least_consistent_norm


@pytest.mark.filterwarnings("ignore::kernelucb.exceptions.InconsistentConfidenceSetWarning")
def test_where_no_norm_explains_the_data_no_claim_stands():
    X = line(1.0, 10).repeat(4, 1)
    Y = torch.sin(6.0 * X[:, 0]) + torch.arange(4.0).double().repeat_interleave(10)
    data = KernelRegression(X, Y, frozen_kernel("rbf"), 0.01)
    acqf = MartingaleMixtureUCB(data, norm_bound=3.0)
    found = breakdown(acqf, lambda _: True)
    assert (found.norm_bound, found.least_consistent_norm) == (0.0, math.inf)
    assert "no function of any norm" in str(found)
    report = optimum_report(acqf, line(1.0, 5))
    assert report.claims == ()
    assert "least consistent norm" in str(report)


# Two breakdown values, each by many bands: half a second.
def test_a_claim_that_rests_on_a_sample_counts_its_probability():
    sample = 0.05 * GRID[:100:5]

    def few_fail(of):
        return failure_probability(of, -99.0, sample, sample_delta=0.3).upper <= 0.2

    with pytest.raises(UnsupportedError, match=r"delta=0\.35"):
        breakdown(band(), few_fail)
    found = breakdown(band(), few_fail, delta=0.35)
    assert found.delta == pytest.approx(0.35)
    assert str(found).endswith("(with probability 0.65)")
    with pytest.raises(UnsupportedError, match="repeated runs"):
        breakdown(band(), lambda _: confirmation([1.0, 1.1], noise_std=0.1).lower > 0.0)


# A known range.


def test_what_ranges_leave_to_a_sum_limits_its_gap_on_a_box():
    r"""At any norm, however few points branch and bound may look at."""
    ranged = band(norm_bound=1000.0).band.within(-4.0, 4.0)
    total = ScalarizedUCB([ranged] * 2, [1.0, -0.5], offset=3.0)
    report = optimum_report(total, bounds=LINE, max_evaluations=10)
    assert report.certificate.rigorous
    assert report.gap <= 8.0 * 1.5
    assert report.upper <= 3.0 + 4.0 * 1.5 + 1e-9


# A report whose claims are read: half a second.
def test_a_gap_that_the_range_leaves_is_no_news():
    ranged = band(norm_bound=1000.0).band.within(-4.0, 4.0)
    wide = regret_certificate(ranged, GRID)
    assert "(the known range alone says so)" in wide.sentence
    report = optimum_report(ranged, GRID)
    assert "range alone says so" in report.claims[-1].sentence
    near = regret_certificate(band().band.within(-400.0, 400.0), GRID)
    assert "range" not in near.sentence


def test_guard_constraints_safe_set_and_stop_keep_to_the_range():
    plain = band()
    lower, upper = plain.bounds(GRID)
    best = float(lower.max())
    high = best + 0.2 * float(upper.max() - best)
    ranged, room = plain.band.within(upper=high), high - best + 1e-6
    acqf = BandUCB(ranged)
    guard = GuardedAcquisition(acqf, acqf, observed=GRID, temperature=0.0)
    assert float(guard.excess(GRID).max()) <= room
    for outer in (guard, ConstrainedUCB(ranged, OutcomeConstraints(ranged, 0.0))):
        assert f"at most {high} everywhere" in str(outer.assumptions)
        assert float(outer.band.at(norm_bound=50.0).bounds(GRID)[1].max()) <= high
    for of, inside in ((ranged, True), (plain, False)):
        limits = OutcomeConstraints(of, high + 1e-6)
        assert bool(limits.may_be_feasible(GRID).any()) is not inside
        assert bool(SafeSet(of, high, sides="<=").is_safe(GRID).all()) is inside
        assert CertifiedGapStopping(room, bounds=LINE)(of).stop is inside


def test_a_band_with_a_kernel_of_its_own_finds_a_contradicted_range():
    r"""It has only the inputs that the model's transform made of those observed."""
    X, inputs = 5.0 * PROBLEM.X, Normalize(d=1, bounds=5.0 * LINE)
    data = X, PROBLEM.Y, PROBLEM.kernel, PROBLEM.noise_std
    model, norm = frozen_model(*data, input_transform=inputs), {"norm_bound": 2.0 * NORM}
    acqf = MartingaleMixtureUCB.from_model(model, **norm, kernel="rbf", lengthscale=0.3)
    assert_close(acqf.band.observed, X)
    with pytest.warns(InconsistentConfidenceSetWarning):
        wrong = acqf.band.within(50.0, 60.0)
    assert wrong.assumptions.violated
    assert_close(wrong.bounds(X), acqf.bounds(X))  # it changes no side
    sketched = SketchedMartingaleMixtureUCB(NystromRegression.from_model(model, X), **norm)
    said = sketched.band.within(50.0).assumptions["range"].statement
    assert "not compared with the data" in said


# The ladder.


# A report with all its claims and their breakdown values: a second.
def test_the_ladder_says_what_the_band_says():
    acqf, baseline = band(), GRID[10]
    relaxed, point = acqf.band.relaxed(), GRID[torch.argmax(acqf.bounds(GRID)[0])]
    asked = {"recommended": point, "baseline": baseline, "tolerance": 0.5}
    report = optimum_report(acqf, GRID, **asked)
    claims = {claim.kind: claim for claim in report.claims}
    here, there = point.unsqueeze(0), baseline.unsqueeze(0)
    gains = relaxed.max_gain_over(GRID, here)
    near = ((GRID - point).abs() <= 0.05 + 1e-12).squeeze(-1)
    expected = {
        "value": [*map(float, relaxed.bounds(here))],
        "baseline": [-float(relaxed.max_gain_over(there, here))],
        "window": [max(float(gains[near].max()), 0.0)],
        "anywhere": [float(gains.max())],
    }
    for kind, numbers in expected.items():
        assert claims[kind].numbers == pytest.approx(numbers)
    margins = [claim.margin for claim in report.claims[1:]]
    assert margins == sorted(margins, reverse=True)
    gap = partial(regret_certificate, candidates=GRID, recommended=point)
    found = breakdown(acqf, lambda of: gap(of).gap <= 0.5)
    norm = pytest.approx(float(found.norm_bound))
    assert claims["anywhere"].breakdown.norm_bound == norm


@pytest.mark.representatives("3")
@pytest.mark.parametrize("count", [1, 3])
def test_the_default_tolerance_is_not_below_a_twentieth_of_the_noise(count):
    X = 0.1 + line(0.8, count)
    state = KernelRegression(X, 2.0 * X.squeeze(-1), frozen_kernel("rbf"), 30.0)
    report = optimum_report(MartingaleMixtureUCB(state, norm_bound=1.0), GRID, window=0.1)
    (near,) = [claim for claim in report.claims if claim.kind == "window"]
    assert near.tested.endswith("is higher by more than 1.5")


# Without a kernel.


def test_confirmation_is_its_formula():
    found = confirmation([3.0, 4.0, 5.0], noise_std=2.0, delta=0.1, expected_runs=4)
    rho = 8.2 / 4
    squared = math.log(1 + 3 * rho) + 2 * math.log(1 / 0.1)
    half = 2.0 * math.sqrt((1 + 1 / (3 * rho)) * squared / 3)
    assert (found.estimate, found.upper) == (4.0, pytest.approx(4.0 + half))
    assert "noise scale 2, given" in str(found)
    assert "noise scale 2, estimated" in str(confirmation([3.0], noise_std=Estimate(2.0)))


def test_confirmation_of_a_difference_covers_at_every_look():
    r"""False alarm below 1e-4; an interval at three times delta is found with 0.99."""
    random, misses = generator(0), 0
    for _ in range(300):
        a, b = torch.randn(2, 40, generator=random).double()
        looks = [
            confirmation(a[:n] + 1.0, b[:m], noise_std=1.0, delta=0.2)
            for n, m in ((1, 1), (2, 5), (4, 8), (10, 10), (30, 12), (40, 40))
        ]
        misses += any(not look.lower <= 1.0 <= look.upper for look in looks)
    assert misses <= 88


def test_a_plan_is_the_first_number_that_reaches_the_gap():
    kernel = frozen_kernel("matern52", 0.5)
    plan = runs_needed(kernel, LINE, 5.0, 0.1, 0.6)
    assert plan.gaps[plan.runs] <= 0.6
    assert f"about {plan.runs}" in str(plan)
    beyond = runs_needed(kernel, LINE, 5.0, 0.1, 0.01, max_runs=60)
    assert (beyond.runs, "more than 60" in str(beyond)) == (None, True)


# Claims that rest on several bands.


def line(end, count):
    return torch.linspace(0.0, end, count, dtype=torch.float64).unsqueeze(-1)


def hills(heights, norm_bound, end, seed):
    r"""A band of hills at 0.2 and 0.8, observed from 0 to an end."""
    kernel, X = frozen_kernel("rbf", 0.12), line(end, int(31 * end) + 1)
    values = kernel(X, float64([[0.2], [0.8]])).to_dense() @ float64(heights)
    data = KernelRegression(X, values + 0.05 * normal(len(X), seed), kernel, 0.05)
    return MartingaleMixtureUCB(data, norm_bound=norm_bound)


# Breakdown values of two outcomes, each by many bands: a second.
@pytest.mark.representatives("1")
@pytest.mark.parametrize("seed", range(3))
def test_norm_bounds_of_others_are_not_lowered_and_are_named(seed):
    r"""False claims fall at the true norms: 2.24 of both outcomes, given as 6.7 and 2.35.

    The constraint was observed below 0.45 alone, so feasible hills may be beyond.
    """
    purity = hills([1.0, 2.0], 2.35, 0.45, seed + 50)
    limits, points = OutcomeConstraints(purity, 0.5, names=["purity"]), line(1.0, 21)
    options = {"recommended": points[4], "tolerance": 0.3, "candidates": points}
    objective = hills([1.0, 2.0], 6.7, 1.0, seed)
    report = optimum_report(objective, constraints=limits, **options)
    (claim,) = [each for each in report.claims if each.kind == "anywhere"]
    assert not claim.tested.endswith("by more than 0.3")  # 1.0 is true
    norms = dict(claim.breakdown.norms)
    assert list(norms) == ["objective", "purity"]
    assert norms["purity"] >= 2.35
    assert norms["objective"] == pytest.approx(float(claim.breakdown.norm_bound))


@pytest.mark.representatives("1")
@pytest.mark.parametrize("seed", range(3))
def test_terms_of_a_sum_keep_their_norm_bounds(seed):
    r"""True norms 4 and 1.9, given as 9 and 2; a point is better by 1.1, not by 0.9."""
    bands = hills([4.0, 0.0], 9.0, 1.0, seed), hills([0.0, 1.9], 2.0, 0.45, seed + 50)
    total, points = ScalarizedUCB(bands, [0.2, 1.0]), line(1.0, 101)

    def within(level):
        def holds(of):
            return float(of.max_gain_over(points, points[20:21]).max()) <= level

        return breakdown(total, holds)

    assert within(0.9).norm_bound == 0.0
    first, second = (float(norm) for _, norm in within(3.0).norms)
    assert first >= 9.0
    assert second >= 2.0
    assert first / second == pytest.approx(4.5)


def test_the_length_scale_is_asked_of_the_objective_alone():
    r"""And a norm bound of a constraint is not lowered, whatever the objective's."""
    limits = OutcomeConstraints(of_family(), -9.0)
    task = Task.of(of_family(), limits, as_domain(candidates=line(1.0, 5)), None)
    again = task.relaxed(0.9, 1.0, 0.2)
    other = again.bands["constraint 1"]
    assert len(again.bound.lengthscales) < len(other.lengthscales)
    assert (again.bound.smallest_norm_bound, other.smallest_norm_bound) == (4.5, 5.0)
