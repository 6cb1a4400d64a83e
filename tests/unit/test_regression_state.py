r"""The state at any regulariser, its cost, its gradients, and that it is a snapshot."""

from copy import deepcopy

import pytest
import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from gpytorch.mlls import ExactMarginalLogLikelihood
from torch.autograd import gradcheck
from torch.testing import assert_close

from kernelucb import Grid, KernelRegression, MartingaleMixtureUCB
from oracles import closed_forms
from problems import frozen_kernel, frozen_model, make_problem, normal, uniform
from tolerances import GRADCHECK, LINEAR_SOLVE, POSTERIOR, REARRANGED

TAUS = [1e-2, 0.3, 1.0, 20.0]


@pytest.fixture
def eigh_calls(monkeypatch):
    calls, original = [], torch.linalg.eigh

    def counting(matrix, *args, **kwargs):
        calls.append(matrix.shape[-1])
        return original(matrix, *args, **kwargs)

    monkeypatch.setattr(torch.linalg, "eigh", counting)
    return calls


@pytest.mark.parametrize("tau", TAUS)
def test_every_regularizer_matches_a_linear_solve(tau):
    problem = make_problem(n=15, d=2, kernel="matern52")
    K = problem.kernel(problem.X).to_dense()
    k = problem.kernel(problem.test_X, problem.X).to_dense()
    v = problem.kernel(problem.test_X, diag=True)
    alpha = tau * problem.noise_std**2
    mean, sd = closed_forms.ridge(K, k, v, problem.Y, alpha)
    state = problem.state
    tolerance = {"rtol": LINEAR_SOLVE, "atol": LINEAR_SOLVE}
    assert_close(state.mean(problem.test_X, tau), mean, **tolerance)
    assert_close(state.variance(problem.test_X, tau), sd.square(), **tolerance)
    assert_close(
        float(state.log_det(tau)), closed_forms.log_det(K, alpha), rtol=REARRANGED, atol=0
    )
    y_w = problem.Y / problem.noise_std
    solved = torch.linalg.solve(torch.eye(15).to(K) + K / alpha, y_w)
    assert_close(state.quadratic_form(tau), y_w @ solved, rtol=REARRANGED, atol=0.0)


def test_one_regularizer_for_each_point():
    problem = make_problem()
    state, taus = problem.state, torch.tensor(TAUS, dtype=torch.float64)
    points = problem.test_X[: len(TAUS)]
    for quantity in (state.mean, state.variance):
        single = [
            quantity(x.unsqueeze(0), tau) for x, tau in zip(points, TAUS, strict=True)
        ]
        assert_close(quantity(points, taus), torch.cat(single), rtol=REARRANGED, atol=0)
    assert_close(state.log_det(taus), torch.stack([state.log_det(t) for t in TAUS]))


def test_variance_near_data_does_not_cancel():
    r"""At a data point ``var_tau = s^2 tau / (1 + s^2 tau)`` with ``s`` small, k = 1."""
    x = torch.zeros(1, 1, dtype=torch.float64)
    for noise_std in (1e-1, 1e-4, 1e-6):
        state = KernelRegression(x, x[:, 0], frozen_kernel("rbf"), noise_std)
        expected = noise_std**2 / (1.0 + noise_std**2)
        assert_close(float(state.variance(x)), expected, rtol=1e-3, atol=0.0)


def test_building_a_state_is_one_eigh(eigh_calls):
    KernelRegression.from_model(make_problem(n=9).model)
    assert eigh_calls == [9]


@pytest.mark.parametrize(
    "options", [{}, {"form": Grid()}, {"form": "analytic"}, {"form": "convex"}]
)
def test_a_bound_costs_one_eigh_and_pending_points_one_of_their_size(eigh_calls, options):
    problem = make_problem(n=9)
    acqf = MartingaleMixtureUCB(problem.model, norm_bound=3.0, **options)
    acqf(problem.test_X.unsqueeze(-2))
    acqf.bounds(problem.test_X)
    assert eigh_calls == [9]
    acqf.set_X_pending(problem.test_X[:2])
    acqf(problem.test_X.unsqueeze(-2))
    assert eigh_calls == [9, 2]
    acqf.set_X_pending(None)
    acqf(problem.test_X.unsqueeze(-2))
    assert eigh_calls == [9, 2]


@pytest.mark.parametrize("kernel", ["rbf", "matern32", "matern52"])
@pytest.mark.parametrize("tau", [0.1, 1.0])
def test_gradients_in_the_query_points(kernel, tau):
    problem = make_problem(n=8, d=2, kernel=kernel, noise_std=0.3)
    X = uniform(4, 2, seed=30).requires_grad_(True)
    state = problem.state
    assert gradcheck(lambda points: state.mean(points, tau), X, **GRADCHECK)
    assert gradcheck(lambda points: state.variance(points, tau), X, **GRADCHECK)


def test_covariance_diagonal_is_the_variance():
    state = make_problem(noise_std=0.3).state
    points = state.project(uniform(5, 1, seed=31))
    tau = torch.tensor(0.7, dtype=torch.float64)
    assert_close(
        state.covariance_at(points, points, tau).diagonal(),
        state.variance_at(points, tau),
        rtol=POSTERIOR,
        atol=POSTERIOR,
    )


def test_refitting_the_model_does_not_change_the_state():
    X, Y = uniform(15, 1, seed=40), normal(15, seed=41).unsqueeze(-1)
    Y = Y + torch.sin(6.0 * X)
    model = SingleTaskGP(X, Y)
    state, points = KernelRegression.from_model(model), uniform(5, 1, seed=42)
    before = state.mean(points), state.variance(points)
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    refitted = KernelRegression.from_model(model)
    assert (refitted.mean(points) - before[0]).abs().max() > 1e-3  # the fit did something
    assert torch.equal(state.mean(points), before[0])
    assert torch.equal(state.variance(points), before[1])


def test_no_gradient_reaches_the_model():
    X = uniform(8, 1, seed=43)
    model = SingleTaskGP(X, torch.sin(6.0 * X))
    points = uniform(3, 1, seed=44).requires_grad_(True)
    KernelRegression.from_model(model).mean(points).sum().backward()
    assert points.grad is not None
    assert all(parameter.grad is None for parameter in model.parameters())
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_states_are_float64_whatever_the_input():
    problem = make_problem()
    kernel = deepcopy(problem.kernel).float()
    state = KernelRegression(problem.X.float(), problem.Y.float(), kernel, 0.1)
    buffers = [buffer for buffer in state.buffers() if buffer.is_floating_point()]
    assert buffers
    assert all(buffer.dtype == torch.float64 for buffer in buffers)


@pytest.mark.filterwarnings("ignore::botorch.exceptions.warnings.InputDataWarning")
def test_single_precision_model_is_computed_in_float64():
    problem = make_problem()
    single = frozen_model(
        problem.X.float(), problem.Y.float(), deepcopy(problem.kernel).float(), 0.1
    ).float()
    double = deepcopy(single).double()  # the same, rounded, data and hyper-parameters
    # Float32 arithmetic would differ by 1e-7 times the condition number, 1e-5.
    assert_close(
        KernelRegression.from_model(single).mean(problem.test_X),
        KernelRegression.from_model(double).mean(problem.test_X),
        rtol=POSTERIOR,
        atol=POSTERIOR,
    )


def test_largest_noise_replaces_every_noise():
    problem = make_problem(n=6)
    noise = torch.linspace(0.1, 0.6, 6, dtype=torch.float64)
    state = KernelRegression(problem.X, problem.Y, problem.kernel, noise)
    constant = KernelRegression(problem.X, problem.Y, problem.kernel, 0.6)
    largest = state.with_largest_noise()
    assert torch.equal(largest.noise_std, constant.noise_std)
    assert_close(largest.mean(problem.test_X), constant.mean(problem.test_X))
    assert constant.with_largest_noise() is constant


def test_pending_points_change_variances_as_observations_do():
    r"""GP-BUCB: the variance after a pending point is the variance after observing it."""
    problem = make_problem(n=7, noise_std=0.3)
    pending = uniform(2, 1, seed=50)
    observed = KernelRegression(
        torch.cat([problem.X, pending]),
        torch.cat([problem.Y, torch.full((2,), 9.0, dtype=torch.float64)]),
        problem.kernel,
        problem.noise_std,
    )
    assert_close(
        problem.state.with_pending(pending).variance(problem.test_X),
        observed.variance(problem.test_X),
        rtol=POSTERIOR,
        atol=POSTERIOR,
    )


@pytest.mark.parametrize("varying", [False, True])
def test_repeated_inputs_are_pooled_without_loss(varying):
    r"""Against dense linear solves over all observations, and one small eigh."""
    kernel = frozen_kernel("matern52")
    X, Y = uniform(15, 2, 1)[torch.arange(40) % 15], normal(40, 2)
    noise = 0.1 + uniform(40, 1, 3)[:, 0] if varying else torch.full((40,), 0.2).double()
    state = KernelRegression(X, Y, kernel, noise)
    assert state.num_observations == 40
    assert len(state.eigenvalues) == 16  # 15 inputs and the scatter at them
    whitened = kernel(X).to_dense() / noise.outer(noise)
    y, points = Y / noise, uniform(5, 2, 4)
    k = kernel(points, X).to_dense() / noise
    for tau in (0.3, 1.0, 7.0):
        gram = whitened + tau * torch.eye(40).double()
        mean = k @ torch.linalg.solve(gram, y)
        variance = 1.0 - (k * torch.linalg.solve(gram, k.mT).mT).sum(-1)
        log_det = torch.linalg.slogdet(gram / tau).logabsdet
        form = tau * y @ torch.linalg.solve(gram, y)
        assert_close(state.mean(points, tau), mean, rtol=0.0, atol=LINEAR_SOLVE)
        assert_close(state.variance(points, tau), variance, rtol=0.0, atol=LINEAR_SOLVE)
        assert_close(state.log_det(tau), log_det, rtol=LINEAR_SOLVE, atol=0.0)
        assert_close(state.quadratic_form(tau), form, rtol=LINEAR_SOLVE, atol=0.0)


def test_another_unit_of_noise_needs_no_decomposition(monkeypatch):
    problem = make_problem(n=12, d=2)
    fresh = KernelRegression(problem.X, problem.Y, problem.kernel, 0.7)
    state = problem.state
    monkeypatch.setattr(torch.linalg, "eigh", lambda _: pytest.fail("decomposed again"))
    ours = state.with_noise_std(0.7)
    assert_close(ours.eigenvalues, fresh.eigenvalues, rtol=REARRANGED, atol=1e-9)
    assert_close(
        ours.mean(problem.test_X), fresh.mean(problem.test_X), rtol=0.0, atol=LINEAR_SOLVE
    )
    assert float(state.noise_std[0]) == problem.noise_std  # and the old one stays
