r"""The kernel bandit where the noise is next to the round-off of the prior."""

import math
from functools import partial
from typing import Any

import pytest
import torch
from gpytorch.kernels import LinearKernel, PolynomialKernel, RBFKernel
from test_bandit import ARMS, BOUNDS, DELTA, MIXTURES, OPTIONS, on_the_grid, same_fit

from kernelucb import (
    IGPUCB,
    AbbasiYadkoriUCB,
    Grid,
    KernelBandit,
    KernelRegression,
    MartingaleMixtureUCB,
)
from problems import RKHSFunction, frozen_kernel, normal, uniform
from tolerances import BANDIT_AT_DATA, EPS

NORM, DIMENSION, COUNT = 3.0, 2, 14
KERNELS = {
    "rbf": lambda: frozen_kernel("rbf"),
    "matern12": lambda: frozen_kernel("matern12"),
    "matern52": lambda: frozen_kernel("matern52"),
    "linear": lambda: LinearKernel().double().requires_grad_(False),
    "polynomial": lambda: PolynomialKernel(power=2).double().requires_grad_(False),
    "sum": lambda: (LinearKernel() + RBFKernel()).double().requires_grad_(False),
}
STATELESS = {
    "exact": partial(MartingaleMixtureUCB, fit="martingale"),
    "grid": partial(MartingaleMixtureUCB, fit="martingale", form=Grid()),
    "analytic": partial(MartingaleMixtureUCB, fit="martingale", form="analytic"),
    "abbasi_yadkori": AbbasiYadkoriUCB,
    "igp": IGPUCB,
}
ARRANGEMENTS = ("fresh", "repeated", "nearly repeated")


def stateless(bound, bandit, data, **options):
    if bound not in STATELESS:
        return same_fit(bandit, data)
    band = STATELESS[bound](data, **options)
    return on_the_grid(bandit, band.confidence_set) if bound == "exact" else band


def inputs(arrangement, seed):
    X = uniform(COUNT, DIMENSION, seed)
    if arrangement == "fresh":
        return X
    few = X[torch.arange(COUNT) % 5]
    return few if arrangement == "repeated" else few + 1e-7 * uniform(COUNT, 2, seed + 1)


def agreement(noise):
    r"""Largest difference, in norm bounds, at noise in prior deviations.

    The stateless classes drop eigenvalues below ``4 EPS lam_max``, which moves a mean by up
    to ``sqrt(4 EPS n) / (2 noise)``; Cholesky factors keep them.
    """
    return BANDIT_AT_DATA + math.sqrt(4.0 * EPS * COUNT) / (2.0 * noise)


@pytest.mark.parametrize(
    ("noise", "seeds"), [(1e-7, (0, 4)), (1e-6, (1, 3)), (1e-4, (2, 5)), (1e-2, (0, 3))]
)
@pytest.mark.parametrize("bound", BOUNDS)
def test_holds_the_truth_and_is_the_stateless_bound(bound, noise, seeds):
    for seed in seeds:
        name = list(KERNELS)[seed]
        kernel, arrangement = KERNELS[name](), ARRANGEMENTS[seed % 3]
        function = RKHSFunction.random(kernel, NORM, DIMENSION, seed)
        X = inputs(arrangement, seed + 1)
        deviation = float(kernel(X, diag=True).max().sqrt())
        scale = noise * deviation
        Y = function(X) + (scale * normal(COUNT, seed) if seed % 2 else 0.0)
        options: dict[str, Any] = {"norm_bound": 1.1 * NORM, "delta": DELTA}
        bandit = KernelBandit(kernel, noise_std=scale, **OPTIONS[bound], **options)
        arms = torch.cat([uniform(ARMS, DIMENSION, 9), X[:3], X[-2:] + 1e-9])
        truth = function(arms)
        for index, (x, y) in enumerate(zip(X, Y, strict=True)):
            bandit.observe(x, y)
            if index not in (4, COUNT - 1):
                continue
            lower, upper = bandit.bounds(arms)
            assert bool((lower <= truth).all() and (truth <= upper).all())
            data = KernelRegression(X[: index + 1], Y[: index + 1], kernel, scale)
            expected = stateless(bound, bandit, data, **options).bounds(arms)
            for ours, theirs in zip((lower, upper), expected, strict=True):
                error = float((ours - theirs).abs().max()) / (NORM * deviation)
                assert error <= agreement(noise)


@pytest.mark.parametrize("noise", [1e-13, 1e-10])
@pytest.mark.parametrize("bound", MIXTURES)
def test_mixtures_hold_at_any_noise(bound, noise):
    r"""They take a larger ridge parameter, as the stateless classes do."""
    for name in ("rbf", "matern12"):
        kernel = frozen_kernel(name)
        function = RKHSFunction.random(kernel, NORM, DIMENSION, 0)
        X = inputs("repeated", 1)
        bandit = KernelBandit(
            kernel, norm_bound=1.1 * NORM, noise_std=noise, **OPTIONS[bound]
        )
        for x, y in zip(X, function(X), strict=True):
            bandit.observe(x, y)
        lower, upper = bandit.bounds(X)
        data = KernelRegression(X, function(X), kernel, noise)
        expected = stateless(bound, bandit, data, norm_bound=1.1 * NORM).bounds(X)
        for ours, theirs in zip((lower, upper), expected, strict=True):
            assert float((ours - theirs).abs().max()) <= agreement(noise) * NORM
        assert bool((lower <= function(X)).all() and (function(X) <= upper).all())


def test_noise_below_the_rounding_of_kernel_values_is_refused():
    r"""Where the theorem fixes the ridge parameter; the smallest noise is named."""
    bound = "abbasi_yadkori"
    smallest = math.sqrt(EPS)
    with pytest.raises(ValueError, match=f"noise_std must be at least {smallest:.4g}"):
        KernelBandit(frozen_kernel("rbf"), norm_bound=1.0, noise_std=1e-8, bound=bound)
    kernel = KERNELS["linear"]()
    bandit = KernelBandit(kernel, norm_bound=1.0, noise_std=1e-8, bound=bound)
    near, far = 0.1 * torch.ones(1, 2).double(), torch.ones(1, 2).double()
    bandit.observe(near[0], 0.1)
    before = bandit.state_dict()
    needed = math.sqrt(EPS * float(kernel(far, diag=True)))
    with pytest.raises(ValueError, match=f"noise_std must be at least {needed:.4g}"):
        bandit.observe(far[0], 1.0)
    assert bandit.num_observations == 1
    assert torch.equal(bandit.state_dict()["inputs"], before["inputs"])
    noise = 1.001 * needed
    bandit = KernelBandit(kernel, norm_bound=2.0, noise_std=noise, bound=bound)
    bandit.observe(far[0], 1.0)
    lower, upper = bandit.bounds(far)
    assert float(lower) <= 1.0 <= float(upper)


def test_from_scratch_after_growing():
    r"""The state passes from growing systems to none as the observations add up."""
    kernel = frozen_kernel("matern52")
    bandit = KernelBandit(kernel, norm_bound=NORM, noise_std=1.3e-5, form="analytic")
    function, X = RKHSFunction.random(kernel, NORM, DIMENSION, 0), uniform(12, 2, 1)
    for index, x in enumerate(X):
        bandit.observe(x, function(X[index : index + 1]))
        lower, upper = bandit.bounds(X)
        truth = function(X)
        assert bool((lower <= truth).all() and (truth <= upper).all())
    assert not bandit.bands.is_resolved
    other = KernelBandit(kernel, norm_bound=NORM, noise_std=1.3e-5, form="analytic")
    other.load_state_dict(bandit.state_dict())
    for ours, theirs in zip(other.bounds(X), (lower, upper), strict=True):
        assert torch.equal(ours, theirs)
