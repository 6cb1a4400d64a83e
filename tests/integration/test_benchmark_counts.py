r"""The benchmark of successes and counts, in small."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

pytest.importorskip("joblib", reason="needs the extra `bench`")

from benchmarks.counts import __main__ as counts
from benchmarks.counts import rivals
from benchmarks.counts.exact_set import Basis, ExactSet, Losses, penalised
from benchmarks.counts.problems import Problem
from benchmarks.runner import fixed_kernel

GAP = 1e-4  # of ExactSet


@pytest.mark.parametrize("likelihood", ["binomial", "poisson"])
@pytest.mark.parametrize(("kernel", "dimension"), [("rbf", 1), ("matern52", 2)])
def test_the_whole_set_is_that_of_a_cone_program(likelihood, kernel, dimension):
    cvxpy = pytest.importorskip("cvxpy")
    random = np.random.default_rng(3)
    X = torch.from_numpy(random.random((12, dimension)))
    queries = torch.from_numpy(random.random((2, dimension)))
    mean, norm_bound = 0.4, 2.5
    basis = Basis(fixed_kernel(kernel, 0.15), X, queries)
    coordinates = random.standard_normal(basis.rows.shape[1])
    latent = mean + basis.rows @ (2.0 * coordinates / np.linalg.norm(coordinates))
    sizes, drawn = random.uniform(0.5, 2.0, 12), random.poisson
    if likelihood == "binomial":
        sizes, drawn = random.integers(1, 4, 12), random.binomial
        outcomes = drawn(sizes, 1.0 / (1.0 + np.exp(-latent)))
    else:
        outcomes = drawn(sizes * np.exp(latent))
    losses = Losses(likelihood, outcomes * 1.0, sizes * 1.0)
    limit = losses(latent)[0].sum() + 2.0
    lower, upper = ExactSet(basis, losses, mean, norm_bound, limit).bounds()
    z = cvxpy.Variable(basis.rows.shape[1])
    values = mean + basis.rows @ z
    growth = cvxpy.exp(values) if likelihood == "poisson" else cvxpy.logistic(values)
    loss = losses.sizes @ growth - losses.outcomes @ values
    inside = [cvxpy.norm(z) <= norm_bound, loss <= limit]
    for row, low, high in zip(basis.queries, lower, upper, strict=True):
        for sign, value in ((-1.0, low), (1.0, high)):
            problem = cvxpy.Problem(cvxpy.Maximize(sign * (row @ z)), inside)
            best = mean + sign * problem.solve(solver="CLARABEL")
            # Inside by the barrier's gap at most; the cone solver is exact to 1e-6.
            assert -1e-6 <= sign * (best - value) <= GAP + 1e-6


def _seven() -> tuple[Basis, Losses]:
    random = np.random.default_rng(0)
    X = torch.from_numpy(random.random((7, 1)))
    losses = Losses("bernoulli", random.integers(0, 2, 7) * 1.0, np.ones(7))
    return Basis(fixed_kernel("rbf", 0.3), X, X), losses


def test_running_estimators_predict_before_they_see():
    basis, losses = _seven()
    expected = np.log(1.0 / 0.05)
    for count in range(7):
        z = penalised(basis.rows[:count], losses.part(slice(count)), 0.0, 1.0)
        latent, outcome = basis.rows[count] @ z, losses.outcomes[count]
        expected += np.log1p(np.exp(latent)) - outcome * latent
    limit = rivals.running_limit(basis.rows, losses, 0.0, 1.0, 0.05)
    # Seven estimates, each within the root of the convergence limit.
    assert limit == pytest.approx(expected, abs=1e-5)


def test_the_norm_of_a_probability_is_that_of_finer_grids_or_grows_without_end():
    smooth, matern = (
        Problem(SimpleNamespace(**counts.PROTOCOL | setting), 0)
        for setting in counts.COVERED[:4:2]
    )
    norms = [rivals.probability_norm(smooth, misfit) for misfit in (3e-2, 1e-3, 1e-5)]
    assert norms == sorted(norms)
    assert norms[-1] > 2.0 * norms[0]
    grids = [matern.grid(count) for count in (100, 400, 900)]
    norms = [
        rivals.interpolant_norm(matern.kernel, X, matern.latent(X).sigmoid() - 0.5)
        for X in grids
    ]
    assert norms == sorted(norms)
    assert rivals.probability_norm(matern, 0.0) > norms[-1]
