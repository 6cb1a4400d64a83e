r"""The band of Wang & de Freitas (2014): inputs fixed before the noise, one round alone.

With few directions to learn, its last term ``2 ln(2/delta)`` decides; as printed, times the
noise scale, it leaves the band too narrow at small noise and small ``delta``.
"""

import math

import pytest
import torch
from binomial import Claim
from scipy.stats import norm
from simulation import Arms, History
from torch.testing import assert_close

from kernelucb import KernelRegression, WangDeFreitasUCB
from oracles.crossings import gaussian, played, rademacher
from problems import frozen_kernel
from tolerances import LINEAR_SOLVE as CLOSE

NORM, NOISE_STD, ROUNDS = 0.5, 0.3, 30
ARMS = Arms(12, NOISE_STD, variance=0.1)
ORDER = torch.randint(12, (ROUNDS,), generator=torch.Generator().manual_seed(8))
SMALL = 0.01


def fixed_in_advance(sequences):
    r"""The same arm for every sequence, whatever its noise."""
    return ORDER[len(sequences.arms)].expand(len(sequences.truth))


def last_round(claim, noise, loudness=1.0):
    truth = ARMS.truth(NORM, claim.sequences)
    *_, game = played(
        ARMS.gram()[None], truth, ROUNDS, fixed_in_advance, noise, 9, loudness
    )
    return game


def bound(state, delta, norm_bound=NORM):
    return WangDeFreitasUCB(state, norm_bound=norm_bound, delta=delta, fixed_design=True)


@pytest.mark.parametrize("noise", [gaussian, rademacher])
def test_misses_of_one_round_are_rarer_than_delta(noise, stands):
    r"""2000 sequences at delta 0.1: false alarm 7.7e-05, power 1.000."""
    claim = Claim(2000, 0.1)
    game, louder = last_round(claim, noise), last_round(claim, noise, 4.0)
    history = History.of(ARMS, game, 0, ROUNDS)
    acqf = bound(history.state(ARMS.kernel), claim.delta)
    half = acqf.confidence_set.width * game.variance[0, 0].sqrt()
    for sign, found in zip((-1, 1), acqf.bounds(ARMS.inputs), strict=True):
        expected = game.mean[0, 0] + sign * half
        assert_close(found / NOISE_STD, expected, rtol=CLOSE, atol=CLOSE)

    def failures(played_game):
        # One width for all: it depends on the inputs alone.
        error = (played_game.mean[:, 0] - played_game.truth).abs()
        return int((error > half).any(-1).sum())

    assert stands(claim, failures(game))
    assert not stands(claim, failures(louder))


def one_observation(delta, norm_bound):
    r"""Width after one observation of which the prior explains half, at small noise."""
    kernel = frozen_kernel("rbf", 0.2, SMALL**2)
    zero = torch.zeros(1, 1, dtype=torch.float64)
    state = KernelRegression(zero, zero, kernel, SMALL)
    return bound(state, delta, norm_bound).confidence_set.width


def printed_width(delta, norm_bound):
    gain, log = 0.5 * math.log(2.0), math.log(2.0 / delta)
    squared = norm_bound**2 + math.sqrt(8.0 * gain * log) + 2.0 * gain
    squared += math.sqrt(2.0 * math.log(4.0 / delta)) * norm_bound
    return math.sqrt(squared + 2.0 * SMALL * log)


def miss_probability(width, norm_bound):
    r"""Exact for Gaussian noise ``e`` and the function of this norm that is worst.

    In noise units ``f = norm_bound``, the estimate is ``(f + e) / 2`` and its deviation
    ``sqrt(1/2)``: a miss where ``|e - f| > sqrt(2) width``.
    """
    reach = math.sqrt(2.0) * width
    return norm.sf(reach - norm_bound) + norm.sf(reach + norm_bound)


@pytest.mark.parametrize("norm_bound", [0.01, 0.5, 3.0])
@pytest.mark.parametrize("delta", [0.3, 0.1, 1e-2, 1e-3, 1e-4, 1e-6, 1e-9])
def test_one_observation_is_missed_with_less_than_delta(delta, norm_bound):
    r"""Exact: no sampling, no false alarms."""
    assert miss_probability(one_observation(delta, norm_bound), norm_bound) <= delta


def test_the_printed_width_fails_for_one_observation():
    assert miss_probability(printed_width(1e-6, 0.01), 0.01) > 100.0 * 1e-6


def test_counting_finds_out_the_printed_width(stands):
    r"""1000000 sequences at delta 0.0001: false alarm 9.2e-05, power 1.000."""
    claim = Claim(1_000_000, 1e-4)
    random = torch.Generator().manual_seed(10)
    noise = torch.randn(claim.sequences, dtype=torch.float64, generator=random)
    error = (noise - 0.01).abs() / math.sqrt(2.0)

    assert stands(claim, int((error > one_observation(claim.delta, 0.01)).sum()))
    assert not stands(claim, int((error > printed_width(claim.delta, 0.01)).sum()))


def test_the_band_says_what_it_needs():
    state = KernelRegression(ARMS.inputs, torch.zeros(12), ARMS.kernel, NOISE_STD)
    assumptions = bound(state, 0.1).assumptions
    assert not assumptions.anytime
    assert assumptions.certified
    adaptive = WangDeFreitasUCB(state, norm_bound=NORM, delta=0.1).assumptions
    assert not adaptive.certified
