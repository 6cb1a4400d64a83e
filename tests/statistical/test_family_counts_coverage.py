r"""Coverage over a family of kernels where the outcomes are numbers of successes.

The arm played has the most successes so far, or is any other, so inputs depend on outcomes;
a sequence fails where the union's band misses the function at any arm after 3 or 9 plays,
or every kernel is contradicted.
"""

import warnings

import torch
from binomial import Claim
from gpytorch.kernels import RBFKernel

from kernelucb import FamilyTracker, LikelihoodRegression
from kernelucb.exceptions import InconsistentConfidenceSetWarning
from problems import (
    RKHSFunction,
    family_ucb,
    frozen_kernel,
    generator,
)
from tolerances import ORDER

CLAIM, ROUNDS = Claim(25, 0.45), (3, 9)
NORM = 3.0
ARMS = torch.linspace(0.0, 1.0, 20, dtype=torch.float64).unsqueeze(-1)


def played(rates, num_trials, random):
    r"""Arms and numbers of successes."""
    chosen, successes = [], []
    for _ in range(ROUNDS[-1]):
        arm = int(torch.randint(len(ARMS), (), generator=random))
        if chosen and float(torch.rand((), generator=random)) < 0.5:
            arm = chosen[successes.index(max(successes))]
        draws = torch.rand(num_trials, dtype=torch.float64, generator=random)
        chosen.append(arm)
        successes.append(float((draws < rates[arm]).sum()))
    return chosen, successes


def fails(seed, true_length, lengths, num_trials):
    r"""Whether the band misses the function on the arms in any round."""
    kernel, random = frozen_kernel("rbf", true_length), generator(seed)
    rates = torch.sigmoid(RKHSFunction.random(kernel, NORM, 1, 1000 * seed)(ARMS))
    chosen, successes = played(rates, num_trials, random)
    kernels = [frozen_kernel("rbf", length) for length in lengths]
    tracker = FamilyTracker()
    for n in ROUNDS:
        counts = LikelihoodRegression(
            ARMS[chosen[:n]],
            torch.tensor(successes[:n], dtype=torch.float64),
            RBFKernel(),
            likelihood="binomial",
            num_trials=num_trials,
        )
        acqf = family_ucb(
            counts, kernels, norm_bound=NORM, delta=CLAIM.delta, tracker=tracker
        )
        lower, upper = acqf.bounds(ARMS)
        missed = (rates < lower - ORDER) | (rates > upper + ORDER)
        if bool(missed.any()) or acqf.assumptions.violated:
            return True
    return False


def count_failures(*setting):
    with warnings.catch_warnings():  # an empty set may happen, with probability delta
        warnings.simplefilter("ignore", InconsistentConfidenceSetWarning)
        return sum(fails(seed, *setting) for seed in range(CLAIM.sequences))


def test_the_band_holds_where_one_kernel_is_true(stands):
    r"""25 sequences at delta 0.45: false alarm 7.0e-05, power 0.902."""
    assert stands(CLAIM, count_failures(0.15, (0.6, 0.15), 5))


def test_a_family_of_smooth_kernels_misses_a_rough_function():
    r"""The same count where the family does not hold the truth: the test sees it."""
    assert count_failures(0.05, (0.8,), 400) > CLAIM.limit
