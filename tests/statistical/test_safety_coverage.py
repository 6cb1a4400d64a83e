r"""How often does a run that evaluates safe points only ever leave the true safe set?

Constraints of known RKHS norm, and in every round the safe point closest to the threshold
by its lower bound, where a wrong bound shows first. A run counts as a failure as soon as
one evaluated point violates the constraint. If the band holds with probability
``1 - delta``, failures among ``n`` independent runs are at most binomial ``(n, delta)``;
the test fails when there are more than all but a share ``COVERAGE_FALSE_ALARM`` (1e-6) of
such counts, so a correct safe set would fail for one seed in a million, and seeds are
fixed.
"""

import warnings

import torch
from scipy.stats import binom

from kernelucb import KernelRegression, MartingaleMixtureUCB, SafeSet
from kernelucb.exceptions import InconsistentConfidenceSetWarning
from problems import RKHSFunction, frozen_kernel, generator
from tolerances import COVERAGE_FALSE_ALARM

DELTA, RUNS, ROUNDS = 0.1, 200, 6
NORM, NOISE_STD, THRESHOLD = 2.0, 0.2, 0.0
ARMS = torch.linspace(0.0, 1.0, 30, dtype=torch.float64).unsqueeze(-1)
ALLOWED = int(binom.isf(COVERAGE_FALSE_ALARM, RUNS, DELTA))


def leaves_the_safe_set(kernel, seed, *, norm_bound):
    function = RKHSFunction.random(kernel, NORM, d=1, seed=1000 * seed)
    truth, random = function(ARMS), generator(seed)
    truth = truth if truth.max() > -truth.min() else -truth
    chosen, outcomes = [int(truth.argmax())], []
    for _ in range(ROUNDS):
        noise = torch.randn((), dtype=torch.float64, generator=random)
        outcomes.append(truth[chosen[-1]] + NOISE_STD * noise)
        state = KernelRegression(ARMS[chosen], torch.stack(outcomes), kernel, NOISE_STD)
        band = MartingaleMixtureUCB(state, norm_bound=norm_bound, delta=DELTA)
        safe_set = SafeSet(band, THRESHOLD, safe_points=ARMS[chosen])
        margins = safe_set.margin(ARMS)
        fresh = margins >= 0.0
        fresh[chosen] = False
        if not bool(fresh.any()):
            chosen.append(chosen[0])
            continue
        chosen.append(int(torch.where(fresh, margins, torch.inf).argmin()))
        assert bool(safe_set.is_safe(ARMS[chosen[-1]]))
        if truth[chosen[-1]] < THRESHOLD:
            return True
    return False


def too_many_failures(norm_bound):
    r"""Whether more runs than allowed leave the safe set; stops at the first too many."""
    kernel, failures = frozen_kernel("matern52", 0.2), 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InconsistentConfidenceSetWarning)
        for seed in range(RUNS):
            failures += leaves_the_safe_set(kernel, seed, norm_bound=norm_bound)
            if failures > ALLOWED:
                return True
    return False


def test_the_safe_set_is_not_left():
    assert not too_many_failures(NORM)


def test_half_the_norm_is_found_out():
    assert too_many_failures(0.5 * NORM)
