r"""The BKB benchmark: exact learners are exact, the yardstick is BKB, ratios are ratios."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.testing import assert_close

pytest.importorskip("joblib", reason="the benchmark needs kernelucb[bench]")

from benchmarks.papers.bkb_2019 import __main__ as bkb
from benchmarks.papers.bkb_2019.play import Learner, play_sequence
from benchmarks.papers.bkb_2019.problems import Problem
from benchmarks.papers.bkb_2019.timing import NumpyBKB
from benchmarks.runner import fixed_kernel
from kernelucb import BKBBandit, KernelBandit
from kernelucb.papers.bkb import Budget, practical_width
from tolerances import BANDIT, SKETCH


def problem() -> Problem:
    random = np.random.default_rng(0)
    arms = torch.from_numpy(random.standard_normal((40, 3)))
    rewards = 0.5 + 0.5 * np.sin(arms.sum(-1).numpy())
    return Problem(arms, rewards, fixed_kernel("rbf", 3.0))


IGP = {"bound": "igp_ucb", "horizon": 15}
MIXTURE = {"form": "analytic", "fit": "martingale"}


@pytest.mark.parametrize(
    ("name", "options"), [("exact_mixture", MIXTURE), ("exact_igp", IGP)]
)
def test_exact_learners_have_the_bounds_of_the_kernel_bandit(name, options):
    played, method = problem(), bkb.METHODS[name][1]
    learner = Learner(
        played, SimpleNamespace(**bkb.PROTOCOL | method | {"rounds": 15, "trial": 0})
    )
    given = {name: bkb.PROTOCOL[name] for name in ("norm_bound", "noise_std", "delta")}
    bandit = KernelBandit(played.kernel, **given, **options)
    for arm in (3, 17, 3, 8, 30, 3):
        outcome = float(played.rewards[arm])
        learner.observe([arm], [outcome])
        bandit.observe(played.arms[arm], outcome)
        arms = learner.bandit.arms
        upper = arms.mean + learner.exact_width() * arms.variance.sqrt()
        assert_close(upper, bandit.bounds(played.arms)[1], rtol=0, atol=BANDIT)
        assert learner.select() == [bandit.select(played.arms)]


def test_yardstick_is_bkb():
    r"""The same arms as ``BKBBandit`` where every observed arm is inducing."""
    played, given = problem(), {"norm_bound": 1.0, "noise_std": 0.1, "delta": 0.1}
    yardstick = NumpyBKB(played.arms.numpy(), 3.0, 0.1, 1.0, 0.1, 1e9, 0)
    bandit = BKBBandit(played.arms, played.kernel, qbar=1e9, radius="practical", **given)
    for _ in range(12):
        arm = bandit.select()
        outcome = float(played.rewards[arm])
        assert yardstick.step(lambda arm: float(played.rewards[arm])) == arm
        bandit.observe(arm, outcome)
        _, variance = yardstick.posterior()
        found = torch.from_numpy(0.01 * variance)
        assert_close(found, bandit.arms.variance, rtol=0, atol=SKETCH)
    assert practical_width(Budget.of(bandit.arms), 1.0, 0.1, 0.1) == bandit.width


@pytest.mark.usefixtures("small_data")
@pytest.mark.parametrize("play", bkb.PLAYS)
def test_ratios_are_one_where_every_observed_arm_is_inducing(play):
    runs = [run for run in bkb.ACCURACY if run["play"] == play and run["trial"] == 0]
    small = {"arms": 40, "rounds": 15, "checks": [1, 5, 15]}
    found = play_sequence(runs[-1] | small)
    assert runs[-1]["qbar"] == "theorem"
    assert found["smallest"] == pytest.approx([1.0] * 3, abs=1e-6)
    assert found["largest"] == pytest.approx([1.0] * 3, abs=1e-6)
    assert all(found["covered"])
    assert play == "bound" or found["distinct"] == [1, 5, 15]
