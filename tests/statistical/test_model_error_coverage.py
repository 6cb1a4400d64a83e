r"""Coverage of functions that are nowhere in the norm ball, only near it.

``f = g + error * pattern`` with ``g`` on the ball's surface and a pattern of plus and minus
one that no function of the ball follows: a fast sign pattern, or one step. Points are
chosen by the bound; a sequence fails as soon as the band misses ``f`` at any arm in any
round, or no function fits.
"""

import warnings

import pytest
import torch
from binomial import Claim

from kernelucb import KernelRegression, MartingaleMixtureUCB, NearNormBall
from kernelucb.exceptions import InconsistentConfidenceSetWarning
from oracles.crossings import gaussian, rademacher
from problems import RKHSFunction, frozen_kernel, generator
from tolerances import ORDER

CLAIM, ROUNDS = Claim(68, 0.3), 4
NORM, NOISE_STD, ERROR = 2.0, 0.1, 0.3
ARMS = torch.linspace(0.0, 1.0, 40, dtype=torch.float64).unsqueeze(-1)
PATTERNS = [(40.0 * ARMS[:, 0]).sin() >= 0.0, ARMS[:, 0] >= 0.45]


def fails(seed, noise, **options):
    r"""Whether the band misses the function on the arms in any round."""
    kernel, random = frozen_kernel("rbf", 0.3), generator(seed)
    neighbour = RKHSFunction.random(kernel, NORM, d=1, seed=1000 * seed)(ARMS)
    above = PATTERNS[seed % len(PATTERNS)]
    truth = torch.where(above, neighbour + ERROR, neighbour - ERROR)
    chosen = [int(torch.randint(len(ARMS), (), generator=random))]
    outcomes = []
    for _ in range(ROUNDS):
        outcomes.append(truth[chosen[-1]] + NOISE_STD * noise(1, random)[0])
        state = KernelRegression(ARMS[chosen], torch.stack(outcomes), kernel, NOISE_STD)
        acqf = MartingaleMixtureUCB(
            state, **({"norm_bound": NORM, "delta": CLAIM.delta} | options)
        )
        lower, upper = acqf.bounds(ARMS)
        slack = ORDER * NORM
        missed = (truth < lower - slack) | (truth > upper + slack)
        if bool(missed.any()) or acqf.assumptions.violated:
            return True
        chosen.append(int(upper.argmax()))
    return False


def count_failures(noise=gaussian, **options):
    with warnings.catch_warnings():  # an empty set may happen, with probability delta
        warnings.simplefilter("ignore", InconsistentConfidenceSetWarning)
        return sum(fails(seed, noise, **options) for seed in range(CLAIM.sequences))


@pytest.mark.parametrize(
    ("fit", "noise"), [("filters", gaussian), ("martingale", rademacher)]
)
def test_the_band_holds_at_every_round(fit, noise, stands):
    r"""68 sequences at delta 0.3: false alarm 6.6e-05, power 0.904."""
    assert stands(
        CLAIM, count_failures(noise, fit=fit, norm_bound=NearNormBall(NORM, ERROR))
    )


def test_the_same_functions_are_missed_without_it():
    r"""The same count for the norm ball alone: the test sees the error."""
    assert count_failures() > CLAIM.limit
