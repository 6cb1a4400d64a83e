r"""The joint set of functions and noise scales against dense, slow versions of it."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from kernelucb import (
    KernelRegression,
    MartingaleMixtureUCB,
    StreamingKernelUCB,
    UnknownNoise,
)
from kernelucb.confidence.radius import DEFAULT_SCALES, covariance_scales
from kernelucb.exceptions import InconsistentConfidenceSetWarning
from oracles import joint, socp
from problems import (
    KERNELS,
    float64,
    frozen_model,
    interval_of,
    make_problem,
    normal,
    uniform,
)
from tolerances import ORDER, SCALE, SOCP

DELTA, NORM = 0.1, 3.0
BOUNDS = (0.02, 1.0)


def unknown(model, limits=BOUNDS, bound=MartingaleMixtureUCB, **options):
    options = {"norm_bound": NORM, "delta": DELTA, **options}
    return bound(model, noise_std=UnknownNoise(*limits), **options)


def noise_grid(lower, upper):
    r"""Ten scales to the octave from the lower bound on."""
    steps = math.ceil(10 * math.log2(upper / lower))
    return [lower * 2.0 ** (step / 10) for step in range(steps + 1)]


def oracle_of(problem, scales=DEFAULT_SCALES, bounds=BOUNDS):
    r"""``s -> R^2(s)`` in outcome units."""
    K, n = problem.kernel(problem.X).to_dense(), len(problem.Y)
    density = joint.log_mixture_density(K, problem.Y, noise_grid(*bounds), scales)
    return lambda s: joint.squared_radius(s, density, n, DELTA)


@pytest.mark.covering
@pytest.mark.parametrize("scales", ["mixture", [0.3, 1.0, 5.0], 1.0])
@pytest.mark.parametrize("n", [1, 2, 3, 25])
def test_radius_is_the_largest_of_all_noise_scales(n, scales):
    problem = make_problem(n=n, d=2, norm=NORM, noise_std=0.2, seed=n)
    R2 = oracle_of(problem, covariance_scales(scales))(np.geomspace(*BOUNDS, 20001))
    acqf = unknown(problem.state, covariance_scale=scales)
    unit = float(acqf.band.data.noise_scales[0])
    squared = acqf.band.function_constraints.radius.squared(acqf.band.data) * unit**2
    # No function of bounded norm is farther from the data than this.
    lam = float(torch.linalg.eigvalsh(problem.kernel(problem.X).to_dense())[-1])
    farthest = (float(problem.Y.norm()) + math.sqrt(lam) * NORM) ** 2
    assert squared == pytest.approx(min(R2.max(), farthest), rel=1e-6)


@pytest.mark.representatives("matern52")
@pytest.mark.parametrize("name", KERNELS)
def test_bound_is_the_union_over_noise_scales(name):
    r"""One cone program for each noise scale, with that scale's radius."""
    problem = make_problem(n=15, d=2, kernel=name, norm=NORM, noise_std=0.2, seed=3)
    R2, point = oracle_of(problem), problem.test_X[:1]
    K = problem.kernel(torch.cat([problem.X, point])).to_dense()
    ones = torch.ones(15, dtype=torch.float64)
    values = [
        socp.upper_deviation(K, problem.Y, ones, float(R2(s)), NORM)
        for s in np.geomspace(*BOUNDS, 60)
        if R2(s) > 0.5 * R2(np.geomspace(*BOUNDS, 2001)).max()
    ]
    best = float(unknown(problem.state).bounds(point)[1])
    assert max(values) <= best + SOCP
    # The grid passes within 3 % of the scale of the largest radius, where R^2 is flat.
    assert best <= max(values) + 1e-2


@pytest.mark.representatives("4")
@pytest.mark.parametrize("n", [4, 60])
def test_interval_holds_the_scales_that_some_function_explains(n):
    problem = make_problem(n=n, d=2, norm=NORM, noise_std=0.2, seed=n)
    R2, (lower, upper) = oracle_of(problem), interval_of(unknown(problem.state))
    lam, U = torch.linalg.eigh(problem.kernel(problem.X).to_dense())
    z, lam = U.mT @ problem.Y, lam.clamp_min(0.0)
    ridges = torch.logspace(-12, 6, 40001, dtype=torch.float64).unsqueeze(-1)
    weights = z / (lam + ridges)
    inside = (lam * weights.square()).sum(-1) <= NORM**2
    least = float((ridges * weights).square().sum(-1)[inside].min())
    for bound, outward in ((lower, 0.99), (upper, 1.01)):
        if bound not in BOUNDS:
            assert R2(bound) == pytest.approx(least, rel=1e-3)
            assert R2(bound * outward) < least < R2(bound / outward)
    assert BOUNDS[0] <= lower < upper <= BOUNDS[1]


def test_one_noise_scale_is_the_known_one():
    r"""The mixture radius of the known noise is what is left of the joint set."""
    problem = make_problem(n=20, d=2, kernel="matern52", noise_std=0.2)
    joint_band = unknown(problem.state, (0.2, 0.2))
    options = {"norm_bound": NORM, "delta": DELTA, "fit": "martingale"}
    ball = MartingaleMixtureUCB(problem.state, covariance_scale="mixture", **options)
    assert interval_of(joint_band) == [0.2, 0.2]
    sides = joint_band.bounds(problem.test_X), ball.bounds(problem.test_X)
    assert_close(*sides, rtol=0.0, atol=1e-8 * NORM)


@given(seed=st.integers(0, 100), n=st.integers(1, 30), factor=st.sampled_from([1e-4, 1e3]))
def test_scales_with_the_outcomes(seed, n, factor):
    r"""The kernel stays, so its scale relative to the noise is the mixture's c."""
    problem = make_problem(n=n, d=2, seed=seed)
    X, Y, kernel = problem.X, factor * problem.Y, problem.kernel
    options = {"covariance_scale": [factor**2 * c for c in DEFAULT_SCALES]}
    options |= {"norm_bound": factor * NORM}
    limits = tuple(factor * bound for bound in BOUNDS)
    scaled = unknown(KernelRegression(X, Y, kernel, 0.1 * factor), limits, **options)
    plain = unknown(problem.state)
    found, expected = (torch.stack(a.bounds(problem.test_X)) for a in (scaled, plain))
    assert_close(found, factor * expected, rtol=0.0, atol=10 * SCALE * factor * NORM)
    interval = [factor * end for end in interval_of(plain)]
    assert interval_of(scaled) == pytest.approx(interval, rel=1e-6, abs=0.0)


@pytest.mark.slow
@given(seed=st.integers(0, 100), n=st.integers(1, 30))
def test_grows_with_certainty_and_norm(seed, n):
    problem, slack = make_problem(n=n, d=2, seed=seed), 1e-8 * NORM

    def found(**wider):
        acqf = unknown(problem.state, **wider)
        return *acqf.bounds(problem.test_X), *map(float64, interval_of(acqf))

    lower, upper, least, largest = found()
    assert bool((lower <= upper + ORDER).all() and least < largest)
    for below, above, low, high in (found(delta=0.02), found(norm_bound=2 * NORM)):
        assert bool(((below <= lower + slack) & (upper <= above + slack)).all())
        assert low <= least + slack
        assert largest <= high + slack


def test_without_bounds_nothing_is_assumed():
    r"""Outcomes that scatter beyond what the mixture covers: wide, and still defined."""
    problem = make_problem(n=25, d=2, noise_std=0.2)
    acqf = unknown(problem.state, ())
    lower, upper = interval_of(acqf)
    assert 0.0 < lower < 0.2 < upper < 1.0
    assert acqf.assumptions.certified
    wild = KernelRegression(problem.X, 1e9 * normal(25, 1), problem.kernel, 0.2)
    acqf = unknown(wild, ())
    lower, upper = acqf.bounds(problem.test_X)
    assert_close(upper, -lower)
    assert acqf.band.noise_interval[1] == math.inf


FORMS = [
    *((limits, MartingaleMixtureUCB) for limits in (BOUNDS, ())),
    *((limits, StreamingKernelUCB) for limits in (BOUNDS, BOUNDS[:1])),
]


@pytest.mark.parametrize(("limits", "bound"), FORMS)
@pytest.mark.filterwarnings("ignore::kernelucb.exceptions.InconsistentConfidenceSetWarning")
def test_few_constant_and_repeated_outcomes(limits, bound):
    X, kernel = uniform(2, 1, 0), make_problem().kernel
    for inputs in (X[:1], X, X[:1].expand(3, 1)):
        n = len(inputs)
        for outcomes in (torch.zeros(n), torch.full((n,), 1e-3), normal(n, 1)):
            state = KernelRegression(inputs, outcomes.double(), kernel, 1.0)
            acqf = unknown(state, limits, bound)
            lower, upper = acqf.bounds(torch.cat([uniform(5, 1, 2), X]))
            assert bool((torch.isfinite(upper - lower) & (lower <= upper)).all())
            low, high = acqf.band.noise_interval
            assert 0.0 <= low <= high


def test_outcomes_quieter_and_louder_than_the_bounds_allow():
    r"""The lower bound stands; a quiet sample is no contradiction to loud noise."""
    problem = make_problem(n=60, d=1, noise_std=1e-4, norm=1.0)
    assert unknown(problem.state, (0.3, 1.0), norm_bound=1.0).band.noise_interval[0] == 0.3
    assert unknown(problem.state, (), norm_bound=1.0).band.noise_interval[1] < 0.3
    problem = make_problem(n=60, d=1, noise_std=0.5, norm=1.0)
    with pytest.warns(InconsistentConfidenceSetWarning, match="norm"):
        acqf = unknown(problem.state, (1e-3, 1e-2), norm_bound=1.0)
    assert not acqf.assumptions.certified
    lower, upper = acqf.band.noise_interval
    assert lower <= upper <= 1e-2


def test_the_noise_of_the_model_is_not_used():
    problem, found = make_problem(n=30, d=2), []
    for noise in (0.03, 0.7):
        acqf = unknown(frozen_model(problem.X, problem.Y, problem.kernel, noise))
        assert acqf.assumptions.certified
        assert "between 0.02 and 1" in acqf.assumptions["noise"].statement
        found.append((*acqf.bounds(problem.test_X), acqf.band.data.noise_scales))
    assert_close(*found, rtol=0.0, atol=1e-8 * NORM)
