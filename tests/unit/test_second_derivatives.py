r"""Second derivatives are right where there are any, and refused elsewhere."""

import pytest
import torch
from botorch.exceptions import UnsupportedError
from gpytorch.kernels import MaternKernel, RBFKernel, RQKernel
from torch.autograd.functional import hessian

from kernelucb import (
    IGPUCB,
    AbbasiYadkoriUCB,
    KernelFamilyUCB,
    KernelRegression,
    MartingaleMixtureUCB,
    SrinivasUCB,
    StreamingKernelUCB,
    UnknownNoise,
    WangDeFreitasUCB,
)
from kernelucb._numerics.kernels import read_kernel
from problems import likelihood_ucb, uniform
from tolerances import GRADCHECK

X, QUERY = uniform(6, 2, seed=1), uniform(1, 2, seed=2)
Y = torch.sin(5.0 * X).sum(-1)
KERNELS = {
    "rbf": lambda: RBFKernel(ard_num_dims=2),
    "matern 3/2": lambda: MaternKernel(1.5),
    "matern 5/2": lambda: MaternKernel(2.5),
    "rational quadratic": RQKernel,
}
every_kernel = pytest.mark.parametrize("kernel", KERNELS)
NORM = {"norm_bound": 5.0}
MEAN = {"turns": ("mean",)}
FORMULAS = [
    (MartingaleMixtureUCB, NORM | MEAN),
    (MartingaleMixtureUCB, NORM | {"turns": ("improvement",)}),
    (MartingaleMixtureUCB, NORM | {"form": "analytic"}),
    (AbbasiYadkoriUCB, NORM),
    (IGPUCB, NORM | {"horizon": 20}),
    (SrinivasUCB, {}),
    (WangDeFreitasUCB, NORM),
    (StreamingKernelUCB, NORM | {"noise_std": UnknownNoise(0.1, 1.0)}),
]


def data(kernel):
    module = KERNELS[kernel]().double().requires_grad_(False)
    return KernelRegression(X, Y, module, noise_std=0.1)


def total(acqf):
    return lambda points: acqf(points.unsqueeze(-2)).sum()


@pytest.mark.covering
@every_kernel
@pytest.mark.parametrize(("acqf_class", "options"), FORMULAS)
def test_of_formulas(kernel, acqf_class, options):
    acqf = acqf_class(data(kernel), **options)
    point = QUERY.clone().requires_grad_()
    assert torch.autograd.gradgradcheck(total(acqf), point, **GRADCHECK)


@every_kernel
def test_of_a_kernel_at_equal_points(kernel):
    r"""The limit of those beside: a root of zero hides no slope."""
    read = read_kernel(KERNELS[kernel]().double())

    def at(step):
        point = torch.zeros(1, 2, dtype=torch.float64)
        return hessian(lambda x: read.values(x, point).sum(), point + step).reshape(2, 2)

    assert float((at(0.0) - at(1e-9)).abs().max()) < 1e-6
    assert float(at(0.0).diagonal().max()) < -0.1


BOUND = "first derivatives alone"
SEARCHED = {
    "upper bound": lambda: MartingaleMixtureUCB(data("rbf"), **NORM),
    "grid": lambda: MartingaleMixtureUCB(data("rbf"), **NORM, form="grid"),
    "martingale": lambda: MartingaleMixtureUCB(data("rbf"), **NORM, fit="martingale"),
    "unknown noise": lambda: MartingaleMixtureUCB(
        data("rbf"), **NORM, noise_std=UnknownNoise()
    ),
    "another kernel": lambda: MartingaleMixtureUCB(data("matern 5/2"), **NORM),
    "pending": lambda: MartingaleMixtureUCB(data("rbf"), **NORM, X_pending=X[:1] + 0.1),
    "family": lambda: KernelFamilyUCB(
        data("rbf"), [data(name).prior.covar_module for name in KERNELS], **NORM
    ),
    "successes": lambda: likelihood_ucb(
        X,
        (Y > 0.0).double(),
        data("rbf").prior.covar_module,
        likelihood="bernoulli",
        **NORM,
    ),
}


@pytest.mark.parametrize("name", SEARCHED)
def test_of_bounds_that_search_are_refused(name):
    acqf = SEARCHED[name]()
    for value in (total(acqf), lambda x: acqf.bounds(x)[0].sum()):
        with pytest.raises(UnsupportedError, match=BOUND):
            hessian(value, QUERY)
    first = torch.autograd.functional.jacobian(total(acqf), QUERY)
    again = torch.autograd.functional.jacobian(total(acqf), QUERY, create_graph=True)
    assert torch.allclose(first, again, rtol=1e-12, atol=1e-12)


def test_of_gains_are_refused():
    band = MartingaleMixtureUCB(data("rbf"), **NORM).band.required_set
    for value in (
        lambda x: band.max_gain_over(x, X[:1]).sum(),
        lambda x: band.max_gain_over(X[:1], x).sum(),
    ):
        with pytest.raises(UnsupportedError, match=BOUND):
            hessian(value, QUERY)


def test_of_the_mean_at_an_observed_point_are_those_of_the_upper_bound():
    with pytest.raises(UnsupportedError, match=BOUND):
        hessian(total(MartingaleMixtureUCB(data("rbf"), **NORM, **MEAN)), X[:1])
