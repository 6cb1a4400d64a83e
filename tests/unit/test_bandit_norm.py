r"""A kernel bandit whose norm bound is estimated from the data."""

import pytest
import torch
from test_bandit import BOUNDS, DELTA, MIXTURES, NOISE, NORM, OPTIONS, Game, stateless
from torch.testing import assert_close

from kernelucb import KernelBandit, NormTracker, least_consistent_norm
from kernelucb.confidence.assumptions import Status
from problems import frozen_kernel
from tolerances import BANDIT


def make_bandit(kernel, bound="filters", norm_bound=None):
    return KernelBandit(
        kernel, norm_bound=norm_bound, noise_std=NOISE, delta=DELTA, **OPTIONS[bound]
    )


@pytest.mark.parametrize("bound", BOUNDS)
def test_is_the_stateless_bound_at_the_estimate(bound):
    kernel = frozen_kernel("matern52")
    bandit, game = make_bandit(kernel, bound), Game(kernel, seed=1)
    assert bandit.norm_bound == NormTracker.cautious().floor
    for rounds in (1, 2, 12, 40):
        game.play(bandit, rounds)
        arms, norm = game.arms(), bandit.norm_bound
        found = bandit.bounds(arms)
        expected = stateless(bandit, kernel, norm_bound=norm).bounds(arms)
        for ours, theirs in zip(found, expected, strict=True):
            assert_close(ours, theirs, rtol=0.0, atol=BANDIT * NORM)
    assert bandit.assumptions["norm"].status is Status.ESTIMATED


def test_the_estimate_follows_the_data_and_never_falls():
    kernel = frozen_kernel("rbf")
    bandit, game = make_bandit(kernel, "filters"), Game(kernel, seed=3)
    before, tracker = 0.0, NormTracker.cautious()
    for _ in range(15):  # as long as every observation brings a new estimate
        game.play(bandit, 1)
        tracker.observe(bandit.observations.regression(), delta=DELTA)
        assert bandit.norm_bound == pytest.approx(tracker.norm_bound)
        assert bandit.norm_bound >= before
        before = bandit.norm_bound
    game.play(bandit, 45)
    least = least_consistent_norm(bandit.observations.regression(), delta=DELTA)
    assert 0.5 * NORM < least <= bandit.norm_bound


@pytest.mark.parametrize("bound", MIXTURES)
def test_no_contradiction_with_hardly_any_room(bound):
    r"""The set would be empty as soon as the next outcome needs more norm; warnings are
    errors here."""
    kernel = frozen_kernel("matern32")
    tracker = NormTracker(inflation=1.0 + 1e-9, floor=1e-3)
    bandit, game = make_bandit(kernel, bound, tracker), Game(kernel, seed=4)
    game.play(bandit, 60)
    lower, upper = bandit.bounds(game.arms())
    assert bool((lower <= upper).all())
    assert bandit.assumptions["norm"].status is Status.ESTIMATED


@pytest.mark.parametrize("rounds", [0, 5, 37])
def test_resumes_where_it_was(rounds, tmp_path):
    kernel = frozen_kernel("rbf")
    first, game = make_bandit(kernel), Game(kernel, seed=8)
    game.play(first, rounds)
    torch.save(first.state_dict(), tmp_path / "bandit.pt")
    second = make_bandit(kernel)
    second.load_state_dict(torch.load(tmp_path / "bandit.pt", weights_only=True))
    for _ in range(12):
        assert second.norm_bound == first.norm_bound
        arms = game.arms()
        for ours, theirs in zip(first.bounds(arms), second.bounds(arms), strict=True):
            assert_close(ours, theirs, rtol=0.0, atol=BANDIT * NORM)
        for bandit in (first, second):
            bandit.observe(arms[4], game.outcome(arms[4]))


def test_a_tracker_given_follows_the_estimate():
    r"""It is the bandit's own, and may be shared with other bounds."""
    kernel, tracker = frozen_kernel("matern52"), NormTracker.cautious()
    bandit, game = make_bandit(kernel, "exact", tracker), Game(kernel)
    game.play(bandit, 15)
    assert bandit.norm_bound == tracker.norm_bound > 0.0
    norm, least = tracker.estimates
    tracker.estimates = 3.0 * norm, least  # by another bound that shares it
    bandit.observe(game.arms()[0], 0.0)
    assert bandit.norm_bound == tracker.norm_bound
