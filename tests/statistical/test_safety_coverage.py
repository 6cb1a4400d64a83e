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

import pytest
import torch
from scipy.stats import binom

from kernelucb import KernelRegression, MartingaleMixtureUCB, SafeSet
from kernelucb.exceptions import InconsistentConfidenceSetWarning
from problems import RKHSFunction, frozen_kernel, generator
from tolerances import COVERAGE_FALSE_ALARM

DELTA, RUNS, ROUNDS = 0.1, 200, 8
NORM, NOISE_STD, THRESHOLD = 2.0, 0.2, 0.0
ARMS = torch.linspace(0.0, 1.0, 30, dtype=torch.float64).unsqueeze(-1)
ALLOWED = int(binom.isf(COVERAGE_FALSE_ALARM, RUNS, DELTA))


def leaves_the_safe_set(kernel, seed, *, norm_bound, noise_std, form):
    function = RKHSFunction.random(kernel, NORM, d=1, seed=1000 * seed)
    truth, random = function(ARMS), generator(seed)
    truth = truth if truth.max() > -truth.min() else -truth
    chosen, outcomes = [int(truth.argmax())], []
    for _ in range(ROUNDS):
        noise = torch.randn((), dtype=torch.float64, generator=random)
        outcomes.append(truth[chosen[-1]] + NOISE_STD * noise)
        state = KernelRegression(ARMS[chosen], torch.stack(outcomes), kernel, noise_std)
        band = MartingaleMixtureUCB(state, norm_bound=norm_bound, delta=DELTA, form=form)
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


def count_failures(kernel, **claims):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InconsistentConfidenceSetWarning)
        return sum(leaves_the_safe_set(kernel, seed, **claims) for seed in range(RUNS))


@pytest.mark.parametrize(("name", "form"), [("rbf", "analytic"), ("matern52", "dual")])
def test_the_safe_set_is_not_left(name, form):
    failures = count_failures(
        frozen_kernel(name, 0.2), norm_bound=NORM, noise_std=NOISE_STD, form=form
    )
    assert failures <= ALLOWED


def test_a_wrong_claim_is_found_out():
    r"""The same test fails for a norm and a noise scale understated by four."""
    failures = count_failures(
        frozen_kernel("matern52", 0.2),
        norm_bound=NORM / 4,
        noise_std=NOISE_STD / 4,
        form="analytic",
    )
    assert failures > ALLOWED
