r"""Kernels in plain numbers: GPyTorch's values for each pair of points alone."""

import pytest
import torch
from botorch.models import SingleTaskGP
from botorch.models.transforms.input import ChainedInputTransform, Normalize
from gpytorch.kernels import (
    AdditiveKernel,
    LinearKernel,
    MaternKernel,
    PeriodicKernel,
    PiecewisePolynomialKernel,
    ProductKernel,
    RBFKernel,
    RQKernel,
    ScaleKernel,
)
from torch.testing import assert_close

from kernelucb import (
    BKBBandit,
    KernelBandit,
    KernelRegression,
    LikelihoodRegression,
    MartingaleMixtureUCB,
    NystromRegression,
    describe_norm_bound,
    lengthscale_family,
    regret_certificate,
)
from kernelucb._numerics.kernels import Library, read_kernel
from kernelucb.data.prior import Prior
from kernelucb.models import BKBModel
from problems import normal, uniform
from tolerances import KERNEL

KERNELS = {
    "rbf, ard": lambda: RBFKernel(ard_num_dims=3),
    "matern 1/2": lambda: MaternKernel(0.5),
    "matern 3/2, ard": lambda: MaternKernel(1.5, ard_num_dims=3),
    "matern 5/2, scaled twice": lambda: ScaleKernel(ScaleKernel(MaternKernel(2.5))),
    "rational quadratic": RQKernel,
    "scaled, two columns": lambda: ScaleKernel(
        RBFKernel(ard_num_dims=2, active_dims=(0, 2))
    ),
    "sum": lambda: ScaleKernel(RBFKernel(active_dims=(1,))) + LinearKernel(),
    "product": lambda: ScaleKernel(MaternKernel(2.5) * PeriodicKernel(active_dims=(2,))),
    "nested": lambda: AdditiveKernel(
        RBFKernel(active_dims=(0, 1)),
        ProductKernel(RBFKernel(active_dims=(1,)), LinearKernel(active_dims=(2,))),
    ),
    "periodic": PeriodicKernel,
    "piecewise polynomial": lambda: PiecewisePolynomialKernel(2),
}


def make_kernel(name):
    r"""With parameters that all differ."""
    kernel = KERNELS[name]().double()
    for parameter, seed in zip(kernel.parameters(), range(99), strict=False):
        parameter.data += uniform(parameter.numel(), 1, seed).reshape(parameter.shape)
    return kernel


def outcomes(X):
    return torch.sin(5.0 * X).sum(-1)


def frozen(module):
    return module.double().requires_grad_(False)


@pytest.mark.parametrize("name", KERNELS)
class TestValues:
    def test_values_diagonal_and_gradients_are_gpytorchs(self, name):
        kernel, left, right = make_kernel(name), uniform(7, 3, 0), uniform(5, 3, 1)
        left.requires_grad_()
        plain, prior = read_kernel(kernel), Prior(kernel, scale=1.5)
        own, theirs = plain.values(left, right), kernel(left, right).to_dense()
        assert_close(own, theirs, rtol=0.0, atol=KERNEL)
        room = 2.25 * KERNEL
        assert_close(prior.covariance(left, right), 2.25 * theirs, rtol=0.0, atol=room)
        weights = uniform(7, 5, 2)
        slopes = [
            torch.autograd.grad((value * weights).sum(), left, retain_graph=True)[0]
            for value in (own, theirs)
        ]
        assert_close(*slopes, rtol=0.0, atol=2.0 * KERNEL)
        pairs = plain.values(left[:5], right, pairs=True)
        assert_close(pairs, theirs[:5].diagonal(), rtol=0.0, atol=KERNEL)
        expected = 2.25 * kernel(left, left, diag=True)
        assert_close(prior.variance(left), expected, rtol=0.0, atol=room)

    def test_twice_differentiable(self, name):
        if name == "piecewise polynomial":
            pytest.skip("is not")
        plain, right = read_kernel(make_kernel(name)), uniform(4, 3, 1)
        left = uniform(3, 3, 0).requires_grad_()
        assert torch.autograd.gradgradcheck(
            lambda X: plain.values(X, right), left, atol=1e-6
        )

    def test_far_points_do_not_change_the_values_of_others(self, name):
        r"""GPyTorch centres distances on all points in the call; a band must not."""
        prior, X, near = Prior(make_kernel(name)), uniform(12, 3, 0), uniform(20, 3, 3)
        both = torch.cat([near, 1e8 * uniform(20, 3, 4)])
        assert_close(prior.covariance(both, X)[:20], prior.covariance(near, X))
        assert_close(prior.covariance(X, both)[:, :20], prior.covariance(X, near))
        assert_close(prior.variance(both)[:20], prior.variance(near))


class OwnKernel(RBFKernel):
    r"""Of a subclass nothing is known, so GPyTorch evaluates it."""


def test_far_points_of_a_query_change_no_other_where_gpytorch_evaluates():
    kernel, X, near = frozen(OwnKernel()), uniform(12, 3, 0), uniform(20, 3, 3)
    assert isinstance(read_kernel(kernel), Library)
    both = torch.cat([near, 1e8 * uniform(20, 3, 4)])
    assert_close(Prior(kernel).covariance(both, X)[:20], Prior(kernel).covariance(near, X))


def test_inputs_spread_over_a_million_length_scales():
    kernel = RBFKernel().double()
    kernel.lengthscale = 1e-6
    base = uniform(6, 3, 0)
    X = torch.cat([base, base + 1e-6 * uniform(6, 3, 1)])
    steps = (X.unsqueeze(-2) - X) / 1e-6  # exact enough: differences first
    matrix = torch.exp(-0.5 * steps.square().sum(-1))
    # An input of 1e6 length scales is rounded by 1e6 eps of one of them.
    assert_close(Prior(kernel).covariance(X, X), matrix, rtol=0.0, atol=1e6 * KERNEL)


class Wavy(ScaleKernel):
    r"""A subclass may do anything: here the prior variance is not the same everywhere."""

    def forward(self, x1, x2, diag=False, **params):
        values = super().forward(x1, x2, diag=diag, **params)
        left, right = (2.0 + torch.sin(9.0 * x[..., 0]) for x in (x1, x2))
        return values * (left * right if diag else left.unsqueeze(-1) * right)


class Doubled(ChainedInputTransform):
    def transform(self, X):
        return torch.cat([super().transform(X), X.square()], -1)


def test_nothing_is_known_of_a_subclass():
    r"""It has no certificate over a box."""
    wavy = frozen(Wavy(RBFKernel()))
    for kernel in (wavy, frozen(ScaleKernel(wavy)), wavy + frozen(RBFKernel())):
        prior = Prior(kernel)
        assert not prior.has_constant_variance
        assert not prior.bounds_changes()
    chained = Doubled(first=Normalize(2, bounds=torch.eye(2).double()))
    assert not Prior(frozen(RBFKernel()), None, chained).bounds_changes()
    X, Y, box = uniform(8, 1, 0), normal(8, 1), torch.tensor([[0.0], [1.0]]).double()
    state = KernelRegression(X, Y, frozen(Wavy(RBFKernel())), 0.1)
    band = MartingaleMixtureUCB(state, norm_bound=50.0)
    assert not regret_certificate(band, bounds=box).rigorous
    described = describe_norm_bound(state, 50.0, bounds=box)
    assert not described.everywhere
    assert described.range > 50.0 * 2.0


@pytest.mark.filterwarnings("ignore:Data")
def test_a_scale_kernel_with_columns_of_its_own():
    r"""GPyTorch calls the base's ``forward``: its columns are those of the ScaleKernel."""
    X, Z = uniform(12, 2, 0), torch.tensor([[0.0, 0.5], [1.0, 0.5]]).double()
    Y, kernel = (
        torch.sin(5.0 * X[:, 1:]),
        frozen(ScaleKernel(RBFKernel(), active_dims=(1,))),
    )
    plain = {"covar_module": kernel, "outcome_transform": None}
    model = SingleTaskGP(X, Y, torch.full_like(Y, 0.01), **plain)
    model.mean_module.requires_grad_(False)
    band = MartingaleMixtureUCB(model, norm_bound=5.0)
    assert band.assumptions.certified
    assert_close(band.band.data.mean(Z), model.posterior(Z).mean.flatten())
    covers = [
        lengthscale_family(part, 0.1, 0.2).covering(count)[1].kernel(Z, X).to_dense()
        for part, count in (
            (kernel, 2),
            (frozen(ScaleKernel(RBFKernel(active_dims=(1,)))), 2),
        )
    ]
    assert_close(*covers)


def overridden(kernel):
    r"""Of the same class, but its ``forward`` is not that of the class."""
    forward = kernel.forward

    def weighted(x1, x2, diag=False, **params):
        values = forward(x1, x2, diag=diag, **params)
        left, right = (2.0 + torch.sin(9.0 * x[..., 0]) for x in (x1, x2))
        return values * (left * right if diag else left.unsqueeze(-1) * right)

    kernel.forward = weighted
    return frozen(kernel)


MIXTURE = {"norm_bound": 1.0, "noise_std": 0.1}
ROADS = {
    "a prior": lambda X, Y, k: Prior(k),
    "tensors": lambda X, Y, k: KernelRegression(X, Y, k, 0.1).prior,
    "a model": lambda X, Y, k: (
        KernelRegression.from_model(SingleTaskGP(X, Y.unsqueeze(-1), covar_module=k)).prior
    ),
    "another kernel": lambda X, Y, k: Prior(RBFKernel()).replaced(k, None, X),
    "inducing points": lambda X, Y, k: NystromRegression(X, Y, k, 0.1, X[:3]).prior,
    "successes": lambda X, Y, k: LikelihoodRegression(X, (Y > 1.0).double(), k).prior,
    "BKB": lambda X, Y, k: BKBModel(X, Y.unsqueeze(-1), k, 0.01).regression().prior,
    "a bandit": lambda X, Y, k: KernelBandit(k, **MIXTURE).prior,
    "BKB's bandit": lambda X, Y, k: BKBBandit(X, k, **MIXTURE).prior,
}


@pytest.mark.parametrize("road", ROADS)
def test_where_our_values_are_not_gpytorchs_gpytorchs_are_used(road):
    X, Z, kernel = uniform(6, 3, 0), uniform(4, 3, 1), overridden(RBFKernel())
    prior = ROADS[road](X, outcomes(X), kernel)
    for moved in (prior, prior.double()):
        assert not moved.has_constant_variance
        values = kernel(Z, X).to_dense() * prior.scale**2
        assert_close(moved.covariance(Z, X), values)
        assert_close(moved.variance(Z), kernel(Z, Z).to_dense().diagonal() * prior.scale**2)


@pytest.mark.parametrize("offset", [0.0, 1e4])
@pytest.mark.parametrize("lengthscale", [1e-3, 1.0, 1e5])
def test_values_of_far_points_are_not_taken_for_others(lengthscale, offset):
    for rows in (uniform(1, 3, 0), uniform(40, 3, 0)):
        for name in set(KERNELS) - {"sum", "nested", "piecewise polynomial"}:
            kernel = make_kernel(name)
            for part in kernel.modules():
                if getattr(part, "has_lengthscale", False):
                    part.lengthscale = lengthscale * torch.ones_like(part.lengthscale)
            prior = Prior(kernel)
            prior.check_fits(offset + rows)
            assert not isinstance(prior.plain.kernel, Library), name
