r"""How often do bands around a ridge estimate miss the truth, at any arm in any round?

As in ``test_martingale_crossings``: (a) the library's bands on some of the sequences are
the ones counted, (b) thousands of sequences are counted, against an adversary that knows
the truth, (c) the same count finds out noise that is louder than claimed.
"""

import functools
import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import pytest
import torch
from simulation import Arms, Claim, History, crossings
from torch import Tensor
from torch.testing import assert_close

from kernelucb import (
    IGPUCB,
    AbbasiYadkoriUCB,
    KernelRegression,
    MartingaleMixtureUCB,
    SrinivasUCB,
    WangDeFreitasUCB,
)
from kernelucb.papers import BoundedNorm, CompactDomain, FiniteDomain
from oracles.crossings import gaussian, nearest_miss, optimistic, played, rademacher
from problems import frozen_kernel
from tolerances import LINEAR_SOLVE as CLOSE

DELTA, NORM, NOISE_STD, ROUNDS = 0.1, 0.5, 0.3, 100
CLAIM, LOG = Claim(2000, DELTA), math.log(1.0 / DELTA)
ARMS, UCB = Arms(12, NOISE_STD), optimistic(NORM, DELTA)
ADVERSARIES = ((gaussian, nearest_miss), (rademacher, UCB))
GAUSSIAN = ((gaussian, nearest_miss), (gaussian, UCB))
ORDER = torch.randint(12, (30,), generator=torch.Generator().manual_seed(8))


def in_advance(sequences):
    r"""The same arm for every sequence, whatever its noise."""
    return ORDER[len(sequences.arms)].expand(len(sequences.truth))


def anywhere(games):
    r"""Sequences in which the truth leaves the band at any arm in any round."""
    return sum(outside(game, half).any(-1) for game, half in games) > 0


def in_the_last_round(games):
    *_, (game, half) = games
    return outside(game, half).any(-1)


def where_played_or_at_the_maximum(games):
    r"""Of Theorem 2: at the arms that are played next, or the largest value."""
    missed, before = torch.zeros(CLAIM.sequences, dtype=torch.bool), None
    for n, (game, half) in enumerate(games, start=1):
        if before is not None:
            missed |= before.gather(1, game.arms[-1].unsqueeze(1)).squeeze(1)
        before = outside(game, half)
        best = (game.mean[:, 0] + half).amax(-1) + 1.0 / (NOISE_STD * (n + 1) ** 2)
        missed |= best < game.truth.amax(-1)
    return missed


def outside(game, half):
    return (game.mean[:, 0] - game.truth).abs() > half


class Band(NamedTuple):
    r"""A band and the library's version of it.

    Attributes:
        tau: Regulariser.
        width: Multiplier of the deviation, from the round and ``N`` log-determinants.
        library: The acquisition function, which takes a state.
        louder: Noise scale of a wrong claim.
        adversaries: Noise that the theorem covers, and who chooses the arms.
        bayesian: Whether the functions are samples of the prior.
        missed: What the theorem is about.
        arms: The inputs.
        rounds: How many are played.
    """

    tau: float
    width: Callable[[int, Tensor], Tensor]
    library: Callable[[Any], Any]
    louder: float
    adversaries: tuple = ADVERSARIES
    bayesian: bool = False
    missed: Callable = anywhere
    arms: Arms = ARMS
    rounds: int = ROUNDS


def constant(beta):
    r"""The root of Srinivas et al.'s beta at the round about to be played."""
    return lambda n, log_det: torch.full_like(log_det, math.sqrt(beta(n + 1)))


# Slopes of samples of this prior, for Theorem 2 of Srinivas et al. (2010): normal, of
# standard deviation SLOPE. By Rice's formula P(sup |f'| > L) <= a exp(-(L / b)^2).
SLOPE = math.sqrt(float(ARMS.kernel.outputscale) * 5.0 / 3.0) / Arms.LENGTHSCALE
LIPSCHITZ_A = 1.0 + math.sqrt(15.0) / (math.pi * Arms.LENGTHSCALE)
LIPSCHITZ_B = math.sqrt(2.0) * SLOPE
# Each eigendirection of the arms is learnt from at most all observations.
GAIN = 0.5 * float(torch.log1p(ROUNDS * torch.linalg.eigvalsh(ARMS.gram())).sum())


def compact_domain_beta(t):
    cover = t**2 * LIPSCHITZ_B * math.sqrt(math.log(4.0 * LIPSCHITZ_A / DELTA))
    first = 2.0 * math.log(t**2 * 2.0 * math.pi**2 / (3.0 * DELTA))
    return first + 2.0 * math.log(cover)


def wang_width(n, log_det):
    r"""Proposition 1 with its last term in noise units."""
    squared = NORM**2 + (4.0 * log_det * math.log(2.0 / DELTA)).sqrt() + log_det
    squared = squared + math.sqrt(2.0 * math.log(4.0 / DELTA)) * NORM
    return (squared + 2.0 * math.log(2.0 / DELTA)).sqrt()


GIVEN = {"norm_bound": NORM, "delta": DELTA}
ANALYTIC = partial(
    MartingaleMixtureUCB, fit="martingale", covariance_scale=2.0, form="analytic"
)
RKHS = BoundedNorm(NORM, GAIN)
LIPSCHITZ = CompactDomain(lipschitz_a=LIPSCHITZ_A, lipschitz_b=LIPSCHITZ_B)
BANDS = {
    "martingale mixture, analytic": Band(
        0.5,
        lambda n, log_det: (2.0 * (log_det + 2.0 * LOG) + NORM**2).sqrt(),
        partial(ANALYTIC, **GIVEN),
        louder=2.0,
    ),
    "Abbasi-Yadkori": Band(
        2.0,
        lambda n, log_det: NORM + ((log_det + 2.0 * LOG) / 2.0).sqrt(),
        partial(AbbasiYadkoriUCB, alpha=2.0 * NOISE_STD**2, **GIVEN),
        louder=2.0,
    ),
    "IGP-UCB": Band(
        (1.0 + 2.0 / ROUNDS) / NOISE_STD**2,
        lambda n, log_det: NORM + NOISE_STD * (log_det + 2.0 + 2.0 * LOG).sqrt(),
        partial(IGPUCB, horizon=ROUNDS, **GIVEN),
        louder=4.0,
    ),
    "Srinivas, Theorem 1": Band(
        1.0,
        constant(lambda t: 2.0 * math.log(12 * t**2 * math.pi**2 / (6.0 * DELTA))),
        partial(SrinivasUCB, delta=DELTA, theorem=FiniteDomain(12)),
        louder=3.0,
        adversaries=GAUSSIAN,
        bayesian=True,
    ),
    "Srinivas, Theorem 2": Band(
        1.0,
        constant(compact_domain_beta),
        partial(SrinivasUCB, delta=DELTA, theorem=LIPSCHITZ),
        louder=6.0,
        adversaries=GAUSSIAN,
        bayesian=True,
        missed=where_played_or_at_the_maximum,
    ),
    "Srinivas, Theorem 3": Band(
        1.0,
        constant(lambda t: 2.0 * NORM**2 + 300.0 * GAIN * math.log(t / DELTA) ** 3),
        partial(SrinivasUCB, delta=DELTA, theorem=RKHS),
        louder=1000.0,
        adversaries=((rademacher, nearest_miss), (rademacher, UCB)),
    ),
    "Wang & de Freitas": Band(
        1.0,
        wang_width,
        partial(WangDeFreitasUCB, fixed_design=True, **GIVEN),
        louder=4.0,
        adversaries=((gaussian, in_advance), (rademacher, in_advance)),
        missed=in_the_last_round,
        arms=Arms(12, NOISE_STD, variance=0.1),
        rounds=30,
    ),
}


def truths(band):
    r"""One function of known norm for all sequences, or a sample of the prior for each."""
    if not band.bayesian:
        return band.arms.truth(NORM, CLAIM.sequences)
    size, random = (CLAIM.sequences, 12), torch.Generator().manual_seed(11)
    normal = torch.randn(size, dtype=torch.float64, generator=random)
    return normal @ torch.linalg.cholesky(band.arms.gram()).mT


def games(band, noise, rule, loudness=1.0):
    r"""Sequences after each round with the half widths at all arms, noise units."""
    priors = band.arms.gram()[None] / band.tau
    sequences = played(priors, truths(band), band.rounds, rule, noise, 6, loudness)
    for n, game in enumerate(sequences, start=1):
        width = band.width(n, game.log_det[:, 0]).unsqueeze(-1)
        yield game, width * (band.tau * game.variance[:, 0]).sqrt()


@pytest.mark.representatives("martingale mixture, analytic")
@pytest.mark.parametrize("name", BANDS)
def test_the_bands_counted_are_the_library_s(name):
    band = BANDS[name]
    for n, (game, half) in enumerate(games(band, *band.adversaries[0]), start=1):
        for index in (0, 1) if n in (1, 2, 9, 50, band.rounds) else ():
            state = History.of(band.arms, game, index, n).state(band.arms.kernel)
            found, mean = band.library(state).bounds(band.arms.inputs), game.mean[index, 0]
            expected = (mean - half[index], mean + half[index])
            for ours, theirs in zip(found, expected, strict=True):
                assert_close(ours / NOISE_STD, theirs, rtol=CLOSE, atol=CLOSE)


SETTINGS = [(name, game) for name in BANDS for game in BANDS[name].adversaries]


# One count with all its sequences, half a second; of the other bands with the slow tests.
@pytest.mark.representatives("martingale mixture, analytic-adversary1")
@pytest.mark.parametrize(("name", "adversary"), SETTINGS)
def test_misses_are_rarer_than_delta(name, adversary, stands):
    r"""2000 sequences at delta 0.1: false alarm 7.7e-05, power 1.000."""
    band = BANDS[name]
    assert stands(CLAIM, int(band.missed(games(band, *adversary)).sum()))
    assert not stands(CLAIM, int(band.missed(games(band, *adversary, band.louder)).sum()))


def test_counting_finds_out_the_printed_width_of_wang_and_de_freitas(stands):
    r"""One observation of which the prior explains half, at small noise and small delta.

    1000000 sequences at delta 0.0001: false alarm 9.2e-05, power 1.000.
    """
    claim, small, size, log = Claim(1_000_000, 1e-4), 0.01, 0.01, math.log(2e4)
    zero = torch.zeros(1, 1, dtype=torch.float64)
    state = KernelRegression(zero, zero, frozen_kernel("rbf", 0.2, small**2), small)
    given = {"norm_bound": size, "delta": claim.delta, "fixed_design": True}
    width = WangDeFreitasUCB(state, **given).band.confidence_set.width
    printed = math.sqrt(width**2 - 2.0 * log + 2.0 * small * log)
    random = torch.Generator().manual_seed(10)
    noise = torch.randn(claim.sequences, dtype=torch.float64, generator=random)
    error = (noise - size).abs() / math.sqrt(2.0)
    assert stands(claim, int((error > width).sum()))
    assert not stands(claim, int((error > printed).sum()))


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
    r"""The largest ``eps^T K (K + ridge)^-1 eps`` that the library's width allows."""
    ridge = RIDGES[name]
    if name == "IGP-UCB":
        width = IGPUCB(state, horizon=ROUNDS, **GIVEN).band.confidence_set.width
        return ((width - NORM) / NOISE_STD) ** 2
    width = AbbasiYadkoriUCB(state, alpha=ridge, **GIVEN).band.confidence_set.width
    return ridge / NOISE_STD**2 * (width - NORM) ** 2


@pytest.mark.covering
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
