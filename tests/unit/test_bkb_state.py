r"""Saved states of budgeted bandits and models: whole, or refused with the old one kept."""

import pytest
import torch
from gpytorch.means import ConstantMean
from torch.testing import assert_close

from kernelucb import BKBBandit
from kernelucb.exceptions import StateError
from problems import float64, frozen_kernel, uniform
from tolerances import SKETCH

ARMS = uniform(9, 2, 0)
SHIFT = ConstantMean().double()
SHIFT.constant = float64(1.0)


def bandit_of(played=3, arms=ARMS, kernel="matern32", **options):
    defaults = {"norm_bound": 1.0, "noise_std": 0.3, "seed": 4}
    bandit = BKBBandit(arms, frozen_kernel(kernel), **{**defaults, **options})
    for step in range(played):
        bandit.observe([step, step, 2 * step], [0.5, 0.1 * step, 1.0])
    return bandit


BANDIT = bandit_of().state_dict()


class TestBandit:
    @pytest.mark.parametrize("state", [None, [], "text", {}, torch.ones(3)])
    def test_no_state(self, state):
        with pytest.raises(StateError):
            bandit_of().load_state_dict(state)

    @pytest.mark.parametrize(
        "options",
        [
            {"norm_bound": 2.0},
            {"noise_std": 0.2},
            {"delta": 0.1},
            {"qbar": 3.0},
            {"epsilon": 0.4},
            {"alpha": 1.0},
            {"batch_growth": 1.2},
            {"radius": "practical"},
            {"radius": "theorem2"},
            {"kernel": "matern52"},
            {"mean_module": SHIFT},
            {"arms": ARMS + 1.0},
            {"arms": ARMS[:-1]},
        ],
    )
    def test_another_construction(self, options):
        with pytest.raises(StateError):
            bandit_of(1, **options).load_state_dict(BANDIT)

    def test_copies(self):
        r"""Neither the saved state nor the one that was loaded is the bandit's own."""
        bandit = bandit_of()
        state = bandit.state_dict()
        other = bandit_of(0)
        other.load_state_dict(state)
        expected = [bound.clone() for bound in bandit.bounds()]
        for value in state.values():
            if torch.is_tensor(value):
                value.zero_()
        for restored in (bandit, other):
            restored.observe(0, 1.0)
        bandit = bandit_of()
        assert_close(bandit.bounds(), tuple(expected))
        bandit.observe(0, 1.0)
        assert_close(other.bounds(), bandit.bounds(), rtol=0, atol=SKETCH)

    def test_without_observations(self):
        bandit = bandit_of()
        bandit.load_state_dict(bandit_of(0).state_dict())
        assert bandit.num_observations == 0
        assert_close(bandit.bounds(), bandit_of(0).bounds())
