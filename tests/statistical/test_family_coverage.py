r"""Coverage where the kernel is one of a family, or lies between two of them.

Points are chosen by the bound; a sequence fails as soon as the union's band misses the
function at any arm in any round, or every kernel is contradicted. Of successes the arm
played has the most so far, or is any other, and the rounds are the third and the ninth.
"""

import warnings

import pytest
import torch
from binomial import Claim
from gpytorch.kernels import MaternKernel, RBFKernel

from kernelucb import (
    FamilyTracker,
    KernelRegression,
    LikelihoodRegression,
    lengthscale_family,
)
from kernelucb.exceptions import InconsistentConfidenceSetWarning
from oracles.crossings import gaussian, rademacher
from problems import (
    RKHSFunction,
    family_ucb,
    frozen_kernel,
    generator,
)
from tolerances import ORDER

CLAIM, ROUNDS = Claim(68, 0.3), 4
SUCCESSES, COUNTED = Claim(25, 0.45), (3, 9)
NORM, NOISE_STD = 3.0, 0.1
ARMS = torch.linspace(0.0, 1.0, 40, dtype=torch.float64).unsqueeze(-1)
COARSE = torch.linspace(0.0, 1.0, 20, dtype=torch.float64).unsqueeze(-1)


def fails(seed, noise, base, true_length, kernels, **options):
    r"""Whether the band misses the function on the arms in any round."""
    random, truth = generator(seed), frozen_kernel(base, true_length)
    truth = RKHSFunction.random(truth, NORM, d=1, seed=1000 * seed)(ARMS)
    chosen = [int(torch.randint(len(ARMS), (), generator=random))]
    outcomes, tracker = [], FamilyTracker() if options.get("combine") != "all" else None
    for _ in range(ROUNDS):
        outcomes.append(truth[chosen[-1]] + NOISE_STD * noise(1, random)[0])
        state = KernelRegression(
            ARMS[chosen], torch.stack(outcomes), RBFKernel(), NOISE_STD
        )
        acqf = family_ucb(
            state,
            kernels,
            **{"norm_bound": NORM, "delta": CLAIM.delta, "tracker": tracker} | options,
        )
        lower, upper = acqf.bounds(ARMS)
        slack = ORDER * NORM
        missed = (truth < lower - slack) | (truth > upper + slack)
        if bool(missed.any()) or acqf.assumptions.violated:
            return True
        chosen.append(int(acqf(ARMS.unsqueeze(1)).argmax()))
    return False


def count_failures(noise, *setting, **options):
    with warnings.catch_warnings():  # an empty set may happen, with probability delta
        warnings.simplefilter("ignore", InconsistentConfidenceSetWarning)
        seeds = range(CLAIM.sequences)
        return sum(fails(seed, noise, *setting, **options) for seed in seeds)


@pytest.mark.parametrize(
    ("base", "kernel", "noise", "select"),
    [
        ("rbf", RBFKernel(), gaussian, "alternate"),
        ("matern52", MaternKernel(2.5), rademacher, "simplest"),
    ],
)
def test_the_band_holds_for_a_length_scale_between(base, kernel, noise, select, stands):
    r"""68 sequences at delta 0.3: false alarm 6.6e-05, power 0.904."""
    kernels = lengthscale_family(kernel, 0.1, 0.8)
    failures = count_failures(noise, base, 0.14, kernels, select=select)
    assert stands(CLAIM, failures)


def test_the_intersection_holds_where_every_kernel_does(stands):
    r"""A function of norm B under length .3 has at most 2^(1/2) B under .15.

    68 sequences at delta 0.3: false alarm 6.6e-05, power 0.904.
    """
    kernels = [frozen_kernel("rbf", 0.3), frozen_kernel("rbf", 0.15)]
    failures = count_failures(
        gaussian, "rbf", 0.3, kernels, combine="all", norm_bound=[NORM, NORM * 2**0.5]
    )
    assert stands(CLAIM, failures)


def test_a_family_of_smooth_kernels_misses_a_rough_function():
    r"""The same count where the family does not hold the truth: the test sees it."""
    kernels = lengthscale_family(RBFKernel(), 0.4, 0.8)
    assert count_failures(gaussian, "rbf", 0.05, kernels) > CLAIM.limit


def successes_fail(seed, true_length, lengths, num_trials):
    r"""Whether the band misses the success rates of the arms in any round."""
    kernel, random = frozen_kernel("rbf", true_length), generator(seed)
    rates = torch.sigmoid(RKHSFunction.random(kernel, NORM, 1, 1000 * seed)(COARSE))
    chosen, successes = [], []
    for _ in range(COUNTED[-1]):
        arm = int(torch.randint(len(COARSE), (), generator=random))
        if chosen and float(torch.rand((), generator=random)) < 0.5:
            arm = chosen[successes.index(max(successes))]
        draws = torch.rand(num_trials, dtype=torch.float64, generator=random)
        chosen.append(arm)
        successes.append(float((draws < rates[arm]).sum()))
    kernels = [frozen_kernel("rbf", length) for length in lengths]
    options = {"norm_bound": NORM, "delta": SUCCESSES.delta, "tracker": FamilyTracker()}
    outcomes = torch.tensor(successes, dtype=torch.float64)
    described = {"likelihood": "binomial", "num_trials": num_trials}
    for n in COUNTED:
        data = COARSE[chosen[:n]], outcomes[:n], RBFKernel()
        acqf = family_ucb(LikelihoodRegression(*data, **described), kernels, **options)
        lower, upper = acqf.bounds(COARSE)
        missed = (rates < lower - ORDER) | (rates > upper + ORDER)
        if bool(missed.any()) or acqf.assumptions.violated:
            return True
    return False


def count_of_successes(*setting):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InconsistentConfidenceSetWarning)
        return sum(successes_fail(seed, *setting) for seed in range(SUCCESSES.sequences))


def test_the_band_of_successes_holds_where_one_kernel_is_true(stands):
    r"""25 sequences at delta 0.45: false alarm 7.0e-05, power 0.902."""
    assert stands(SUCCESSES, count_of_successes(0.15, (0.6, 0.15), 5))


def test_smooth_kernels_miss_the_rates_of_a_rough_function():
    r"""The same count where the family does not hold the truth: the test sees it."""
    assert count_of_successes(0.05, (0.8,), 400) > SUCCESSES.limit
