r"""What the consistency check says, and the norm that it rests on."""

import math
import re

import pytest
import torch
from botorch.models.transforms.outcome import Standardize
from gpytorch.kernels import LinearKernel, RBFKernel

from kernelucb import KernelRegression, check_consistency, least_consistent_norm
from kernelucb.confidence.fit.radius import mixture_radius, noise_energy_bound
from oracles import socp
from problems import (
    RKHSFunction,
    frozen_kernel,
    frozen_model,
    make_problem,
    normal,
    uniform,
)
from tolerances import LEAST_NORM, SOCP


@pytest.fixture
def problem():
    return make_problem(n=12, norm=5.0, seed=5)


def test_consistent(problem):
    result = check_consistency(problem.model, 5.0)
    assert result.consistent
    assert result.cause is None
    assert result.remedy.startswith("No contradiction")
    assert result.norm_bound == 5.0


def test_norm_too_small(problem):
    result = check_consistency(problem.model, 0.5)
    assert not result.consistent
    assert result.cause == "norm"
    assert f"{result.least_consistent_norm:.4g}" in result.remedy


def test_noise_too_small_for_any_norm():
    problem = make_problem(n=40, duplicates=True, noise_std=1.0, seed=3)
    result = check_consistency(problem.model, 1e6, noise_std=0.02)
    assert not result.consistent
    assert result.least_consistent_norm == math.inf
    assert result.cause == "noise"
    found = re.search(
        r"noise_std is too small: repeated inputs scatter (.*) times .* "
        r"so about (.*) \(given 0\.02\)",
        result.remedy,
    )
    assert [float(number) for number in found.groups()] == pytest.approx([50.0, 1.0], 0.2)
    assert "norm_bound" not in result.remedy


def large(norm, noise_std, kernel="rbf", repeats=1, n=40, seed=0):
    r"""Values of a function of large norm, with noise; each input several times."""
    kernel = frozen_kernel(kernel)
    function = RKHSFunction.random(kernel, norm, d=2, seed=seed)
    X = uniform(n, 2, seed + 1).repeat(repeats, 1)
    return X, function(X) + noise_std * normal(len(X), seed + 2), kernel


@pytest.mark.parametrize("repeats", [1, 2])
@pytest.mark.parametrize("kernel", ["rbf", "matern52"])
@pytest.mark.parametrize("norm", [100.0, 3e3, 1e5])
def test_the_norm_is_named_where_the_noise_is_right(norm, kernel, repeats):
    r"""Of a norm far above that of a draw from the prior, at the noise that there is."""
    X, Y, own = large(norm, 1.0, kernel, repeats)
    state = KernelRegression(X, Y, own, 1.0)
    result = check_consistency(state, norm / 20.0)
    assert result.cause == "norm"
    assert f"no function of norm below {result.least_consistent_norm:.4g}" in result.remedy
    assert "Give a larger one" in result.remedy
    assert "noise_std" in result.remedy
    assert ("repeated inputs scatter" in result.remedy) == (repeats > 1)


class OwnRBF(RBFKernel):
    r"""One whose length scales are not known to be length scales."""


@pytest.mark.parametrize(("smooth", "cause"), [(OwnRBF, "norm"), (LinearKernel, "kernel")])
def test_repeated_inputs_decide_about_the_noise(smooth, cause):
    r"""A rough function under a smooth kernel looks like noise, but for repeated inputs.

    Under a linear kernel no norm is enough.
    """
    X, Y, _ = large(20.0, 0.1, "matern12", repeats=2)
    smooth = smooth().double().requires_grad_(False)
    if smooth.has_lengthscale:
        smooth.lengthscale = torch.tensor(0.3, dtype=torch.float64)
    once = check_consistency(KernelRegression(X[:40], Y[:40], smooth, 0.1), 5.0)
    assert once.cause == "noise"
    least = once.least_consistent_norm
    named = f"If it is right, norm_bound must be at least {least:.4g} (given 5)"
    explained = least < 1e5  # beyond, round-off alone leaves room for a function
    assert (named in once.remedy) == explained
    asserted = "noise_std is too small" in once.remedy
    assert asserted != explained
    twice = check_consistency(KernelRegression(X, Y, smooth, 0.1), 5.0)
    assert (twice.least_consistent_norm < 1e5) == (cause == "norm")
    assert twice.cause == cause
    assert re.search(r"repeated inputs scatter (0\.9|1\.0)\d* times", twice.remedy)
    noisy = check_consistency(KernelRegression(X, Y, smooth, 0.01), 5.0)
    assert noisy.cause == "noise"
    assert "repeated inputs scatter" in noisy.remedy


def test_length_scale_too_long():
    problem = make_problem(n=30, norm=5.0, seed=2)
    long = make_problem(n=30).kernel
    long.lengthscale = torch.tensor(1.5, dtype=torch.float64)
    state = KernelRegression(problem.X, problem.Y, long, problem.noise_std)
    result = check_consistency(state, 5.0)
    assert result.cause == "kernel"
    assert "shorter" in result.remedy


def test_the_norm_is_the_least_one_within_both_radii(problem):
    r"""Against the conic oracle with the smaller radius, on data where the noise energy
    is the smaller one and on data where the mixture is."""
    for noise_std, smaller in [(0.1, "energy"), (1.0, "mixture")]:
        state = KernelRegression(problem.X, problem.Y, problem.kernel, noise_std)
        radii = {
            "energy": noise_energy_bound(12, 0.025),
            "mixture": mixture_radius(state, 0.025, 1.0).squared(state),
        }
        assert min(radii, key=radii.get) == smaller
        K = problem.kernel(problem.X).to_dense()
        noise = torch.full_like(problem.Y, noise_std)
        expected = socp.least_norm(K, problem.Y, noise, radii[smaller])
        checked = check_consistency(state, 5.0, fit="martingale")
        least = checked.least_consistent_norm
        assert least == pytest.approx(expected, rel=SOCP)


def test_half_of_delta_is_the_price_at_most(problem):
    r"""Never below the least consistent norm of the mixture at half the delta."""
    least = least_consistent_norm(problem.model, delta=0.025, fit="martingale")
    result = check_consistency(problem.model, 5.0, fit="martingale")
    assert result.least_consistent_norm >= least * (1.0 - LEAST_NORM)


def test_outcome_units(problem):
    def norm(scale):
        model = frozen_model(
            problem.X,
            scale * problem.Y,
            problem.kernel,
            0.2,
            outcome_transform=Standardize(m=1),
        )
        return check_consistency(model, 1e9).least_consistent_norm

    assert norm(1e3) == pytest.approx(1e3 * norm(1.0), rel=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"norm_bound": 0.0}, "norm_bound must be a finite number above 0"),
        ({"norm_bound": 1.0, "delta": 0.0}, "delta must lie strictly between"),
        ({"norm_bound": 1.0, "noise_std": -1.0}, "noise_std"),
    ],
)
def test_wrong_arguments(problem, arguments, message):
    with pytest.raises(ValueError, match=message):
        check_consistency(problem.model, **arguments)
