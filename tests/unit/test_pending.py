r"""Pending points: an update of rank p gives what the regression of all inputs gives."""

import pytest
import torch
from botorch.optim import optimize_acqf
from torch.testing import assert_close

from kernelucb import Grid, KernelRegression, MartingaleMixtureUCB, ScalarizedUCB
from kernelucb.regression.pending import PendingRegression
from problems import make_problem, uniform
from tolerances import GRADCHECK, POSTERIOR, REARRANGED

TAUS = torch.logspace(-6, 6, 9, dtype=torch.float64)


def rebuilt(state: KernelRegression, pending: torch.Tensor) -> KernelRegression:
    r"""The oracle: one decomposition of all inputs; outcomes do not matter."""
    noise = state.noise_std.square().mean().sqrt().expand(len(pending))
    return KernelRegression(
        torch.cat([state.train_inputs, pending]),
        torch.cat([state.train_targets, torch.zeros(len(pending)).double()]),
        state.prior.covar_module,
        torch.cat([state.noise_std, noise]),
    )


def pending_points(problem, kind: str) -> torch.Tensor:
    if kind == "apart":
        return uniform(4, 2, 50)
    if kind == "at data and repeated":
        return torch.cat([problem.X[:2], problem.X[:1], uniform(1, 2, 51)])
    return torch.cat([uniform(2, 2, 52), uniform(2, 2, 52) + 1e-9])


@pytest.fixture(params=["rbf", "matern32"])
def problem(request):
    return make_problem(kernel=request.param, n=25, d=2, noise_std=0.2)


@pytest.mark.parametrize("kind", ["apart", "at data and repeated", "nearly repeated"])
class TestUpdate:
    def test_variances_at_every_regulariser(self, problem, kind):
        pending = pending_points(problem, kind)
        update, oracle = (
            problem.state.with_pending(pending),
            rebuilt(problem.state, pending),
        )
        assert isinstance(update, PendingRegression)
        X = torch.cat([problem.test_X, pending, problem.X[:3]])
        points, others = update.project(X), oracle.project(X)
        shrinkage = 1.0 / (1.0 + update.eigenvalues.unsqueeze(-1) / TAUS)
        table = update.variances_at(points, TAUS, shrinkage)
        for tau, column in zip(TAUS, table.mT, strict=True):
            expected = oracle.variance_at(others, tau)
            for variance in (column, update.variance_at(points, tau)):
                assert_close(variance, expected, rtol=POSTERIOR, atol=POSTERIOR)
        each = TAUS[torch.arange(len(X)) % len(TAUS)].unsqueeze(-1)
        expected = oracle.variance_at(others, each)
        assert_close(
            update.variance_at(points, each), expected, rtol=POSTERIOR, atol=POSTERIOR
        )

    def test_slopes_are_those_of_the_larger_regression(self, problem, kind):
        pending = pending_points(problem, kind)
        update, oracle = (
            problem.state.with_pending(pending),
            rebuilt(problem.state, pending),
        )
        X = torch.cat([problem.test_X, pending])
        for tau in TAUS:
            own = update.variance_slopes(update.project(X), tau.expand(len(X)))
            expected = oracle.variance_slopes(oracle.project(X), tau.expand(len(X)))
            for part, wanted in zip(own, expected, strict=True):
                assert_close(part, wanted, rtol=POSTERIOR, atol=POSTERIOR)


# Nearly repeated ones are left out: towards tau = 0, where the least value may be found,
# the larger regression itself knows their variances to round-off only.
@pytest.mark.parametrize("kind", ["apart", "at data and repeated"])
@pytest.mark.parametrize("options", [{}, {"form": Grid()}, {"form": "analytic"}])
def test_values_are_those_of_the_larger_design(problem, kind, options):
    pending = pending_points(problem, kind)
    options = {"fit": "martingale", **options}
    acqf = MartingaleMixtureUCB(problem.model, norm_bound=3.0, **options)
    X = torch.cat([problem.test_X, pending])
    before = acqf.bounds(X)
    design = rebuilt(acqf.regression, pending)
    expected = acqf.confidence_set.with_design(design).bounds(X)[1]
    acqf.set_X_pending(pending)
    assert_close(acqf(X.unsqueeze(-2)), expected, rtol=REARRANGED, atol=1e-8)
    assert all(map(torch.equal, acqf.bounds(X), before))


def test_many_pending_points_are_a_larger_regression(problem):
    pending = uniform(6, 2, 50)  # 6^2 > 25
    state = problem.state.with_pending(pending)
    assert isinstance(state, KernelRegression)
    X = problem.test_X
    expected = rebuilt(problem.state, pending).variance(X)
    assert_close(state.variance(X), expected, rtol=POSTERIOR, atol=POSTERIOR)


def test_an_infinite_regulariser_leaves_the_prior(problem):
    update = problem.state.with_pending(uniform(3, 2, 50))
    points = update.project(problem.test_X)
    infinite = torch.tensor(torch.inf, dtype=torch.float64)
    variance = update.variance_at(points, infinite)
    assert_close(variance, points.prior_variance, rtol=REARRANGED, atol=0.0)


@pytest.mark.parametrize("options", [{}, {"form": "analytic"}])
def test_gradients(problem, options):
    pending = uniform(3, 2, 50)
    acqf = MartingaleMixtureUCB(problem.model, norm_bound=3.0, X_pending=pending, **options)
    X = uniform(4, 2, 60).unsqueeze(-2).requires_grad_()
    assert torch.autograd.gradcheck(acqf, (X,), **GRADCHECK)


def test_a_sequential_batch_spreads_out(problem):
    acqf = MartingaleMixtureUCB(problem.model, norm_bound=3.0)
    bounds = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
    torch.manual_seed(1)
    batch, _ = optimize_acqf(
        acqf, bounds, q=4, num_restarts=2, raw_samples=32, sequential=True
    )
    assert float(torch.pdist(batch).min()) > 1e-3


def test_of_a_weighted_sum(problem):
    pending = uniform(3, 2, 50)
    parts = [
        MartingaleMixtureUCB(problem.model, norm_bound=3.0),
        MartingaleMixtureUCB(problem.model, norm_bound=3.0, form="analytic"),
    ]
    total = ScalarizedUCB(parts, weights=[2.0, 0.5])
    X = problem.test_X.unsqueeze(-2)
    total.set_X_pending(pending)
    for part in parts:
        part.set_X_pending(pending)
    expected = 2.0 * parts[0](X) + 0.5 * parts[1](X)
    assert_close(total(X), expected, rtol=REARRANGED, atol=0.0)
