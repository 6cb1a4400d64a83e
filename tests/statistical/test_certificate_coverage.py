r"""The certificate's promise: the gap holds in every round, and a stop is a good stop.

Functions of known RKHS norm, points chosen by the bound itself. A sequence counts as a
failure as soon as the recommended point is further from the optimum than certified, in any
round. Where the bound holds with probability ``1 - delta``, the failures among ``n``
independent sequences are at most binomial ``(n, delta)``. The tests fail when there are
more than all but a share ``COVERAGE_FALSE_ALARM`` (1e-6) of such counts; seeds are fixed.
"""

import functools
import warnings

import pytest
import torch
from scipy.stats import binom

from kernelucb import CertifiedGapStopping, KernelRegression, MartingaleMixtureUCB
from kernelucb.exceptions import InconsistentConfidenceSetWarning
from problems import KERNELS, RKHSFunction, frozen_kernel, generator
from tolerances import COVERAGE_FALSE_ALARM, ORDER

DELTA, SEQUENCES, ROUNDS = 0.2, 30, 30
NORM, NOISE_STD, ACCEPTED = 2.0, 0.1, 0.4
ARMS = torch.linspace(0.0, 1.0, 40, dtype=torch.float64).unsqueeze(-1)
BOX = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
# On the box, the optimum is looked for on this grid: what it misses makes no failure.
DENSE = torch.linspace(0.0, 1.0, 2001, dtype=torch.float64).unsqueeze(-1)
ALLOWED = int(binom.isf(COVERAGE_FALSE_ALARM, SEQUENCES, DELTA))


def failed(gap, lost):
    return lost > gap + ORDER


def sequence(name, seed, on_box, maximize, shrink):
    r"""Certified and true gap in each round, and whether the rule stopped.

    Until it stops, the rounds are over, or the true gap exceeds the certified one.
    """
    kernel, random = frozen_kernel(name, 0.2), generator(seed)
    function = RKHSFunction.random(kernel, NORM, d=1, seed=1000 * seed)
    points, sign = (DENSE if on_box else ARMS), (1.0 if maximize else -1.0)
    optimum = float((sign * function(points)).max())
    domain = {"bounds": BOX} if on_box else {"candidates": ARMS}
    rule = CertifiedGapStopping(ACCEPTED, max_evaluations=500, **domain)
    X, outcomes, gaps = torch.rand(1, 1, generator=random).double(), [], []
    for _ in range(ROUNDS):
        noise = torch.randn((), dtype=torch.float64, generator=random)
        outcomes.append(function(X[-1:])[0] + NOISE_STD * noise)
        acqf = MartingaleMixtureUCB(
            KernelRegression(X, torch.stack(outcomes), kernel, shrink * NOISE_STD),
            norm_bound=shrink * NORM,
            delta=DELTA,
            maximize=maximize,
        )
        decision = rule(acqf)
        recommended = decision.certificate.recommended.unsqueeze(0)
        lost = optimum - sign * float(function(recommended))
        gaps.append((decision.certificate.gap, lost))
        if decision.stop or failed(*gaps[-1]):
            return gaps, decision.stop
        X = torch.cat([X, ARMS[acqf(ARMS.unsqueeze(1)).argmax()].unsqueeze(0)])
    return gaps, False


@functools.cache
def sequences(name, on_box=False, maximize=True, shrink=1.0):
    with warnings.catch_warnings():  # an empty set may happen, with probability delta
        warnings.simplefilter("ignore", InconsistentConfidenceSetWarning)
        return [sequence(name, seed, on_box, maximize, shrink) for seed in range(SEQUENCES)]


def failures(runs):
    return sum(failed(*gaps[-1]) for gaps, _ in runs)


CASES = [
    ("rbf", False, True),
    ("matern32", False, False),
    ("matern52", True, True),
]


@pytest.mark.parametrize(("name", "on_box", "maximize"), CASES)
def test_the_gap_holds_at_every_round(name, on_box, maximize):
    assert failures(sequences(name, on_box, maximize)) <= ALLOWED


@pytest.mark.parametrize(("name", "on_box", "maximize"), CASES)
def test_experiments_stop_close_to_the_optimum(name, on_box, maximize):
    r"""Nearly all stop within the rounds, so that the promise is put to the test."""
    runs = sequences(name, on_box, maximize)
    stopped = [gaps[-1][1] for gaps, stop in runs if stop]
    assert len(stopped) >= 0.8 * SEQUENCES
    assert sum(lost > ACCEPTED for lost in stopped) <= ALLOWED


@pytest.mark.parametrize("name", KERNELS)
def test_a_wrong_claim_is_found_out(name):
    r"""Norm and noise understated by four: the first test fails."""
    assert failures(sequences(name, shrink=0.25)) > ALLOWED


def test_threshold_is_the_stated_one():
    assert binom.sf(ALLOWED, SEQUENCES, DELTA) <= COVERAGE_FALSE_ALARM
    assert binom.sf(ALLOWED - 1, SEQUENCES, DELTA) > COVERAGE_FALSE_ALARM
