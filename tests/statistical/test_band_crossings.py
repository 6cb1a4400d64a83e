r"""How often do bands around a ridge estimate miss the truth, at any arm in any round?

As in ``test_martingale_crossings``: (a) the library's bands on some of the sequences are
the ones counted, (b) thousands of sequences are counted, against an adversary that knows
the truth, (c) the same count finds out noise that is louder than claimed.
"""

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from binomial import Claim
from simulation import Arms, History, crossings
from torch import Tensor
from torch.testing import assert_close

from kernelucb import (
    IGPUCB,
    AbbasiYadkoriUCB,
    MartingaleMixture,
    MartingaleMixtureUCB,
    SrinivasUCB,
)
from kernelucb.acquisition import BoundedNorm, CompactDomain, FiniteDomain
from oracles.crossings import gaussian, nearest_miss, optimistic, played, rademacher
from tolerances import LINEAR_SOLVE as CLOSE

DELTA, NORM, NOISE_STD, ROUNDS = 0.1, 0.5, 0.3, 100


CLAIM = Claim(2000, DELTA)


ARMS = Arms(12, NOISE_STD)


LOG = math.log(1.0 / DELTA)


UCB = optimistic(NORM, DELTA)


ADVERSARIES = ((gaussian, nearest_miss), (rademacher, UCB))


class Band(NamedTuple):
    r"""A band and the library's version of it.

    Attributes:
        tau: Regulariser.
        width: Multiplier of the deviation, from the round and ``N`` log-determinants.
        library: The acquisition function of a state.
        louder: Noise scale of a wrong claim.
        adversaries: Noise that the theorem covers, and who chooses the arms.
        bayesian: Whether the functions are samples of the prior.
    """

    tau: float
    width: Callable[[int, Tensor], Tensor]
    library: Callable[[Any], Any]
    louder: float
    adversaries: tuple = ADVERSARIES
    bayesian: bool = False


def constant(beta):
    r"""The root of Srinivas et al.'s beta at the round about to be played."""
    return lambda n, log_det: torch.full_like(log_det, math.sqrt(beta(n + 1)))


# Slopes of samples of this prior, for Theorem 2 of Srinivas et al. (2010): normal, of
# standard deviation SLOPE. By Rice's formula P(sup |f'| > L) <= a exp(-(L / b)^2).
SLOPE = math.sqrt(float(ARMS.kernel.outputscale) * 5.0 / 3.0) / Arms.LENGTHSCALE


LIPSCHITZ_A = 1.0 + math.sqrt(15.0) / (math.pi * Arms.LENGTHSCALE)


LIPSCHITZ_B = math.sqrt(2.0) * SLOPE


def compact_domain_beta(t):
    cover = t**2 * LIPSCHITZ_B * math.sqrt(math.log(4.0 * LIPSCHITZ_A / DELTA))
    first = 2.0 * math.log(t**2 * 2.0 * math.pi**2 / (3.0 * DELTA))
    return first + 2.0 * math.log(cover)


IGP_TAU = (1.0 + 2.0 / ROUNDS) / NOISE_STD**2


# Each eigendirection of the arms is learnt from at most all observations.
GAIN = 0.5 * float(torch.log1p(ROUNDS * torch.linalg.eigvalsh(ARMS.gram())).sum())


BANDS = {
    "martingale mixture, analytic": Band(
        0.5,
        lambda n, log_det: (2.0 * (log_det + 2.0 * LOG) + NORM**2).sqrt(),
        lambda state: MartingaleMixtureUCB(
            state,
            norm_bound=NORM,
            delta=DELTA,
            fit=MartingaleMixture(2.0),
            form="analytic",
        ),
        louder=2.0,
    ),
    "Abbasi-Yadkori": Band(
        2.0,
        lambda n, log_det: NORM + ((log_det + 2.0 * LOG) / 2.0).sqrt(),
        lambda state: AbbasiYadkoriUCB(
            state, norm_bound=NORM, delta=DELTA, alpha=2.0 * NOISE_STD**2
        ),
        louder=2.0,
    ),
    "IGP-UCB": Band(
        IGP_TAU,
        lambda n, log_det: NORM + NOISE_STD * (log_det + 2.0 + 2.0 * LOG).sqrt(),
        lambda state: IGPUCB(state, norm_bound=NORM, delta=DELTA, horizon=ROUNDS),
        louder=4.0,
    ),
    "Srinivas, Theorem 1": Band(
        1.0,
        constant(lambda t: 2.0 * math.log(12 * t**2 * math.pi**2 / (6.0 * DELTA))),
        lambda state: SrinivasUCB(state, delta=DELTA, theorem=FiniteDomain(12)),
        louder=3.0,
        adversaries=((gaussian, nearest_miss), (gaussian, UCB)),
        bayesian=True,
    ),
    "Srinivas, Theorem 2": Band(
        1.0,
        constant(compact_domain_beta),
        lambda state: SrinivasUCB(
            state,
            delta=DELTA,
            theorem=CompactDomain(lipschitz_a=LIPSCHITZ_A, lipschitz_b=LIPSCHITZ_B),
        ),
        louder=6.0,
        adversaries=((gaussian, nearest_miss), (gaussian, UCB)),
        bayesian=True,
    ),
    "Srinivas, Theorem 3": Band(
        1.0,
        constant(lambda t: 2.0 * NORM**2 + 300.0 * GAIN * math.log(t / DELTA) ** 3),
        lambda state: SrinivasUCB(state, delta=DELTA, theorem=BoundedNorm(NORM, GAIN)),
        louder=1000.0,
        adversaries=((rademacher, nearest_miss), (rademacher, UCB)),
    ),
}


def truths(bayesian):
    r"""One function of known norm for all sequences, or a sample of the prior for each."""
    if not bayesian:
        return ARMS.truth(NORM, CLAIM.sequences)
    size, random = (CLAIM.sequences, len(ARMS.inputs)), torch.Generator().manual_seed(11)
    normal = torch.randn(size, dtype=torch.float64, generator=random)
    return normal @ torch.linalg.cholesky(ARMS.gram()).mT


def games(band, noise, rule, loudness=1.0):
    r"""Sequences after each round with the half widths at all arms, noise units."""
    priors = ARMS.gram()[None] / band.tau
    sequences = played(priors, truths(band.bayesian), ROUNDS, rule, noise, 6, loudness)
    for n, game in enumerate(sequences, start=1):
        width = band.width(n, game.log_det[:, 0]).unsqueeze(-1)
        yield game, width * (band.tau * game.variance[:, 0]).sqrt()


def failures(band, noise, rule, loudness=1.0):
    missed = torch.zeros(CLAIM.sequences, dtype=torch.bool)
    for game, half in games(band, noise, rule, loudness):
        missed |= ((game.mean[:, 0] - game.truth).abs() > half).any(-1)
    return int(missed.sum())


@pytest.mark.parametrize("name", BANDS)
def test_the_bands_counted_are_the_library_s(name):
    band = BANDS[name]
    for n, (game, half) in enumerate(games(band, *band.adversaries[0]), start=1):
        if n in (1, 2, 9, 50, ROUNDS):
            for index in (0, 1):
                history = History.of(ARMS, game, index, n)
                found = band.library(history.state(ARMS.kernel)).bounds(ARMS.inputs)
                mean = game.mean[index, 0]
                expected = (mean - half[index], mean + half[index])
                for ours, theirs in zip(found, expected, strict=True):
                    assert_close(ours / NOISE_STD, theirs, rtol=CLOSE, atol=CLOSE)


@pytest.mark.parametrize("name", [n for n in BANDS if n != "Srinivas, Theorem 2"])
@pytest.mark.parametrize("adversary", [0, 1])
def test_misses_are_rarer_than_delta(name, adversary, stands):
    r"""2000 sequences at delta 0.1: false alarm 7.7e-05, power 1.000."""
    band = BANDS[name]
    noise, rule = band.adversaries[adversary]
    assert stands(CLAIM, failures(band, noise, rule))
    assert not stands(CLAIM, failures(band, noise, rule, band.louder))


@pytest.mark.parametrize("adversary", [0, 1])
def test_theorem_2_holds_where_it_is_played_and_at_the_maximum(adversary, stands):
    r"""2000 sequences at delta 0.1: false alarm 7.7e-05, power 1.000."""
    band = BANDS["Srinivas, Theorem 2"]
    noise, rule = band.adversaries[adversary]

    def failures(loudness):
        missed = torch.zeros(CLAIM.sequences, dtype=torch.bool)
        before = None
        for n, (game, half) in enumerate(games(band, noise, rule, loudness), start=1):
            if before is not None:
                missed |= before.gather(1, game.arms[-1].unsqueeze(1)).squeeze(1)
            before = (game.mean[:, 0] - game.truth).abs() > half
            best = (game.mean[:, 0] + half).amax(-1) + 1.0 / (NOISE_STD * (n + 1) ** 2)
            missed |= best < game.truth.amax(-1)
        return int(missed.sum())

    assert stands(CLAIM, failures(1.0))
    assert not stands(CLAIM, failures(band.louder))


# The self-normalised noise of Abbasi-Yadkori (2012), on which these bands rest, without
# the slack of the norm.
# Kernel variance 0.1 in the units of the outcomes, in which IGP-UCB's ridge is 1 + 2 / T.
WIDE_ARMS = Arms(12, NOISE_STD, variance=0.1)


RIDGES = {"Abbasi-Yadkori": 0.72, "IGP-UCB": 1.0 + 2.0 / ROUNDS}


@functools.cache
def self_normalised(name, noise, rule):
    r"""Sequences of noise alone, and ``log_det`` and ``log M_t`` along them.

    ``M_t = exp((eps^T K (K + ridge)^-1 eps - log_det) / 2)`` of Abbasi-Yadkori (2012) is
    that of a mixture at one scale, for the function zero.
    """
    nothing = torch.zeros(CLAIM.sequences, 12, dtype=torch.float64)
    priors = WIDE_ARMS.gram()[None] * NOISE_STD**2 / RIDGES[name]
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
        state = History.of(WIDE_ARMS, game, 0, n).state(WIDE_ARMS.kernel)
        log_martingale = float(path[n - 1, 0])
        form = 2.0 * log_martingale + float(log_dets[n - 1, 0])
        expected = 2.0 * (LOG + price - log_martingale)
        assert largest_form(name, state) - form == pytest.approx(expected, rel=CLOSE)
    assert stands(CLAIM, crossings(path, DELTA / math.exp(price)))
    assert not stands(CLAIM, crossings(path, 4.0 * DELTA))
