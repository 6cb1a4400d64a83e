r"""The kernel bandit's mixture of filters: one hybrid beside the first member."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from test_bandit import ARMS, DELTA, NOISE, NORM, Game, assert_near, make_bandit
from torch.testing import assert_close

from kernelucb import KernelRegression, MartingaleMixtureUCB
from kernelucb.bandit.filters import Ratio, TwoFilters, partial_fractions
from kernelucb.confidence.fit.filters import ALONE
from kernelucb.confidence.fit.radius import KernelFree
from problems import float64, frozen_kernel
from tolerances import BANDIT, PARTIAL_FRACTIONS, REARRANGED

KERNEL = frozen_kernel("rbf")


def played(rounds):
    bandit, game = make_bandit(KERNEL, "filters"), Game(KERNEL, seed=8)
    game.play(bandit, rounds)
    return bandit, game


def test_prices_are_those_of_the_whole_mixture():
    r"""At the round in which the weights are chosen, with the slope of that round."""
    bandit, _ = played(64)
    bound, filters = bandit.bands, bandit.bands.filters
    mixture = bound.mixture(bandit.observations.regression())
    weights = [0.0] * len(mixture.prices)
    weights[0], weights[1 + filters.hybrid] = filters.share, 1.0 - filters.share
    expected = mixture.ellipsoid(float64(weights).numpy()).squared_radius
    expected += filters.ratio.at_zero * mixture.regression.hidden_part(NORM)
    found = bandit.bands.current().squared_radius
    assert found == pytest.approx(expected, rel=BANDIT)


@pytest.mark.parametrize("name", ["rbf", "matern32"])
def test_hardly_wider_than_with_all_hybrids(name):
    r"""Two weights, held for up to eight rounds, against the best of all in each round."""
    kernel = frozen_kernel(name)
    bandit, game = make_bandit(kernel, "filters"), Game(kernel, seed=2)
    game.play(bandit, 71)
    data, arms = bandit.observations, game.arms()
    regression = KernelRegression(data.inputs, data.outcomes, kernel, NOISE)
    lower, upper = bandit.bounds(arms)
    widths = {}
    for fit in ("filters", "martingale"):
        given_norm = {"norm_bound": NORM, "delta": DELTA, "fit": fit}
        below, above = MartingaleMixtureUCB(regression, **given_norm).bounds(arms)
        widths[fit] = float((above - below).mean())
    ours = float((upper - lower).mean())
    assert ours <= 1.03 * widths["filters"]
    assert ours <= 0.9 * widths["martingale"]


def test_an_empty_filtered_set_gives_way_to_the_ball(monkeypatch):
    bandit, game = played(70)
    arms = game.arms()
    narrow = bandit.bounds(arms)
    monkeypatch.setattr(TwoFilters, "squared_radius", lambda *_: 1e-3)
    bandit.bands._current = None
    found = bandit.bounds(arms)
    bandit.bands.filters = bandit.bands._current = None
    ball = bandit.bounds(arms)
    assert_near(found, ball)
    assert float((ball[1] - ball[0]).mean()) > float((narrow[1] - narrow[0]).mean())


@given(
    top=st.floats(0.01, 1.0),
    rise=st.floats(1e-6, 1.0 - 1e-6),
    log_corner=st.floats(-6.0, 6.0),
    centre=st.floats(-6.0, 6.0),
)
def test_sums_of_resolvents_are_the_filtered_ones(top, rise, log_corner, centre):
    r"""One eigenvalue at a time, where roots nearly agree too."""
    corner = math.exp(log_corner)
    ratio = Ratio(top, top * corner * (1.0 - rise), corner)
    turn = corner * top * (1.0 - math.sqrt(rise)) ** 2  # both roots agree there
    taus = torch.linspace(-1.5, 1.5, 20).double().add(centre).exp()
    taus = torch.cat([taus, turn * float64([1.0, 1.0 + 1e-9, 1.0 - 1e-14])])
    lam = torch.cat([torch.zeros(1), torch.logspace(-8, 6, ARMS)]).double().unsqueeze(-1)
    filters = (ratio.top * lam + ratio.foot) / (lam + ratio.corner)
    variance, form = torch.zeros_like(filters * taus), torch.zeros_like(filters * taus)
    for terms in partial_fractions(ratio, taus).values():
        shrinkage = terms.roots / (lam + terms.roots)
        variance += terms.summed(shrinkage, terms.variance, len(taus))
        form += terms.summed(shrinkage, terms.form, len(taus))
    below = filters * lam + taus
    assert_close(variance, taus / below, rtol=0.0, atol=PARTIAL_FRACTIONS)
    assert_close(taus * form, filters * taus / below, rtol=0.0, atol=PARTIAL_FRACTIONS)


@given(
    count=st.integers(1, 500),
    per_round=st.floats(0.5, 3.0),
    slope=st.floats(1e-3, 1.0),
)
def test_a_tangent_of_any_slope_lies_below_the_mixture(count, per_round, slope):
    predicted = per_round * count + 2.0 * math.log(1.0 / DELTA)
    mixed = KernelFree.of(count, DELTA, predicted, ALONE[:2])
    ball, found = mixed.ball, mixed.tangent_price(slope)
    energies = torch.linspace(0.0, ball.squared_radius, 400, dtype=torch.float64).tolist()
    gaps = [2.0 * mixed.at(e)[0] - (slope * e - found) for e in energies]
    scale = 1.0 + ball.squared_radius
    assert min(gaps) >= -REARRANGED * scale
    step = scale / 400.0  # the touching point lies between two of them
    assert min(gaps) <= step * max(ball.slope, slope)
