r"""Losses of successes and counts: derivatives, secants, expectations."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf
from scipy import stats
from torch.testing import assert_close

from kernelucb.regression.likelihood.losses import (
    BinomialLoss,
    PoissonLoss,
    _trapezoid_error,
)
from oracles.gaussian_loss import GaussianLoss
from oracles.likelihood import log_base_measure
from problems import float64
from tolerances import EPS, REARRANGED

LOSSES = {
    "binomial": BinomialLoss(float64([3.0]), float64([7.0]), "binomial"),
    "successes": BinomialLoss(float64([1.0]), float64([1.0]), "bernoulli"),
    "poisson": PoissonLoss(float64([4.0]), float64([2.0]), "poisson"),
    "gaussian": GaussianLoss(float64([0.3]), float64([5.0])),
}
# ``l(f)`` in many digits, of the same outcomes.
MANY_DIGITS = {
    "binomial": lambda f: 7 * mp.log(1 + mp.exp(f)) - 3 * f,
    "successes": lambda f: mp.log(1 + mp.exp(f)) - f,
    "poisson": lambda f: 2 * mp.exp(f) - 4 * f,
    "gaussian": lambda f: mpf(5) / 2 * (f - mpf("0.3")) ** 2,
}
LATENT = st.floats(-12.0, 12.0)
# Relative error of a quotient of differences that lose no leading digits, or of a
# quadrature with ten nodes: a few hundred roundings.
SECANT = 1e-11


@pytest.mark.parametrize("name", LOSSES)
def test_slope_and_curvature_are_derivatives(name):
    loss, f = LOSSES[name], torch.linspace(-6.0, 6.0, 25, dtype=torch.float64)
    f = f.unsqueeze(-1).requires_grad_()
    (slope,) = torch.autograd.grad(loss.value(f).sum(), f, create_graph=True)
    (curvature,) = torch.autograd.grad(slope.sum(), f)
    assert_close(loss.slope(f), slope, rtol=REARRANGED, atol=REARRANGED)
    own = loss.curvature(f).expand_as(f)
    assert_close(own, curvature, rtol=REARRANGED, atol=REARRANGED)


@pytest.mark.parametrize("name", LOSSES)
@settings(max_examples=20)
@given(centre=LATENT, step=st.floats(-10.0, 10.0).filter(lambda u: abs(u) > 1e-9))
def test_secants_are_right_to_the_last_digits(name, centre, step):
    mp.dps, loss = 60, MANY_DIGITS[name]
    c, end = mpf(centre), mpf(centre + step)
    u = end - c
    exact = 2 * (loss(end) - loss(c) - mp.diff(loss, c) * u) / u**2
    own = LOSSES[name].secant(float64([centre]), float64([centre + step]))
    assert float(own) == pytest.approx(float(exact), rel=SECANT, abs=1e-300)


@pytest.mark.parametrize("name", LOSSES)
@given(ends=st.tuples(LATENT, LATENT, LATENT))
def test_no_secant_in_a_range_is_below_those_at_its_ends(name, ends):
    lower, centre, upper = sorted(ends)
    least = LOSSES[name].least_secant(*map(float64, ([centre], [lower], [upper])))
    inside = torch.linspace(lower, upper, 101, dtype=torch.float64)
    secants = LOSSES[name].secant(float64([centre]).expand(101), inside)
    assert float(secants.min()) >= float(least) * (1.0 - SECANT)


def test_parabolas_with_the_curvature_of_the_centre_would_cross_the_loss():
    # What the secant is for: the second derivative alone is too large a curvature.
    loss, (c, end) = LOSSES["binomial"], (float64([0.0]), float64([4.0]))
    step = end - c
    parabola = loss.value(c) + loss.slope(c) * step + 0.5 * loss.curvature(c) * step**2
    assert float(parabola) > float(loss.value(end))


@pytest.mark.parametrize("name", LOSSES)
@given(mean=st.floats(-8.0, 8.0), deviation=st.floats(0.01, 5.0))
def test_expectations_are_bounded_from_above_and_closely(name, mean, deviation):
    loss, grid = LOSSES[name], np.linspace(-12.0, 12.0, 24001)
    values = loss.value(float64(mean + deviation * grid).unsqueeze(-1)).squeeze(-1)
    exact = float(values.numpy() @ stats.norm.pdf(grid)) * (grid[1] - grid[0])
    bound = float(loss.expected_bound(float64([mean]), float64([deviation**2])))
    assert exact - REARRANGED <= bound * (1.0 + EPS) <= exact + 1e-8 * (1.0 + abs(exact))


@pytest.mark.parametrize("deviation", [0.5, 4.0, 30.0, 150.0, 250.0, 1e4])
@pytest.mark.parametrize("place", [0.0, 0.0625, -1.7])
def test_what_the_trapezoidal_rule_misses_is_bounded(deviation, place):
    r"""Against 30 digits; and the bound itself is never far above the step of the rule."""
    mean = place * deviation
    with mp.workdps(30):
        kinks = [(width - mean) / deviation for width in (-40, -4, 0, 4, 40)]
        ends = sorted({-15.0, -5.0, 5.0, 15.0, *(z for z in kinks if abs(z) < 15.0)})
        exact = mp.quad(lambda z: _softplus(mean + deviation * z) * mp.npdf(z), ends)
        nodes = [mp.mpf(j) / 8 for j in range(-72, 73)]
        rule = sum(_softplus(mean + deviation * z) * mp.npdf(z) for z in nodes) / 8
        missed = float(abs(exact - rule))
    bound = float(_trapezoid_error(float64(mean), float64(deviation)))
    assert missed <= bound
    assert bound <= 0.126 * (abs(mean) + deviation + 6.0)


def _softplus(value):
    return mp.log1p(mp.exp(-abs(value))) + max(value, 0)


@pytest.mark.parametrize("name", LOSSES)
def test_derivatives_of_the_expected_value_are_expected_derivatives(name):
    loss, grid = LOSSES[name], np.linspace(-12.0, 12.0, 24001)
    weights = float64(stats.norm.pdf(grid) * (grid[1] - grid[0]))
    for m in np.linspace(-3.0, 3.0, 7):
        at, v = float64([m]).requires_grad_(), float64([0.7]).requires_grad_()
        found = torch.autograd.grad(loss.expected(at, v).sum(), (at, v))
        latent = float64(m + 0.7**0.5 * grid).unsqueeze(-1)
        slope = weights @ loss.slope(latent)
        # Stein: the derivative in the variance is half the expected curvature. Of the
        # quadrature's own error (24 nodes, one deviation) 1e-9 is left.
        half = 0.5 * weights @ loss.curvature(latent).expand_as(latent)
        assert_close(torch.cat(found), torch.cat([slope, half]), rtol=1e-6, atol=1e-6)


def test_log_probabilities_are_those_of_scipy():
    f = float64([-0.7, 0.4, 1.1])
    p, rate = f.sigmoid().numpy(), f.exp().numpy()
    counts, trials = float64([1.0, 3.0, 7.0]), float64([4.0, 3.0, 10.0])
    theirs = {
        "binomial": stats.binom.logpmf(counts.numpy(), trials.numpy(), p).sum(),
        "poisson": stats.poisson.logpmf(counts.numpy(), trials.numpy() * rate).sum(),
    }
    for kind, expected in theirs.items():
        loss = (BinomialLoss if kind == "binomial" else PoissonLoss)(counts, trials, kind)
        own = log_base_measure(kind, (counts, trials)) - float(loss.value(f).sum())
        assert own == pytest.approx(expected, rel=REARRANGED)
