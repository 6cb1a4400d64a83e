r"""Information gain against enumeration on tiny domains."""

from itertools import combinations_with_replacement, pairwise

import pytest
import torch
from botorch.models.transforms.input import Normalize
from botorch.models.transforms.outcome import Standardize

from kernelucb import information_gain
from kernelucb.diagnostics import _spectral_gain
from oracles import information
from problems import float64, frozen_kernel, frozen_model, make_problem, uniform
from tolerances import LINEAR_SOLVE, ORDER, REARRANGED

GREEDY_SHARE = 1.0 - 0.36787944117144233  # 1 - 1/e
KERNELS = ["rbf", "matern32"]


def upper_bound(kernel, X, sigma, rounds):
    given = {"noise_std": sigma, "num_points": rounds}
    return information_gain(kernel, X, method="upper_bound", **given)


def spectral(gram, sigma, rounds):
    return _spectral_gain(torch.linalg.eigvalsh(gram) / sigma**2, rounds)


@pytest.mark.parametrize("sigma", [0.05, 1.0])
@pytest.mark.parametrize("kernel", KERNELS)
def test_exact_gain(kernel, sigma):
    k, X = frozen_kernel(kernel, outputscale=2.0), uniform(10, 2, seed=1)
    expected = information.gain(k(X).to_dense(), sigma)
    found = information_gain(k, X, noise_std=sigma)
    assert found == pytest.approx(expected, rel=LINEAR_SOLVE)


@pytest.mark.parametrize("kind", ["model", "state", "several scales", "transforms"])
def test_model_supplies_points_noise_and_kernel(kind):
    r"""Of several scales the largest; inputs are transformed, a gain has no units."""
    problem = make_problem(n=7, noise_std=0.2)
    X, Y, kernel = problem.X, problem.Y, problem.kernel
    scales = torch.linspace(0.05, 0.2, 7, dtype=torch.float64)
    inputs = Normalize(d=1, bounds=float64([[0.0], [10.0]]))
    scaled = {"input_transform": inputs, "outcome_transform": Standardize(m=1)}
    model = {
        "model": problem.model,
        "state": problem.state,
        "several scales": frozen_model(X, Y, kernel, scales),
        "transforms": frozen_model(10.0 * X, 50.0 * Y, kernel, 0.2, **scaled),
    }[kind]
    elsewhere, unit = uniform(4, 1, seed=2), 10.0 if kind == "transforms" else 1.0
    for points, asked in (X, ()), (elsewhere, (unit * elsewhere,)):
        expected = information_gain(kernel, points, noise_std=0.2)
        assert information_gain(model, *asked) == pytest.approx(expected, rel=LINEAR_SOLVE)


def test_a_noise_scale_replaces_that_of_the_model():
    problem = make_problem(n=7, noise_std=0.2)
    expected = information_gain(problem.kernel, problem.X, noise_std=0.4)
    found = information_gain(problem.model, noise_std=0.4)
    assert found == pytest.approx(expected, rel=REARRANGED)


@pytest.mark.parametrize("rounds", [1, 4, 7])
@pytest.mark.parametrize("sigma", [0.1, 1.0])
@pytest.mark.parametrize("kernel", KERNELS)
def test_bounds_are_above_the_maximum(kernel, sigma, rounds):
    r"""Seven rounds on five points: repeats are needed."""
    k, X = frozen_kernel(kernel), uniform(5, 1, seed=3)
    best = information.maximum_gain(k(X).to_dense(), sigma, rounds)
    each = spectral(k(X).to_dense(), sigma, rounds), upper_bound(k, X, sigma, rounds)
    for bound in each:
        assert best - ORDER <= bound <= 3.0 * best / GREEDY_SHARE  # not a large number


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("rounds", [2, 9])
def test_the_upper_bound_is_that_of_the_best_step(seed, rounds):
    r"""Minoux: for every step of the greedy rule, its gain and ``T`` times the next."""
    k, X = frozen_kernel("rbf"), uniform(6, 1, seed)
    gram = k(X).to_dense()
    gains = [information.greedy_gain(gram, 0.3, step) for step in range(rounds + 2)]
    steps = [low + rounds * (high - low) for low, high in pairwise(gains)]
    expected = min(*steps, spectral(gram, 0.3, rounds))
    assert upper_bound(k, X, 0.3, rounds) == pytest.approx(expected, rel=LINEAR_SOLVE)


@pytest.mark.parametrize("rounds", [1, 3, 6])
def test_spectral_bound_is_the_best_allocation(rounds):
    r"""Eq. (8) without its factor: above every whole allocation, stationary among real ones
    that reach as many eigenvectors as there are rounds.
    """
    lam = (
        torch.linalg.eigvalsh(frozen_kernel("matern32")(uniform(4, 1, 5)).to_dense()) / 0.09
    )
    choices = torch.tensor(list(combinations_with_replacement(range(4), rounds)))
    counts = torch.stack([torch.bincount(choice, minlength=4) for choice in choices])
    whole = float(0.5 * torch.log1p(counts * lam).sum(-1).max())
    random = torch.rand(20000, len(lam[-rounds:]), dtype=torch.float64).log()
    simplex = rounds * random / random.sum(-1, keepdim=True)
    real = float(0.5 * torch.log1p(simplex * lam[-rounds:]).sum(-1).max())
    bound = _spectral_gain(lam, rounds)
    assert max(whole, real) - ORDER <= bound <= max(real, whole) * 1.02
