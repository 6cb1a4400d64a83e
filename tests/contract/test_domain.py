r"""Where a band holds: every road from a band of listed points to words asks its points."""

import pytest
import torch
from botorch.acquisition import qLogNoisyExpectedImprovement
from botorch.exceptions import UnsupportedError
from gpytorch.kernels import MaternKernel

from kernelucb import (
    CertifiedGapStopping,
    ConstrainedUCB,
    GuardedAcquisition,
    KernelFamilyUCB,
    KernelRegression,
    LevelSetAmbiguity,
    MartingaleMixtureUCB,
    MixedSpace,
    OutcomeConstraints,
    ParetoWidth,
    SafeSet,
    ScalarizedUCB,
    failure_probability,
    level_set,
    norm_from_simulator,
    norm_from_tasks,
    optimize_acqf_safely,
    optimum_report,
    pareto_set,
    regret_certificate,
)
from kernelucb.confidence.band import band_of
from kernelucb.exceptions import NoSafePointError, UncertifiedError
from problems import float64, make_problem

KERNEL = MaternKernel(2.5).double().requires_grad_(False)
KERNEL.lengthscale = 0.4
AXIS = torch.linspace(0.0, 1.0, 4, dtype=torch.float64)
TABLE = torch.cartesian_prod(AXIS, AXIS)
BOX = float64([[0.0, 0.0], [1.0, 1.0]])
OFF = TABLE + float64([0.01, 0.0])
FACTOR = torch.linalg.cholesky(KERNEL(TABLE).to_dense())
DRAWS = FACTOR @ torch.randn(16, 30, generator=torch.Generator().manual_seed(1)).double()
NORM = norm_from_simulator(lambda i: DRAWS[:, i], TABLE, KERNEL, 29)
FEW = {"max_evaluations": 100}


def band(norm=NORM, inputs=TABLE, delta=0.1):
    noise = torch.randn(len(inputs), generator=torch.Generator().manual_seed(2)).double()
    data = KernelRegression(inputs, DRAWS[:, 29] + 0.1 * noise, KERNEL, 0.1)
    return MartingaleMixtureUCB(data, norm_bound=norm, delta=delta)


of = band_of
# Bands that hold at the table's points alone.
BANDS = {
    "itself": lambda: band(),
    "tasks": lambda: band(norm_from_tasks([(TABLE, f) for f in DRAWS.T[:29]], KERNEL)),
    "relaxed": lambda: of("", band()).relaxed(1.5),
    "delta": lambda: of("", band()).at(delta=0.2),
    "range": lambda: of("", band()).within(-50.0, 50.0),
    "replicates": lambda: of("", band(delta=0.2)).with_replicates(),
    "design": lambda: of("", band(delta=0.2)).with_fixed_design(16, candidates=TABLE),
    "sum": lambda: ScalarizedUCB([band(), band(9.0)], [1.0, -0.5]),
    "relaxed sum": lambda: ScalarizedUCB([band(9.0), band()], [1.0, 0.5]).band.relaxed(),
}


def limits(b):
    return OutcomeConstraints(b, -9.0)


def beside(b, **domain):
    return regret_certificate(band(9.0), constraints=limits(b), **domain, **FEW)


def report(b, **options):
    return optimum_report(b, **options, **FEW)


# Statements about points of the table: certified.
INSIDE = {
    "certificate": lambda b: regret_certificate(b, candidates=TABLE).certified,
    "some of the points": lambda b: regret_certificate(b, candidates=TABLE[3:7]).certified,
    "context": lambda b: (
        regret_certificate(
            b, candidates=TABLE, fixed_features={1: float(AXIS[2])}
        ).certified
    ),
    "finite space": lambda b: (
        regret_certificate(
            b, space=MixedSpace(BOX, discrete_dims={0: AXIS.tolist(), 1: AXIS.tolist()})
        ).certified
    ),
    "constraint": lambda b: beside(b, candidates=TABLE).certified,
    "baseline": lambda b: report(b, candidates=TABLE, baseline=TABLE[5]).certified,
    "level set": lambda b: level_set(b, 0.0, candidates=TABLE).certified,
    "failures": lambda b: failure_probability(b, 0.0, TABLE[:5]).certified,
    "front": lambda b: pareto_set([b, band(9.0)], TABLE, 0.1).certified,
    "stop": lambda b: CertifiedGapStopping(99.0, TABLE)(b).stop,
    "safe points": lambda b: SafeSet(b, -9.0).assumptions.certified,
}
# Statements about other points: none is certified, or a refusal.
OUTSIDE = {
    "band": lambda b: b.assumptions.certified,
    "legend": lambda b: "certified" in b.assumptions.verdict,
    "print": lambda b: "certified" in str(b.assumptions),
    "certificate": lambda b: regret_certificate(b, candidates=OFF).certified,
    "one point off": lambda b: (
        regret_certificate(b, candidates=torch.cat([TABLE, OFF[:1]])).certified
    ),
    "box": lambda b: regret_certificate(b, bounds=BOX, **FEW).certified,
    "context": lambda b: (
        regret_certificate(b, candidates=TABLE, fixed_features={1: 0.5}).certified
    ),
    "finite space": lambda b: (
        regret_certificate(
            b, space=MixedSpace(BOX, discrete_dims={0: AXIS.tolist(), 1: [0.0, 0.5]})
        ).certified
    ),
    "mixed space": lambda b: (
        regret_certificate(
            b, space=MixedSpace(BOX, discrete_dims={0: AXIS.tolist()}), **FEW
        ).certified
    ),
    "constraint": lambda b: beside(b, candidates=OFF).certified,
    "baseline": lambda b: report(b, candidates=TABLE, baseline=OFF[5]).certified,
    "report": lambda b: report(b, bounds=BOX).certified,
    "level set": lambda b: level_set(b, 0.0, candidates=OFF).certified,
    "level set of a box": lambda b: level_set(b, 0.0, bounds=BOX, **FEW).certified,
    "failures": lambda b: failure_probability(b, 0.0, OFF[:5]).certified,
    "front": lambda b: pareto_set([b, band(9.0)], OFF, 0.1).certified,
    "front's stop": lambda b: pareto_set([b, band(9.0)], OFF, 99.0).stop,
    "stop": lambda b: CertifiedGapStopping(99.0, OFF)(b).stop,
    "stop in a box": lambda b: CertifiedGapStopping(99.0, bounds=BOX)(b).stop,
    "constraints": lambda b: limits(b).assumptions.certified,
    "search": lambda b: ConstrainedUCB(band(9.0), limits(b)).assumptions.certified,
    "next of a level": lambda b: LevelSetAmbiguity(b, 0.0).assumptions.certified,
    "next of a front": lambda b: ParetoWidth([band(9.0), b], 0.1).assumptions.certified,
    "safe points": lambda b: bool(SafeSet(b, -9.0).is_safe(OFF).any()),
    "safe edge": lambda b: SafeSet(b, -9.0).nonlinear_inequality_constraints != [],
    "estimated safe set": lambda b: (
        SafeSet(b, -9.0, allow_estimated=True).assumptions.certified
    ),
    "guard": lambda b: guard(b).assumptions.certified,
    "sum": lambda b: ScalarizedUCB([band(9.0), b], [1.0, 1.0]).assumptions.certified,
}


def guard(b):
    model = make_problem(n=5, d=2, norm=2.0, noise_std=0.1, seed=1)
    acqf = qLogNoisyExpectedImprovement(model.model, model.X, prune_baseline=False)
    return GuardedAcquisition(acqf, b)


@pytest.fixture(scope="module")
def bands():
    return {name: build() for name, build in BANDS.items()}


# By default two kinds of band; the others are the same roads again.
KINDS = [
    name
    if name in ("itself", "relaxed sum")
    else pytest.param(name, marks=pytest.mark.slow)
    for name in BANDS
]


@pytest.mark.parametrize("name", KINDS)
def test_the_points_of_the_table_are_certified(name, bands):
    for road, says in INSIDE.items():
        assert says(bands[name]), road


# Every road from a band to other points, with its search: a second.
@pytest.mark.representatives("itself")
@pytest.mark.parametrize("name", KINDS)
def test_other_points_are_not(name, bands):
    for road, says in OUTSIDE.items():
        try:
            certified = says(bands[name])
        except (UnsupportedError, UncertifiedError):
            continue  # refused
        assert not certified, road


@pytest.mark.parametrize("where", ["off", "one of them", "unknown"])
def test_runs_elsewhere_contradict_the_norm_and_unknown_points_estimate_it(where):
    inputs = TABLE.clone()
    inputs[:: 1 if where == "off" else 16] += 0.01
    known = {"off": NORM, "one of them": NORM}
    tasks = [(TABLE, f) for f in DRAWS.T[:28]] + [(TABLE[:9], DRAWS[:9, 28])]
    norm = known.get(where) or norm_from_tasks(tasks, KERNEL)
    found = band(norm, inputs, delta=0.3)
    assert found.assumptions.violated == (where != "unknown")
    for road, says in INSIDE.items():
        try:
            certified = says(found)
        except (UncertifiedError, UnsupportedError):
            continue
        assert not certified, road
    if where != "unknown":
        assert "16 runs lie at points" in str(found.assumptions)
        assert not found.band.relaxed().at(norm_bound=50.0).assumptions.violated
    else:
        given = norm_from_tasks(tasks, KERNEL, points=TABLE)
        assert band(given, delta=0.3).assumptions.at(TABLE).certified


def test_a_point_is_a_listed_one_to_a_millionth_of_a_length_scale():
    near, far = TABLE + 1e-7, TABLE + 1e-5
    found = band().assumptions
    assert found.at(near).certified
    assert not found.at(far).certified
    assert found.mask(torch.stack([near[0], far[0]])).tolist() == [True, False]


def test_a_safe_search_returns_points_of_the_table_alone():
    found = SafeSet(band(), -9.0, safe_points=TABLE[:1])
    x, _ = optimize_acqf_safely(band(), found, BOX, num_restarts=2, raw_samples=16)
    assert x.tolist() == TABLE[:1].tolist()
    assert len(found.filter(torch.cat([TABLE, OFF]))) == 16
    with pytest.raises(NoSafePointError):
        optimize_acqf_safely(band(), SafeSet(band(), -9.0), BOX, raw_samples=16)


def test_a_front_stops_on_what_is_certified_or_allowed_alone():
    exact, near = band(9.0), band(None)
    candidates = TABLE[:3]
    assert pareto_set([exact, exact], candidates, 99.0).stop
    assert not pareto_set([exact, near], candidates, 99.0).stop
    assert pareto_set([exact, near], candidates, 99.0, allow_estimated=True).stop


@pytest.mark.filterwarnings("ignore::kernelucb.exceptions.InconsistentConfidenceSetWarning")
def test_no_front_stops_on_contradicted_bands():
    wrong = band(0.01)
    for options in ({}, {"allow_estimated": True}):
        assert not pareto_set([band(9.0), wrong], TABLE[:3], 99.0, **options).stop


def test_turns_of_a_guard_search_a_whole_family():
    r"""The first kernel's bound at a point bounds no regret of the union's."""
    short = MaternKernel(2.5).double().requires_grad_(False)
    short.lengthscale = 0.1
    data = KernelRegression(TABLE[:5], DRAWS[:5, 29], KERNEL, 0.1)
    family = KernelFamilyUCB(data, [KERNEL, short], norm_bound=9.0, widest_every=None)
    whole = family.bounds(OFF)[1]
    assert not torch.allclose(family(OFF.unsqueeze(-2)), whole)  # of the first kernel
    searches = family, ConstrainedUCB(family, limits(band(9.0)), temperature=0.0)
    for search in searches:
        acqf = GuardedAcquisition(family, search, ucb_every=1, temperature=0.0)
        assert torch.allclose(acqf(OFF.unsqueeze(-2)), whole)
    assert not torch.allclose(family(OFF.unsqueeze(-2)), whole)  # as before
