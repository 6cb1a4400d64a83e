r"""How often is a point ever called feasible that is not, or infeasible that is?

Objective and constrained outcome, whose noises are one and the same but for the sign, along
thousands of sequences whose arms are chosen by the constrained upper bound (Xu et al. 2023)
with Flynn & Reeb's bands (2024, Corollary 4.6). Both outcomes are constrained, the
objective from above; each band has half of delta. A sequence fails where, after any round,
any arm that is certainly feasible violates a constraint or any that is infeasible satisfies
both. (a) the library's rule and classification are those that are counted, (b) the counts,
(c) noise twice as large as claimed is found out.
"""

import math

import pytest
import torch
from simulation import Arms, Claim, History

from kernelucb import ConstrainedUCB, OutcomeConstraints
from kernelucb.acquisition import outcome_bands
from oracles.crossings import Sequences, gaussian
from problems import RKHSFunction

DELTA, NOISE_STD, TAU, ROUNDS = 0.1, 0.3, 0.5, 25
CLAIM = Claim(2000, DELTA)


class Setting:
    r"""Arms, and two functions on them; the fourth best arm just satisfies its limit."""

    def __init__(self, arms, *norms):
        self.arms, self.norms = arms, norms
        self.prior_std = float(arms.gram()[0, 0].sqrt())
        functions = [
            RKHSFunction.random(arms.kernel, norm, d=1, seed=seed)
            for norm, seed in zip(norms, (0, 7), strict=True)
        ]
        first, second = (each(arms.inputs) / NOISE_STD for each in functions)
        self.truths = first, second
        self.limits = float(first.sort().values[8]), float(second.sort().values[3])
        self.feasible = (first <= self.limits[0]) & (second >= self.limits[1])

    def bounds(self, game, norm):
        r"""Both sides of the band of all sequences at all arms, noise units."""
        log_ratio = game.log_det[:, :1] + 2.0 * math.log(2.0 / DELTA)
        half = ((log_ratio + TAU * norm**2) * game.variance[:, 0]).sqrt()
        return game.mean[:, 0] - half, game.mean[:, 0] + half

    def margins(self, pair):
        r"""Certain and possible margins, ``2 x N x A``, and the objective's upper bound."""
        (lower, upper), (low, high) = map(self.bounds, pair, self.norms)
        most, least = self.limits
        certain = torch.stack([most - upper, low - least]) / self.prior_std
        possible = torch.stack([most - lower, high - least]) / self.prior_std
        return certain, possible, upper

    def games(self, loudness=1.0):
        r"""Both outcomes before and after each round."""
        random = torch.Generator().manual_seed(5)
        priors = self.arms.gram().unsqueeze(0) / TAU
        pair = [Sequences(priors, f.expand(CLAIM.sequences, -1)) for f in self.truths]
        for _ in range(ROUNDS):
            _, possible, upper = self.margins(pair)
            shortfall = torch.where(possible < 0.0, 1.0 - possible, 0.0).sum(0)
            chosen = (upper - 1e9 * shortfall).argmax(-1)
            yield pair, chosen
            noise = loudness * gaussian(CLAIM.sequences, random)
            for game, sign in zip(pair, (1.0, -1.0), strict=True):
                game.observe(chosen, sign * noise)
        yield pair, None

    def failures(self, loudness=1.0):
        failed = torch.zeros(CLAIM.sequences, dtype=torch.bool)
        for pair, _ in self.games(loudness):
            certain, possible = (each.amin(0) >= 0.0 for each in self.margins(pair)[:2])
            failed |= ((certain & ~self.feasible) | (~possible & self.feasible)).any(-1)
        return int(failed.sum()), certain, possible

    def library(self, pair, index, rounds):
        r"""The constrained bound after a sequence's history, outcome units."""
        histories = [History.of(self.arms, game, index, rounds) for game in pair]
        options = {"fit": "martingale", "covariance_scale": 1.0 / TAU, "form": "analytic"}
        bands = outcome_bands(
            [each.state(self.arms.kernel) for each in histories],
            norm_bound=self.norms,
            delta=DELTA,
            options=options,
        )
        limits = [limit * NOISE_STD for limit in self.limits]
        constraints = OutcomeConstraints(bands, limits, sides=["<=", ">="])
        return ConstrainedUCB(bands[0], constraints, temperature=0.0)


# In the first the noise decides whether a sequence fails; in the second the bands tell most
# arms apart.
FAINT = Setting(Arms(12, NOISE_STD), 0.5, 1.0)
LOUD = Setting(Arms(12, NOISE_STD, variance=1.0), 20.0, 15.0)
SETTINGS = pytest.mark.parametrize("setting", [FAINT, LOUD], ids=["faint", "loud"])


@SETTINGS
def test_points_are_what_they_are_called(setting, stands):
    r"""2000 sequences at delta 0.1: false alarm 7.7e-05, power 1.000.

    Found out: noise that is larger than claimed.
    """
    failed, certain, possible = setting.failures()
    assert stands(CLAIM, failed)
    if setting is FAINT:
        assert not stands(CLAIM, setting.failures(loudness=2.0)[0])
    else:
        assert float(certain[:, setting.feasible].double().mean()) > 0.1
        assert float(possible[:, ~setting.feasible].double().mean()) < 0.9


@SETTINGS
def test_the_rule_that_is_counted_is_the_library_s(setting):
    inputs = setting.arms.inputs
    for n, (pair, chosen) in enumerate(setting.games()):
        if n in (1, 2, 9, 20):
            counted = setting.margins(pair)[:2]
            for index in (0, 1):
                acqf = setting.library(pair, index, n)
                assert acqf.assumptions.delta == pytest.approx(DELTA)
                assert int(acqf(inputs.unsqueeze(1)).argmax()) == int(chosen[index])
                margins = acqf.outcome_constraints.margins(inputs)
                for own, ours in zip(margins, counted, strict=True):
                    assert torch.allclose(own, ours[:, index])
