r"""The map from probabilities to log odds: domain, and its laws against fine grids."""

import math

import pytest
import torch
from botorch.exceptions import InputDataError
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from kernelucb import OutcomeConstraints
from kernelucb.confidence.band import Band
from kernelucb.regression.outcome_map import OutcomeMap, Step
from problems import float64
from tolerances import EPS, GRADCHECK

LOGIT = OutcomeMap((Step("Logit"),))
LOG_ODDS = st.floats(-12.0, 12.0)
GAINS = st.floats(0.0, 8.0)
SIGNS = st.sampled_from([1, -1])

# The second derivative of a sigmoid is at most 0.0963 in absolute value, of a difference of
# two 0.193; a grid of 2001 points on at most 24 misses its largest value by at most
# 0.193 (24 / 4000)^2 / 2 = 3.5e-6.
GRID = 4e-6
ROUNDING = 8.0 * EPS


def on_interval(lower, upper):
    return lower + (upper - lower) * torch.linspace(0.0, 1.0, 2001, dtype=torch.float64)


def largest_on_grid(own, gain, lower, upper, sign):
    values = on_interval(lower, upper)
    return float((own.inverse(values + sign * gain) - own.inverse(values)).abs().max())


def test_is_the_logistic_link():
    values = torch.linspace(-30.0, 12.0, 300, dtype=torch.float64)
    outcomes = LOGIT.inverse(values)
    assert_close(outcomes, 1.0 / (1.0 + (-values).exp()), rtol=ROUNDING, atol=0.0)
    # 1 - p loses what p has near one: 12 log odds are 1e-5 of it, so EPS grows to 3e-11.
    assert_close(LOGIT.forward(outcomes), values, rtol=1e-10, atol=1e-10)
    assert bool((outcomes.diff() > 0.0).all())
    inside = torch.tensor([-7.0, -1.3, 0.0, 0.4, 5.0], dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(LOGIT.inverse, inside, **GRADCHECK)


def test_ends():
    ends = torch.tensor([-1e4, 1e4], dtype=torch.float64).requires_grad_()
    LOGIT.inverse(ends).sum().backward()
    assert ends.grad.tolist() == [0.0, 0.0]
    infinite = torch.tensor([-math.inf, math.inf], dtype=torch.float64)
    assert LOGIT.inverse(infinite).tolist() == [0.0, 1.0]
    outside = torch.tensor([-math.inf, -0.5, 0.0, 1.0, 1.5, math.inf], dtype=torch.float64)
    assert LOGIT.forward(outside).tolist() == [-math.inf] * 3 + [math.inf] * 3


def test_outcomes_are_probabilities():
    outcomes = torch.tensor([1e-12, 0.05, 0.5, 1.0 - 1e-12], dtype=torch.float64)
    assert LOGIT.takes(outcomes)
    assert bool(LOGIT.observed(outcomes).isfinite().all())
    for outcome in (-0.1, 0.0, 1.0, 1.1, math.nan):
        assert not LOGIT.takes(float64(outcome))
        with pytest.raises(InputDataError, match=r"between 0 and 1, .* after Logit"):
            LOGIT.observed(float64(outcome))


class LatentBand(Band):
    r"""What a constraint asks of a band on another scale; nothing of it is looked up."""

    outcome_map, prior_std, assumptions = LOGIT, 1.0, None

    def latent_bounds(self, X):
        return X[:, 0] - 1.0, X[:, 0] + 1.0

    def bounds(self, X):
        return tuple(map(LOGIT.inverse, self.latent_bounds(X)))


def test_thresholds_are_probabilities():
    at_most = OutcomeConstraints(LatentBand(), 0.05, sides="<=")
    assert at_most.constraints[0].level == pytest.approx(math.log(0.05 / 0.95), rel=1e-14)
    X = torch.linspace(-8.0, 2.0, 60, dtype=torch.float64).unsqueeze(-1)
    lower, upper = LatentBand().bounds(X)
    assert at_most.is_feasible(X).equal(upper <= 0.05)
    assert at_most.may_be_feasible(X).equal(lower <= 0.05)
    for threshold in (0.0, 1.0, 1.2):
        with pytest.raises(ValueError, match=r"between 0 and 1 .* after Logit, got"):
            OutcomeConstraints(LatentBand(), threshold)


@given(LOG_ODDS, LOG_ODDS, GAINS, SIGNS)
def test_largest_gain_is_the_largest(one, other, gain, sign):
    lower, upper = sorted((one, other))
    bound = float(LOGIT.largest_gain(*map(float64, (gain, lower, upper)), sign))
    brute = largest_on_grid(LOGIT, gain, lower, upper, sign)
    assert brute - ROUNDING <= bound <= brute + GRID
    assert bound <= 1.0


@given(LOG_ODDS, LOG_ODDS, GAINS, GAINS)
def test_laws_of_the_largest_gain(one, other, gain, more):
    lower, upper = sorted((one, other))
    first = float(LOGIT.largest_gain(*map(float64, (gain, lower, upper))))
    # Failures in place of successes turn the scale round.
    turned = float(LOGIT.largest_gain(*map(float64, (gain, -upper, -lower)), -1))
    assert turned == pytest.approx(first, abs=ROUNDING)
    larger = float(LOGIT.largest_gain(*map(float64, (gain + more, lower, upper))))
    wider = float(LOGIT.largest_gain(*map(float64, (gain, lower - more, upper + more))))
    assert min(larger, wider) >= first - ROUNDING


def test_the_ends_alone_are_not_enough():
    gain, wide = float64(2.0), (float64(-6.0), float64(6.0))
    ends = max(largest_on_grid(LOGIT, 2.0, end, end, 1) for end in (-6.0, 6.0))
    peak = 2.0 * float(torch.sigmoid(float64(1.0))) - 1.0
    for sign in (1, -1):
        assert float(LOGIT.largest_gain(gain, *wide, sign)) == pytest.approx(
            peak, rel=1e-14
        )
    assert peak > 10.0 * ends


@given(LOG_ODDS, LOG_ODDS, GAINS, SIGNS)
def test_other_steps_bend_as_they_say(one, other, gain, sign):
    lower, upper = sorted((0.3 * one, 0.3 * other))
    for step in (Step("Log"), Step("Power", 2.0), Step("Power", 0.5), Step("Bilog")):
        own = OutcomeMap((step,))
        shift = gain if sign == -1 else 0.0
        starts = [max(end - shift, own.least) for end in (lower, upper)]
        brute = largest_on_grid(own, gain, *starts, 1)
        bound = float(own.largest_gain(*map(float64, (gain, lower, upper)), sign))
        assert bound == pytest.approx(brute, rel=64 * EPS, abs=64 * EPS)
