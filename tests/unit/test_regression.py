r"""The state at any regulariser against linear solves, and what it costs."""

import pytest
import torch
from botorch.models import SingleTaskGP
from torch.testing import assert_close

from kernelucb import KernelRegression, MartingaleMixtureUCB
from problems import frozen_kernel, make_problem, normal, uniform
from tolerances import LINEAR_SOLVE, REARRANGED, SMALL_NOISE_MEAN

TAUS = [1e-2, 0.3, 1.0, 20.0]


@pytest.fixture
def eigh_calls(monkeypatch):
    calls, original = [], torch.linalg.eigh

    def counting(matrix, *args, **kwargs):
        calls.append(matrix.shape[-1])
        return original(matrix, *args, **kwargs)

    monkeypatch.setattr(torch.linalg, "eigh", counting)
    return calls


def test_largest_noise_replaces_every_noise():
    problem = make_problem(n=6)
    noise = torch.linspace(0.1, 0.6, 6, dtype=torch.float64)
    state = KernelRegression(problem.X, problem.Y, problem.kernel, noise)
    constant = KernelRegression(problem.X, problem.Y, problem.kernel, 0.6)
    assert constant.with_largest_noise() is constant
    rescaled = problem.state.with_noise_std(0.6)  # without a new decomposition
    for found in (state.with_largest_noise(), rescaled):
        assert torch.equal(found.noise_std, constant.noise_std)
        assert_close(found.mean(problem.test_X), constant.mean(problem.test_X))
        assert_close(found.quadratic_form(0.3), constant.quadratic_form(0.3))


CASES = {
    "one noise scale": (uniform(15, 2, 1), 0.2),
    "a scale for each": (uniform(15, 2, 1), 0.1 + uniform(15, 1, 3)[:, 0]),
    "repeats": (uniform(15, 2, 1)[torch.arange(40) % 15], 0.2),
    "repeats, a scale for each": (
        uniform(15, 2, 1)[torch.arange(40) % 15],
        0.1 + uniform(40, 1, 3)[:, 0],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_every_regularizer_matches_a_linear_solve(case):
    r"""Repeated inputs are pooled without loss, and one small ``eigh``."""
    X, noise = CASES[case]
    n, kernel = len(X), frozen_kernel("matern52")
    Y, noise = normal(n, 2), torch.as_tensor(noise).double().expand(n)
    state = KernelRegression(X, Y, kernel, noise)
    assert state.num_observations == n
    assert len(state.eigenvalues) == (15 if n == 15 else 16)  # and the scatter at them
    whitened = kernel(X).to_dense() / noise.outer(noise)
    y, points = Y / noise, uniform(5, 2, 4)
    k = kernel(points, X).to_dense() / noise
    for tau in TAUS:
        gram = whitened + tau * torch.eye(n).double()
        mean = k @ torch.linalg.solve(gram, y)
        variance = 1.0 - (k * torch.linalg.solve(gram, k.mT).mT).sum(-1)
        log_det = torch.linalg.slogdet(gram / tau).logabsdet
        form = tau * y @ torch.linalg.solve(gram, y)
        assert_close(state.mean(points, tau), mean, rtol=0.0, atol=LINEAR_SOLVE)
        assert_close(state.variance(points, tau), variance, rtol=0.0, atol=LINEAR_SOLVE)
        assert_close(state.log_det(tau), log_det, rtol=LINEAR_SOLVE, atol=0.0)
        assert_close(state.quadratic_form(tau), form, rtol=LINEAR_SOLVE, atol=0.0)
    taus = torch.tensor([*TAUS, 7.0], dtype=torch.float64)  # one for each point
    for quantity in (state.mean, state.variance):
        single = torch.cat(
            [quantity(x[None], t) for x, t in zip(points, taus, strict=True)]
        )
        assert_close(quantity(points, taus), single, rtol=REARRANGED, atol=0.0)


def test_mean_at_small_noise_matches_a_cholesky_solve():
    r"""Resolved small eigenvalues are kept: the mean at small noise needs them."""
    kernel, X, queries = frozen_kernel("rbf", 0.5), uniform(300, 3, 1), uniform(50, 3, 2)
    Y = (5 * X).sin().sum(-1) + 1e-3 * normal(300, 3)
    K = kernel(X).to_dense() + 1e-6 * torch.eye(300, dtype=torch.float64)
    weights = torch.cholesky_solve(Y.unsqueeze(-1), torch.linalg.cholesky(K))
    expected = (kernel(queries, X).to_dense() @ weights).squeeze(-1)
    error = (KernelRegression(X, Y, kernel, 1e-3).mean(queries) - expected).abs().max()
    assert float(error) <= SMALL_NOISE_MEAN


@pytest.mark.parametrize("form", ["dual", "grid", "analytic", "convex"])
def test_a_bound_costs_one_eigh_and_pending_points_another(eigh_calls, form):
    problem = make_problem(n=9)
    acqf = MartingaleMixtureUCB(problem.model, norm_bound=3.0, form=form)
    assert eigh_calls == [9]
    for pending, calls in ((None, [9]), (problem.test_X[:2], [9, 11]), (None, [9, 11])):
        acqf.set_X_pending(pending)
        acqf(problem.test_X.unsqueeze(-2))
        acqf.bounds(problem.test_X)
        assert eigh_calls == calls


def test_a_refit_neither_changes_the_state_nor_learns_from_it():
    X = uniform(8, 1, seed=43)
    model = SingleTaskGP(X, torch.sin(6.0 * X))
    state, points = KernelRegression.from_model(model), uniform(3, 1, 44).requires_grad_()
    before = state.mean(points)
    before.sum().backward()
    assert points.grad is not None
    assert all(each.grad is None and each.requires_grad for each in model.parameters())
    model.covar_module.lengthscale = 0.07
    assert torch.equal(state.mean(points), before)
    refitted = KernelRegression.from_model(model)
    assert (refitted.mean(points) - before).abs().max() > 1e-3


def test_pending_points_are_inputs_of_a_larger_design():
    r"""At data and repeated as well; their outcomes do not matter to the variance."""
    problem, noise = make_problem(n=25, d=2), 0.1 + uniform(25, 1, 3)[:, 0]
    state = KernelRegression(problem.X, problem.Y, problem.kernel, noise)
    pending = torch.cat([problem.X[:2], problem.X[:1], uniform(2, 2, 51)])
    typical, none = noise.square().mean().sqrt().expand(5), torch.zeros(5).double()
    every, outcomes = torch.cat([problem.X, pending]), torch.cat([problem.Y, none])
    expected = KernelRegression(
        every, outcomes, problem.kernel, torch.cat([noise, typical])
    )
    found = state.with_pending(pending).variance(every)
    assert_close(found, expected.variance(every), rtol=REARRANGED, atol=1e-12)
