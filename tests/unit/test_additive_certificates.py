r"""Certificates with many inputs where the kernel is a sum over groups of them."""

import pytest
import torch
from gpytorch.kernels import RBFKernel, ScaleKernel
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from kernelucb import KernelRegression, MartingaleMixtureUCB, regret_certificate
from kernelucb.certificates import regret
from kernelucb.confidence.base import QueryPoints
from kernelucb.regression.components import additive_components
from problems import RKHSFunction, float64, normal, uniform, with_point
from tolerances import REARRANGED

NORM, NOISE_STD = 2.0, 0.1


def part(*columns, lengthscale=0.4, scale=None):
    kernel = RBFKernel(active_dims=columns).double()
    kernel.lengthscale = float64(lengthscale)
    if scale is None:
        return kernel
    kernel = ScaleKernel(kernel).double()
    kernel.outputscale = float64(scale)
    return kernel


def summed(d):
    kernel = part(0)
    for i in range(1, d):
        kernel = kernel + part(i)
    return kernel.requires_grad_(False)


def state_of(kernel, d, n=60, seed=0):
    function = RKHSFunction.random(kernel, NORM, d, seed)
    X = uniform(n, d, seed + 1)
    Y = function(X) + NOISE_STD * normal(n, seed + 2)
    return KernelRegression(X, Y, kernel, NOISE_STD)


def box(d):
    return torch.tensor([[0.0] * d, [1.0] * d], dtype=torch.float64)


class TestComponents:
    def test_groups_share_no_column(self):
        kernel = ScaleKernel(part(0, scale=0.5) + part(1, 2) + part(2, 3)).double()
        kernel.outputscale = float64(2.0)
        state = state_of(kernel.requires_grad_(False), 4, n=5)
        groups = additive_components(state.prior)
        assert [group.columns for group in groups] == [{0}, {1, 2, 3}]
        X = uniform(6, 4, 3)
        whole = sum(group.covariance(X, X) for group in groups)
        assert_close(whole, state.prior.covariance(X, X), rtol=REARRANGED, atol=REARRANGED)

    @pytest.mark.parametrize(
        "kernel",
        [RBFKernel().double(), part(0) * part(1), part(0, 1) + RBFKernel().double()],
    )
    def test_others_have_none(self, kernel):
        state = state_of(kernel.requires_grad_(False), 2, n=4)
        assert additive_components(state.prior) == []

    @settings(max_examples=15)
    @given(seed=st.integers(0, 100), sign=st.sampled_from([1, -1]))
    def test_the_groups_bounds_add_up_to_more_than_the_whole(self, seed, sign):
        state = state_of(summed(3), 3, n=12, seed=seed)
        acqf = MartingaleMixtureUCB(state, norm_bound=NORM)
        X, other = uniform(20, 3, seed + 5), uniform(1, 3, seed + 6)
        whole = acqf.confidence_set.max_gain_over(X, other, sign)
        regression = acqf.confidence_set.regression
        data = getattr(regression, "state", regression)
        parts = []
        for group in additive_components(state.prior):
            change = group.difference(data, X, other)
            points = QueryPoints(change, change)
            parts.append(acqf.confidence_set.support(points, sign).value)
        assert bool((torch.stack(parts).sum(0) >= whole - 1e-9).all())


@pytest.mark.parametrize("maximize", [True, False])
def test_a_sum_of_six_inputs_is_certified_closely(maximize, monkeypatch):
    acqf = MartingaleMixtureUCB(state_of(summed(6), 6), norm_bound=NORM, maximize=maximize)
    found = regret_certificate(acqf, bounds=box(6), max_evaluations=2000)
    monkeypatch.setattr(regret, "additive_gain", lambda *_: None)
    cells = regret_certificate(acqf, bounds=box(6), max_evaluations=2000)
    best = found.recommended
    looked_at = regret_certificate(
        acqf, with_point(uniform(5000, 6, 1), best), recommended=best
    )
    assert found.certified
    assert torch.equal(found.recommended, cells.recommended)
    assert looked_at.gap <= found.gap <= 0.8 * cells.gap
