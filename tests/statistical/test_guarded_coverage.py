r"""Does the band hold whatever rule chooses the points?

Flynn & Reeb's band (2024, Corollary 4.6) along thousands of sequences whose arms are chosen
by an acquisition function within the band's possible maximisers, with and without rounds
of the upper bound, and by an upper bound of random width. A sequence fails where the
function leaves the band at any arm after any round. (a) the library's rule is the one that
is counted, (b) the counts, (c) noise or a norm twice as large as claimed are found out.
"""

import math
from typing import NamedTuple

import pytest
import torch
from binomial import Claim
from botorch.acquisition import LogExpectedImprovement
from botorch.acquisition.analytic import _log_ei_helper
from botorch.models import SingleTaskGP
from gpytorch.means import ZeroMean
from simulation import Arms, History

from kernelucb import GuardedAcquisition, MartingaleMixture, MartingaleMixtureUCB
from kernelucb.acquisition.guarded import is_ucb_turn
from oracles.crossings import gaussian, played
from tolerances import LINEAR_SOLVE

DELTA, NOISE_STD, TAU, ROUNDS = 0.1, 0.3, 0.5, 60
CLAIM = Claim(2000, DELTA)


class Setting(NamedTuple):
    r"""Arms, and the norm of the function on them."""

    arms: Arms
    norm: float

    @property
    def priors(self):
        r"""Of the regularisers of the band and of the process that the search is on."""
        gram = self.arms.gram()
        return torch.stack([gram / TAU, gram])


# In the first the noise decides whether a sequence fails, in the second the norm; in the
# second the guard excludes arms.
FAINT = Setting(Arms(12, NOISE_STD), 0.5)
LOUD = Setting(Arms(12, NOISE_STD, variance=1.0), 20.0)
SETTINGS = pytest.mark.parametrize("setting", [FAINT, LOUD], ids=["faint", "loud"])


class Band:
    r"""Bounds of all sequences at all arms, noise units, for a norm that is believed."""

    def __init__(self, game, norm):
        squared = 2.0 * (game.log_det[:, :1] + 2.0 * math.log(1.0 / DELTA)) + norm**2
        self.game, self.width = game, (TAU * squared).sqrt()
        half = self.width * game.variance[:, 0].sqrt()
        self.lower, self.upper = game.mean[:, 0] - half, game.mean[:, 0] + half

    def misses(self, truth):
        return ((truth < self.lower) | (truth > self.upper)).any(-1)

    def gain_over_best(self):
        r"""Largest ``f(x) - f(r)`` in the set, ``r`` the played arm with the best bound."""
        game, mean, variance = self.game, self.game.mean[:, 0], self.game.variance[:, 0]
        lower = torch.where(game.counts > 0.0, self.lower, -torch.inf)
        best = lower.argmax(-1, keepdim=True)
        rows = best.unsqueeze(-1).expand_as(game.covariance[:, 0, :1])
        shared = game.covariance[:, 0].gather(1, rows).squeeze(1)
        difference = variance + variance.gather(1, best) - 2.0 * shared
        return mean - mean.gather(1, best) + self.width * difference.clamp_min(0.0).sqrt()


def log_ei(game):
    r"""Over the largest posterior mean at the arms that were played."""
    seen = torch.where(game.counts > 0.0, game.mean[:, 1], -torch.inf)
    best, deviation = seen.amax(-1, keepdim=True), game.variance[:, 1].sqrt()
    return _log_ei_helper((game.mean[:, 1] - best) / deviation) + deviation.log()


def guarded(every):
    def rule(game, norm):
        band = Band(game, norm)
        if not game.arms or (every and is_ucb_turn(len(game.arms), every)):
            return band.upper.argmax(-1)
        possible = band.gain_over_best() >= 0.0
        return torch.where(possible, log_ei(game), -torch.inf).argmax(-1)

    return rule


def random_upper_bound():
    r"""With a new exponential ``beta`` of mean 2 for each sequence in each round."""
    random = torch.Generator().manual_seed(3)

    def rule(game, norm):
        uniform = torch.rand(len(game.truth), 1, dtype=torch.float64, generator=random)
        beta = -2.0 * uniform.log()
        return (game.mean[:, 1] + (beta * game.variance[:, 1]).sqrt()).argmax(-1)

    return rule


RULES = {
    "guarded LogEI": lambda: guarded(None),
    "guarded LogEI, every fourth by the upper bound": lambda: guarded(4),
    "random upper bound": random_upper_bound,
}


def games(rule, setting, belief=1.0, loudness=1.0):
    truth = setting.arms.truth(setting.norm, CLAIM.sequences)
    chosen = lambda game: rule(game, belief * setting.norm)  # noqa: E731
    return played(setting.priors, truth, ROUNDS, chosen, gaussian, 5, loudness)


def failures(name, setting, belief=1.0, loudness=1.0):
    missed = torch.zeros(CLAIM.sequences, dtype=torch.bool)
    for game in games(RULES[name](), setting, belief, loudness):
        missed |= Band(game, belief * setting.norm).misses(game.truth)
    return int(missed.sum())


@SETTINGS
@pytest.mark.parametrize("name", RULES)
def test_misses_are_rarer_than_delta(name, setting, stands):
    r"""2000 sequences at delta 0.1: false alarm 7.7e-05, power 1.000."""
    assert stands(CLAIM, failures(name, setting))


@pytest.mark.parametrize("name", RULES)
def test_half_the_noise_or_half_the_norm_is_found_out_in_most_sequences(name):
    assert failures(name, FAINT, loudness=2.0) > CLAIM.sequences / 2
    assert failures(name, LOUD, belief=0.5) > CLAIM.sequences / 2


@SETTINGS
@pytest.mark.parametrize("every", [None, 4])
def test_the_rule_that_is_counted_is_the_library_s(every, setting):
    arms, guard = setting.arms, None
    for n, game in enumerate(games(guarded(every), setting)):
        if n in (1, 2, 9, 50):
            for index in (0, 1):
                history = History.of(arms, game, index, n)
                counted = arms.inputs[game.arms[n][index]].reshape(1, 1, 1)
                guard = library(history, every, setting)
                largest = guard(arms.inputs.unsqueeze(1)).max()
                assert guard(counted) >= largest - LINEAR_SOLVE * largest.abs()
    assert (guard.excess(arms.inputs) < 0.0).any() == (setting is LOUD)


def library(history, every, setting):
    r"""The guarded acquisition function after a sequence's history."""
    X, Y = history.X, history.Y.unsqueeze(-1)
    noise = history.noise_std.square().unsqueeze(-1)
    model = SingleTaskGP(
        X,
        Y,
        noise,
        covar_module=setting.arms.kernel,
        mean_module=ZeroMean(),
        outcome_transform=None,
    ).eval()
    band = MartingaleMixtureUCB(
        history.state(setting.arms.kernel),
        norm_bound=setting.norm,
        delta=DELTA,
        fit=MartingaleMixture(1.0 / TAU),
        form="analytic",
    )
    search = LogExpectedImprovement(model, model.posterior(X).mean.max().detach())
    return GuardedAcquisition(search, band, temperature=0.0, ucb_every=every)
