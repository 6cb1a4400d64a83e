r"""Budgeted bandit and model: an update is made or it is not; one thread at a time."""

import threading
from copy import deepcopy

import pytest
import torch

from interruptions import check_atomic
from kernelucb import BKBBandit
from problems import frozen_kernel, uniform

ARMS = uniform(12, 2, 0)


def bandit_of(qbar, played, seed=0):
    bandit = BKBBandit(
        ARMS,
        frozen_kernel("matern32"),
        norm_bound=1.0,
        noise_std=0.3,
        qbar=qbar,
        seed=seed,
    )
    for step in range(played):
        bandit.observe([step % 12, (5 * step) % 12], [0.1 * step, 1.0])
    return bandit


def seen(bandit):
    return bandit.state_dict(), bandit.bounds(), bandit.batch_select(3)


@pytest.mark.parametrize(
    ("qbar", "played", "arms"),
    [
        (1e6, 0, [4]),  # the first observation
        (1e6, 2, [7, 8]),  # more inducing arms
        (0.01, 6, [1, 1]),  # other inducing arms: those so far are dropped
    ],
)
def test_observe(qbar, played, arms):
    bandit = bandit_of(qbar, played)
    count = check_atomic(
        make=lambda: deepcopy(bandit),
        call=lambda bandit: bandit.observe(arms, torch.arange(len(arms))),
        view=seen,
        stride=4,
    )
    assert count > 10


def test_inducing_arms_are_dropped_above():
    bandit = bandit_of(0.01, 6)
    before = set(bandit.inducing.tolist())
    bandit.observe([1, 1], [0.0, 1.0])
    assert not before <= set(bandit.inducing.tolist())


def test_load_bandit():
    saved = bandit_of(0.3, 5).state_dict()
    other = bandit_of(0.3, 2)
    assert check_atomic(
        make=lambda: deepcopy(other),
        call=lambda bandit: bandit.load_state_dict(saved),
        view=seen,
        tolerance=1e-10,
        stride=7,
    )


def in_another_thread(call):
    r"""What ``call`` raises there."""
    errors = []

    def run():
        try:
            call()
        except RuntimeError as error:
            errors.append(str(error))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return errors


def test_bandit_in_two_threads():
    bandit = bandit_of(1.0, 2)
    calls = (
        lambda: bandit.observe(1, 2.0),
        bandit.select,
        bandit.batch_select,
        bandit.state_dict,
        lambda: bandit.load_state_dict({}),
    )
    with bandit._exclusive:
        for call in calls:
            assert "one thread" in in_another_thread(call)[0]
    assert in_another_thread(calls[0]) == []
    assert bandit.num_observations == 5
