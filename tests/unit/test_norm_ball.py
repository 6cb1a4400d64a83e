r"""What functions of bounded norm can do: closed forms, attained, in the user's units."""

import math

import pytest
import torch
from botorch.models.transforms import Normalize
from botorch.models.transforms.input import Warp
from gpytorch.kernels import LinearKernel, PolynomialKernel, RQKernel
from hypothesis import given
from hypothesis import strategies as st

from kernelucb import KernelRegression, describe_norm_bound
from problems import (
    KERNELS,
    RKHSFunction,
    float64,
    frozen_kernel,
    frozen_model,
    make_problem,
    uniform,
)
from tolerances import REARRANGED

NORM, LENGTH, SQUARE = 3.0, 0.3, torch.tensor([[0.0, 0.0], [1.0, 1.0]]).double()
# Slope of a unit-norm function times the length scale, in closed form.
SLOPES = {"rbf": 1.0, "matern32": math.sqrt(3.0), "matern52": math.sqrt(5.0 / 3.0)}
# The code rounds its slope up by 1e-6. Steps of h = 2e-3 length scales at most leave, after
# extrapolation, c h^2 of the squared slope with c < 0.7: another 1e-6 at most.
SLOPE = 2e-6
# The squared metric is rounded up by 16 eps k, next to values of 5e-3 k at least here.
METRIC = 1e-11


def correlation(name: str, distance: float) -> float:
    a = {"rbf": 0.0, "matern12": 1.0, "matern32": 3.0, "matern52": 5.0}[name]
    a = math.sqrt(a) * distance / LENGTH
    return {
        "rbf": math.exp(-0.5 * (distance / LENGTH) ** 2),
        "matern12": math.exp(-a),
        "matern32": (1.0 + a) * math.exp(-a),
        "matern52": (1.0 + a + a * a / 3.0) * math.exp(-a),
    }[name]


def metric(name: str, distance: float) -> float:
    return math.sqrt(2.0 - 2.0 * correlation(name, distance))


def state(kernel, n: int = 8, d: int = 2, noise_std: float = 0.1) -> KernelRegression:
    X = uniform(n, d, 3)
    return KernelRegression(X, torch.sin(4.0 * X.sum(-1)), kernel, noise_std)


@pytest.mark.parametrize("outputscale", [1.0, 4.0])
@pytest.mark.parametrize("name", [*KERNELS, "matern12"])
def test_closed_forms(name, outputscale):
    kernel = frozen_kernel(name, LENGTH, outputscale)
    amplitude = NORM * math.sqrt(outputscale)
    box = torch.tensor([[0.0, 0.0], [1.0, 2.0]]).double()
    described = describe_norm_bound(state(kernel), NORM, bounds=box, steps=[0.05, 0.4])
    assert described.everywhere
    assert described.range == pytest.approx(amplitude, rel=REARRANGED)
    expected = amplitude * metric(name, math.sqrt(5.0))
    assert described.across == pytest.approx(expected, rel=METRIC)
    sizes = [(0.05, 1.0), (0.4, 2.0)]
    for change, (step, side) in zip(described.inputs, sizes, strict=True):
        assert (change.step, change.side) == (step, side)
        for value, length in [(change.over_step, step), (change.over_side, side)]:
            expected = amplitude * metric(name, length)
            assert value == pytest.approx(expected, rel=METRIC)
        if name == "matern12":
            assert change.slope is None
            assert "slope without bound" in str(change)
        else:
            exact = amplitude * SLOPES[name] / LENGTH
            assert exact <= change.slope <= exact * (1.0 + SLOPE)


def test_slope_of_a_rational_quadratic():
    kernel = RQKernel().double().requires_grad_(False)
    kernel.lengthscale, kernel.alpha = float64(LENGTH), float64(0.7)
    described = describe_norm_bound(state(kernel), NORM, bounds=SQUARE)
    exact = NORM / LENGTH
    assert exact <= described.inputs[0].slope <= exact * (1.0 + SLOPE)


@pytest.mark.parametrize("lower", [0.0, -3.0, 20.0])
@pytest.mark.parametrize("name", [*KERNELS, "matern12"])
@pytest.mark.parametrize("length", [1e-19, 1e-34, 1e-100])
def test_a_collapsed_length_scale_is_named(length, name, lower):
    r"""Too small to see across the domain: that is no statement about derivatives."""
    box = torch.tensor([[lower, lower], [lower + 1.0, lower + 60.0]]).double()
    described = describe_norm_bound(state(frozen_kernel(name, length)), NORM, bounds=box)
    for change in described.inputs:
        assert change.slope == math.inf
        assert "the length scale is too small to see across" in str(change)
        assert "derivative" not in str(change)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize(("lower", "length"), [(0.0, 1e-12), (0.0, 1e-3), (1e3, 1e-3)])
def test_a_short_length_scale_is_seen(name, lower, length):
    box = torch.tensor([[lower, lower], [lower + 1.0, lower + 60.0]]).double()
    described = describe_norm_bound(state(frozen_kernel(name, length)), NORM, bounds=box)
    exact = NORM * SLOPES[name] / length
    for change in described.inputs:
        assert exact * (1.0 - SLOPE) <= change.slope <= exact * (1.0 + 3.0 * SLOPE)


def test_default_steps_are_a_tenth_of_the_domain():
    box = torch.tensor([[0.0, 1.0], [1.0, 5.0]]).double()
    described = describe_norm_bound(state(frozen_kernel("rbf")), NORM, bounds=box)
    assert [c.step for c in described.inputs] == pytest.approx([0.1, 0.4])


def test_no_function_of_that_norm_goes_further():
    r"""Random functions of norm ``B`` at random pairs, along each input and freely."""
    for seed, name in enumerate([*KERNELS, "matern12"]):
        kernel = frozen_kernel(name, LENGTH)
        described = describe_norm_bound(
            state(kernel), NORM, bounds=SQUARE, steps=[0.1, 0.1]
        )
        X, Z = uniform(400, 2, 5), uniform(400, 2, 6)
        for trial in range(20):
            f = RKHSFunction.random(kernel, NORM, 2, 100 * seed + trial, terms=4)
            assert float(f(X).abs().max()) <= described.range
            assert float((f(X) - f(Z)).abs().max()) <= described.across
            for column, change in enumerate(described.inputs):
                X1 = X.clone()
                X1[:, column] = X[:, column] * 0.9
                step = 0.1 * torch.eye(2).double()[column]
                assert float((f(X1 + step) - f(X1)).abs().max()) <= change.over_step
                if change.slope is not None:
                    slopes = (f(X1 + 1e-4 * step) - f(X1)) / 1e-5
                    assert float(slopes.abs().max()) <= change.slope


@pytest.mark.parametrize("name", KERNELS)
def test_some_function_of_that_norm_goes_as_far(name):
    r"""``B k(., x) / sqrt(k(x, x))`` and ``B (k(., x) - k(., x')) / d_k(x, x')``."""
    kernel = frozen_kernel(name, LENGTH, outputscale=4.0)
    described = describe_norm_bound(state(kernel), NORM, bounds=SQUARE)

    def of_norm(centres, weights):
        gram = kernel(centres).to_dense()
        scale = NORM / (weights @ gram @ weights).sqrt()
        return RKHSFunction(kernel, centres, weights * scale)

    x = torch.tensor([[0.2, 0.7]], dtype=torch.float64)
    peak = of_norm(x, torch.ones(1).double())
    assert float(peak(x)) == pytest.approx(described.range, rel=REARRANGED)
    signs = torch.tensor([1.0, -1.0]).double()
    step = torch.tensor([described.inputs[0].step, 0.0], dtype=torch.float64)
    pairs = {
        described.across: SQUARE,
        described.inputs[0].over_step: torch.cat([x, x + step]),
        # A pair so close that its quotient is within 1% of the steepest slope.
        described.inputs[0].slope * 1e-3: torch.cat([x, x + 0.01 * step]),
    }
    for limit, pair in pairs.items():
        f = of_norm(pair, signs)
        assert 0.99 * limit <= float(f(pair) @ signs) <= limit * (1.0 + REARRANGED)


@given(st.floats(1e-3, 1e3))
def test_everything_that_a_function_can_do_is_linear_in_the_norm(factor):
    regression = state(frozen_kernel("matern52"))
    one = describe_norm_bound(regression, 1.0, bounds=SQUARE)
    other = describe_norm_bound(regression, factor, bounds=SQUARE)
    for change, scaled in zip(one.inputs, other.inputs, strict=True):
        for key in ("over_step", "over_side", "slope"):
            expected = factor * getattr(change, key)
            assert getattr(scaled, key) == pytest.approx(expected, rel=REARRANGED)
    assert other.range == pytest.approx(factor * one.range, rel=REARRANGED)
    assert other.across == pytest.approx(factor * one.across, rel=REARRANGED)
    assert other.observed == one.observed


def test_normalized_inputs_are_described_in_raw_units():
    box = torch.tensor([[20.0, 1.0], [100.0, 6.0]]).double()
    sides = box[1] - box[0]
    problem = make_problem(n=10, d=2)
    raw = frozen_model(
        box[0] + sides * problem.X,
        problem.Y,
        problem.kernel,
        0.1,
        input_transform=Normalize(2, bounds=box),
    )
    unit = describe_norm_bound(problem.model, NORM, bounds=SQUARE)
    described = describe_norm_bound(raw, NORM, bounds=box)
    assert described.everywhere
    assert described.across == pytest.approx(unit.across, rel=REARRANGED)
    pairs = zip(described.inputs, unit.inputs, sides.tolist(), strict=True)
    for change, expected, side in pairs:
        assert change.side == side
        assert change.step == pytest.approx(side * expected.step)
        # The normalised step is rounded: eps x / h of a step of h = 6e-5 sides.
        assert change.slope * side == pytest.approx(expected.slope, rel=1e-8)
        assert change.over_step == pytest.approx(expected.over_step, rel=REARRANGED)


def test_candidates_stand_for_the_box_around_them():
    candidates = torch.tensor([[0.5, 0.1], [0.2, 0.9], [0.4, 0.3]]).double()
    around = torch.tensor([[0.2, 0.1], [0.5, 0.9]]).double()
    regression = state(frozen_kernel("matern32"))
    from_set = describe_norm_bound(regression, NORM, candidates=candidates)
    from_box = describe_norm_bound(regression, NORM, bounds=around)
    assert from_set.inputs == from_box.inputs
    assert (from_set.range, from_set.across) == (from_box.range, from_box.across)


def test_a_kernel_that_differs_from_place_to_place():
    r"""Linear: ``k(x, x) = v |x|^2`` is largest in a corner, and the slope is constant."""
    kernel = LinearKernel().double().requires_grad_(False)
    kernel.variance = float64(4.0)
    box = torch.tensor([[0.0, 0.0], [1.0, 3.0]]).double()
    described = describe_norm_bound(state(kernel), NORM, bounds=box)
    assert not described.everywhere
    assert described.range == pytest.approx(NORM * 2.0 * math.sqrt(10.0), rel=REARRANGED)
    assert described.across == pytest.approx(2.0 * described.range, rel=REARRANGED)
    for change in described.inputs:
        assert change.slope == pytest.approx(NORM * 2.0, rel=1e-5)
        assert change.over_side == pytest.approx(NORM * 2.0 * change.side, rel=METRIC)
    assert "not proven between them" in str(described)
    points = torch.tensor([[0.0, 1.0], [0.5, 2.0]]).double()
    described = describe_norm_bound(state(kernel), NORM, candidates=points)
    assert described.range == pytest.approx(NORM * 2.0 * math.sqrt(4.25), rel=REARRANGED)


def test_steps_stay_in_the_domain():
    r"""Of norm ``B``, a multiple of ``x^2`` rises by ``B (1 - 0.9^2)`` over the last."""
    kernel = PolynomialKernel(power=2).double().requires_grad_(False)
    kernel.offset = float64(1e-9)
    described = describe_norm_bound(state(kernel, d=1), NORM, bounds=SQUARE[:, :1])
    (change,) = described.inputs
    # The offset adds features of squared size 2e-9, relative to 0.19^2 or 2^2.
    assert change.over_step == pytest.approx(NORM * 0.19, rel=1e-7)
    assert change.slope == pytest.approx(NORM * 2.0, rel=1e-5)


def test_warped_inputs_are_steepest_somewhere():
    r"""Kumaraswamy's ``1 - (1 - x)^2``: slope 2 at 0, none at 1. Only there the largest."""
    warp = Warp(1, [0], eps=0.0, bounds=SQUARE[:, :1])
    warp._set_concentration(0, float64(2.0))
    warp = warp.double().requires_grad_(False)
    problem = make_problem(n=6)
    model = frozen_model(problem.X, problem.Y, problem.kernel, 0.1, input_transform=warp)
    described = describe_norm_bound(model, NORM, bounds=SQUARE[:, :1])
    assert not described.everywhere
    exact = 2.0 * NORM / LENGTH
    assert described.inputs[0].slope == pytest.approx(exact, rel=1e-4)


def test_an_input_that_the_kernel_does_not_see():
    kernel = frozen_kernel("rbf")
    kernel.active_dims = torch.tensor([0])
    described = describe_norm_bound(state(kernel), NORM, bounds=SQUARE)
    assert described.inputs[0].slope > 1.0
    # sqrt(16 eps) = 6e-8 is the metric's rounding.
    assert 0.0 <= described.inputs[1].slope <= 1e-7 * NORM
