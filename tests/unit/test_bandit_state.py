r"""Saved states of a kernel bandit: round trips, and changes that must be found."""

import math
import warnings

import pytest
import torch
from test_bandit import BOUNDS, NOISE, NORM, Game, make_bandit
from torch.testing import assert_close

from kernelucb import KernelBandit
from kernelucb._numerics.states import sealed
from kernelucb.exceptions import StateError
from problems import frozen_kernel, uniform
from tolerances import BANDIT

ARGUMENTS = {
    "fit": "martingale",
    "alphas": "paper",
    "norm_bound": 2.0 * NORM,
    "noise_std": 0.2,
    "delta": 0.1,
    "covariance_scale": 0.5,
}


def played(bound="filters", norm_bound=NORM, rounds=21):
    kernel = frozen_kernel("matern32")
    bandit, game = make_bandit(kernel, bound, norm_bound), Game(kernel, seed=1)
    game.play(bandit, rounds)
    return bandit, game


def changes(value):
    r"""Other values for one entry: wrong types, shapes, ranges."""
    yield from (None, "text", True, [], [1.0], {}, torch.nan, -1, -1.5, 1e300, math.inf)
    if isinstance(value, torch.Tensor):
        yield from (value.float(), value.int(), value[:-1], value.unsqueeze(0), -value[:0])
        yield from (
            value * torch.nan,
            value * math.inf,
            value * 1e200,
            value.to(torch.complex128),
        )
    if isinstance(value, list):
        yield from ([*value, 1.0], value[:-1], value[::-1], [torch.nan for _ in value])
        yield from ([str(v) for v in value], [v * 1e200 for v in value])
        yield from ([v - 1e6 for v in value], tuple(value))
    if type(value) is int:
        yield from (value + 1000, float(value), torch.tensor(value), str(value))
    if isinstance(value, dict):
        for key in value:
            yield {k: v for k, v in value.items() if k != key}
            yield {**value, key: "other"}


@pytest.mark.parametrize(
    ("bound", "norm_bound"), [("filters", NORM), ("filters", None), ("energy", NORM)]
)
def test_a_changed_state_is_refused_or_harmless(bound, norm_bound):
    bandit, game = played(bound, norm_bound)
    arms, state = game.arms(), bandit.state_dict()
    bandit.load_state_dict(state)
    expected = bandit.bounds(arms)
    bandit.load_state_dict(state)
    refused = 0
    tampered = [{k: v for k, v in state.items() if k != key} for key in state]
    tampered += [{**state, "more": 1}, list(state), None]
    for key, value in state.items():
        tampered += [{**state, key: other} for other in changes(value)]
    for wrong in tampered:
        try:
            bandit.load_state_dict(wrong)
        except StateError:
            refused += 1
            continue
        for ours, theirs in zip(bandit.bounds(arms), expected, strict=True):
            assert_close(ours, theirs, rtol=0.0, atol=BANDIT * NORM)
        bandit.load_state_dict(state)
    assert refused >= 0.9 * len(tampered)
    for ours, theirs in zip(bandit.bounds(arms), expected, strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("key", ARGUMENTS)
def test_a_state_of_other_arguments_is_refused(key):
    bandit, game = played()
    arguments = {"norm_bound": NORM, "noise_std": NOISE, "delta": 0.05}
    other = KernelBandit(frozen_kernel("matern32"), **{**arguments, key: ARGUMENTS[key]})
    before = other.bounds(game.arms())
    with pytest.raises(StateError, match="arguments is"):
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
    with pytest.raises(StateError, match="inputs have 2 columns"):
        make_bandit(kernel).load_state_dict(played()[0].state_dict())


def test_a_horizon_that_is_over_is_refused():
    bandit, _ = played("igp")
    state = bandit.state_dict()
    bandit.observe(uniform(1, 2, 0)[0], 0.0)
    short = make_bandit(frozen_kernel("matern32"), "igp", horizon=10)
    entries = {key: state[key] for key in state if key not in ("version", "checksum")}
    with pytest.raises(StateError, match="horizon is 10"):
        short.load_state_dict(
            sealed(entries | {"arguments": short.state_dict()["arguments"]})
        )


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
