r"""Sketches of data at the edge: zero sections, large powers, noise lost in rounding."""

import pytest
import torch
from botorch.exceptions import InputDataError

from kernelucb import BKBBandit, NystromRegression, SketchedMartingaleMixtureUCB
from kernelucb.regression.lowrank.sketch import ridge_factor
from problems import (
    float64,
    frozen_kernel,
    generator,
    normal,
    polynomial_kernels,
    uniform,
)
from tolerances import SKETCH_EQUAL

KERNELS = {**polynomial_kernels(), "matern12": frozen_kernel("matern12")}


def truth_of(kernel, scale, dimension=2, seed=0):
    r"""``k(c, .)`` of norm one, and points where it is looked at."""
    centre = scale * (2.0 * uniform(1, dimension, seed) - 1.0)
    length = KERNELS[kernel](centre, diag=True).sqrt()
    return lambda X: (KERNELS[kernel](X, centre).to_dense() / length)[:, 0]


def assert_inside(lower, upper, values, kernel, X):
    slack = SKETCH_EQUAL * KERNELS[kernel](X, diag=True).sqrt()
    assert bool((lower <= upper).all())
    assert bool((lower <= values + slack).all())
    assert bool((upper >= values - slack).all())


@pytest.mark.parametrize("kernel", ["linear", "square", "cube"])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e3, 1e4])
@pytest.mark.parametrize("further", [None, 0])
def test_inputs_of_any_size(kernel, scale, further):
    r"""Of very different sizes within the data as well."""
    f = truth_of(kernel, scale)
    spread = 10.0 ** (-9.0 * uniform(30, 1, 3))
    X = torch.cat(
        [scale * (2.0 * uniform(30, 2, 1) - 1.0) * spread, torch.zeros(2, 2).double()]
    )
    # Above a thousand times the rounding of outcomes, where it is told from that.
    noise = max(1e-3, 1e-12 * float(KERNELS[kernel](X, diag=True).max().sqrt()))
    points = {} if further is None else {"remainder_points": X[:further]}
    for inducing in (X[:1], X[:7], X[-2:], X):
        state = NystromRegression(X, f(X), KERNELS[kernel], noise, inducing, **points)
        acqf = SketchedMartingaleMixtureUCB(state, norm_bound=1.0)
        assert_inside(*acqf.bounds(X), f(X), kernel, X)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("outcome", [0.0, 1.0])
def test_one_input_in_many_copies(kernel, outcome):
    r"""At the origin too, where linear kernels are zero: sections of no length."""
    for X in (torch.zeros(5, 2).double(), uniform(1, 2, 0).expand(5, 2)):
        Y = torch.full((5,), outcome, dtype=torch.float64)
        state = NystromRegression(X, Y, KERNELS[kernel], 1.0, X[:2])
        acqf = SketchedMartingaleMixtureUCB(state, norm_bound=3.0, X_pending=X[:1] + 1.0)
        lower, upper = acqf.bounds(uniform(5, 2, 7))
        assert bool((lower <= upper).all())
        assert bool(torch.isfinite(upper - lower).all())
        assert bool(acqf(uniform(5, 2, 7).unsqueeze(-2)).isfinite().all())
        again = state.observe(uniform(3, 2, 2), normal(3, 4))
        assert bool(again.mean(uniform(5, 2, 7)).isfinite().all())


def test_an_inducing_point_of_no_length_changes_nothing():
    X = torch.cat([uniform(20, 2, 1), torch.zeros(1, 2).double()])
    f = truth_of("linear", 1.0)
    bands = []
    for inducing in (X[:6], X[[0, 1, 2, 3, 4, 5, -1]]):
        state = NystromRegression(X, f(X), KERNELS["linear"], 0.1, inducing)
        lower, upper = SketchedMartingaleMixtureUCB(state, norm_bound=2.0).bounds(X)
        bands.append(float((upper - lower).max()))
    assert bands[1] == pytest.approx(bands[0], rel=1e-3)


def test_duplicates_whose_remainder_is_round_off():
    r"""``a^T E a`` came out below zero, and its root as NaN."""
    for seed in range(40):
        X = uniform(8, 2, seed)[torch.randint(0, 3, (25,), generator=generator(seed))]
        f = truth_of("matern12", 20.0, seed=seed)
        state = NystromRegression(20.0 * X, f(X), KERNELS["matern12"], 1e-3, 20.0 * X)
        assert 0.0 < state.split < float("inf")
        lower, upper = SketchedMartingaleMixtureUCB(state, norm_bound=5.0).bounds(X)
        assert bool((lower <= upper).all())


@pytest.mark.parametrize("seed", [10, 46, 53, 78])
def test_noise_scales_far_apart(seed):
    r"""A few observations 1e12 times as precise as others contradict nothing.

    The features they see are nearly collinear, and the sums lost their differences.
    """
    X = 10.0 ** (2.0 * uniform(20, 1, seed) - 1.0)
    noise = 10.0 ** (12.0 * uniform(20, 1, seed + 1000)[:, 0] - 8.0)
    kernel, weights = frozen_kernel("rbf"), normal(3, seed + 5)
    f = 5.0 * kernel(X, X[:3]).to_dense() @ weights
    norm = 5.0 * float((weights @ kernel(X[:3]).to_dense() @ weights).sqrt())
    state = NystromRegression(X, f, kernel, noise, X[5:17])
    acqf = SketchedMartingaleMixtureUCB(state, norm_bound=norm)
    assert acqf.function_constraints.contradiction is None
    lower, upper = acqf.bounds(X)
    slack = SKETCH_EQUAL * norm
    assert bool((lower <= f + slack).all() and (upper >= f - slack).all())


def test_noise_that_rounding_hides_is_refused():
    r"""What cannot be told from rounding says which noise can."""
    X = 5e3 * (2.0 * uniform(25, 2, 0) - 1.0) * 10.0 ** (-9.0 * uniform(25, 1, 3))
    options = {"norm_bound": 1.0, "qbar": 1e3}
    with pytest.raises(ValueError, match="at least"):
        BKBBandit(X, KERNELS["cube"], noise_std=1e-6, **options)
    f = truth_of("cube", 5e3)
    with pytest.raises(ValueError, match="at least"):
        NystromRegression(X, f(X), KERNELS["cube"], 1e-6, X[:5])
    bandit = BKBBandit(X, KERNELS["cube"], noise_std=1.0, **options)
    for arm in range(25):
        bandit.observe(arm, float(f(X[[arm]])))
        lower, upper = bandit.bounds()
        assert bool((lower <= upper).all())
        assert bool(torch.isfinite(upper - lower).all())
    with pytest.raises(InputDataError, match="ridge parameter"):
        ridge_factor(torch.diag(float64([1.0, -1e-3])), 1e-4)
