r"""The meaning of a norm bound: closed forms, attained, in the user's units and words."""

import itertools
import math
import re

import pytest
import torch
from botorch.models import SingleTaskGP
from botorch.models.transforms import Normalize, Standardize
from botorch.models.transforms.input import Warp
from gpytorch.kernels import LinearKernel, PolynomialKernel
from gpytorch.means import ConstantMean, LinearMean

from kernelucb import (
    KernelRegression,
    LikelihoodRegression,
    check_consistency,
    describe_norm_bound,
)
from problems import (
    KERNELS,
    constant_mean,
    float64,
    frozen_kernel,
    frozen_model,
    make_problem,
    uniform,
)
from tolerances import LEAST_NORM, REARRANGED

NORM, LENGTH, SQUARE = 3.0, 0.3, float64([[0.0, 0.0], [1.0, 1.0]])
LINE = SQUARE[:, :1]
# Slope of a unit-norm function times the length scale, in closed form.
SLOPES = {"rbf": 1.0, "matern32": math.sqrt(3.0), "matern52": math.sqrt(5.0 / 3.0)}
# The code rounds its slope up by 1e-6. Steps of h = 2e-3 length scales at most leave, after
# extrapolation, c h^2 of the squared slope with c < 0.7: another 1e-6 at most.
SLOPE = 2e-6
# The squared metric is rounded up by 16 eps k, next to values of 5e-3 k at least here.
METRIC = 1e-11


def metric(name, distance):
    h = distance / LENGTH
    a = h * math.sqrt({"rbf": 0.0, "matern12": 1.0, "matern32": 3.0, "matern52": 5.0}[name])
    polynomial = {"matern32": 1.0 + a, "matern52": 1.0 + a + a * a / 3.0}.get(name, 1.0)
    decay = math.exp(-0.5 * h * h if name == "rbf" else -a)
    return math.sqrt(2.0 - 2.0 * polynomial * decay)


def state(kernel, d=2, mean=None):
    X = uniform(8, d, 3)
    return KernelRegression(X, torch.sin(4.0 * X.sum(-1)), kernel, 0.1, mean)


def describe(kernel="rbf", d=2, **options):
    kernel = frozen_kernel(kernel, LENGTH) if isinstance(kernel, str) else kernel
    domain = {} if "candidates" in options else {"bounds": SQUARE[:, :d]}
    return describe_norm_bound(state(kernel, d), NORM, **domain | options)


def linear_mean():
    mean = LinearMean(2).double().requires_grad_(False)
    mean.weights.copy_(torch.tensor([[1.0], [2.0]]))
    return mean


# The ball.


@pytest.mark.parametrize("name", [*KERNELS, "matern12"])
def test_closed_forms(name):
    kernel, amplitude = frozen_kernel(name, LENGTH, 4.0), NORM * 2.0
    described = describe(kernel, bounds=float64([[0, 0], [1, 2]]), steps=[0.05, 0.4])
    assert described.everywhere
    assert described.range == pytest.approx(amplitude, rel=REARRANGED)
    across = amplitude * metric(name, math.sqrt(5.0))
    assert described.across == pytest.approx(across, rel=METRIC)
    for change, sizes in zip(described.inputs, [(0.05, 1.0), (0.4, 2.0)], strict=True):
        expected = [amplitude * metric(name, length) for length in sizes]
        assert [change.over_step, change.over_side] == pytest.approx(expected, rel=METRIC)
        exact = amplitude * SLOPES.get(name, 0.0) / LENGTH
        no_slope = change.slope is None and "slope without bound" in str(change)
        assert no_slope or exact <= change.slope <= exact * (1.0 + SLOPE)
        assert no_slope == (name == "matern12")


@pytest.mark.covering
@pytest.mark.parametrize("lower", [0.0, 20.0, 1e3])
@pytest.mark.parametrize(
    ("name", "length"),
    [("matern12", 1e-19), *itertools.product(KERNELS, [1e-100, 1e-19, 1e-3])],
)
def test_short_length_scales_are_seen_and_collapsed_ones_named(name, lower, length):
    r"""Too small to see across the domain: that is no statement about derivatives."""
    box = float64([[lower, lower], [lower + 1.0, lower + 60.0]])
    exact = NORM * SLOPES.get(name, 0.0) / length
    for change in describe(frozen_kernel(name, length), bounds=box).inputs:
        is_seen = exact * (1.0 - SLOPE) <= change.slope <= exact * (1.0 + 3.0 * SLOPE)
        assert is_seen == (length == 1e-3)
        assert is_seen or change.slope == math.inf
        assert is_seen != ("the length scale is too small to see across" in str(change))


def test_a_kernel_that_differs_from_place_to_place():
    r"""Linear: ``k(x, x) = v |x|^2``, largest in a corner, and one slope."""
    kernel = LinearKernel().double().requires_grad_(False)
    kernel.variance = float64(4.0)
    described = describe(kernel, bounds=float64([[0.0, 0.0], [1.0, 3.0]]))
    largest = NORM * 2.0 * math.sqrt(10.0)
    assert described.range == pytest.approx(largest, rel=REARRANGED)
    assert described.across == pytest.approx(2.0 * described.range, rel=REARRANGED)
    slopes = [change.slope for change in described.inputs]
    assert slopes == pytest.approx([NORM * 2.0] * 2, rel=1e-5)
    assert "not proven between them" in str(described)
    listed = describe(kernel, candidates=float64([[0.0, 1.0], [0.5, 2.0]]))
    assert listed.range == pytest.approx(NORM * 2.0 * math.sqrt(4.25), rel=REARRANGED)


def test_steps_stay_in_the_domain():
    r"""Of norm ``B``, a multiple of ``x^2`` rises by ``B (1 - 0.9^2)`` at last."""
    kernel = PolynomialKernel(power=2).double().requires_grad_(False)
    kernel.offset = float64(1e-9)
    (change,) = describe(kernel, d=1).inputs
    # The offset adds features of squared size 2e-9, relative to 0.19^2 or 2^2.
    assert change.over_step == pytest.approx(NORM * 0.19, rel=1e-7)
    assert change.slope == pytest.approx(NORM * 2.0, rel=1e-5)


def test_warped_inputs_are_steepest_somewhere():
    r"""Kumaraswamy's ``1 - (1 - x)^2``: slope 2 at 0, none at 1."""
    warp = Warp(1, [0], eps=0.0, bounds=LINE).double().requires_grad_(False)
    warp._set_concentration(0, float64(2.0))
    X, Y, kernel = uniform(6, 1, 1), uniform(6, 1, 2)[:, 0], frozen_kernel("rbf")
    model = frozen_model(X, Y, kernel, 0.1, input_transform=warp)
    described = describe_norm_bound(model, NORM, bounds=LINE)
    assert not described.everywhere
    assert described.inputs[0].slope == pytest.approx(2.0 * NORM / 0.3, rel=1e-4)


def test_an_input_that_the_kernel_does_not_see():
    kernel = frozen_kernel("rbf")
    kernel.active_dims = torch.tensor([0])
    # sqrt(16 eps) = 6e-8 is the metric's rounding.
    assert 0.0 <= describe(kernel).inputs[1].slope <= 1e-7 * NORM


@pytest.mark.parametrize("name", ["rbf", "matern12"])
def test_a_small_rough_part_of_a_sum_has_its_slope(name):
    r"""A hundredth of the amplitude, over a ten-thousandth of the length; none."""
    rough = frozen_kernel(name, 1e-4, 1e-6)
    (change,) = describe(frozen_kernel("rbf", 0.5) + rough, d=1).inputs
    slope = NORM * math.sqrt(0.5**-2 + 1e-6 * 1e-4**-2)
    assert change.slope == (None if name == "matern12" else pytest.approx(slope, rel=1e-5))


# Units.


def numbers(description):
    r"""Everything in outcome units, the slopes along with the rest."""
    seen, least = description.observed, description.consistency.least_consistent_norm
    found = [description.range, description.across, description.norm_bound, least]
    found += [seen.largest, seen.noise_reach]
    found += [x for c in description.inputs for x in (c.over_step, c.over_side, c.slope)]
    return [float(each) for each in found]


def test_units_of_the_outcomes():
    r"""Outcomes and norm bound of a standardised model times ``s``: everything times it."""
    problem, described, factor = make_problem(n=10, d=2, norm=NORM), [], 0.37
    for s in (1.0, factor):
        transform, Y = Standardize(m=1, min_stdv=1e-14), s * (50.0 + problem.Y)
        options = {"mean": 0.3, "outcome_transform": transform}
        model = frozen_model(problem.X, Y, problem.kernel, 0.2, **options)
        described.append(describe_norm_bound(model, s * NORM, bounds=SQUARE))
        # The norm bound is for the kernel as it stands: no factor but B.
        assert described[-1].range == pytest.approx(s * NORM, rel=REARRANGED)
        mean = float(Y.mean() + 0.3 * Y.std())
        assert described[-1].prior_mean == pytest.approx(mean, rel=REARRANGED)
    assert described[0].estimated == ("mean",)
    expected = [factor * value for value in numbers(described[0])]
    assert numbers(described[1]) == pytest.approx(expected, rel=LEAST_NORM)


def test_normalized_inputs_are_described_in_raw_units():
    box, problem = float64([[20.0, 1.0], [100.0, 6.0]]), make_problem(n=10, d=2)
    sides, inputs = box[1] - box[0], {"input_transform": Normalize(2, bounds=box)}
    X = box[0] + sides * problem.X
    raw = frozen_model(X, problem.Y, problem.kernel, 0.1, **inputs)
    unit = describe_norm_bound(problem.model, NORM, bounds=SQUARE)
    described = describe_norm_bound(raw, NORM, bounds=box)
    assert described.everywhere
    assert described.across == pytest.approx(unit.across, rel=REARRANGED)
    rows = zip(described.inputs, unit.inputs, sides.tolist(), strict=True)
    for change, expected, side in rows:
        # The normalised step is rounded: eps x / h of a step of h = 6e-5 sides.
        assert change.slope * side == pytest.approx(expected.slope, rel=1e-8)
        assert change.over_step == pytest.approx(expected.over_step, rel=REARRANGED)


def test_range_of_the_data_next_to_the_noise():
    Y, noise = float64([0.3, -0.9, 0.2, 0.1]), float64([0.1, 0.1, 0.2, 0.1])
    regression = KernelRegression(uniform(4, 2, 1), Y, frozen_kernel("rbf"), noise)
    seen = describe_norm_bound(regression, NORM, bounds=SQUARE, delta=0.2).observed
    # 4 * 2 exp(-u^2 / 2) = 0.2
    reach = 0.2 * math.sqrt(2.0 * math.log(40.0))
    assert (seen.largest, seen.noise_reach) == pytest.approx((0.9, reach), rel=REARRANGED)


# Words.

PROBLEM = make_problem(n=15, d=2, norm=5.0)


def test_estimates_come_first():
    X = uniform(8, 2, 1)
    model = SingleTaskGP(X, torch.sin(X.sum(-1, keepdim=True)))
    text = str(describe_norm_bound(model, NORM, bounds=SQUARE))
    assert text.splitlines()[0] == "heuristic: kernel, mean, noise estimated"
    assert "certified with" not in text
    described = describe_norm_bound(model, NORM, 0.1, bounds=SQUARE)
    assert described.summary == "heuristic: kernel, mean estimated"


@pytest.mark.parametrize("norm", [8.0, 7.654321, 8765.4321])
def test_printed_limits_are_not_below_the_computed_ones(norm):
    options = {"names": ["temperature (°C)", "time (h)"], "units": {"the outcome": "%"}}
    described = describe_norm_bound(PROBLEM.state, norm, bounds=SQUARE, **options)
    text, change = str(described), described.inputs[0]
    words = r"(?:at most|within|below|,|consistent norm) (\d+(?:\.\d+)?)"
    found = [float(each) for each in re.findall(words, text)]
    limits = described.range, described.across, change.over_step, change.over_side
    for limit in (*limits, change.slope, described.observed.noise_reach):
        assert any(limit <= each <= 1.001 * limit for each in found)
    least = described.consistency.least_consistent_norm
    assert any(0.999 * least <= each <= least for each in found)
    assert f"a norm of at most {norm:.8g} means, in %:" in text
    assert "certified with probability 0.95 if kernel, mean and noise are as given" in text
    assert all(f"{name}: at most " in text for name in options["names"])


def test_a_contradiction_comes_first_and_silence_is_said():
    described = describe_norm_bound(PROBLEM.state, 0.5, bounds=SQUARE)
    assert str(described).startswith("no guarantee: the data contradict")
    assert described.consistency.remedy in str(described)
    noisy = make_problem(n=40, d=2, duplicates=True, noise_std=1.0, seed=3)
    described = describe_norm_bound(noisy.model, 1e6, 0.02, bounds=SQUARE)
    assert "no norm is consistent with the data at this noise" in str(described)
    zeros = KernelRegression(noisy.X, 0.0 * noisy.Y, noisy.kernel, 0.1)
    unseen = describe_norm_bound(zeros, NORM, bounds=SQUARE)
    assert (described.ratio, unseen.ratio) == (0.0, math.inf)
    assert "say nothing about the norm yet" in str(unseen)


@pytest.mark.parametrize("counted", [False, True])
def test_a_mean_that_varies(counted):
    data = state(frozen_kernel("rbf"), mean=linear_mean())
    data = successes(mean_module=linear_mean()) if counted else data
    described = describe_norm_bound(data, NORM, bounds=SQUARE)
    assert (described.prior_mean, described.outcome_range) == (None, None)
    assert "prior mean m(x), which varies" in str(described)
    assert "f - m changes by" in str(described)
    assert "probability of a success" not in str(described)


# Successes and counts.

SEEN = float64([[0.1, 0.2], [0.5, 0.5], [0.1, 0.2], [0.9, 0.4]])


def successes(outputscale=1.0, **options):
    survived, kernel = float64([1.0, 0.0, 1.0, 1.0]), frozen_kernel("rbf", 0.5, outputscale)
    return LikelihoodRegression(SEEN, survived, kernel, **options)


def counts(**options):
    given = {"likelihood": "poisson", "exposure": float64([2.0, 0.5, 3.0, 4.0])} | options
    defects = float64([3.0, 0.0, 4.0, 1.0])
    return LikelihoodRegression(SEEN, defects, frozen_kernel("rbf", 0.5), **given)


def test_odds_and_rates_go_through_the_link():
    r"""The function as for noisy outcomes; the kernel's standard deviation is 2."""
    data = successes(4.0, mean_module=constant_mean(0.5))
    described = describe_norm_bound(data, NORM, bounds=SQUARE)
    noisy = describe(frozen_kernel("rbf", 0.5, 4.0))
    assert described.inputs == noisy.inputs
    assert (described.range, described.across) == (noisy.range, noisy.across)
    ends = [1.0 / (1.0 + math.exp(-end)) for end in (0.5 - 2.0 * NORM, 0.5 + 2.0 * NORM)]
    assert described.outcome_range == pytest.approx(ends, rel=REARRANGED)
    data = counts(mean_module=constant_mean(-1.0))
    ends = [math.exp(-1.0 - NORM), math.exp(-1.0 + NORM)]
    found = describe_norm_bound(data, NORM, bounds=SQUARE).outcome_range
    assert found == pytest.approx(ends, rel=REARRANGED)


@pytest.mark.parametrize(
    ("data", "expected", "words"),
    [
        # Twice 1 of 1 at one input says more than once at another.
        (successes(), [(3.0, 4.0), (0.0, 1.0), (2.0, 2.0)], "3 of 4 trials"),
        (counts(), [(8.0, 9.5), (0.0, 0.5), (7.0, 5.0)], "8 counted in an exposure"),
    ],
)
def test_outcomes_at_one_input_are_added_up(data, expected, words):
    described = describe_norm_bound(data, NORM, bounds=SQUARE, delta=0.1)
    seen = described.observed
    assert [seen.total, seen.lowest, seen.highest] == expected
    assert described.consistency == check_consistency(data, NORM, delta=0.1)
    assert words in str(described)


# A contradiction asks every kernel of a grid for its set: a second.
@pytest.mark.parametrize(
    ("norm", "mean", "words"),
    [
        (0.1, None, "^no guarantee: the data contradict .* or the likelihood"),
        (1e9, None, "0.95 if kernel, mean and likelihood are as"),
        (1e9, ConstantMean().double(), "^heuristic: mean estimated"),
        (1e9, ConstantMean().double(), "not certified: mean estimated"),
    ],
)
def test_counts_that_are_estimated_or_contradicted(norm, mean, words):
    X = torch.linspace(0.0, 1.0, 20, dtype=torch.float64).unsqueeze(-1)
    options = {"likelihood": "binomial", "num_trials": 40, "mean_module": mean}
    Y = 40.0 * (X[:, 0] > 0.5)
    data = LikelihoodRegression(X, Y, frozen_kernel("rbf"), **options)
    assert re.search(words, str(describe_norm_bound(data, norm, bounds=LINE)))
