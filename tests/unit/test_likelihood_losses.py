r"""Losses of successes and counts, and the log odds on which probabilities are bounded."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp
from scipy import stats
from torch.testing import assert_close

from kernelucb import OutcomeConstraints
from kernelucb.data.counts import Loss, _trapezoid_error
from kernelucb.data.outcome_map import OutcomeMap, Step
from oracles.gaussian_loss import GaussianLoss
from oracles.likelihood import log_base_measure
from problems import float64, frozen_kernel, likelihood_ucb
from tolerances import EPS, GRADCHECK, REARRANGED

LOSSES = {
    "binomial": Loss(float64([3.0]), float64([7.0]), "binomial"),
    "successes": Loss(float64([1.0]), float64([1.0]), "bernoulli"),
    "poisson": Loss(float64([4.0]), float64([2.0]), "poisson"),
    "gaussian": GaussianLoss(float64([0.3]), float64([5.0])),
}
GRID = np.linspace(-12.0, 12.0, 24001)  # standard deviations
WEIGHTS = float64(stats.norm.pdf(GRID) * (GRID[1] - GRID[0]))


def over_gaussian(values, mean, deviation):
    latent = float64(mean + deviation * GRID).unsqueeze(-1)
    return WEIGHTS @ values(latent).expand_as(latent)


@pytest.mark.parametrize("name", LOSSES)
def test_slope_and_curvature_are_derivatives(name):
    loss, f = LOSSES[name], torch.linspace(-6.0, 6.0, 25, dtype=torch.float64)
    f = f.unsqueeze(-1).requires_grad_()
    (slope,) = torch.autograd.grad(loss.value(f).sum(), f, create_graph=True)
    (curvature,) = torch.autograd.grad(slope.sum(), f)
    found = loss.slope(f), loss.curvature(f).expand_as(f)
    assert_close(found, (slope, curvature), rtol=REARRANGED, atol=REARRANGED)


@pytest.mark.parametrize("name", LOSSES)
@given(mean=st.floats(-8.0, 8.0), deviation=st.floats(0.01, 5.0))
def test_expectations_are_bounded_from_above_and_closely(name, mean, deviation):
    loss = LOSSES[name]
    exact = float(over_gaussian(loss.value, mean, deviation))
    bound = float(loss.expected_bound(float64([mean]), float64([deviation**2])))
    assert exact - REARRANGED <= bound * (1.0 + EPS) <= exact + 1e-8 * (1.0 + abs(exact))


@pytest.mark.covering
@pytest.mark.parametrize("deviation", [0.5, 4.0, 30.0, 150.0, 250.0, 1e4])
@pytest.mark.parametrize("place", [0.0, 0.0625, -1.7])
def test_what_the_trapezoidal_rule_misses_is_bounded(deviation, place):
    r"""Against 30 digits; and the bound itself is never far above the step of the rule."""
    mean = place * deviation

    def value(z):
        at = mean + deviation * z
        return (mp.log1p(mp.exp(-abs(at))) + max(at, 0)) * mp.npdf(z)

    with mp.workdps(30):
        kinks = [(width - mean) / deviation for width in (-40, -4, 0, 4, 40)]
        ends = sorted({-15.0, -5.0, 5.0, 15.0, *(z for z in kinks if abs(z) < 15.0)})
        rule = sum(value(mp.mpf(j) / 8) for j in range(-72, 73)) / 8
        missed = float(abs(mp.quad(value, ends) - rule))
    bound = float(_trapezoid_error(float64(mean), float64(deviation)))
    assert missed <= bound <= 0.126 * (abs(mean) + deviation + 6.0)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("mean", [-3.0, -1.0, 0.0, 2.0])
def test_derivatives_of_the_expected_value_are_expected_derivatives(name, mean):
    r"""Stein: the derivative in the variance is half the expected curvature."""
    loss = LOSSES[name]
    at, v = float64([mean]).requires_grad_(), float64([0.7]).requires_grad_()
    found = torch.autograd.grad(loss.expected(at, v).sum(), (at, v))
    slope = over_gaussian(loss.slope, mean, 0.7**0.5)
    half = 0.5 * over_gaussian(loss.curvature, mean, 0.7**0.5)
    assert_close(torch.cat(found), torch.cat([slope, half]), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kind", ["binomial", "poisson"])
def test_log_probabilities_are_those_of_scipy(kind):
    f, rest = float64([-0.7, 0.4, 1.1]), (float64([1, 3, 7]), float64([4, 3, 10]))
    counts, amounts = (part.numpy() for part in rest)
    if kind == "binomial":
        expected = stats.binom.logpmf(counts, amounts, f.sigmoid().numpy()).sum()
    else:
        expected = stats.poisson.logpmf(counts, amounts * f.exp().numpy()).sum()
    found = log_base_measure(kind, rest) - float(Loss(*rest, kind).value(f).sum())
    assert found == pytest.approx(expected, rel=REARRANGED)


LOGIT = OutcomeMap((Step("Logit"),))
LATENT, GAINS, SIGNS = st.floats(-12.0, 12.0), st.floats(0.0, 8.0), st.sampled_from([1, -1])
# The second derivative of a sigmoid is at most 0.0963 in absolute value, of a difference of
# two 0.193; a grid of 2001 points on at most 24 misses its largest value by at most
# 0.193 (24 / 4000)^2 / 2 = 3.5e-6.
MISSED = 4e-6
ROUNDING = 8.0 * EPS


def test_is_the_logistic_link():
    values = torch.linspace(-30.0, 12.0, 300, dtype=torch.float64)
    outcomes = LOGIT.inverse(values)
    assert_close(outcomes, 1.0 / (1.0 + (-values).exp()), rtol=ROUNDING, atol=0.0)
    # 1 - p loses what p has near one: 12 log odds are 1e-5 of it, so EPS grows to 3e-11.
    assert_close(LOGIT.forward(outcomes), values, rtol=1e-10, atol=1e-10)
    inside = float64([-7.0, -1.3, 0.0, 0.4, 5.0]).requires_grad_()
    assert torch.autograd.gradcheck(LOGIT.inverse, inside, **GRADCHECK)


def test_what_is_no_probability_is_beyond_the_ends():
    ends = float64([-1e4, 1e4]).requires_grad_()
    LOGIT.inverse(ends).sum().backward()
    assert ends.grad.tolist() == [0.0, 0.0]
    outside = float64([-math.inf, -0.5, 0.0, 1.0, 1.5, math.inf])
    assert LOGIT.forward(outside).tolist() == [-math.inf] * 3 + [math.inf] * 3
    assert LOGIT.inverse(outside[[0, -1]]).tolist() == [0.0, 1.0]
    assert LOGIT.takes(float64([1e-12, 0.05, 0.5, 1.0 - 1e-12]))
    assert not any(LOGIT.takes(each) for each in float64([-0.1, 0.0, 1.0, 1.1, math.nan]))


def test_thresholds_are_probabilities():
    X = torch.linspace(0.0, 1.0, 30, dtype=torch.float64).unsqueeze(-1)
    failed = (X[:, 0] > 0.5).double()
    band = likelihood_ucb(X, failed, frozen_kernel("rbf", 0.3), norm_bound=3.0)
    at_most = OutcomeConstraints(band, 0.45, sides="<=")
    assert at_most.constraints[0].level == pytest.approx(math.log(0.45 / 0.55), rel=1e-14)
    lower, upper = band.bounds(X)
    assert at_most.is_feasible(X).equal(upper <= 0.45)
    assert at_most.may_be_feasible(X).equal(lower <= 0.45)
    assert 0 < int((upper <= 0.45).sum()) < int((lower <= 0.45).sum()) < 30


@given(LATENT, LATENT, GAINS, SIGNS)
def test_largest_gain_is_the_largest(one, other, gain, sign):
    lower, upper = sorted((one, other))
    bound = float(LOGIT.largest_gain(*map(float64, (gain, lower, upper)), sign))
    values = lower + (upper - lower) * torch.linspace(0.0, 1.0, 2001, dtype=torch.float64)
    gains = LOGIT.inverse(values + sign * gain) - LOGIT.inverse(values)
    brute = float(gains.abs().max())
    assert brute - ROUNDING <= bound <= min(1.0, brute + MISSED)
