r"""Coverage of bands of probabilities and rates, with points chosen by the bound.

A sequence fails as soon as the band misses the truth at any arm after any batch, or no
function fits. The benchmark ``counts coverage`` has a thousand sequences of each setting.
"""

import warnings

import pytest
import torch
from binomial import Claim

from kernelucb.exceptions import InconsistentConfidenceSetWarning
from problems import RKHSFunction, frozen_kernel, generator, likelihood_ucb
from tolerances import ORDER

pytestmark = pytest.mark.slow  # a quick one of every band is in the contract

CLAIM, BATCHES = Claim(68, 0.3), (3, 15)
NORM = 3.0
ARMS = torch.linspace(0.0, 1.0, 30, dtype=torch.float64).unsqueeze(-1)
KERNEL = frozen_kernel("rbf", 0.3)
TRIALS = 5
OPTIONS = {"bernoulli": {}, "binomial": {"num_trials": TRIALS}, "poisson": {}}


def outcomes(kind, latent, random):
    if kind == "poisson":
        return torch.poisson(latent.exp(), generator=random)
    trials = TRIALS if kind == "binomial" else 1
    draws = torch.rand(trials, len(latent), dtype=torch.float64, generator=random)
    return (draws < latent.sigmoid()).double().sum(0)


def fails(kind, seed, copies):
    r"""Whether the band misses the function; every outcome counts ``copies`` times."""
    random = generator(seed)
    truth = RKHSFunction.random(KERNEL, NORM, d=1, seed=1000 * seed)(ARMS)
    chosen, seen = torch.tensor([seed % len(ARMS)]), torch.zeros(0, dtype=torch.float64)
    for size in BATCHES:
        seen = torch.cat([seen, outcomes(kind, truth[chosen[len(seen) :]], random)])
        acqf = likelihood_ucb(
            ARMS[chosen.repeat(copies)],
            seen.repeat(copies),
            KERNEL,
            likelihood=kind,
            norm_bound=NORM * (1.0 + ORDER),
            delta=CLAIM.delta,
            **OPTIONS[kind],
        )
        lower, upper = acqf.latent_bounds(ARMS)
        slack = ORDER * NORM
        missed = (truth < lower - slack) | (truth > upper + slack)
        if bool(missed.any()) or acqf.assumptions.violated:
            return True
        best = acqf(ARMS.unsqueeze(1)).topk(3).indices
        chosen = torch.cat([chosen, best.repeat(size)[:size]])
    return False


def count_failures(kind, sequences, copies=1):
    with warnings.catch_warnings():  # an empty set may happen, with probability delta
        warnings.simplefilter("ignore", InconsistentConfidenceSetWarning)
        return sum(fails(kind, seed, copies) for seed in range(sequences))


@pytest.mark.parametrize("kind", ["bernoulli", "poisson"])
def test_bands_hold_whatever_they_choose(kind):
    assert count_failures(kind, CLAIM.sequences) <= CLAIM.limit


def test_outcomes_that_count_too_often_are_found_out():
    # As if outcomes scattered less than they do: the count must tell.
    assert count_failures("binomial", 20, copies=16) > CLAIM.limit / CLAIM.sequences * 20
