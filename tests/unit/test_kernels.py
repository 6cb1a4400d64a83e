r"""Kernels in plain numbers: pairs of points alone (values: ``test_every_kernel.py``)."""

import pytest
import torch
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
    KernelBandit,
    KernelRegression,
    MartingaleMixtureUCB,
    lengthscale_family,
    regret_certificate,
)
from kernelucb._numerics.kernels import Library, read_kernel
from kernelucb.data.prior import Prior
from problems import normal, uniform
from tolerances import GRADCHECK, KERNEL

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


def frozen(module):
    return module.double().requires_grad_(False)


@pytest.mark.parametrize("name", [*KERNELS][:-1])  # the last one is not
def test_differentiable_by_both_points(name):
    plain, left, right = read_kernel(make_kernel(name)), uniform(3, 3, 0), uniform(4, 3, 1)
    both = left.requires_grad_(), right.requires_grad_()
    assert torch.autograd.gradcheck(plain.values, both, **GRADCHECK)
    pairs = left.repeat_interleave(4, 0), right.repeat(3, 1)
    alone = plain.values(*pairs, pairs=True).reshape(3, 4)  # the formulas themselves
    slopes = [
        torch.autograd.grad(values.square().sum(), both)
        for values in (plain.values(*both), alone)
    ]
    assert_close(*slopes)


@pytest.mark.parametrize("name", KERNELS)
def test_far_points_do_not_change_the_values_of_others(name):
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


class Doubled(ChainedInputTransform):
    def transform(self, X):
        return torch.cat([super().transform(X), X.square()], -1)


def test_nothing_is_known_of_a_subclass():
    r"""It has no certificate over a box."""
    subclass, rbf = frozen(OwnKernel()), frozen(RBFKernel())
    for kernel in (subclass, frozen(ScaleKernel(subclass)), subclass + rbf):
        assert not Prior(kernel).has_constant_variance
        assert not Prior(kernel).bounds_changes()
    chained = Doubled(first=Normalize(2, bounds=torch.eye(2).double()))
    assert not Prior(rbf, None, chained).bounds_changes()
    state = KernelRegression(uniform(8, 1, 0), normal(8, 1), subclass, 0.1)
    band, box = MartingaleMixtureUCB(state, norm_bound=500.0), torch.tensor([[0.0], [1.0]])
    assert not regret_certificate(band, bounds=box.double()).rigorous


def test_a_family_of_a_scale_kernel_with_columns_of_its_own():
    r"""GPyTorch calls the base's ``forward``: its columns are those of the ScaleKernel."""
    X, base = uniform(12, 2, 0), frozen(ScaleKernel(RBFKernel(active_dims=(1,))))
    kernel = frozen(ScaleKernel(RBFKernel(), active_dims=(1,)))
    covers = [lengthscale_family(k, 0.1, 0.2).covering(2)[1] for k in (kernel, base)]
    assert_close(*(cover.kernel(X).to_dense() for cover in covers))


def overridden(kernel):
    r"""Of the same class, but its ``forward`` is not that of the class."""
    forward = kernel.forward

    def weighted(x1, x2, diag=False, **params):
        values = forward(x1, x2, diag=diag, **params)
        left, right = (2.0 + torch.sin(9.0 * x[..., 0]) for x in (x1, x2))
        return values * (left * right if diag else left.unsqueeze(-1) * right)

    kernel.forward = weighted
    return frozen(kernel)


def test_where_our_values_are_not_gpytorchs_gpytorchs_are_used():
    Z, X, kernel = uniform(4, 3, 1), uniform(6, 3, 0), overridden(RBFKernel())
    bandit = KernelBandit(kernel, norm_bound=1.0, noise_std=0.1)
    for prior in (Prior(kernel), Prior(kernel).double(), bandit.prior):
        assert not prior.has_constant_variance
        assert_close(prior.covariance(Z, X), kernel(Z, X).to_dense())
        assert_close(prior.variance(Z), kernel(Z, Z).to_dense().diagonal())


@pytest.mark.parametrize("offset", [0.0, 1e4])
@pytest.mark.parametrize("lengthscale", [1e-3, 1.0, 1e5])
def test_values_of_far_points_are_not_taken_for_others(lengthscale, offset):
    for name in KERNELS.keys() - {"sum", "nested", "piecewise polynomial"}:
        kernel = make_kernel(name)
        for part in kernel.modules():
            if getattr(part, "has_lengthscale", False):
                part.lengthscale = lengthscale * torch.ones_like(part.lengthscale)
        for count in (1, 40):
            prior = Prior(kernel)
            prior.check_fits(offset + uniform(count, 3, 0))
            assert not isinstance(prior.plain.kernel, Library), name
