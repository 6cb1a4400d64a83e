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
    "given": {"noise_std": NOISE},
    "unknown": {"noise_std": UnknownNoise(0.1, 1.0)},
    "unbounded": {"noise_std": UnknownNoise(0.1)},
}


def sampler(model=None, **options):
    options = options or NOISES["given"]
    model = PROBLEM.model if model is None else model
    return KernelThompsonSampling(model, norm_bound=NORM, delta=DELTA, **options)


def assert_distribution(values, mean, sd):
    r"""``values`` are samples, in rows, with this mean and standard deviation."""
    assert bool(((values.mean(0) - mean).abs() <= ERRORS * sd / SAMPLES**0.5).all())
    ratio = (values.std(0) / sd).log().abs()
    assert bool((ratio <= ERRORS / (2.0 * SAMPLES) ** 0.5).all())


every_noise = pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)


def band_of(noise):
    given = {"norm_bound": NORM, "delta": DELTA, **noise}
    if noise["noise_std"] == NOISE:
        return AbbasiYadkoriUCB(PROBLEM.model, alpha=(NOISE / NORM) ** 2, **given)
    return StreamingKernelUCB(PROBLEM.model, **given)


@every_noise
def test_deviation_is_the_half_width_of_the_band(noise):
    lower, upper = band_of(noise).bounds(CANDIDATES)
    values = sampler(**noise).sample_values(CANDIDATES, SAMPLES)
    assert values.shape == (SAMPLES, len(CANDIDATES))
    assert_distribution(values, 0.5 * (lower + upper), 0.5 * (upper - lower))


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("given", "unbounded")]


# As many samples and features as its tolerance needs: a second.
@pytest.mark.parametrize("name", ["unknown", *SLOW])
def test_deviation_of_functions_is_the_half_width_of_the_band(name):
    r"""With 4096 features: the kernel to 1.6 %, a deviation to half that."""
    lower, upper = band_of(NOISES[name]).bounds(CANDIDATES)
    paths = sampler(**NOISES[name]).paths(SAMPLES, num_features=4096)
    values = paths(CANDIDATES).squeeze(-1)
    assert_distribution(values, 0.5 * (lower + upper), 0.5 * (upper - lower))


@every_noise
def test_samples_are_joint(noise):
    r"""Differences between points have the deviation of a joint distribution."""
    one, left, right = sampler(**noise), CANDIDATES[:-1], CANDIDATES[1:]
    tau = torch.tensor(one.confidence_set.regularizer, dtype=torch.float64)
    state = one.regression
    mutual = state.covariance_at(state.project(left), state.project(right), tau).diagonal()
    variance = state.variance(left, tau) + state.variance(right, tau) - 2.0 * mutual
    mean = state.mean(right, tau) - state.mean(left, tau)
    values = one.sample_values(CANDIDATES, SAMPLES).diff(dim=-1)
    assert_distribution(values, mean, one.inflation_factor * NORM * variance.sqrt())


def test_covariance_and_inflation_are_those_of_the_paper():
    r"""Algorithm 1, line 3, with plain linear solves; ``v_t = B_t / sigma_plus``.

    ``B_t`` is that of Eq. (3) or Theorem 1.
    """
    one, alpha = sampler(inflation=False, noise_std=NOISE), (NOISE / NORM) ** 2
    assert one.inflation_factor == 1.0
    K = PROBLEM.kernel(PROBLEM.X).to_dense()
    k = PROBLEM.kernel(CANDIDATES, PROBLEM.X).to_dense()
    v = PROBLEM.kernel(CANDIDATES, diag=True)
    mean, sd = closed_forms.ridge(K, k, v, PROBLEM.Y, alpha)
    values = one.sample_values(CANDIDATES, SAMPLES)
    assert_distribution(values, mean, NOISE / math.sqrt(alpha) * sd)
    for noise, least, parts in ((NOISE, NOISE, 1.0), (UnknownNoise(0.1), 0.1, 4.0)):
        log_det = closed_forms.log_det(K, (least / NORM) ** 2)
        expected = 1.0 + math.sqrt(log_det + 2.0 * math.log(parts / DELTA))
        found = sampler(noise_std=noise).inflation_factor
        assert found == pytest.approx(expected, rel=LINEAR_SOLVE)


def test_paths_pass_through_outcomes_without_noise():
    r"""Whatever was drawn from the prior, in the units of a transformed model."""
    X, Y = 10.0 * PROBLEM.X - 5.0, 40.0 + 7.0 * PROBLEM.Y
    scaled = {"outcome_transform": Standardize(m=1), "input_transform": Normalize(d=2)}
    model = frozen_model(X, Y, PROBLEM.kernel, 1e-5, **scaled)
    one = sampler(model, inflation=False, noise_std=1e-5)
    for values in (one.paths(3)(X).squeeze(-1), one.sample_values(X, 3)):
        # six standard deviations of the noise, which is all that is left
        assert_close(values, Y.expand(3, -1), rtol=0.0, atol=6e-5)
    assert one.paths(3)(X + 2.0).std(0).min() > 1e-2


@every_noise
def test_chosen_candidates_are_where_the_samples_are_largest(noise):
    one = sampler(**noise)
    for maximize, extreme in ((True, torch.argmax), (False, torch.argmin)):
        one.maximize = maximize
        torch.manual_seed(5)
        chosen = one(CANDIDATES, num_samples=7)
        torch.manual_seed(5)
        values = one.sample_values(CANDIDATES, 7)
        assert torch.equal(chosen, CANDIDATES[extreme(values, dim=-1)])


@every_noise
def test_optimum_on_a_box_is_no_worse_than_a_grid(noise):
    one, axis = sampler(**noise), torch.linspace(0.0, 1.0, 21).double()
    grid = torch.cartesian_prod(axis, axis)
    for maximize, sign in ((True, 1.0), (False, -1.0)):
        one.maximize = maximize
        torch.manual_seed(6)
        points = one.optimize(CUBE, num_samples=3)
        torch.manual_seed(6)
        functions = one.paths(3)
        assert bool(((points >= 0.0) & (points <= 1.0)).all())
        found = sign * functions(points.unsqueeze(-2)).flatten()
        best = (sign * functions(grid).squeeze(-1)).max(-1).values
        assert bool((found >= best - 1e-6).all())


def test_without_replacement_candidates_are_distinct():
    few = CANDIDATES[:4]
    chosen = sampler(noise_std=NOISE, replacement=False)(few, num_samples=4)
    assert {tuple(x) for x in chosen.tolist()} == {tuple(x) for x in few.tolist()}


def test_a_tracker_is_updated_and_used():
    noise = UnknownNoise(0.1, 1.0)
    tracker = StreamingNoiseTracker(NORM, noise, delta=DELTA)
    one = sampler(noise_std=noise, tracker=tracker)
    assert tracker.num_observations == 10
    band = band_of({"noise_std": noise, "tracker": tracker})
    assert_close(one.confidence_set.bounds(CANDIDATES), band.bounds(CANDIDATES))


def test_assumptions():
    assert "Theorem 1" in str(sampler().assumptions)
    assert "second-order" in str(sampler(noise_std=UnknownNoise(0.1)).assumptions)
    plain = sampler(noise_std=NOISE, inflation=False).assumptions
    assert plain.guarantee.startswith("heuristic, no guarantee")


@every_noise
@pytest.mark.parametrize("outcome", [0.0, 0.7])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_few_constant_and_repeated_observations_and_candidates(n, outcome, noise):
    X, Y = PROBLEM.X[:1].expand(n, 2), torch.full((n,), outcome, dtype=torch.float64)
    one = sampler(KernelRegression(X, Y, PROBLEM.kernel, NOISE), **noise)
    values = one.sample_values(CANDIDATES[[0, 3, 0, 3]], 5)
    assert_close(values[:, :2], values[:, 2:], rtol=0.0, atol=REPEATED_SAMPLE)
    assert bool(torch.isfinite(one.paths(3)(CANDIDATES)).all())
    assert one(X, num_samples=2).shape == (2, 2)
