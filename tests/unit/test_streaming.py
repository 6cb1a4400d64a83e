r"""Unknown noise: tracker and band against the paper's formulas, and their edges."""

import math

import pytest
import torch
from botorch.models.transforms import Standardize
from torch.testing import assert_close

from kernelucb import (
    KernelRegression,
    StreamingKernelUCB,
    StreamingNoiseTracker,
    UnknownNoise,
)
from kernelucb.confidence.assumptions import Status
from kernelucb.exceptions import InconsistentConfidenceSetWarning
from oracles import streaming as oracle
from problems import (
    RKHSFunction,
    frozen_kernel,
    frozen_model,
    interval_of,
    normal,
    uniform,
)
from tolerances import LINEAR_SOLVE, SCALE

SIGMA, NORM, LOWER, DELTA = 0.3, 1.0, 0.1, 0.3
KERNEL = frozen_kernel("rbf", 1.0)
X = uniform(300, 1, seed=40)
Y = RKHSFunction.random(KERNEL, NORM, 1, seed=41)(X) + SIGMA * normal(300, seed=43)
QUERIES = uniform(5, 1, seed=44)
CLOSE = {"rtol": LINEAR_SOLVE, "atol": LINEAR_SOLVE}


def state(n, noise_std=0.5):
    return KernelRegression(X[:n], Y[:n], KERNEL, noise_std)


def gram(n):
    return KERNEL(X[:n]).to_dense()


def tracker(noise_upper=5.0, delta=DELTA):
    return StreamingNoiseTracker(NORM, UnknownNoise(LOWER, noise_upper), delta)


def bound(model, noise_upper=5.0, **options):
    noise = UnknownNoise(LOWER, noise_upper)
    defaults = {"norm_bound": NORM, "noise_std": noise, "delta": DELTA}
    return StreamingKernelUCB(model, **{**defaults, **options})


# Nearly a second, in which alone the constant of a step is found out.
def test_several_observations_take_their_steps_on_all_data():
    n, minus, plus = len(X), LOWER, 5.0
    for _ in range(n):
        minus, plus = oracle.sandwich(gram(n), Y, NORM, 5.0, DELTA / 3.0, minus, plus)
    assert tracker().observe(state(n)) == pytest.approx((minus, plus), rel=LINEAR_SOLVE)
    assert LOWER < minus < SIGMA < plus < 5.0


@pytest.mark.parametrize("n", [1, 7, 300])
def test_band_is_the_corollary_at_a_quarter_of_delta(n):
    acqf = bound(state(n))
    interval = interval_of(acqf)
    assert (*interval,) == tracker(delta=0.75 * DELTA).observe(state(n))
    assert acqf.band.constants["alpha"] == pytest.approx((interval[1] / NORM) ** 2)
    k, v = KERNEL(QUERIES, X[:n]).to_dense(), KERNEL(QUERIES, diag=True)
    centre, half = oracle.corollary_band(gram(n), k, v, Y[:n], NORM, *interval, DELTA / 4.0)
    assert_close(acqf.bounds(QUERIES), (centre - half, centre + half), **CLOSE)


def test_band_from_a_tracker_has_the_tracker_s_interval():
    tracked = tracker()
    for n in (60, 120, 300, 300):  # at last nothing is new, and nothing changes
        before, acqf = tracked.interval, bound(state(n), tracker=tracked)
    assert acqf.band.noise_interval == (tracked.lower, tracked.upper) == before


def test_the_printed_lower_bound_is_not_used():
    r"""Its extra factor would exclude the true scale, at a large regulariser."""
    n, largest, norm, level = 100, 50.0, 5.0, DELTA / 3.0
    inputs, noise = torch.zeros(n, 1, dtype=torch.float64), 0.05 * normal(n, 1)
    regression = KernelRegression(inputs, norm + noise, KERNEL, 1.0)  # f = 5 k(0, .)
    lam = (largest / norm) ** 2
    s = oracle.residual_std(KERNEL(inputs).to_dense(), norm + noise, lam)
    assert oracle.printed_lower(s, n, lam, norm, 1.0 + 1.0 / lam, level) > 10.0 * 0.05
    tracked = StreamingNoiseTracker(norm, UnknownNoise(0.01, largest), delta=DELTA)
    lower, upper = tracked.observe(regression)
    assert lower <= 0.05 <= upper


@pytest.mark.representatives("None")
@pytest.mark.parametrize("noise_upper", [1.0, 5.0, None])
def test_interval_converges_whatever_the_initial_guess(noise_upper):
    r"""About three times the scale after 1000 observations, from any start."""
    kernel, inputs = frozen_kernel("rbf", 0.3), uniform(1000, 1, seed=7)
    outcomes = RKHSFunction.random(kernel, 2.06, 1, seed=5)(inputs)
    outcomes = outcomes + 0.1 * normal(1000, seed=8)
    tracked = StreamingNoiseTracker(5.0, UnknownNoise(0.01, noise_upper), delta=0.1)
    for n in (600, 800, 1000):
        data = inputs[:n], outcomes[:n]
        lower, upper = tracked.observe(KernelRegression(*data, kernel, 1.0))
    assert 0.07 < lower < 0.1
    assert 0.25 < upper < 0.32


def test_without_an_upper_bound_the_band_is_that_of_the_prior():
    r"""The limit of Eq. (3): estimate the mean, deviation that of the prior."""
    acqf = bound(state(3), None)
    assert acqf.band.noise_interval[1] == acqf.band.constants["alpha"] == math.inf
    lower, upper = acqf.bounds(QUERIES)
    D = 2.0 * math.log(4.0 / DELTA) + oracle.log_det(gram(3), (LOWER / NORM) ** 2)
    assert_close(upper, torch.full_like(upper, NORM * (1.0 + math.sqrt(D))))
    assert_close(lower, -upper)
    large = bound(state(3), 1e6)
    assert_close(large.bounds(QUERIES), (lower, upper), rtol=1e-6, atol=1e-6)
    assert LOWER < tracker(None).observe(state(300))[0] < SIGMA


@pytest.mark.parametrize("factor", [1e-3, 1e4])
def test_outcome_units(factor):
    r"""Outcomes and noise in other units, with an offset that the model takes out."""
    outcomes, transform = factor * (50.0 + Y), Standardize(m=1, min_stdv=1e-14)
    model = frozen_model(X, outcomes, KERNEL, 0.2, outcome_transform=transform)
    unit = KernelRegression.from_model(model).outcome_scale
    scaled = KernelRegression(X, (Y - Y.mean()) * factor / unit, KERNEL, 0.2)
    one, other = (
        bound(data, norm_bound=c * NORM, noise_std=UnknownNoise(c * LOWER, c * 5.0))
        for data, c in ((model, unit), (scaled, 1.0))
    )
    expected = [unit * end for end in interval_of(other)]
    assert interval_of(one) == pytest.approx(expected, rel=LINEAR_SOLVE)
    sides = tuple(outcomes.mean() + unit * side for side in other.bounds(QUERIES))
    assert_close(one.bounds(QUERIES), sides, rtol=LINEAR_SOLVE, atol=unit * SCALE)


@pytest.mark.parametrize(
    ("outcomes", "largest"),
    [
        (torch.zeros_like(Y), 5.0),  # less noise than the lower limit
        (Y, 0.11),  # more than the upper limit
        (30.0 * (20.0 * X[:, 0]).sin(), 5.0),  # a norm far above norm_bound
    ],
)
def test_contradictions_warn_once_and_take_the_guarantee(outcomes, largest):
    tracked, regression = tracker(largest), KernelRegression(X, outcomes, KERNEL, 1.0)
    with pytest.warns(InconsistentConfidenceSetWarning, match="at least .* at most"):
        lower, upper = tracked.observe(regression)
    assert lower == upper
    acqf = bound(regression, largest, tracker=tracked)  # a second warning would raise
    assert acqf.assumptions["noise"].status is Status.VIOLATED
    assert acqf.assumptions.violated
    assert bool(torch.isfinite(torch.stack(acqf.bounds(QUERIES))).all())


def test_assumptions():
    for noise_upper, words in ((5.0, "between 0.1 and 5"), (None, "above 0.1")):
        noise = bound(state(4), noise_upper, norm_bound=50.0).assumptions["noise"]
        assert noise.status is Status.GIVEN
        assert "second-order sub-Gaussian" in noise.statement
        assert words in noise.statement
