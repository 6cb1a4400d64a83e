r"""Coverage: does the band hold for all rounds at once as often as it says?

Functions of known RKHS norm, points chosen by the bound itself, and a sequence counts as a
failure as soon as the band misses the truth on either side at any point in any round, or no
function fits the assumptions. The tail bounds themselves, without the slack that the norm
adds, are counted in ``test_martingale_crossings``; here the library runs in full.
"""

import warnings

import pytest
import torch
from binomial import Claim

from kernelucb import KernelRegression, MartingaleMixtureUCB, UnknownNoise
from kernelucb.exceptions import InconsistentConfidenceSetWarning
from oracles.crossings import gaussian, rademacher
from problems import KERNELS, RKHSFunction, frozen_kernel, generator
from tolerances import ORDER

CLAIM, ROUNDS = Claim(68, 0.3), 12
NORM, NOISE_STD = 2.0, 0.3
ARMS = torch.linspace(0.0, 1.0, 40, dtype=torch.float64).unsqueeze(-1)


def fails(kernel, seed, *, norm_bound, noise_std, noise, maximize, **options):
    r"""Whether the band misses the function on the arms in any round."""
    function = RKHSFunction.random(kernel, NORM, d=1, seed=1000 * seed)
    truth, random = function(ARMS), generator(seed)
    chosen = [int(torch.randint(len(ARMS), (), generator=random))]
    outcomes = []
    for _ in range(ROUNDS):
        outcomes.append(truth[chosen[-1]] + NOISE_STD * noise(1, random)[0])
        # The state's own noise scale is read by nobody where the noise is unknown.
        state = KernelRegression(ARMS[chosen], torch.stack(outcomes), kernel, 1.0)
        acqf = MartingaleMixtureUCB(
            state, norm_bound=norm_bound, noise_std=noise_std, delta=CLAIM.delta, **options
        )
        lower, upper = acqf.bounds(ARMS)
        slack = ORDER * NORM
        missed = (truth < lower - slack) | (truth > upper + slack)
        if bool(missed.any()) or acqf.assumptions.violated:
            return True
        chosen.append(int((upper if maximize else -lower).argmax()))
    return False


def count_failures(name, noise=gaussian, maximize=True, **options):
    kernel = frozen_kernel(name, 0.2)
    options |= {"noise": noise, "maximize": maximize}
    with warnings.catch_warnings():  # an empty set may happen, with probability delta
        warnings.simplefilter("ignore", InconsistentConfidenceSetWarning)
        return sum(fails(kernel, seed, **options) for seed in range(CLAIM.sequences))


@pytest.mark.parametrize(
    ("name", "noise", "maximize"),
    [
        ("rbf", gaussian, True),
        ("matern32", rademacher, False),
        ("matern52", gaussian, True),
    ],
)
def test_exact_band_holds_at_every_round(name, noise, maximize, stands):
    r"""68 sequences at delta 0.3: false alarm 6.6e-05, power 0.904."""
    failures = count_failures(name, noise, maximize, norm_bound=NORM, noise_std=NOISE_STD)
    assert stands(CLAIM, failures)


@pytest.mark.parametrize(
    ("name", "limits", "maximize"),
    [("rbf", (0.01, 1.0), True), ("matern32", (), False)],
)
def test_band_of_unknown_noise_holds_at_every_round(name, limits, maximize, stands):
    r"""68 sequences at delta 0.3: false alarm 6.6e-05, power 0.904."""
    options = {"norm_bound": NORM, "noise_std": UnknownNoise(*limits)}
    failures = count_failures(name, maximize=maximize, **options)
    assert stands(CLAIM, failures)


@pytest.mark.parametrize("name", KERNELS)
def test_a_wrong_claim_is_found_out(name):
    r"""The same count, for noise understated by four and a norm by a tenth."""
    failures = count_failures(name, norm_bound=0.9 * NORM, noise_std=NOISE_STD / 4.0)
    assert failures > CLAIM.limit
