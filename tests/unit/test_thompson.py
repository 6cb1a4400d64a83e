r"""Kernel Thompson sampling: its distribution, its choices and its edges.

Statistics of ``n`` samples are allowed six of their standard errors (two in 1e9 for one
comparison): ``1 / sqrt(n)`` deviations for a mean, ``1 / sqrt(2 n)`` for the logarithm of a
standard deviation.
"""

import math

import pytest
import torch
from botorch.models.transforms import Normalize, Standardize
from torch.testing import assert_close

from kernelucb import (
    AbbasiYadkoriUCB,
    KernelRegression,
    KernelThompsonSampling,
    StreamingKernelUCB,
    StreamingNoiseTracker,
    UnknownNoise,
)
from oracles import closed_forms
from problems import frozen_model, make_problem, uniform
from tolerances import LINEAR_SOLVE, REPEATED_SAMPLE

NORM, DELTA, NOISE = 3.0, 0.1, 0.2
PROBLEM = make_problem(n=10, d=2, noise_std=NOISE, outputscale=2.5, seed=50)
CANDIDATES = torch.cat([PROBLEM.test_X, uniform(30, 2, seed=51)])
CUBE = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
SAMPLES, ERRORS = 4000, 6.0
NOISES = {
    "known": {"noise_std": NOISE},
    "unknown": {"noise_std": UnknownNoise(0.1, 1.0)},
    "nothing known above": {"noise_std": UnknownNoise(0.1)},
}


def sampler(model=None, **options):
    options = options or NOISES["known"]
    model = PROBLEM.model if model is None else model
    return KernelThompsonSampling(model, norm_bound=NORM, delta=DELTA, **options)


def assert_distribution(values, mean, sd):
    r"""``values`` are samples, in rows, with this mean and standard deviation."""
    assert bool(((values.mean(0) - mean).abs() <= ERRORS * sd / SAMPLES**0.5).all())
    ratio = (values.std(0) / sd).log().abs()
    assert bool((ratio <= ERRORS / (2.0 * SAMPLES) ** 0.5).all())


@pytest.fixture(params=NOISES)
def noise(request):
    return NOISES[request.param]


class TestDistribution:
    @pytest.mark.parametrize(
        ("noise", "functions"),
        [
            *((name, False) for name in NOISES),
            ("unknown", True),
            pytest.param("known", True, marks=pytest.mark.slow),
            pytest.param("nothing known above", True, marks=pytest.mark.slow),
        ],
        indirect=["noise"],
    )
    def test_deviation_is_the_half_width_of_the_band(self, noise, functions):
        if noise["noise_std"] == NOISE:
            options = {"alpha": (NOISE / NORM) ** 2, **noise}
            band = AbbasiYadkoriUCB(PROBLEM.model, norm_bound=NORM, delta=DELTA, **options)
        else:
            band = StreamingKernelUCB(PROBLEM.model, norm_bound=NORM, delta=DELTA, **noise)
        lower, upper = band.bounds(CANDIDATES)
        if functions:  # 4096 features: the kernel to 1.6 %, a deviation to half that
            paths = sampler(**noise).paths(SAMPLES, num_features=4096)
            values = paths(CANDIDATES).squeeze(-1)
        else:
            values = sampler(**noise).sample_values(CANDIDATES, SAMPLES)
        assert values.shape == (SAMPLES, len(CANDIDATES))
        assert_distribution(values, 0.5 * (lower + upper), 0.5 * (upper - lower))

    def test_samples_are_joint(self, noise):
        r"""Differences between points have the deviation of a joint distribution."""
        one = sampler(**noise)
        left, right = CANDIDATES[:-1], CANDIDATES[1:]
        tau = torch.tensor(one.confidence_set.regularizer, dtype=torch.float64)
        state = one.regression
        points = state.project(left), state.project(right)
        mutual = state.covariance_at(*points, tau).diagonal()
        variances = [state.variance(X, tau) for X in (left, right)]
        sd = one.inflation_factor * NORM * (sum(variances) - 2.0 * mutual).sqrt()
        mean = state.mean(right, tau) - state.mean(left, tau)
        values = one.sample_values(CANDIDATES, SAMPLES).diff(dim=-1)
        assert_distribution(values, mean, sd)

    def test_covariance_is_that_of_the_paper(self):
        r"""Algorithm 1, line 3, with plain linear solves."""
        one, alpha = sampler(inflation=False, noise_std=NOISE), (NOISE / NORM) ** 2
        K = PROBLEM.kernel(PROBLEM.X).to_dense()
        k = PROBLEM.kernel(CANDIDATES, PROBLEM.X).to_dense()
        v = PROBLEM.kernel(CANDIDATES, diag=True)
        mean, sd = closed_forms.ridge(K, k, v, PROBLEM.Y, alpha)
        values = one.sample_values(CANDIDATES, SAMPLES)
        assert_distribution(values, mean, NOISE / math.sqrt(alpha) * sd)

    def test_inflation_factor_is_the_corollary_s(self):
        r"""``v_t = B_t / sigma_plus`` with ``B_t`` of Eq. (3) or Theorem 1."""
        K = PROBLEM.kernel(PROBLEM.X).to_dense()
        for noise, least, parts in ((NOISE, NOISE, 1.0), (UnknownNoise(0.1), 0.1, 4.0)):
            log_det = closed_forms.log_det(K, (least / NORM) ** 2)
            expected = 1.0 + math.sqrt(log_det + 2.0 * math.log(parts / DELTA))
            found = sampler(noise_std=noise).inflation_factor
            assert found == pytest.approx(expected, rel=LINEAR_SOLVE)
        assert sampler(noise_std=UnknownNoise(0.1), inflation=False).inflation_factor == 1.0

    def test_paths_pass_through_outcomes_without_noise(self):
        r"""Whatever was drawn from the prior, in the units of a transformed model."""
        X, Y = 10.0 * PROBLEM.X - 5.0, 40.0 + 7.0 * PROBLEM.Y
        scaled = {"outcome_transform": Standardize(m=1), "input_transform": Normalize(d=2)}
        model = frozen_model(X, Y, PROBLEM.kernel, 1e-5, **scaled)
        one = sampler(model, inflation=False, noise_std=1e-5)
        for values in (one.paths(3)(X).squeeze(-1), one.sample_values(X, 3)):
            # six standard deviations of the noise, which is all that is left
            assert_close(values, Y.expand(3, -1), rtol=0.0, atol=6e-5)
        assert one.paths(3)(X + 2.0).std(0).min() > 1e-2

    def test_a_repeated_candidate_has_one_value(self, noise):
        values = sampler(**noise).sample_values(CANDIDATES[[0, 3, 0, 3]], 5)
        assert_close(values[:, :2], values[:, 2:], rtol=0.0, atol=REPEATED_SAMPLE)


class TestChoice:
    def test_chosen_candidates_are_where_the_samples_are_largest(self, noise):
        one = sampler(**noise)
        for maximize, extreme in ((True, torch.argmax), (False, torch.argmin)):
            one.maximize = maximize
            torch.manual_seed(5)
            chosen = one(CANDIDATES, num_samples=7)
            torch.manual_seed(5)
            values = one.sample_values(CANDIDATES, 7)
            assert torch.equal(chosen, CANDIDATES[extreme(values, dim=-1)])

    def test_optimum_on_a_box_is_no_worse_than_a_grid(self, noise):
        one = sampler(**noise)
        grid = torch.cartesian_prod(*2 * [torch.linspace(0.0, 1.0, 21).double()])
        for maximize, sign in ((True, 1.0), (False, -1.0)):
            one.maximize = maximize
            torch.manual_seed(6)
            points = one.optimize(CUBE, num_samples=3)
            torch.manual_seed(6)
            functions = one.paths(3)
            assert points.shape == (3, 2)
            assert bool(((points >= 0.0) & (points <= 1.0)).all())
            found = sign * functions(points.unsqueeze(-2)).flatten()
            best = (sign * functions(grid).squeeze(-1)).max(-1).values
            assert bool((found >= best - 1e-6).all())

    def test_without_replacement_candidates_are_distinct(self):
        few = CANDIDATES[:4]
        chosen = sampler(noise_std=NOISE, replacement=False)(few, num_samples=4)
        assert {tuple(x) for x in chosen.tolist()} == {tuple(x) for x in few.tolist()}


class TestNoise:
    def test_a_tracker_is_updated_and_used(self):
        noise = UnknownNoise(0.1, 1.0)
        tracker = StreamingNoiseTracker(NORM, noise, delta=DELTA)
        options = {"noise_std": noise, "tracker": tracker}
        one = sampler(**options)
        assert tracker.num_observations == 10
        acqf = StreamingKernelUCB(PROBLEM.model, norm_bound=NORM, delta=DELTA, **options)
        assert_close(one.confidence_set.bounds(CANDIDATES), acqf.bounds(CANDIDATES))

    def test_assumptions(self):
        assert "Theorem 1" in str(sampler().assumptions)
        assert "second-order" in str(sampler(noise_std=UnknownNoise(0.1)).assumptions)
        plain = sampler(noise_std=NOISE, inflation=False).assumptions
        assert "not inflated" in str(plain)
        assert plain.guarantee.startswith("heuristic, no guarantee")


class TestEdges:
    @pytest.mark.parametrize("outcome", [0.0, 0.7])
    @pytest.mark.parametrize("n", [1, 2, 3])
    def test_few_constant_and_repeated_observations(self, n, outcome, noise):
        X, Y = PROBLEM.X[:1].expand(n, 2), torch.full((n,), outcome, dtype=torch.float64)
        state = KernelRegression(X, Y, PROBLEM.kernel, NOISE)
        one = sampler(state, **noise)
        assert bool(torch.isfinite(one.sample_values(CANDIDATES, 3)).all())
        assert bool(torch.isfinite(one.paths(3)(CANDIDATES)).all())
        assert one(X, num_samples=2).shape == (2, 2)
