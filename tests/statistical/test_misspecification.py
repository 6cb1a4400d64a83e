r"""Misspecification: how often it is found, and how often it is reported without cause.

Functions of known RKHS norm. A sequence counts as a false alarm as soon as any round
reports a contradiction; the limit is that of ``test_coverage``. Power is the share of runs
in which a wrong assumption is found; the project promises nine in ten.
"""

import pytest
import torch
from scipy.stats import binom, chi2

from kernelucb import KernelRegression, check_consistency, least_consistent_norm
from kernelucb.confidence.misspecification import noise_energy_bound
from problems import RKHSFunction, frozen_kernel, generator, normal, uniform
from tolerances import COVERAGE_FALSE_ALARM

NORM, NOISE_STD, RUNS = 5.0, 0.1, 30
CASES = [("rbf", 1, 30), ("rbf", 2, 60), ("matern52", 1, 30), ("matern32", 2, 60)]


class Run:
    r"""Noisy values of a function of known norm at random points."""

    def __init__(self, name, d, n, seed):
        self.name = name
        self.kernel = frozen_kernel(name)
        function = RKHSFunction.random(self.kernel, NORM, d, seed=100 * seed)
        self.X = uniform(n, d, 100 * seed + 7)
        self.Y = function(self.X) + NOISE_STD * normal(n, 100 * seed + 8)

    def check(self, norm_bound=NORM, lengthscale=0.3, noise_std=NOISE_STD, n=None):
        kernel = frozen_kernel(self.name, lengthscale=lengthscale)
        state = KernelRegression(self.X[:n], self.Y[:n], kernel, noise_std)
        return check_consistency(state, norm_bound)


@pytest.mark.parametrize(("name", "d", "n"), CASES)
def test_half_the_norm_is_found(name, d, n):
    results = [Run(name, d, n, s).check(norm_bound=NORM / 2) for s in range(RUNS)]
    assert sum(not result.consistent for result in results) >= 0.9 * RUNS
    assert all(result.cause == "norm" for result in results if not result.consistent)


@pytest.mark.parametrize(("name", "d", "n"), CASES)
def test_a_length_scale_five_times_too_long_is_found(name, d, n):
    results = [Run(name, d, n, s).check(lengthscale=1.5) for s in range(RUNS)]
    assert sum(not result.consistent for result in results) >= 0.9 * RUNS
    causes = [result.cause for result in results if not result.consistent]
    if name == "rbf":  # a long Matern kernel of another scale is nearly a short one
        assert causes.count("kernel") >= 0.8 * len(causes)
    else:
        assert set(causes) <= {"kernel", "norm"}


@pytest.mark.parametrize(("name", "d", "n"), CASES)
def test_a_quarter_of_the_noise_is_found(name, d, n):
    results = [Run(name, d, n, s).check(noise_std=NOISE_STD / 4) for s in range(RUNS)]
    assert sum(not result.consistent for result in results) >= 0.9 * RUNS
    causes = [result.cause for result in results if not result.consistent]
    if name != "matern32":  # a rough function of large norm imitates noise
        assert causes.count("noise") >= 0.8 * len(causes)


@pytest.mark.parametrize("name", ["rbf", "matern32"])
def test_false_alarms_at_any_round(name):
    delta, rounds = 0.2, (2, 4, 8, 16, 30, 60)

    def alarm(seed):
        run = Run(name, 1, rounds[-1], 1000 + seed)
        states = (
            KernelRegression(run.X[:n], run.Y[:n], run.kernel, NOISE_STD) for n in rounds
        )
        return any(not check_consistency(s, NORM, delta=delta).consistent for s in states)

    alarms = sum(alarm(seed) for seed in range(RUNS))
    assert alarms <= binom.isf(COVERAGE_FALSE_ALARM, RUNS, delta)


@pytest.mark.parametrize("name", ["rbf", "matern32"])
def test_the_least_consistent_norm_is_below_the_true_one_at_any_round(name):
    delta, rounds = 0.2, (2, 4, 8, 16, 30, 60)
    above, last = 0, []
    for seed in range(RUNS):
        run = Run(name, 1, rounds[-1], 2000 + seed)
        states = [
            KernelRegression(run.X[:n], run.Y[:n], run.kernel, NOISE_STD) for n in rounds
        ]
        norms = [least_consistent_norm(state, delta=delta) for state in states]
        above += max(norms) > NORM
        last.append(norms[-1])
    assert above <= binom.isf(COVERAGE_FALSE_ALARM, RUNS, delta)
    assert sorted(last)[RUNS // 2] > 0.7 * NORM  # it says something


class TestNoiseEnergy:
    def test_holds_at_every_round(self):
        r"""Paths of Gaussian noise, the extreme case; 1000 rounds each."""
        delta, paths, rounds = 0.2, 2000, 1000
        noise = torch.randn(paths, rounds, dtype=torch.float64, generator=generator(0))
        limits = [noise_energy_bound(n, delta) for n in range(1, rounds + 1)]
        crossed = (noise.square().cumsum(1) > torch.tensor(limits)).any(1)
        failures = int(crossed.sum())
        assert failures <= binom.isf(COVERAGE_FALSE_ALARM, paths, delta)
        assert failures > 0  # it is not vacuous

    @pytest.mark.parametrize("count", [1, 10, 100, 1000])
    def test_is_near_the_quantile_of_one_round(self, count):
        quantile = float(chi2.isf(0.05, count))
        # An anytime bound pays for all rounds: below twice the excess of one round's,
        # and the constant 2 ln 23 of the mixture.
        bound = noise_energy_bound(count, 0.05)
        assert quantile < bound < count + 2.5 * (quantile - count) + 6.3
