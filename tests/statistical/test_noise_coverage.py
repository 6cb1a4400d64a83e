r"""Coverage of the noise interval: does it hold the scale at all rounds at once?

A sequence fails as soon as its interval misses the true scale in one of the rounds looked
at. Of ``SEQUENCES`` at most a binomial number may; the limit is passed by a correct
interval with probability ``COVERAGE_FALSE_ALARM`` (1e-6), and seeds are fixed.
"""

import pytest
import torch
from scipy.stats import binom

from kernelucb import KernelRegression, MartingaleMixtureUCB
from problems import RKHSFunction, frozen_kernel, normal, uniform
from tolerances import COVERAGE_FALSE_ALARM

DELTA, SEQUENCES, ROUNDS = 0.2, 1000, (2, 8, 32)
NORM, NOISE_STD = 2.0, 0.3
KERNEL = frozen_kernel("rbf", 0.3)
INPUTS = uniform(ROUNDS[-1], 1, 0)
TRUTH = RKHSFunction.random(KERNEL, NORM, d=1, seed=1)(INPUTS)


def intervals(seed, noise_bounds):
    r"""The interval in each of the rounds."""
    outcomes = TRUTH + NOISE_STD * normal(ROUNDS[-1], 10 + seed)
    for t in ROUNDS:
        state = KernelRegression(INPUTS[:t], outcomes[:t], KERNEL, 1.0)
        yield MartingaleMixtureUCB(
            state,
            norm_bound=NORM,
            noise_std="unknown",
            noise_bounds=noise_bounds,
            delta=DELTA,
        ).noise_interval


@pytest.mark.filterwarnings("ignore::kernelucb.exceptions.InconsistentConfidenceSetWarning")
@pytest.mark.parametrize("noise_bounds", [(0.01, 1.0), None])
def test_interval_holds_the_scale_at_every_round(noise_bounds):
    torch.set_num_threads(1)
    failures, twice_as_loud = 0, 0
    for seed in range(SEQUENCES):
        seen = list(intervals(seed, noise_bounds))
        failures += any(not low <= NOISE_STD <= high for low, high in seen)
        twice_as_loud += any(not low <= 2.5 * NOISE_STD <= high for low, high in seen)
    limit = binom.isf(COVERAGE_FALSE_ALARM, SEQUENCES, DELTA)
    assert failures <= limit
    assert twice_as_loud > limit  # the interval is not so wide that it cannot fail
