r"""Saved states of a kernel bandit: round trips, and states of other bandits."""

import warnings

import pytest
import torch
from test_bandit import BOUNDS, NOISE, NORM, Game, make_bandit
from torch.testing import assert_close

from kernelucb import Grid, KernelBandit, MartingaleMixture
from kernelucb.exceptions import StateError
from problems import frozen_kernel
from tolerances import BANDIT

ARGUMENTS = {
    "fit": MartingaleMixture(0.5),
    "form": Grid(),
    "norm_bound": 2.0 * NORM,
    "noise_std": 0.2,
    "delta": 0.1,
}


def played(bound="filters", norm_bound=NORM, rounds=21):
    kernel = frozen_kernel("matern32")
    bandit, game = make_bandit(kernel, bound, norm_bound), Game(kernel, seed=1)
    game.play(bandit, rounds)
    return bandit, game


def test_no_state_is_refused():
    bandit, _ = played(rounds=3)
    state = bandit.state_dict()
    for wrong in (None, [], {}, {**state, "kernelucb": 1}, {**state, "class": "BKBBandit"}):
        with pytest.raises(StateError):
            bandit.load_state_dict(wrong)
    assert bandit.num_observations == 3


@pytest.mark.parametrize("key", ARGUMENTS)
def test_a_state_of_other_arguments_is_refused(key):
    bandit, game = played()
    arguments = {"norm_bound": NORM, "noise_std": NOISE, "delta": 0.05}
    other = KernelBandit(frozen_kernel("matern32"), **{**arguments, key: ARGUMENTS[key]})
    before = other.bounds(game.arms())
    with pytest.raises(StateError, match="built otherwise"):
        other.load_state_dict(bandit.state_dict())
    assert other.num_observations == 0
    for ours, theirs in zip(other.bounds(game.arms()), before, strict=True):
        assert torch.equal(ours, theirs)


def test_a_state_of_another_kernel_is_refused():
    bandit, _ = played()
    for kernel in (frozen_kernel("rbf"), frozen_kernel("matern32", lengthscale=0.5)):
        with pytest.raises(StateError, match="kernel"):
            make_bandit(kernel).load_state_dict(bandit.state_dict())


def test_inputs_must_fit_the_kernel():
    kernel = frozen_kernel("matern32")
    kernel.ard_num_dims = 3
    with pytest.raises(StateError, match="built otherwise"):
        make_bandit(kernel).load_state_dict(played()[0].state_dict())


@pytest.mark.parametrize("norm_bound", [NORM, None, 0.3])
@pytest.mark.parametrize("bound", BOUNDS)
def test_a_file_brings_back_the_same_bounds(bound, norm_bound, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        bandit, game = played(bound, norm_bound, rounds=17)
        torch.save(bandit.state_dict(), tmp_path / "bandit.pt")
        state = torch.load(tmp_path / "bandit.pt", weights_only=True)
        arms, other = game.arms(), make_bandit(frozen_kernel("matern32"), bound, norm_bound)
        other.load_state_dict(state)
        state["inputs"].zero_()  # the bandit has copies
        for _ in range(3):
            for ours, theirs in zip(other.bounds(arms), bandit.bounds(arms), strict=True):
                assert_close(ours, theirs, rtol=0.0, atol=BANDIT * NORM)
            for subject in (bandit, other):
                subject.observe(arms[1], 0.4)
        assert other.assumptions.certified == bandit.assumptions.certified
