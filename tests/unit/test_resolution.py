r"""Noise below what kernel values resolve: refused, or the truth is inside."""

import pytest
import torch

from kernelucb import (
    IGPUCB,
    AbbasiYadkoriUCB,
    Grid,
    KernelRegression,
    MartingaleMixtureUCB,
    WangDeFreitasUCB,
)
from problems import RKHSFunction, frozen_kernel, uniform

BOUNDS = {
    "exact": lambda state: MartingaleMixtureUCB(state, norm_bound=1.0),
    "grid": lambda state: MartingaleMixtureUCB(state, norm_bound=1.0, form=Grid()),
    "analytic": lambda state: MartingaleMixtureUCB(state, norm_bound=1.0, form="analytic"),
    "Abbasi-Yadkori": lambda state: AbbasiYadkoriUCB(state, norm_bound=1.0),
    "IGP": lambda state: IGPUCB(state, norm_bound=1.0),
    "Wang-de Freitas": lambda state: WangDeFreitasUCB(state, norm_bound=1.0),
}
# Their theorems fix the ridge parameter to the noise variance, which kernel values of one
# resolve from the root of epsilon on. The others take a larger one, or have one of one.
FIXED = ("Abbasi-Yadkori", "Wang-de Freitas")
EPS = torch.finfo(torch.float64).eps


def outcomes_without_noise(kernel_name: str, seed: int):
    kernel = frozen_kernel(kernel_name, lengthscale=0.4)
    function = RKHSFunction.random(kernel, norm=0.999, d=2, seed=seed)
    X = uniform(20, 2, seed + 100)
    X = torch.cat([X, X[:4], X[:4] + 1e-8])
    return kernel, function, X


@pytest.mark.parametrize("exponent", range(2, 15, 2))
@pytest.mark.parametrize("kernel_name", ["rbf", "matern12", "matern52"])
@pytest.mark.parametrize("name", BOUNDS)
def test_the_truth_is_inside_or_the_noise_is_refused(name, kernel_name, exponent):
    kernel, function, X = outcomes_without_noise(kernel_name, seed=exponent)
    noise_std = 10.0**-exponent
    state = KernelRegression(X, function(X), kernel, noise_std)
    queries = torch.cat([X, uniform(40, 2, 7)])
    if name in FIXED and noise_std < EPS**0.5:
        with pytest.raises(ValueError, match="noise_std must be at least"):
            BOUNDS[name](state)
        return
    lower, upper = BOUNDS[name](state).bounds(queries)
    truth = function(queries)
    # Kernel expansions are known to a few eps of the sum of their terms.
    rounding = 1e3 * EPS
    assert bool((lower <= truth + rounding).all())
    assert bool((truth <= upper + rounding).all())


def test_the_smallest_noise_that_works_is_named():
    kernel, function, X = outcomes_without_noise("rbf", seed=1)
    state = KernelRegression(X, function(X), kernel, 1e-9)
    with pytest.raises(ValueError, match=r"at least 1\.49e-08, got 1e-09"):
        AbbasiYadkoriUCB(state, norm_bound=1.0)
    smallest = KernelRegression(X, function(X), kernel, 1.5e-8)
    AbbasiYadkoriUCB(smallest, norm_bound=1.0)


def test_noise_scales_too_far_apart_are_refused():
    X = uniform(6, 2, 1)
    noise = torch.tensor([1.0] * 5 + [0.9e-8], dtype=torch.float64)
    with pytest.raises(ValueError, match="apart"):
        KernelRegression(X, X.sum(-1), frozen_kernel("rbf"), noise)


@pytest.mark.parametrize("seed", range(6))
def test_the_truth_is_inside_where_outcomes_are_lost_beside_others(seed):
    kernel = frozen_kernel("matern52", lengthscale=0.4)
    function = RKHSFunction.random(kernel, norm=0.999, d=2, seed=seed)
    X, queries = uniform(12, 2, seed + 50), uniform(40, 2, seed + 90)
    noise = torch.where(torch.arange(12) % 2 == 0, 1.01e-8, 1.0).double()
    state = KernelRegression(X, function(X), kernel, noise)
    for options in ({}, {"form": "analytic"}, {"form": Grid()}):
        acqf = MartingaleMixtureUCB(state, norm_bound=1.0, **options)
        everywhere = torch.cat([X, queries])
        lower, upper = acqf.bounds(everywhere)
        truth = function(everywhere)
        assert bool((lower <= truth + 1e3 * EPS).all())
        assert bool((truth <= upper + 1e3 * EPS).all())
