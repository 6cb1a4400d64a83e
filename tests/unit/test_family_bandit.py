r"""The family bandit against single bandits and the stateless class on the same data."""

import warnings

import pytest
import torch
from gpytorch.kernels import RBFKernel
from gpytorch.means import ConstantMean
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from kernelucb import (
    FamilyBandit,
    FamilyTracker,
    KernelBandit,
    KernelFamily,
    KernelFamilyUCB,
    KernelRegression,
    lengthscale_family,
)
from kernelucb.confidence.fit.choice import fit_of
from kernelucb.exceptions import (
    InconsistentConfidenceSetWarning,
)
from problems import RKHSFunction, float64, frozen_kernel, normal, uniform
from tolerances import BANDIT

KERNELS = lengthscale_family(RBFKernel(), 0.1, 1.6)
NORM, NOISE, COUNT = 5.0, 0.1, 30
ARMS = uniform(40, 2, seed=5)
FUNCTION = RKHSFunction.random(frozen_kernel("rbf", 0.3), 0.8 * NORM, 2, seed=0)
VALUES = FUNCTION(ARMS)
OUTCOMES = VALUES + NOISE * normal(len(ARMS), seed=1)
RULES = ("alternate", "simplest", "widest")


def make(kernels=KERNELS, norm_bound=NORM, **options):
    names = ("select", "mean", "combine", "tracker")
    known = {name: options.pop(name) for name in names if name in options}
    family = KernelFamily(kernels, **known)
    return FamilyBandit(family, norm_bound=norm_bound, noise_std=NOISE, **options)


def play(bandit, rounds=COUNT, noise_seed=2):
    noise = NOISE * normal(rounds, noise_seed)
    for error in noise:
        index = bandit.select(ARMS)
        bandit.observe(ARMS[index], VALUES[index] + error)
    return bandit


def close(ours, theirs, tolerance=BANDIT):
    for left, right in zip(ours, theirs, strict=True):
        assert_close(left, right, rtol=0.0, atol=tolerance * 2.0 * NORM)


@pytest.mark.parametrize("fit", ["martingale", "filters"])
def test_it_is_the_union_of_single_bandits_that_were_never_contradicted(fit):
    bandit = make(fit=fit)
    singles = []
    for cover in KERNELS.covering(2):
        options = {"noise_std": NOISE, "fit": fit_of(fit, (NORM / 10.0) ** 2)}
        singles.append(KernelBandit(cover.kernel, norm_bound=NORM, **options))
    at = [None] * len(singles)
    for count in range(COUNT + 1):
        kept = [own for own, gone in zip(singles, at, strict=True) if gone is None]
        if count % 10 == 0:
            sides = [
                torch.stack(side)
                for side in zip(*(k.bounds(ARMS) for k in kept), strict=True)
            ]
            close(bandit.bounds(ARMS), (sides[0].amin(0), sides[1].amax(0)))
        assert bandit.contradicted_at == tuple(at)
        assert bandit.consistent == tuple(gone is None for gone in at)
        assert bandit.num_observations == count
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InconsistentConfidenceSetWarning)
            bandit.observe(ARMS[count], OUTCOMES[count])
            for index, own in enumerate(singles):
                own.observe(ARMS[count], OUTCOMES[count])
                if at[index] is None and own.assumptions.violated:
                    at[index] = count + 1
    assert 0 < sum(gone is not None for gone in at) < len(at)


@pytest.mark.parametrize("select", RULES)
def test_it_is_the_stateless_class_with_a_tracker(select):
    bandit, tracker = make(select=select, fit="martingale"), FamilyTracker()
    for count in range(1, COUNT + 1):
        bandit.observe(ARMS[count], OUTCOMES[count])
        data = ARMS[1 : count + 1], OUTCOMES[1 : count + 1]
        regression = KernelRegression(*data, FUNCTION.kernel, NOISE)
        family = KernelFamily(KERNELS, select=select, tracker=tracker)
        acqf = KernelFamilyUCB(regression, family, norm_bound=NORM, fit="martingale")
        assert acqf.consistent == bandit.consistent
        if count % 5 == 0:
            (lower, upper), (below, above) = bandit.bounds(ARMS), acqf.bounds(ARMS)
            slack = 0.003 * (above - below)  # of the grid of regularisers
            assert bool(
                (lower <= below + BANDIT * NORM).all() & (lower >= below - slack).all()
            )
            assert bool(
                (upper >= above - BANDIT * NORM).all() & (upper <= above + slack).all()
            )
            scores = acqf(ARMS.unsqueeze(1))
            assert bool(scores.max() - scores[bandit.select(ARMS)] <= slack.max())
    assert bandit.assumptions == acqf.assumptions


def test_before_any_observation_it_is_the_union_of_the_norm_balls():
    r"""Arms of another dimension have other covers."""
    bandit = make()
    for arms in (ARMS, ARMS[:, :1], ARMS):
        covers = KERNELS.covering(arms.shape[1])
        largest = max(float(cover.kernel(arms[:1], diag=True)) for cover in covers)
        lower, upper = bandit.bounds(arms)
        assert_close(upper, torch.full_like(upper, NORM * largest**0.5))
        assert torch.equal(lower, -upper)


def test_norm_bounds_of_a_plain_list_and_a_mean():
    mean = ConstantMean().double().requires_grad_(False)
    mean.constant = float64(3.0)
    kernels = [frozen_kernel("rbf", 0.5), frozen_kernel("matern52", 0.3)]
    bandit = make(kernels, norm_bound=[2.0, 4.0], mean=mean)
    lower, upper = bandit.bounds(ARMS)
    assert_close(upper, torch.full_like(upper, 7.0))
    assert_close(lower, torch.full_like(lower, -1.0))
    assert bandit.assumptions.certified
    assert "is at most 2 to 4, by kernel" in str(bandit.assumptions)


def test_what_was_contradicted_stays_so():
    bandit = play(make())
    at = bandit.contradicted_at
    assert any(count is not None for count in at)
    for _ in range(10):
        bandit.observe(ARMS[0], VALUES[0])
    pairs = zip(at, bandit.contradicted_at, strict=True)
    assert all(before in (None, after) for before, after in pairs)
    assert f"contradicted after {at[0]} observations" in bandit.report()
    assert "length scale 0.4: consistent" in bandit.report()


def contradicted():
    r"""A bandit one observation before the data contradict all kernels, and that one."""
    bandit = make(norm_bound=0.5)
    bandit.observe(ARMS[0], 0.0)
    return bandit, (ARMS[1], 50.0)


def test_where_none_is_left_it_warns_once_and_goes_on():
    r"""A warning filter that raises does so after the observation; it is saved as well."""
    bandit, last = contradicted()
    assert bandit.assumptions.certified
    with pytest.raises(InconsistentConfidenceSetWarning, match="contradict all 5 kernels"):
        bandit.observe(*last)
    assert bandit.contradicted_at == (2,) * 5
    assert bandit.assumptions.violated
    assert "no guarantee: kernel violated" in bandit.report()
    bandit.observe(ARMS[2], -50.0)
    assert bandit.select(ARMS) in range(len(ARMS))
    lower, upper = bandit.bounds(ARMS)
    assert bool((lower < upper).all())
    other = make(norm_bound=0.5)
    other.load_state_dict(bandit.state_dict())
    assert other.assumptions == bandit.assumptions
    close(other.bounds(ARMS), (lower, upper))


@settings(max_examples=8, deadline=None)
@given(order=st.permutations(range(4)), count=st.integers(0, 12))
def test_the_order_of_the_kernels_does_not_count_and_more_are_wider(order, count):
    kernels = [frozen_kernel("rbf", length) for length in (0.8, 0.4, 0.2)]
    kernels.append(frozen_kernel("matern32", 0.4))
    orders = ([*range(4)], order, order[:2])
    first, shuffled, some = (make([kernels[i] for i in own]) for own in orders)
    for index in range(count):
        for bandit in (first, shuffled, some):
            bandit.observe(ARMS[index], 0.5 * OUTCOMES[index])
    ours, theirs, fewer = (bandit.bounds(ARMS) for bandit in (first, shuffled, some))
    assert shuffled.contradicted_at == tuple(first.contradicted_at[i] for i in order)
    close(theirs, ours, tolerance=0.0)
    assert bool((ours[0] <= fewer[0]).all() & (fewer[1] <= ours[1]).all())
