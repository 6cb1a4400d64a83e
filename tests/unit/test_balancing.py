r"""Regret balancing against a transcription of the published algorithm, and its theorem."""

import itertools
import math

import pytest
import torch
from gpytorch.kernels import RBFKernel

from kernelucb import FamilyBandit, KernelBandit, KernelRegression, lengthscale_family
from kernelucb.bandit.balancing import Balance, Play, suspected_regret
from oracles.balancing import LengthScaleBalancing, averages_error
from problems import RKHSFunction, normal, uniform
from tolerances import REARRANGED

KERNELS = lengthscale_family(RBFKernel(), 0.1, 0.8)
NORM, NOISE, DELTA, ROUNDS, TRUE = 4.0, 0.1, 0.05, 40, 1
COVERS = [cover.kernel for cover in KERNELS.covering(2)]
NORMS = [NORM] * len(KERNELS)
SCALES = [(norm / 10.0) ** 2 for norm in NORMS]
ARMS = uniform(60, 2, seed=5)


def bandit(**options):
    arguments = {"norm_bound": NORM, "noise_std": NOISE, "delta": DELTA}
    return FamilyBandit(KERNELS, select="balancing", **arguments, **options)


def values(seed):
    return RKHSFunction.random(KERNELS[TRUE], 0.9 * NORM, 2, seed=seed)(ARMS)


@pytest.mark.parametrize("seed", [0, 10])
def test_it_plays_what_the_published_algorithm_plays(seed):
    f, noise = values(seed), NOISE * normal(ROUNDS, seed + 5)
    ours = bandit()
    singles = [
        KernelBandit(kernel, norm_bound=norm, noise_std=NOISE, covariance_scale=scale)
        for kernel, norm, scale in zip(COVERS, NORMS, SCALES, strict=True)
    ]
    oracle = LengthScaleBalancing(len(KERNELS), NOISE, DELTA)
    for round_, error in enumerate(noise.tolist()):
        data = singles[0].observations
        gains = [0.0] * len(KERNELS)
        if round_:
            states = [
                KernelRegression(data.inputs, data.outcomes, k, NOISE) for k in COVERS
            ]
            gains = [0.5 * float(state.log_det(1.0)) for state in states]
        allowed = [i for i, own in enumerate(ours.consistent) if own]
        chosen = oracle.choose(NORMS, gains, allowed)
        lower, upper = singles[chosen].bounds(ARMS)
        arm = int(upper.argmax())
        assert ours.select(ARMS) == arm
        assert ours._now.balance.pending.kernel == chosen
        outcome = float(f[arm]) + error
        ours.observe(ARMS[arm], outcome)
        for single in singles:
            single.observe(ARMS[arm], outcome)
        allowed = [i for i, own in enumerate(ours.consistent) if own]
        oracle.learn(chosen, outcome, float(upper[arm] - lower[arm]), allowed)
        balance = ours._now.balance
        assert list(balance.plays) == [len(own) for own in oracle.outcomes]
        assert list(balance.dropped) == oracle.dropped
        sums = [math.fsum(own) for own in oracle.widths]
        assert list(balance.widths) == pytest.approx(sums, rel=1e-5)
        assert not balance.dropped[TRUE]


@pytest.mark.parametrize("seed", range(3))
def test_the_regret_of_each_kernel_obeys_the_theorem(seed):
    f, noise = values(seed), NOISE * normal(ROUNDS, seed + 5)
    ours, regret = bandit(), [0.0] * len(KERNELS)
    for error in noise.tolist():
        arm = ours.select(ARMS)
        regret[ours._now.balance.pending.kernel] += float(f.max() - f[arm])
        ours.observe(ARMS[arm], float(f[arm]) + error)
        balance = ours._now.balance
        if 0 in balance.plays:
            continue
        total, (n, w) = sum(balance.plays), (balance.plays[TRUE], balance.widths[TRUE])
        xi = averages_error(NOISE, len(KERNELS), total, DELTA) ** 2
        for index, own in enumerate(balance.plays):
            if balance.dropped[index] or not ours.consistent[index]:
                continue
            bound = balance.widths[index] + 2.0 * math.sqrt(xi * own)
            bound += own / n * (w + 2.0 * math.sqrt(xi * n))
            assert regret[index] <= bound


def test_shorter_length_scales_are_played_less_often():
    r"""What the paper says of its rule: their suspected regret grows faster."""
    ours = bandit()
    f = values(20)
    for _ in range(ROUNDS):
        arm = ours.select(ARMS)
        ours.observe(ARMS[arm], f[arm])
    plays, own = ours._now.balance.plays, [c for c, ok in enumerate(ours.consistent) if ok]
    assert all(plays[i] >= plays[j] for i, j in itertools.pairwise(own))
    assert plays[own[0]] >= 2 * plays[own[-1]] > 0


def judged(outcomes, widths=(0.2, 0.3), plays=(400, 400), consistent=(True, True)):
    sums = [
        tuple(p * v for p, v in zip(plays, own, strict=True)) for own in (outcomes, widths)
    ]
    balance = Balance(plays, *sums, (False, False))
    return balance.judged(consistent, NOISE, DELTA).dropped


def test_a_kernel_is_dropped_where_its_outcomes_are_too_low():
    xi = averages_error(NOISE, 2, 800, DELTA) / math.sqrt(400)
    best = 1.0 + 0.2 + 2.0 * xi
    assert judged((1.0, best + REARRANGED)) == (True, False)
    assert judged((1.0, best - REARRANGED)) == (False, False)
    assert judged((1.0, 9.0), consistent=(True, False)) == (False, False)
    assert judged((1.0, 9.0), plays=(400, 0)) == (False, False)


def test_what_is_dropped_is_played_no_more_and_stays_in_the_bounds():
    balance = Balance((5, 5, 5), (0.0,) * 3, (0.0,) * 3, (True, False, False))
    assert balance.playing((True, True, False)) == [1]
    assert balance.playing((True, False, False)) == [0]
    assert balance.playing((False,) * 3) == []
    ours = bandit()
    before = ours.bounds(ARMS)
    dropped = ours._now.balance._replace(dropped=(True, False, True, True))
    ours._now = ours._now._replace(balance=dropped)
    for left, right in zip(ours.bounds(ARMS), before, strict=True):
        assert torch.equal(left, right)
    ours.select(ARMS)
    assert ours._now.balance.pending.kernel == 1


def test_only_the_arm_that_was_selected_counts_as_a_play():
    ours = bandit()
    index = ours.select(ARMS)
    ours.observe(ARMS[index - 1], 0.0)
    assert sum(ours._now.balance.plays) == 0
    assert ours._now.balance.pending is None
    ours.observe(ARMS[ours.select(ARMS)], 0.0)
    assert sum(ours._now.balance.plays) == 1
    play = Play(1, ARMS[0], 2.0)
    balance = Balance.fresh(2)._replace(pending=play).credited(ARMS[0], 3.0)
    assert balance[:3] == ((0, 1), (0.0, 3.0), (0.0, 2.0))


def test_suspected_regret():
    assert suspected_regret(9, 5.0, 4.0) == 3.0 * 2.0 * (5.0 + 2.0)
    assert suspected_regret(9, 5.0, 0.0) == 0.0
