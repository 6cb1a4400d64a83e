r"""The ellipsoid cut by tangents at functions that were found beforehand."""

import math
import pickle

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from kernelucb.confidence.likelihood.tangents import (
    SHARE,
    Tangents,
    TangentSet,
    points_among,
)
from problems import RKHSFunction, frozen_kernel, generator, likelihood_ucb, uniform

KERNEL = frozen_kernel("matern52", 0.3)
CUBE = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
X, POINTS = uniform(20, 2, 1), uniform(9, 2, 2)
RATES = RKHSFunction.random(KERNEL, 2.5, 2, 0)(X).exp()
COUNTS = torch.poisson(RATES, generator=generator(3))


def bound(**options):
    options = {"likelihood": "poisson", "norm_bound": 3.0} | options
    return likelihood_ucb(X, COUNTS, KERNEL, **options)


@pytest.mark.parametrize("sign", [-1, 1])
def test_the_bound_is_nearly_the_lowest_of_all_tangents_and_the_ellipsoid(sign):
    band = bound().confidence_set
    own = band.project(POINTS).centre
    side = [part[0 if sign > 0 else 1] for part in (band.slopes, band.limits)]
    each = [
        band.bound(own, sign, Tangents(*(part[k : k + 1] for part in side)))
        for k in range(len(side[1]))
    ]
    assert len(each) > 100
    each.append(band.ellipsoid.support(band.project(POINTS), sign).value)
    lowest = torch.stack(each).amin(0)
    half_width = lowest - sign * (own.features @ band.centre_weights)
    found = band.support(band.project(POINTS), sign).value
    # Of means with weights proportional to u^(-1 / share), over the least u.
    most = SHARE * math.log(len(each))
    assert bool(((found - lowest).abs() <= most * half_width).all())


@pytest.mark.parametrize("maximize", [True, False])
def test_the_gradient_does_not_jump(maximize):
    acqf = bound(maximize=maximize)

    def largest_change(steps):
        share = torch.linspace(0.0, 1.0, steps + 1, dtype=torch.float64).unsqueeze(-1)
        line = torch.lerp(CUBE[0], CUBE[1], share).requires_grad_()
        (gradient,) = torch.autograd.grad(acqf(line.unsqueeze(-2)).sum(), line)
        return float(gradient.diff(dim=0).norm(dim=-1).max())

    assert largest_change(3200) < 0.15 * largest_change(200)


def test_nothing_is_searched_after_construction(monkeypatch):
    acqf = bound()
    wide = acqf(POINTS.unsqueeze(-2))

    def fail(*args):
        raise AssertionError("a function was searched")

    monkeypatch.setattr(TangentSet, "near_maximisers", fail)
    acqf.set_X_pending(POINTS[:2])
    narrow = acqf(POINTS.unsqueeze(-2))
    assert bool((narrow <= wide).all())
    assert float(narrow[0]) < float(wide[0])
    again = pickle.loads(pickle.dumps(acqf))
    assert_close(again(POINTS.unsqueeze(-2)), narrow, rtol=0, atol=0)


@settings(deadline=None)
@given(st.integers(1, 40), st.integers(1, 5), st.integers(1, 64), st.integers(0, 99))
def test_points_are_spread_as_the_inputs_are(n, d, count, seed):
    inputs = uniform(n, d, seed).mul(8.0).round()
    points = points_among(inputs, count)
    assert 1 <= len(points) <= count
    assert len(points.unique(dim=0)) == len(points)
    assert bool((inputs.amin(0) <= points).all() & (points <= inputs.amax(0)).all())


def test_half_of_the_points_are_below_the_median_of_skewed_inputs():
    inputs = uniform(101, 3, 1).pow(6)
    below = points_among(inputs, 256) < inputs.median(0).values
    assert_close(below.double().mean(0), torch.full((3,), 0.5).double(), atol=0.02, rtol=0)
