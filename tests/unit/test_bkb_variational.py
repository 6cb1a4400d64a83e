r"""BKB's points in a GP of one's own: the known optimum, its gradient, training, copies."""

import pickle
from copy import deepcopy

import numpy as np
import pytest
import torch
from botorch.acquisition import UpperConfidenceBound
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskVariationalGP
from botorch.models.approximate_gp import ApproximateGPyTorchModel
from botorch.optim import optimize_acqf
from gpytorch.kernels import MaternKernel, RBFKernel, ScaleKernel
from gpytorch.likelihoods import GaussianLikelihood
from gpytorch.means import ConstantMean
from gpytorch.mlls import VariationalELBO
from torch.distributions import kl_divergence
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from kernelucb import BKBUCB
from kernelucb.models import BKBInducingPointAllocator, BKBModel
from oracles.weak_duality import nystrom_split
from problems import (
    KERNELS,
    OwnGP,
    constant_mean,
    float64,
    frozen_kernel,
    normal,
    uniform,
)
from tolerances import SINGLE, SKETCH

LAM, QUERIES = 0.04, uniform(20, 2, 77)


def make_data(n=40, seed=0):
    X = uniform(n, 2, seed)
    X = torch.cat([X, X[: n // 4]])  # some inputs twice
    return X, 2.0 + torch.sin(4.0 * X.sum(-1, keepdim=True)) + 0.2 * normal(len(X), 9)[
        :, None
    ]


X, Y = make_data()


def likelihood_of(alpha=LAM):
    likelihood = GaussianLikelihood().double()
    likelihood.noise = float64(alpha)
    return likelihood.requires_grad_(False)


def own(X=X, Y=Y, kernel=None, mean=None, trainable=False, qbar=0.6, **options):
    kernel = deepcopy(frozen_kernel("matern32", 0.5) if kernel is None else kernel)
    mean = deepcopy(constant_mean(1.7) if mean is None else mean)
    likelihood = likelihood_of().requires_grad_(trainable)
    gp = OwnGP(X, Y, kernel, mean, likelihood, qbar=qbar, **options)
    return gp.requires_grad_(trainable), gp.variational_strategy


def wrapped(gp):
    return ApproximateGPyTorchModel(gp, gp.variational_strategy.likelihood)


def elbo(gp, X=X, Y=Y):
    r"""``VariationalELBO`` of all data, not divided by their number."""
    bound = VariationalELBO(gp.variational_strategy.likelihood, gp, num_data=len(X))
    return len(X) * bound(gp(X), Y.squeeze(-1))


def marginals(gp, X=QUERIES):
    q = gp.eval()(X)
    return q.mean, q.variance


def moments(gp, points, X=X, Y=Y):
    r"""Plain numbers: ``K_SS, K_SX, K_S*, y - m, m, alpha`` and prior variances."""
    kernel = gp.covar_module
    with torch.no_grad():
        arrays = [kernel(points, part).to_dense() for part in (points, X, QUERIES)]
        mean = gp.mean_module(points)[0]
        arrays += [Y.squeeze(-1) - mean, mean, gp.variational_strategy.likelihood.noise[0]]
        arrays += [kernel(X, diag=True), kernel(QUERIES, diag=True)]
    return [each.detach().numpy() for each in arrays]


def titsias(gp, points, X=X, Y=Y):
    r"""Mean and variance at the queries, divergence and collapsed bound; Titsias (2009)."""
    K, left, right, y, m, alpha, at_data, at_queries = moments(gp, points, X, Y)
    inner = np.linalg.inv(K + left @ left.T / alpha)  # the posterior's precision, inverted
    mean = right.T @ inner @ left @ y / alpha
    explained = np.linalg.solve(K, right)
    variance = at_queries + np.sum(right * (inner @ right - explained), axis=0)
    u, S = K @ inner @ left @ y / alpha, K @ inner @ K
    ratio = np.linalg.solve(K, S)
    divergence = np.trace(ratio) + u @ np.linalg.solve(K, u) - len(K)
    divergence = 0.5 * (divergence - np.linalg.slogdet(ratio)[1])
    Q = left.T @ np.linalg.solve(K, left)
    C = Q + alpha * np.eye(len(y))
    bound = y @ np.linalg.solve(C, y) + np.linalg.slogdet(2.0 * np.pi * C)[1]
    bound = -0.5 * (bound + (at_data.sum() - np.trace(Q)) / alpha)
    return m + mean, variance, divergence, bound


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", KERNELS)
def test_formulas(name, seed):
    gp, strategy = own(kernel=frozen_kernel(name), seed=seed)
    points = strategy.inducing_points
    assert 2 < len(points) < 40
    mean, variance, divergence, bound = titsias(gp, points)
    for each in (marginals(gp), (gp.train()(QUERIES).mean, gp(QUERIES).variance)):
        assert_close([*each], [*map(torch.tensor, (mean, variance))], rtol=0, atol=SKETCH)
    for training in (True, False):
        gp.train(training)
        assert strategy.kl_divergence().item() == pytest.approx(divergence, rel=SKETCH)
        assert elbo(gp).item() == pytest.approx(bound, rel=SKETCH)
    both = strategy.variational_distribution, strategy.prior_distribution
    assert float(kl_divergence(*both)) == pytest.approx(divergence, rel=SKETCH)


def total(gp):
    r"""A number that is not stationary in ``q``, unlike the bound."""
    q = gp(QUERIES)
    return (q.mean + 3.0 * q.variance).sum() + gp.variational_strategy.kl_divergence()


def total_in_numpy(gp, points):
    mean, variance, divergence, _ = titsias(gp, points)
    return float((mean + 3.0 * variance).sum() + divergence)


def bound_in_numpy(gp, points):
    return titsias(gp, points)[-1]


@pytest.mark.parametrize("by_hand", [(elbo, bound_in_numpy), (total, total_in_numpy)])
def test_gradients_flow_through_the_optimum(by_hand):
    r"""To kernel, mean and noise; against central differences of the formulas in NumPy."""
    gp, strategy = own(kernel=ScaleKernel(frozen_kernel("rbf")), trainable=True)
    gp, points, (value, in_numpy) = gp.double(), strategy.inducing_points, by_hand
    value(gp.train()).backward()
    parameters = [*gp.parameters(), *strategy.likelihood.parameters()]
    assert len(parameters) == 4
    for parameter in parameters:
        sides = []
        for step in (1e-5, -1e-5):
            with torch.no_grad():
                parameter += step
                sides.append(in_numpy(gp, points))
                parameter -= step
        expected = (sides[0] - sides[1]) / 2e-5
        assert float(parameter.grad) == pytest.approx(expected, rel=1e-6, abs=1e-5)


def test_minibatches_add_up():
    gp, strategy = own(trainable=True)
    gp.train()
    whole, halves = elbo(gp), []
    for part in (slice(0, 25), slice(25, None)):
        bound = VariationalELBO(strategy.likelihood, gp, num_data=len(X))
        halves.append(bound(gp(X[part]), Y[part].squeeze(-1)) * len(X))
    assert_close(sum(halves) / 2.0, whole)


@pytest.mark.parametrize("name", KERNELS)
def test_the_posterior_and_the_points_of_the_model(name):
    kernel, mean = frozen_kernel(name), constant_mean(1.7)
    given = {"qbar": 0.6, "seed": 3}
    gp, strategy = own(kernel=kernel, mean=mean, **given)
    model = BKBModel(X, Y, kernel, LAM, mean_module=mean, **given)
    assert torch.equal(strategy.inducing_points, model.inducing_points)
    for more in (None, (uniform(7, 2, 5), normal(7, 5).unsqueeze(-1))):
        if more is not None:
            model.observe(*more)
            assert strategy.observe(*more) is strategy
            assert torch.equal(strategy.inducing_points, model.inducing_points)
        expected, found = model.posterior(QUERIES), wrapped(gp).posterior(QUERIES)
        assert_close(found.mean, expected.mean, rtol=0, atol=SKETCH)
        joint = [each.distribution.covariance_matrix for each in (found, expected)]
        assert_close(*joint, rtol=0, atol=SKETCH)
        assert_close(marginals(gp)[1].unsqueeze(-1), found.variance)
        noisy = wrapped(gp).posterior(QUERIES, observation_noise=True)
        assert_close(noisy.variance, found.variance + LAM)


def test_observing_adds_up_and_draws_anew():
    gp, strategy = own(X[:20], Y[:20])
    before = strategy.inducing_points
    assert strategy.observe(X[20:], Y[20:]) is strategy
    assert bool((gp.train_inputs[0] == X).all())
    assert bool((gp.train_targets == Y.squeeze(-1)).all())
    points = strategy.inducing_points
    assert not set(map(tuple, points.tolist())) <= set(map(tuple, before.tolist()))
    expected = titsias(gp, points)[:2]
    assert_close([*marginals(gp)], [*map(torch.tensor, expected)], rtol=0, atol=SKETCH)


def test_trained_by_an_elbo():
    r"""The bound rises, numbers come near those of the data, and count as estimated."""
    kernel = ScaleKernel(MaternKernel(nu=2.5)).double()
    gp, strategy = own(kernel=kernel, mean=ConstantMean().double(), trainable=True)
    before, points = elbo(gp.train()).item(), strategy.inducing_points
    mll = VariationalELBO(strategy.likelihood, gp, num_data=len(X))
    fit_gpytorch_mll(mll, optimizer_kwargs={"options": {"maxiter": 10}})
    with torch.no_grad():
        assert elbo(gp.train()).item() > before + 5.0
        assert torch.equal(strategy.inducing_points, points)
    fewer = strategy.redraw().inducing_points
    assert not torch.equal(points, fewer)
    assert BKBUCB(gp, norm_bound=9.0).assumptions.estimated == ("kernel", "mean", "noise")
    # Frozen afterwards they were trained on these data all the same.
    gp.requires_grad_(False)
    strategy.likelihood.requires_grad_(False)
    trained = ("kernel", "mean", "noise")
    given = {"norm_bound": 9.0, "noise_std": 0.2}
    for each in (gp, deepcopy(gp), pickle.loads(pickle.dumps(gp)), wrapped(gp)):
        assert BKBUCB(each, norm_bound=9.0).assumptions.estimated == trained
        # A noise scale that is given does not fix the ridge parameter.
        estimated = BKBUCB(each, **given).assumptions.estimated
        assert estimated == ("kernel", "mean", "ridge parameter")
    again, _ = own(kernel=kernel)
    again.load_state_dict(gp.state_dict())
    assert "kernel" in BKBUCB(again.requires_grad_(False), **given).assumptions.estimated


def test_only_in_training_mode():
    gp, _ = own(trainable=True)
    elbo(gp.train()).backward()
    gp.eval()
    with torch.no_grad():
        value = elbo(gp).item()
    assert value == pytest.approx(elbo(gp.train()).item(), rel=SKETCH)


def test_kernel_mean_and_noise_as_they_are():
    r"""In evaluation mode, whatever changed them; not as they were."""
    gp, strategy = own(kernel=ScaleKernel(frozen_kernel("rbf")), trainable=True)
    gp, points, seen = gp.double(), strategy.inducing_points, []

    def changed(change):
        change()
        expected = [*map(torch.tensor, titsias(gp, points)[:2])]
        assert_close([*marginals(gp)], expected, rtol=0, atol=SKETCH)
        assert torch.equal(strategy.inducing_points, points)
        seen.append(expected[0])

    def step():
        elbo(gp.train()).backward()
        with torch.no_grad():
            for parameter in gp.parameters():
                parameter += 1e-3 * parameter.grad

    changed(lambda: None)
    changed(step)
    changed(lambda: setattr(gp.covar_module.base_kernel, "lengthscale", float64(0.4)))
    changed(lambda: setattr(strategy.likelihood, "noise", float64(0.09)))
    changed(lambda: setattr(gp.mean_module, "constant", float64(-1.0)))
    other = MaternKernel(nu=1.5).double()
    other.load_state_dict(gp.covar_module.base_kernel.state_dict())
    changed(lambda: setattr(gp.covar_module, "base_kernel", other))
    assert len({float(each[0]) for each in seen}) == 6


def test_a_bound_of_the_gp_is_that_of_the_model():
    kernel, mean = frozen_kernel("matern32", 0.5), constant_mean(1.7)
    gp, _ = own(kernel=kernel, mean=mean)
    model = BKBModel(X, Y, kernel, LAM, 0.6, mean_module=mean)
    for options in ({}, {"noise_std": 0.3}, {"norm_bound": None}, {"radius": "practical"}):
        bounds = [
            BKBUCB(each, **{"norm_bound": 9.0, **options})
            for each in (model, gp, wrapped(gp))
        ]
        assert len({str(each.assumptions) for each in bounds}) == 1
        for each in bounds[1:]:
            assert_close(
                each.bounds(QUERIES), bounds[0].bounds(QUERIES), rtol=0, atol=SKETCH
            )
    assert BKBUCB(gp, norm_bound=9.0).assumptions.certified


@pytest.mark.parametrize("of_model", [False, True])
def test_a_band_keeps_its_own_copy(of_model):
    gp, strategy = own()
    model = BKBModel(X, Y, frozen_kernel("rbf"), LAM, 0.6) if of_model else gp
    band = BKBUCB(model, norm_bound=9.0).band
    before = band.at(delta=0.01).bounds(QUERIES)
    (model if of_model else strategy).observe(QUERIES, 9.0 * torch.ones(20, 1).double())
    assert_close(band.at(delta=0.01).bounds(QUERIES), before, rtol=0, atol=0)
    assert not torch.equal(band.at(model=model).bounds(QUERIES)[0], before[0])


def test_a_search_by_botorch():
    gp, _ = own()
    acqf = UpperConfidenceBound(wrapped(gp), beta=4.0)
    box = float64([[0.0, 0.0], [1.0, 1.0]])
    torch.manual_seed(0)
    _, value = optimize_acqf(acqf, box, q=1, num_restarts=2, raw_samples=64)
    grid = torch.cartesian_prod(*[torch.linspace(0.0, 1.0, 21).double()] * 2)
    assert float(value) >= float(acqf(grid.unsqueeze(-2)).max()) - 1e-6
    by_bound = BKBUCB(wrapped(gp), norm_bound=9.0)
    _, value = optimize_acqf(by_bound, box, q=1, num_restarts=4, raw_samples=512)
    assert float(value) >= float(by_bound(grid.unsqueeze(-2)).max()) - 1e-6


def test_saved_and_copied(tmp_path):
    r"""In the midst of training, and apart from what was saved."""
    gp, strategy = own(trainable=True)
    elbo(gp.train()).backward()
    copies = [deepcopy(gp), pickle.loads(pickle.dumps(gp))]
    assert copies[0].variational_strategy.model is copies[0]
    again, _ = own(X[:5], Y[:5], qbar=9.0, seed=8, kernel=frozen_kernel("matern32"))
    again.variational_strategy.qbar = strategy.qbar  # an argument, as the seed
    torch.save(gp.state_dict(), tmp_path / "state.pt")
    state = torch.load(tmp_path / "state.pt", weights_only=True)
    again.load_state_dict(state)
    state["variational_strategy.targets"].zero_()
    expected = marginals(gp)
    for copied in (*copies, again):
        assert_close([*marginals(copied)], [*expected], rtol=0, atol=SKETCH)
    more = uniform(30, 2, 5), normal(30, 5).unsqueeze(-1)
    points = strategy.observe(*more).inducing_points
    for copied in (*copies, again):
        drawn = copied.variational_strategy.observe(*more).inducing_points
        assert torch.equal(drawn, points)


def test_single_precision_in_double_out():
    gp, _ = own(X.float(), Y.float())
    assert gp.eval()(QUERIES.float()).mean.dtype == torch.float64
    exact, _ = own(X.float().double(), Y.float().double())
    assert_close(gp(QUERIES.float()).mean, marginals(exact, QUERIES.float().double())[0])


class NothingLarge(TorchDispatchMode):
    r"""Refuses every tensor of at least ``count`` numbers that torch makes."""

    def __init__(self, count):
        super().__init__()
        self.count = count

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        for each in tree_leaves(made):
            # What is expanded has no memory of its own.
            if isinstance(each, torch.Tensor) and "expand" not in str(func):
                assert each.numel() < self.count, func
        return made


@pytest.mark.parametrize("n", [1100, pytest.param(10_000, marks=pytest.mark.slow)])
def test_no_matrix_is_as_large_as_the_data_squared(n):
    data = uniform(n, 2, 0)
    values = torch.sin(4.0 * data.sum(-1, keepdim=True)) + 0.2 * normal(n, 9)[:, None]
    with NothingLarge(n * n // 4):
        gp, strategy = own(data, values, frozen_kernel("rbf"), trainable=True, qbar=2.0)
        elbo(gp.train(), data, values).backward()
        mean, variance = marginals(gp, uniform(n, 2, 1))
        strategy.observe(data[:3], values[:3])
        BKBUCB(gp, norm_bound=9.0).bounds(data[:50])
        points = allocated(data, gp.covar_module, 40)
    assert 20 < len(strategy.inducing_points) < n // 8
    assert (len(mean), len(variance), len(points)) == (n, n, 40)
    truth = torch.sin(4.0 * uniform(n, 2, 1).sum(-1))
    assert float((mean - truth).abs().mean()) < 0.05


RBF = frozen_kernel("rbf")


def allocated(inputs, kernel, count, alpha=LAM, qbar=2.0, seed=0):
    allocator = BKBInducingPointAllocator(alpha, qbar, seed)
    return allocator.allocate_inducing_points(inputs, kernel, count, torch.Size())


def rows(points):
    return {*map(tuple, points.tolist())}


@pytest.mark.parametrize("seed", range(3))
def test_allocator_has_the_points_of_the_model(seed):
    model = BKBModel(X, Y, RBF, LAM, 0.6, seed)
    points, count = rows(model.inducing_points), len(model.inducing_points)
    assert rows(allocated(X, RBF, count, LAM, 0.6, seed)) == points
    assert points < rows(allocated(X, RBF, count + 9, LAM, 0.6, seed))
    assert len(rows(allocated(X, RBF, count + 9, LAM, 0.6, seed))) == count + 9
    assert len(rows(allocated(X, RBF, 5, LAM, 0.6, seed))) == 5


@pytest.mark.filterwarnings("ignore:Using an outcome transform")
@pytest.mark.parametrize("outputs", [1, 2])
def test_in_botorchs_variational_model(outputs):
    scaled = (Y - Y.mean()) / Y.std()
    model = SingleTaskVariationalGP(
        X,
        scaled.expand(-1, outputs),
        num_outputs=outputs,
        inducing_points=12,
        inducing_point_allocator=BKBInducingPointAllocator(LAM),
        learn_inducing_points=False,
    )
    strategy = model.model.variational_strategy
    strategy = getattr(strategy, "base_variational_strategy", strategy)
    for _ in range(2):
        points = strategy.inducing_points
        assert len(points) == len(rows(points)) == 12
        assert rows(points) <= rows(X)
        model.init_inducing_points(X)
    assert model.posterior(X[:3]).mean.shape == (3, outputs)


def test_allocator_prefers_lonely_points():
    r"""99 inputs side by side and one apart: the lonely one is always drawn."""
    inputs = torch.cat([1e-3 * uniform(99, 1, 0), torch.tensor([[5.0]]).double()])
    for seed in range(10):
        assert bool((allocated(inputs, RBF, 10, seed=seed) == 5.0).any())
    assert len(allocated(torch.zeros(5, 2).double(), RBF, 3)) == 1


def test_allocator_explains_more_than_a_random_subset():
    r"""Most inputs in one corner: what 30 points leave of the prior variance."""
    inputs = torch.cat([0.1 * uniform(475, 2, 0), uniform(25, 2, 1)])
    kernel, left = frozen_kernel("matern52"), [0.0, 0.0]
    for seed in range(3):
        order = uniform(500, 1, seed)[:, 0].argsort()
        drawn = allocated(inputs, kernel, 30, seed=seed)
        for i, points in enumerate((drawn, inputs[order[:30]])):
            left[i] += float(nystrom_split(kernel, inputs, points)[1].trace())
    assert left[0] < 0.5 * left[1]


@pytest.mark.representatives("20")
@pytest.mark.parametrize("count", [20, 30])
def test_allocator_leaves_no_part_out(count):
    r"""Far less noise than the number of points can bear."""
    inputs, kernel = uniform(1000, 1, 7), frozen_kernel("rbf", 0.1)
    for seed in range(3):
        points = allocated(inputs, kernel, count, 1e-6, seed=seed)
        assert float(nystrom_split(kernel, inputs, points)[1].trace()) < 0.03 * 1000


def test_parameters_in_single_precision():
    gp = OwnGP(X, Y, RBFKernel(), ConstantMean(), likelihood_of())
    assert gp.mean_module.constant.dtype == torch.float32  # as GPyTorch makes it
    # One rounding of each number in single precision, and the outcomes' size.
    assert_close(gp(QUERIES).mean, marginals(gp)[0], rtol=0, atol=20 * SINGLE)
