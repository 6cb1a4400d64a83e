r"""Bounds by tangents of the losses at functions found for each point, or beforehand."""

import math
import pickle
import warnings

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from kernelucb.confidence.likelihood.tangents import (
    SHARE,
    Tangents,
    TangentSet,
)
from kernelucb.exceptions import InconsistentConfidenceSetWarning
from oracles.likelihood import extreme_values
from problems import (
    RKHSFunction,
    float64,
    frozen_kernel,
    generator,
    likelihood_ucb,
    uniform,
)
from tolerances import SOCP

KERNEL = frozen_kernel("matern52", 0.3)
X, POINTS = uniform(40, 2, 1), uniform(12, 2, 2)
LATENT = RKHSFunction.random(KERNEL, 2.5, 2, 0)(X)
COUNTS = torch.poisson(LATENT.exp(), generator=generator(3))
SUCCESSES = torch.bernoulli(LATENT.sigmoid(), generator=generator(3))
OUTCOMES = {"bernoulli": SUCCESSES, "poisson": COUNTS}


def bound(likelihood="poisson", norm_bound=3.0, form="tangent", **options):
    options = {"likelihood": likelihood, "norm_bound": norm_bound, "form": form} | options
    return likelihood_ucb(X, OUTCOMES[likelihood], KERNEL, **options)


def mean_width(acqf):
    lower, upper = acqf.latent_bounds(POINTS)
    return float((upper - lower).mean())


@pytest.mark.parametrize("likelihood", OUTCOMES)
@pytest.mark.parametrize(("norm_bound", "most"), [(3.0, 1.02), (7.0, 1.05), (14.0, 1.2)])
def test_tangents_stay_close_to_the_set_where_the_ellipsoid_alone_does_not(
    likelihood, norm_bound, most
):
    upper, lower = (
        extreme_values(bound(likelihood, norm_bound), POINTS, sign) for sign in (1, -1)
    )
    exact = float((upper - lower).mean())
    for form in ("tangent", "ellipsoid"):
        acqf = bound(likelihood, norm_bound, form)
        assert exact - SOCP <= mean_width(acqf) <= most * exact
    if norm_bound == 14.0:
        lower, upper = acqf.confidence_set.ellipsoid.bounds(POINTS)
        assert float((upper - lower).mean()) > 1.2 * exact


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([0.01, 0.3, 3.0, 30.0]))
def test_tangents_at_any_values_give_a_bound(seed, scale):
    band = SEARCHED.confidence_set
    values = scale * torch.randn(1, len(X), dtype=torch.float64, generator=generator(seed))
    tangents = band.tangents(values, band.observed_features)
    points = band.project(POINTS[:3])
    for sign in (-1, 1):
        found = band.bound(points.centre, sign, tangents)
        assert bool((found >= MAXIMA[sign] - SOCP).all())


SEARCHED = bound()
MAXIMA = {sign: sign * extreme_values(SEARCHED, POINTS[:3], sign) for sign in (-1, 1)}


@pytest.mark.parametrize("likelihood", OUTCOMES)
def test_differences_of_values_lie_between_the_set_and_the_ellipsoid(likelihood):
    for sign in (-1, 1):
        near, wide = (
            bound(likelihood, form=form).confidence_set.max_gain_over(
                POINTS[1:4], POINTS[:1], sign
            )
            for form in ("tangent", "ellipsoid")
        )
        exact = extreme_values(bound(likelihood), POINTS[1:4], sign, POINTS[:1])
        exact = sign * exact
        assert bool((near >= exact - SOCP).all())
        assert bool((near <= wide).all())
        assert float(near.mean()) <= 1.02 * float(exact.mean())
    own = bound(likelihood).confidence_set
    assert_close(own.max_gain_over(POINTS[:1], POINTS[:1]), float64([0.0]))
    cheap = own.max_gain_over(POINTS[1:], POINTS[:1], cheap=True)
    assert bool((cheap >= own.max_gain_over(POINTS[1:], POINTS[:1])).all())


def test_gradients_are_numbers_where_losses_overflow():
    # Far along a ray exp(f) is infinite; counts of this kind make the level negative.
    own = frozen_kernel("rbf", 0.3)
    acqf = likelihood_ucb(X, 20.0 * COUNTS, own, likelihood="poisson", norm_bound=1e4)
    points = torch.cat([POINTS, X[:2], float64([[50.0, 50.0]])]).requires_grad_()
    lower, upper = acqf.latent_bounds(points)
    assert bool((lower <= upper).all())
    (grad,) = torch.autograd.grad((upper - lower).sum(), points)
    assert bool(torch.isfinite(grad).all())


@pytest.mark.parametrize("form", ["tangent", "ellipsoid"])
@pytest.mark.parametrize("Y", [0.0, 1.0, 40.0])
@pytest.mark.parametrize("norm_bound", [0.1, 5.0, 400.0])
def test_one_outcome_and_the_point_where_it_was_seen(Y, norm_bound, form):
    here = float64([[0.5, 0.5]])
    given = {"likelihood": "poisson", "norm_bound": norm_bound}
    with warnings.catch_warnings():  # 40 contradicts the smallest norm bound
        warnings.simplefilter("ignore", InconsistentConfidenceSetWarning)
        near = likelihood_ucb(here, float64([Y]), KERNEL, form=form, **given)
    points = torch.cat([here, here + 1e-7, POINTS[:2]]).requires_grad_()
    lower, upper = near.latent_bounds(points)
    wide = near.confidence_set.ellipsoid.bounds(points)
    assert bool(((wide[0] <= lower) & (lower <= upper) & (upper <= wide[1])).all())
    (grad,) = torch.autograd.grad((upper - lower).sum(), points)
    assert bool(torch.isfinite(grad).all())


FEW = uniform(20, 2, 1)
FEW_COUNTS = torch.poisson(
    RKHSFunction.random(KERNEL, 2.5, 2, 0)(FEW).exp(), generator=generator(3)
)


def cut_bound(**options):
    r"""By tangents that were found beforehand."""
    options = {"likelihood": "poisson", "norm_bound": 3.0} | options
    return likelihood_ucb(FEW, FEW_COUNTS, KERNEL, **options)


@pytest.mark.parametrize("sign", [-1, 1])
def test_the_bound_is_nearly_the_lowest_of_all_tangents_and_the_ellipsoid(sign):
    band = cut_bound().confidence_set
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
    acqf = cut_bound(maximize=maximize)

    def largest_change(steps):
        share = torch.linspace(0.0, 1.0, steps + 1, dtype=torch.float64).unsqueeze(-1)
        line = share.repeat(1, 2).requires_grad_()
        (gradient,) = torch.autograd.grad(acqf(line.unsqueeze(-2)).sum(), line)
        return float(gradient.diff(dim=0).norm(dim=-1).max())

    assert largest_change(3200) < 0.15 * largest_change(200)


def test_nothing_is_searched_after_construction(monkeypatch):
    acqf = cut_bound()
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
