r"""BKBBandit: the numbers of the dense formulas, costs, batches, edge cases."""

import math
from dataclasses import replace
from functools import partial

import pytest
import torch
from gpytorch.kernels import LinearKernel
from torch.testing import assert_close

from kernelucb import BKBBandit, NormTracker
from kernelucb.confidence.assumptions import Status
from kernelucb.papers import bkb
from kernelucb.papers.bkb import Budget, required_qbar
from oracles import bkb_width
from oracles.sketch import dtc
from problems import RKHSFunction, constant_mean, frozen_kernel, generator, uniform
from tolerances import SKETCH

NOISE_STD = 0.2
LAM = NOISE_STD**2
ARMS = uniform(80, 2, 0)
TRUTH = RKHSFunction.random(frozen_kernel("matern32"), 2.0, 2, 1)(ARMS)
RADII = pytest.mark.parametrize("radius", ["certified", "theorem2", "practical"])


def make_bandit(kernel="matern32", arms=ARMS, **options):
    defaults = {"norm_bound": 2.0, "noise_std": NOISE_STD, "qbar": 0.5}
    return BKBBandit(arms, frozen_kernel(kernel), **{**defaults, **options})


def play(bandit, rounds, seed=0, batches=False):
    r"""Rounds or batches on a noisy function, and what was observed."""
    random, history = generator(seed), []
    for _ in range(rounds):
        arms = bandit.batch_select(8) if batches else [bandit.select()]
        noise = NOISE_STD * torch.randn(len(arms), generator=random, dtype=torch.float64)
        bandit.observe(arms, outcomes := TRUTH[arms] + noise)
        history.extend(zip(arms, outcomes, strict=True))
    return history


def played(rounds, **options):
    play(bandit := make_bandit(**options), rounds)
    return bandit


def posterior(bandit):
    return bandit.arms.mean, bandit.arms.variance


@pytest.mark.covering
@pytest.mark.parametrize("name", ["rbf", "matern32"])
@pytest.mark.parametrize("batches", [False, True])
def test_formulas_in_all_rounds(name, batches):
    bandit, history, sizes, kernel = make_bandit(name), [], set(), frozen_kernel(name)
    for step in range(40):
        history += play(bandit, 1, step, batches)
        index, outcomes = map(list, zip(*history, strict=True))
        data = ARMS[bandit.inducing], ARMS[index], torch.stack(outcomes), LAM, ARMS
        expected = dtc(lambda left, right: kernel(left, right).to_dense(), *data)
        assert_close(posterior(bandit), expected, rtol=0, atol=SKETCH)
        sizes.add(len(bandit.inducing))
    assert len(sizes) > 1
    assert bandit.num_observations == len(history)


def test_inducing_arms_are_kept_until_they_are_twice_as_many():
    every = played(30, qbar=1e6)  # every observed arm is drawn
    assert len(every.inducing) == len(every.arms.observed)
    few = played(60, qbar=0.05)
    assert 1 <= len(few.inducing) < len(few.arms.observed)
    anew = replace(few.arms)  # keeps nothing of what followed from the data
    assert_close((anew.mean, anew.variance), posterior(few), rtol=0, atol=SKETCH)


@pytest.mark.parametrize("qbar", [0.01, 5.0])
def test_variances_are_between_zero_and_the_prior(qbar):
    arms = torch.cat([ARMS[:15], ARMS[:15]])  # all twice
    bandit, random = make_bandit("rbf", arms, noise_std=1e-3, qbar=qbar), generator(0)
    for _ in range(20):
        arm = int(torch.randint(30, (), generator=random))
        bandit.observe(arm, float(torch.randn((), generator=random)))
        variance = bandit.arms.variance
        assert bool(((variance > 0) & (variance <= 1.0 + SKETCH)).all())
        assert_close(variance[:15], variance[15:], rtol=0, atol=SKETCH)


@RADII
def test_bounds(radius):
    bandit = played(25, radius=radius)
    (mean, variance), counts, seen = (
        posterior(bandit),
        bandit.arms.counts,
        bandit.arms.observed,
    )
    inducing = torch.isin(seen, bandit.inducing).nonzero().squeeze(-1)
    gram = frozen_kernel("matern32")(ARMS[seen]).to_dense()
    terms = gram, counts[seen], inducing, LAM
    residual = bkb_width.largest_residual(*terms)  # one block holds all
    log_det, _ = bkb_width.terms(*terms)
    total = float(counts @ variance) / LAM
    budget = Budget(25, total, 25.0, LAM, log_det, residual)
    options = {"epsilon": 0.5} if radius == "theorem2" else {}
    width = getattr(bkb, f"{radius}_width")(budget, 2.0, NOISE_STD, 0.05, **options)
    assert bandit.width == pytest.approx(width, rel=SKETCH)
    half = bandit.width * variance.sqrt()
    assert_close(bandit.bounds(), (mean - half, mean + half))


def test_assumptions():
    enough = partial(played, 3, qbar=required_qbar(100, 0.05))
    assert played(3, qbar=1e-3).assumptions.certified
    assert enough(radius="theorem2").assumptions.certified
    assert played(3, radius="theorem2").assumptions.violated
    assert "no theorem" in str(make_bandit(radius="practical").assumptions)
    contradicted = played(40, norm_bound=0.01)
    assert contradicted.assumptions["norm"].status is Status.VIOLATED
    assert make_bandit(norm_bound=0.01).assumptions.certified  # nothing observed


def test_a_prior_mean():
    shifted, plain = make_bandit(mean_module=constant_mean(5.0)), make_bandit()
    for arm in (3, 7, 3):
        shifted.observe(arm, 6.0)
        plain.observe(arm, 1.0)
    assert_close(shifted.bounds()[1], plain.bounds()[1] + 5.0)


@pytest.mark.parametrize("make", [lambda: None, NormTracker])
def test_an_estimated_norm_grows_with_the_data_and_says_so(make):
    tracker = make()
    bandit = make_bandit(norm_bound=tracker, qbar=2.0)
    first = bandit.norm_bound  # of the floor alone
    play(bandit, 40)
    assert 0.0 < first <= bandit.norm_bound
    assert bandit.assumptions["norm"].status is Status.ESTIMATED
    if tracker is not None:
        assert tracker.norm_bound == bandit.norm_bound
        assert 0.0 < tracker.least_consistent_norm <= 2.0  # the function's norm


@RADII
@pytest.mark.parametrize("rounds", [0, 1, 30])
def test_batches_are_as_one_by_one(radius, rounds):
    r"""As if each pick had been observed without an outcome."""
    bandit = played(rounds, radius=radius, batch_growth=3.0)
    state, width = bandit.arms, bandit.batch_width
    quadratic, growth, expected = state.quadratic.clone(), 1.0, []
    Z, seen = state.features, state.observed
    V = Z[seen].mT @ (state.counts[seen, None] * Z[seen]) + LAM * torch.eye(Z.shape[1]).to(
        Z
    )
    while growth <= 3.0:
        variance = state.residual_variance + LAM * quadratic
        arm = int((state.mean + width * variance.sqrt()).argmax())
        expected.append(arm)
        growth += float(state.variance[arm]) / LAM
        V = V + Z[arm].outer(Z[arm])
        quadratic = (Z.mT * torch.linalg.solve(V, Z.mT)).sum(0)
    assert bandit.batch_select() == expected
    assert bandit.batch_select(2) == expected[:2]  # nothing is remembered


def test_widths_of_batches():
    bandit = played(5, batch_growth=1.44)
    assert bandit.batch_width == pytest.approx(1.2 * bandit.width)
    bandit, gain = make_bandit(batch_growth=1.44, radius="practical"), 0.0
    for arm in (3, 3, 9):
        gain += math.log1p(float(bandit.arms.variance[arm]) / LAM)
        bandit.observe(arm, 1.0)
    noise = NOISE_STD * math.sqrt((1.44 * gain + math.log(20.0)) / LAM)
    assert bandit.batch_width == pytest.approx(2.0 + noise)


def test_batches_end_where_the_rule_would_allow_very_many():
    kernel = LinearKernel().double()
    origin = BKBBandit(torch.zeros(3, 2), kernel, norm_bound=1.0, noise_std=1.0)
    assert len(origin.batch_select()) == 1000  # variances of zero: it allows any number
    assert len(make_bandit(alpha=1e12).batch_select(25)) == 25
    # More equals than the search brings up to date at once.
    arms = torch.zeros(200, 1).double()
    bandit = make_bandit("rbf", arms, noise_std=1.0, batch_growth=4.0)
    bandit.observe([0, 199], [1.0, 2.0])
    assert len(bandit.batch_select(50)) >= 3
