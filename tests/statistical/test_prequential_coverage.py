r"""Coverage of the band around predictions by a model that is refitted in every round.

The supermartingale behind it is counted in ``test_martingale_crossings``; here the library
runs in full.
"""

import pytest
import torch
from binomial import Claim

from kernelucb import KernelRegression, MartingaleMixtureUCB, PrequentialRadius
from problems import RKHSFunction, frozen_kernel, generator
from tolerances import ORDER

LENGTHS = (0.1, 0.3, 0.9)
ARMS = torch.linspace(0.0, 1.0, 30, dtype=torch.float64).unsqueeze(-1)
CLAIM, ROUNDS, NORM, NOISE_STD = Claim(36, 0.4), 10, 2.0, 0.3


def likeliest(X, Y, noise_std):
    r"""The length scale of the largest marginal likelihood: a refit in every round."""
    states = [
        KernelRegression(X, Y, frozen_kernel("rbf", ell), noise_std) for ell in LENGTHS
    ]
    return min(states, key=lambda state: float(state.quadratic_form() + state.log_det()))


def fails(seed, shrink):
    r"""Whether the band, points chosen by it, misses the truth in any round."""
    kernel, random = frozen_kernel("rbf", 0.2), generator(seed)
    truth = RKHSFunction.random(kernel, NORM, d=1, seed=1000 * seed)(ARMS)
    chosen, outcomes, radius = [15], [], PrequentialRadius(CLAIM.delta)
    claimed = shrink * NOISE_STD
    for _ in range(ROUNDS):
        y = truth[chosen[-1]] + NOISE_STD * torch.randn((), generator=random).double()
        mean, variance = torch.zeros(1).double(), torch.ones(1).double()
        x = ARMS[chosen[-1:]]
        if outcomes:
            past = likeliest(ARMS[chosen[:-1]], torch.stack(outcomes), claimed)
            mean, variance = past.mean(x), past.variance(x)
        outcomes.append(y)
        radius.observe_predictions(mean, variance, y, claimed, x)
        fixed = KernelRegression(ARMS[chosen], torch.stack(outcomes), kernel, claimed)
        acqf = MartingaleMixtureUCB(
            fixed, norm_bound=shrink * NORM, delta=CLAIM.delta, fit=radius
        )
        lower, upper = acqf.bounds(ARMS)
        if bool(((truth < lower - ORDER) | (truth > upper + ORDER)).any()):
            return True
        chosen.append(int(upper.argmax()))
    return False


@pytest.mark.filterwarnings("ignore::kernelucb.exceptions.InconsistentConfidenceSetWarning")
def test_the_band_holds_under_refits_in_every_round(stands):
    r"""36 sequences at delta 0.4: false alarm 9.1e-05, power 0.911.

    Found out: noise and norm taken at a quarter.
    """
    seeds = range(CLAIM.sequences)
    assert stands(CLAIM, sum(fails(seed, 1.0) for seed in seeds))
    assert not stands(CLAIM, sum(fails(seed, 0.25) for seed in seeds))
