r"""BKBBandit: the numbers of the dense formulas, costs, batches, edge cases, states."""

import math
from dataclasses import replace
from functools import partial

import pytest
import torch
from gpytorch.kernels import LinearKernel
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from kernelucb import BKBBandit, NormTracker
from kernelucb.bandit import bkb_bandit
from kernelucb.confidence.assumptions import Status
from kernelucb.confidence.bkb import (
    Budget,
    certified_width,
    practical_width,
    required_qbar,
    theorem2_width,
)
from oracles import bkb_width
from oracles.sketch import dtc
from problems import RKHSFunction, constant_mean, frozen_kernel, generator, uniform
from tolerances import SKETCH

NOISE_STD = 0.2
LAM = NOISE_STD**2
ARMS = uniform(80, 2, 0)
FUNCTION = RKHSFunction.random(frozen_kernel("matern32"), 2.0, 2, 1)
RADII = pytest.mark.parametrize("radius", ["certified", "theorem2", "practical"])


def make_bandit(kernel="matern32", arms=ARMS, **options):
    defaults = {"norm_bound": 2.0, "noise_std": NOISE_STD, "qbar": 0.5}
    return BKBBandit(arms, frozen_kernel(kernel), **{**defaults, **options})


def play(bandit, rounds, seed=0, batches=False, history=None):
    r"""Rounds or batches on a noisy function."""
    truth, random = FUNCTION(ARMS), generator(seed)
    for _ in range(rounds):
        arms = bandit.batch_select(8) if batches else [bandit.select()]
        noise = NOISE_STD * torch.randn(len(arms), generator=random, dtype=torch.float64)
        outcomes = truth[arms] + noise
        if history is not None:
            history.extend(zip(arms, outcomes.tolist(), strict=True))
        bandit.observe(arms, outcomes)
    return bandit


def dense_posterior(bandit, history, kernel="matern32"):
    module, (index, y) = frozen_kernel(kernel), zip(*history, strict=True)
    data = ARMS[list(index)], torch.tensor(y, dtype=torch.float64)

    def covariance(left, right):
        return module(left, right).to_dense()

    return dtc(covariance, ARMS[bandit.inducing], *data, LAM, ARMS)


def dense_terms(bandit):
    r"""Log-determinant and residual (one block holds all); see ``oracles.bkb_width``."""
    seen = bandit.arms.observed
    inducing = torch.isin(seen, bandit.inducing).nonzero().squeeze(-1)
    gram = frozen_kernel("matern32")(ARMS[seen]).to_dense()
    given_ = gram, bandit.arms.counts[seen], inducing, LAM
    return bkb_width.terms(*given_)[0], bkb_width.largest_residual(*given_)


def posterior(bandit):
    return bandit.arms.mean, bandit.arms.variance


class TestPosterior:
    @pytest.mark.parametrize("kernel", ["rbf", "matern32"])
    @pytest.mark.parametrize("batches", [False, True])
    def test_formulas_in_all_rounds(self, kernel, batches):
        bandit, history = make_bandit(kernel), []
        sizes = set()
        for step in range(40):
            play(bandit, 1, seed=step, batches=batches, history=history)
            expected = dense_posterior(bandit, history, kernel)
            assert_close(posterior(bandit), expected, rtol=0, atol=SKETCH)
            sizes.add(len(bandit.inducing))
        assert len(sizes) > 1
        assert bandit.num_observations == len(history)

    def test_inducing_arms_are_kept_until_they_are_twice_as_many(self):
        every = play(make_bandit(qbar=1e6), 30)  # every observed arm is drawn
        assert len(every.inducing) == len(every.arms.observed)
        few = play(make_bandit(qbar=0.05), 60)
        assert 1 <= len(few.inducing) < len(few.arms.observed)
        anew = replace(few.arms)
        assert_close((anew.mean, anew.variance), posterior(few), rtol=0, atol=SKETCH)

    @given(st.integers(0, 10**6), st.floats(0.01, 5.0))
    def test_variances_are_between_zero_and_the_prior(self, seed, qbar):
        arms = torch.cat([uniform(15, 1, seed), uniform(15, 1, seed)])  # all twice
        bandit = BKBBandit(
            arms, frozen_kernel("rbf"), norm_bound=1.0, noise_std=1e-3, qbar=qbar, seed=seed
        )
        random = generator(seed)
        for _ in range(20):
            arm = int(torch.randint(30, (), generator=random))
            bandit.observe(arm, float(torch.randn((), generator=random)))
            variance = bandit.arms.variance
            assert bool((variance > 0).all())
            assert bool((variance <= 1.0 + SKETCH).all())
            assert_close(variance[:15], variance[15:], rtol=0, atol=SKETCH)


class TestRules:
    @RADII
    def test_bounds(self, radius):
        bandit = play(make_bandit(radius=radius), 25)
        mean, variance = posterior(bandit)
        total = float(bandit.arms.counts @ variance) / LAM
        budget = Budget(25, total, 25.0, LAM, *dense_terms(bandit))
        width = {
            "certified": certified_width,
            "theorem2": partial(theorem2_width, epsilon=0.5),
            "practical": practical_width,
        }[radius]
        expected = width(budget, 2.0, NOISE_STD, 0.05)
        assert bandit.width == pytest.approx(expected, rel=SKETCH)
        lower, upper = bandit.bounds()
        assert_close(upper, mean + bandit.width * variance.sqrt())
        assert_close(lower, mean - bandit.width * variance.sqrt())
        assert bandit.select() == int(upper.argmax())

    def test_assumptions(self):
        enough, theorem2 = required_qbar(100, 0.05), {"radius": "theorem2"}
        assert play(make_bandit(qbar=1e-3), 3).assumptions.certified
        assert play(make_bandit(qbar=enough, **theorem2), 3).assumptions.certified
        assert make_bandit(**theorem2).assumptions["inducing points"] is not None
        assert play(make_bandit(**theorem2), 3).assumptions.violated
        assert "no theorem" in str(make_bandit(radius="practical").assumptions)

    def test_a_norm_bound_that_the_data_contradict(self):
        bandit = play(make_bandit(norm_bound=0.01), 40)
        assert bandit.assumptions["norm"].status is Status.VIOLATED
        assert bandit.assumptions.summary == "no guarantee: norm violated"
        assert make_bandit(norm_bound=0.01).assumptions.certified  # nothing observed

    def test_a_prior_mean(self):
        shifted, plain = make_bandit(mean_module=constant_mean(5.0)), make_bandit()
        for arm in (3, 7, 3):
            shifted.observe(arm, 6.0)
            plain.observe(arm, 1.0)
        assert_close(shifted.bounds()[1], plain.bounds()[1] + 5.0)


class TestEstimatedNorm:
    def test_grows_with_the_data_and_says_so(self):
        bandit = make_bandit(norm_bound="cautious", qbar=required_qbar(100, 0.05))
        first = bandit.norm_bound
        assert first > 0.0  # of the floor alone
        play(bandit, 30)
        assert bandit.norm_bound >= first
        assert bandit.assumptions["norm"].status is Status.ESTIMATED

    def test_a_tracker_is_raised_and_its_lower_bound_is_valid(self):
        tracker = NormTracker()
        bandit = play(make_bandit(norm_bound=tracker, qbar=2.0), 40)
        assert tracker.norm_bound == bandit.norm_bound
        assert 0.0 < tracker.least_consistent_norm <= 2.0  # the function's norm


class TestBatches:
    @RADII
    @pytest.mark.parametrize("rounds", [0, 1, 30])
    def test_as_one_by_one(self, radius, rounds):
        r"""As if each pick had been observed without an outcome."""
        bandit = play(make_bandit(radius=radius, batch_growth=3.0), rounds)
        picked = bandit.batch_select()
        state, width = bandit.arms, bandit.batch_width
        mean, start, quadratic = state.mean, state.variance, state.quadratic.clone()
        growth, expected = 1.0, []
        V = state.features[state.observed].mT @ (
            state.counts[state.observed, None] * state.features[state.observed]
        )
        V = V + LAM * torch.eye(len(V)).double()
        while growth <= 3.0:
            variance = state.residual_variance + LAM * quadratic
            arm = int((mean + width * variance.sqrt()).argmax())
            expected.append(arm)
            growth += float(start[arm]) / LAM
            V = V + state.features[arm].outer(state.features[arm])
            if len(V):
                solved = torch.linalg.solve(V, state.features.mT)
                quadratic = (state.features.mT * solved).sum(0)
        assert picked == expected
        assert bandit.batch_select(2) == picked[:2]  # nothing is remembered

    def test_widths(self):
        bandit = play(make_bandit(batch_growth=1.44), 5)
        assert bandit.batch_width == pytest.approx(1.2 * bandit.width)
        bandit = make_bandit(batch_growth=1.44, radius="practical")
        gain = 0.0
        for arm in (3, 3, 9):
            gain += math.log1p(float(bandit.arms.variance[arm]) / LAM)
            bandit.observe(arm, 1.0)
        noise = NOISE_STD * math.sqrt((1.44 * gain + math.log(20.0)) / LAM)
        assert bandit.batch_width == pytest.approx(2.0 + noise)

    def test_bounded_where_the_rule_would_allow_very_many(self, monkeypatch):
        monkeypatch.setattr(bkb_bandit, "_LARGEST_BATCH", 20)
        nothing = make_bandit(alpha=1e12)  # the rule alone allows 1e11 arms
        assert len(nothing.batch_select()) == 20
        assert len(nothing.batch_select(25)) == 25
        kernel = LinearKernel().double()
        origin = BKBBandit(torch.zeros(3, 2), kernel, norm_bound=1.0, noise_std=1.0)
        assert len(origin.batch_select()) == 20  # variances of zero: it allows any number

    def test_equal_arms(self):
        r"""More equals than the search brings up to date at once."""
        arms = torch.zeros(200, 1).double()
        bandit = make_bandit("rbf", arms, noise_std=1.0, batch_growth=4.0)
        bandit.observe([0, 199], [1.0, 2.0])
        assert len(bandit.batch_select(50)) >= 3
