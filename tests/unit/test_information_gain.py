r"""Information gain against enumeration on tiny domains."""

import math
from itertools import combinations_with_replacement, pairwise

import pytest
import torch
from botorch.exceptions import InputDataError
from botorch.models.transforms.input import Normalize
from botorch.models.transforms.outcome import Standardize
from hypothesis import given
from hypothesis import strategies as st

from kernelucb import information_gain
from oracles import information
from problems import frozen_kernel, frozen_model, generator, make_problem, uniform
from tolerances import LINEAR_SOLVE, ORDER, REARRANGED

GREEDY_SHARE = 1.0 - 0.36787944117144233  # 1 - 1/e
KERNELS = ["rbf", "matern32"]
BOUNDS = ("greedy", "spectral", "upper_bound")


@pytest.mark.parametrize("sigma", [0.05, 1.0])
@pytest.mark.parametrize("kernel", KERNELS)
def test_exact_gain(kernel, sigma):
    k, X = frozen_kernel(kernel, outputscale=2.0), uniform(10, 2, seed=1)
    expected = information.gain(k(X).to_dense(), sigma)
    assert information_gain(k, X, noise_std=sigma) == pytest.approx(
        expected, rel=LINEAR_SOLVE
    )


def test_model_supplies_points_noise_and_kernel():
    problem = make_problem(n=7, noise_std=0.2)
    expected = information_gain(problem.kernel, problem.X, noise_std=0.2)
    assert expected > 1.0
    for model in (problem.model, problem.state):
        assert information_gain(model) == pytest.approx(expected, rel=REARRANGED)
        halved = information_gain(problem.kernel, problem.X, noise_std=0.4)
        doubled = information_gain(model, noise_std=0.4)
        assert doubled == pytest.approx(halved, rel=REARRANGED)
    noise = torch.linspace(0.05, 0.2, 7, dtype=torch.float64)  # counts as the largest
    several = frozen_model(problem.X, problem.Y, problem.kernel, noise)
    assert information_gain(several) == pytest.approx(expected, rel=REARRANGED)


def test_model_with_transforms():
    r"""Inputs are transformed, and the gain has no outcome units."""
    problem = make_problem(n=7)
    bounds = torch.tensor([[0.0], [10.0]], dtype=torch.float64)
    model = frozen_model(
        10.0 * problem.X,
        50.0 * problem.Y,
        problem.kernel,
        0.2,
        outcome_transform=Standardize(m=1),
        input_transform=Normalize(d=1, bounds=bounds),
    )
    expected = information_gain(problem.kernel, problem.X, noise_std=0.2)
    assert information_gain(model) == pytest.approx(expected, rel=LINEAR_SOLVE)
    elsewhere = uniform(4, 1, seed=2)
    assert information_gain(model, 10.0 * elsewhere) == pytest.approx(
        information_gain(problem.kernel, elsewhere, noise_std=0.2), rel=LINEAR_SOLVE
    )


@pytest.mark.parametrize("rounds", [1, 2, 4, 7])
@pytest.mark.parametrize("sigma", [0.1, 1.0])
@pytest.mark.parametrize("kernel", KERNELS)
def test_bounds_are_above_the_maximum(kernel, sigma, rounds):
    r"""Seven rounds on five points: repeats are needed."""
    k, X = frozen_kernel(kernel), uniform(5, 1, seed=3)
    best = information.maximum_gain(k(X).to_dense(), sigma, rounds)
    for method in BOUNDS:
        bound = information_gain(k, X, noise_std=sigma, num_points=rounds, method=method)
        assert best - ORDER <= bound
        assert bound <= 3.0 * best / GREEDY_SHARE  # a bound, not a large number


@given(
    st.integers(0, 10**6),
    st.integers(1, 12),
    st.floats(0.05, 2.0),
    st.sampled_from(KERNELS),
)
def test_no_method_gives_less_than_the_upper_bound(seed, rounds, sigma, kernel):
    r"""And it stays above the gain of any points: here of random ones, with repeats."""
    k, X = frozen_kernel(kernel), uniform(8, 2, seed)
    chosen = torch.randint(8, (rounds,), generator=generator(seed))
    best = information.gain(k(X[chosen]).to_dense(), sigma)
    bounds = {
        method: information_gain(k, X, noise_std=sigma, num_points=rounds, method=method)
        for method in BOUNDS
    }
    assert best - ORDER <= bounds["upper_bound"]
    assert bounds["upper_bound"] <= min(bounds.values()) * (1.0 + REARRANGED)
    independent = 0.5 * rounds * math.log1p(1.0 / sigma**2)
    assert bounds["upper_bound"] <= independent * (1.0 + REARRANGED)


def test_the_upper_bound_is_that_of_the_best_step():
    r"""Minoux: for every step of the greedy rule, its gain and ``T`` times the next."""
    k, X, rounds = frozen_kernel("rbf"), uniform(6, 1, seed=7), 9
    gram = k(X).to_dense()
    gains = [information.greedy_gain(gram, 0.3, step) for step in range(rounds + 2)]
    steps = [low + rounds * (high - low) for low, high in pairwise(gains)]
    bound = information_gain(k, X, noise_std=0.3, num_points=rounds, method="upper_bound")
    spectral = information_gain(k, X, noise_std=0.3, num_points=rounds, method="spectral")
    assert bound == pytest.approx(min(*steps, spectral), rel=LINEAR_SOLVE)


@pytest.mark.parametrize("rounds", [1, 3, 8])
@pytest.mark.parametrize("kernel", KERNELS)
def test_greedy_bound_is_the_greedy_gain_over_its_share(kernel, rounds):
    k, X = frozen_kernel(kernel), uniform(5, 1, seed=4)
    expected = information.greedy_gain(k(X).to_dense(), 0.3, rounds) / GREEDY_SHARE
    bound = information_gain(k, X, noise_std=0.3, num_points=rounds, method="greedy")
    assert bound == pytest.approx(expected, rel=LINEAR_SOLVE)


@pytest.mark.parametrize("rounds", [1, 3, 6])
def test_spectral_bound_is_the_best_allocation(rounds):
    r"""Eq. (8) without its factor: above every whole allocation, stationary among real ones
    that reach as many eigenvectors as there are rounds.
    """
    k, X = frozen_kernel("matern32"), uniform(4, 1, seed=5)
    lam = torch.linalg.eigvalsh(k(X).to_dense()) / 0.3**2
    bound = information_gain(k, X, noise_std=0.3, num_points=rounds, method="spectral")

    def gain(allocation):
        return 0.5 * float(torch.log1p(allocation * lam).sum())

    whole = 0.0
    for choice in combinations_with_replacement(range(4), rounds):
        allocation = torch.bincount(torch.tensor(choice), minlength=4)
        whole = max(whole, gain(allocation))
    assert whole - ORDER <= bound
    leading = lam[-rounds:]
    weights = torch.rand(20000, len(leading), dtype=torch.float64).log()
    simplex = rounds * weights / weights.sum(-1, keepdim=True)
    real = 0.5 * torch.log1p(simplex * leading).sum(-1).max()
    assert float(real) - ORDER <= bound <= max(float(real), whole) * 1.02


def test_bounds_of_independent_points():
    r"""With no more rounds than points, the best choice is a new point every round."""
    k, X = frozen_kernel("rbf"), 1e3 * torch.arange(5, dtype=torch.float64)[:, None]
    gain = 2.5 * math.log1p(4.0)
    expected = {"greedy": gain / GREEDY_SHARE, "spectral": gain, "upper_bound": gain}
    for method in BOUNDS:
        bound = information_gain(k, X, noise_std=0.5, method=method)  # a round a point
        assert bound == pytest.approx(expected[method], rel=REARRANGED)
        with pytest.raises(InputDataError, match="There are no X; give at least one"):
            information_gain(k, X[:0], noise_std=0.1, num_points=3, method=method)
