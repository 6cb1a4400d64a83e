r"""Saved states of budgeted bandits and models: whole, or refused with the old one kept."""

import math

import pytest
import torch
from torch.testing import assert_close

from kernelucb import BKBBandit
from kernelucb.exceptions import StateError
from problems import frozen_kernel, uniform
from tolerances import SKETCH

ARMS = uniform(9, 2, 0)
MISSING = object()


def bandit_of(played=3, arms=ARMS, kernel="matern32", **options):
    defaults = {"norm_bound": 1.0, "noise_std": 0.3, "seed": 4}
    bandit = BKBBandit(arms, frozen_kernel(kernel), **{**defaults, **options})
    for step in range(played):
        bandit.observe([step, step, 2 * step], [0.5, 0.1 * step, 1.0])
    return bandit


def entry(tensor, value, at=0):
    r"""A copy with one entry changed; float64 where the value is not whole."""
    copy = tensor.clone()
    copy[at] = value
    return copy


def tampered(value):
    r"""What no reader of tensors takes."""
    yield from (MISSING, None, "text", 1.5, True, [1.0], {}, value.tolist())
    yield value.to(torch.float32 if value.is_floating_point() else torch.int32)
    yield value.unsqueeze(0)
    yield torch.full_like(value, 2, dtype=torch.complex64)
    if value.is_floating_point() and value.numel():
        yield from (value / 0.0, entry(value, math.nan), entry(value, math.inf))


BANDIT = bandit_of().state_dict()
VALUES = [
    *(
        (name, bad)
        for name, v in BANDIT.items()
        if torch.is_tensor(v)
        for bad in tampered(v)
    ),
    *(
        (name, bad)
        for name, value in BANDIT.items()
        if not torch.is_tensor(value)
        for bad in (MISSING, None, [], torch.ones(1), "text", True, -1.0, math.nan, 1e300)
    ),
    ("unknown", 1.0),
    ("version", 2),
    ("version", 1.0),
    ("counts", BANDIT["counts"][:-1]),
    ("counts", entry(BANDIT["counts"], -1.0)),
    ("counts", entry(BANDIT["counts"], 0.5)),
    ("counts", entry(BANDIT["counts"], 0.0)),  # with outcomes there
    ("counts", entry(BANDIT["counts"], 1e300)),
    ("counts", 0.0 * BANDIT["counts"]),
    ("sums", entry(BANDIT["sums"], 1.0, -1)),  # without observations there
    ("sums", entry(BANDIT["sums"], 1e308)),
    ("inducing", BANDIT["inducing"][:0]),
    ("inducing", entry(BANDIT["inducing"], -1)),
    ("inducing", entry(BANDIT["inducing"], 9)),
    ("inducing", entry(BANDIT["inducing"], 8)),  # an arm that was never played
    ("inducing", BANDIT["inducing"].repeat(2)),
    ("generator", BANDIT["generator"][:-1]),
    ("generator", BANDIT["generator"][:0]),
]


def with_value(state, name, value):
    rest = {key: kept for key, kept in state.items() if key != name}
    return rest if value is MISSING else {**rest, name: value}


class TestBandit:
    @pytest.mark.parametrize(("name", "value"), VALUES)
    def test_tampered(self, name, value):
        bandit = bandit_of(1)
        before = bandit.state_dict()
        with pytest.raises(StateError):
            bandit.load_state_dict(with_value(BANDIT, name, value))
        after = bandit.state_dict()
        for key, kept in before.items():
            same = torch.equal(after[key], kept) if torch.is_tensor(kept) else None
            assert after[key] == kept if same is None else same

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
            {"regularizer": 1.0},
            {"batch_growth": 1.2},
            {"radius": "practical"},
            {"kernel": "rbf"},
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
