r"""Coverage where the bandit chooses its arms by its own bounds.

A sequence fails where the band misses the function at any arm after any of its rounds.
"""

import torch
from binomial import Claim

from kernelucb import LikelihoodBandit
from problems import RKHSFunction, frozen_kernel, generator
from tolerances import ORDER

CLAIM, ROUNDS, TRIALS = Claim(25, 0.45), 4, 6
KERNEL = frozen_kernel("matern52", 0.3)
ARMS = torch.linspace(0.0, 1.0, 15, dtype=torch.float64).unsqueeze(-1)


def fails(seed, true_norm, norm_bound):
    r"""Whether the band misses the function on the arms after any round."""
    random = generator(seed)
    rates = torch.sigmoid(RKHSFunction.random(KERNEL, true_norm, 1, 1000 * seed)(ARMS))
    bandit = LikelihoodBandit(
        KERNEL, likelihood="binomial", norm_bound=norm_bound, delta=CLAIM.delta
    )
    for _ in range(ROUNDS):
        arm = bandit.select(ARMS)
        draws = torch.rand(TRIALS, dtype=torch.float64, generator=random)
        bandit.observe(ARMS[arm], float((draws < rates[arm]).sum()), num_trials=TRIALS)
        lower, upper = bandit.bounds(ARMS)
        if bool(((rates < lower - ORDER) | (rates > upper + ORDER)).any()):
            return True
    return False


def test_the_band_holds_whatever_it_chooses(stands):
    r"""25 sequences at delta 0.45: false alarm 7.0e-05, power 0.902."""
    failures = sum(fails(seed, 3.0, 3.0) for seed in range(CLAIM.sequences))
    assert stands(CLAIM, failures)


def test_a_norm_bound_that_is_too_small_is_seen():
    r"""The same count where the function does not lie in the ball."""
    failures = sum(fails(seed, 12.0, 2.0) for seed in range(CLAIM.sequences))
    assert failures > CLAIM.limit
