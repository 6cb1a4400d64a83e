r"""How often is the self-normalised noise of Abbasi-Yadkori (2012) larger than its bound?

The bands of ``test_band_crossings`` rest on this; here without the slack of the norm. As
in ``test_martingale_crossings``.
"""

import functools
import math

import pytest
import torch
from binomial import Claim
from simulation import Arms, History, crossings

from kernelucb import IGPUCB, AbbasiYadkoriUCB
from oracles.crossings import gaussian, nearest_miss, optimistic, played, rademacher
from tolerances import LINEAR_SOLVE

DELTA, NORM, NOISE_STD, ROUNDS = 0.1, 0.5, 0.3, 100
CLAIM = Claim(2000, DELTA)
LOG = math.log(1.0 / DELTA)
ADVERSARIES = ((gaussian, nearest_miss), (rademacher, optimistic(NORM, DELTA)))
# Kernel variance 0.1 in the units of the outcomes, in which IGP-UCB's ridge is 1 + 2 / T.
ARMS = Arms(12, NOISE_STD, variance=0.1)
RIDGES = {"Abbasi-Yadkori": 0.72, "IGP-UCB": 1.0 + 2.0 / ROUNDS}


@functools.cache
def self_normalised(name, noise, rule):
    r"""Sequences of noise alone, and ``log_det`` and ``log M_t`` along them.

    ``M_t = exp((eps^T K (K + ridge)^-1 eps - log_det) / 2)`` of Abbasi-Yadkori (2012) is
    that of a mixture at one scale, for the function zero.
    """
    nothing = torch.zeros(CLAIM.sequences, 12, dtype=torch.float64)
    priors = ARMS.gram()[None] * NOISE_STD**2 / RIDGES[name]
    log_dets, log_martingales = [], []
    for game in played(priors, nothing, ROUNDS, rule, noise, 7):
        log_dets.append(game.log_det[:, 0].clone())
        log_martingales.append(game.log_martingales[:, 0])
    return game, torch.stack(log_dets), torch.stack(log_martingales)


def largest_form(name, state):
    r"""What the library's width allows ``eps^T K (K + ridge)^-1 eps`` to be."""
    options, ridge = {"norm_bound": NORM, "delta": DELTA}, RIDGES[name]
    if name == "IGP-UCB":
        width = IGPUCB(state, horizon=ROUNDS, **options).confidence_set.width
        return ((width - NORM) / NOISE_STD) ** 2
    width = AbbasiYadkoriUCB(state, alpha=ridge, **options).confidence_set.width
    return ridge / NOISE_STD**2 * (width - NORM) ** 2


@pytest.mark.parametrize(("noise", "rule"), ADVERSARIES)
@pytest.mark.parametrize(("name", "price"), [("Abbasi-Yadkori", 0.0), ("IGP-UCB", 1.0)])
def test_the_self_normalised_noise_is_rarely_large(name, price, noise, rule, stands):
    r"""2000 sequences at delta 0.1: false alarm 7.7e-05, power 1.000.

    IGP-UCB waits until ``M_t`` is ``e / delta``: it adds 2 to the log-determinant.
    """
    game, log_dets, path = self_normalised(name, noise, rule)
    for n in (1, 9, ROUNDS):
        state = History.of(ARMS, game, 0, n).state(ARMS.kernel)
        log_martingale = float(path[n - 1, 0])
        form = 2.0 * log_martingale + float(log_dets[n - 1, 0])
        expected = 2.0 * (LOG + price - log_martingale)
        assert largest_form(name, state) - form == pytest.approx(expected, rel=LINEAR_SOLVE)
    assert stands(CLAIM, crossings(path, DELTA / math.exp(price)))
    assert not stands(CLAIM, crossings(path, 4.0 * DELTA))
