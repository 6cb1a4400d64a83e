r"""Every kernel class of GPyTorch and BoTorch, by itself and within others.

A state has the values that GPyTorch gives for two points, or is refused.
"""

import warnings

import pytest
import torch
from botorch.exceptions import UnsupportedError
from botorch.models import kernels as botorch_kernels
from botorch.models.kernels.contextual_lcea import LCEAKernel
from botorch.models.kernels.contextual_sac import SACKernel
from botorch.models.kernels.orthogonal_additive_kernel import OrthogonalAdditiveKernel
from botorch.models.kernels.positive_index import PositiveIndexKernel
from gpytorch import kernels as gpytorch_kernels
from gpytorch.kernels import MaternKernel, RBFKernel, ScaleKernel
from gpytorch.likelihoods import GaussianLikelihood

from kernelucb.data.prior import Prior
from problems import uniform
from tolerances import KERNEL

ONE, GRID = torch.Size([1]), torch.linspace(0.0, 1.0, 4)
PARTS = {"a": [0], "b": [1]}  # a decomposition into contexts

CPU, ENDS = torch.device("cpu"), [(-0.5, 1.5)]


def given(*positional, **named):
    return positional, named


# Arguments of those that need some, as a function of the number of their columns.
NEEDED = {
    "ArcKernel": lambda d: given(MaternKernel(2.5), ard_num_dims=d),
    "AdditiveKernel": lambda d: given(RBFKernel(), MaternKernel(1.5)),
    "AdditiveStructureKernel": lambda d: given(RBFKernel(), d),
    "CylindricalKernel": lambda d: given(3, MaternKernel()),
    "MultiDeviceKernel": lambda d: given(RBFKernel(), [CPU], create_cuda_context=False),
    "DistributionalInputKernel": lambda d: given(torch.cdist),
    "GridKernel": lambda d: given(RBFKernel(), [GRID] * d),
    "GridInterpolationKernel": lambda d: given(RBFKernel(), 8, d),
    "GridInterpolationKernel, fixed": lambda d: given(RBFKernel(), 8, grid_bounds=d * ENDS),
    "HammingIMQKernel": lambda d: given(3),
    "IndexKernel": lambda d: given(3),
    "InducingPointKernel": lambda d: given(
        RBFKernel(), torch.rand(4, d), GaussianLikelihood()
    ),
    "LCMKernel": lambda d: given([RBFKernel()], 2),
    "MaternKernel 1/2": lambda d: given(0.5),
    "MaternKernel 3/2": lambda d: given(1.5),
    "MultitaskKernel": lambda d: given(RBFKernel(), 2),
    "NewtonGirardAdditiveKernel": lambda d: given(RBFKernel(), d, 2),
    "PolynomialKernel": lambda d: given(2),
    "PolynomialKernelGrad": lambda d: given(2),
    "ProductKernel": lambda d: given(RBFKernel(), MaternKernel(1.5)),
    "ProductStructureKernel": lambda d: given(RBFKernel(), d),
    "RFFKernel": lambda d: given(5, d),
    "ScaleKernel": lambda d: given(RBFKernel()),
    "SpectralDeltaKernel": lambda d: given(d, 5),
    "SpectralMixtureKernel": lambda d: given(2, ard_num_dims=d),
    "LinearTruncatedFidelityKernel": lambda d: given([d - 1], d),
    "LCEAKernel": lambda d: given(PARTS, batch_shape=torch.Size([])),
    "SACKernel": lambda d: given(PARTS, batch_shape=torch.Size([])),
    "OrthogonalAdditiveKernel": lambda d: given(d, RBFKernel(), dtype=torch.float64),
    "PositiveIndexKernel": lambda d: given(3),
}
FURTHER = (LCEAKernel, SACKernel, OrthogonalAdditiveKernel, PositiveIndexKernel)
CLASSES = {
    **{name: getattr(gpytorch_kernels, name) for name in gpytorch_kernels.__all__},
    **{name: getattr(botorch_kernels, name) for name in botorch_kernels.__all__},
    **{kind.__name__: kind for kind in FURTHER},
}
NAMES = sorted({*CLASSES, *NEEDED} - {"Kernel", "keops"})
# Their values are those of single points, but they are refused: not to be copied, values
# that depend on other points, only for tensors that are split over devices.
REFUSED = ("InducingPointKernel", "GridInterpolationKernel", "MultiDeviceKernel")
INDICES = ("IndexKernel", "PositiveIndexKernel", "CategoricalKernel")


def part(kernel):
    return ScaleKernel(kernel, active_dims=(1,))


def plus(kernel, *others, dims=None):
    total = gpytorch_kernels.AdditiveKernel(kernel, *others)
    total.active_dims = None if dims is None else torch.tensor(dims)
    return total


# Two deep, of kernels ``make(columns, options)``, for inputs of three columns.
NESTED = {
    "alone": lambda make: make(3),
    "active": lambda make: make(2, active_dims=(2, 0)),
    "batch": lambda make: make(3, batch_shape=ONE),
    "ard": lambda make: make(3, ard_num_dims=3),
    "scaled": lambda make: ScaleKernel(make(3)),
    "scaled, ard": lambda make: ScaleKernel(make(1, ard_num_dims=1), active_dims=(1,)),
    "scaled, both": lambda make: ScaleKernel(make(2, active_dims=(2, 0)), active_dims=(1,)),
    "scaled twice": lambda make: ScaleKernel(ScaleKernel(make(1), active_dims=(1,))),
    "batch of scales": lambda make: ScaleKernel(make(3), batch_shape=ONE),
    "sum": lambda make: plus(part(make(1)), RBFKernel(active_dims=(0,))),
    "product": lambda make: part(make(1)) * MaternKernel(active_dims=(0, 2)),
    "scaled product": lambda make: ScaleKernel(
        part(make(1)) * MaternKernel(), active_dims=(2, 0)
    ),
    "active sum": lambda make: plus(make(2), RBFKernel(active_dims=(1,)), dims=(2, 0)),
    "arc": lambda make: gpytorch_kernels.ArcKernel(part(make(1)), ard_num_dims=3),
}


def build(name, nested):
    r"""A frozen kernel with parameters that all differ; None if there is none."""

    def make(columns, **options):
        positional, named = NEEDED.get(name, lambda d: given())(columns)
        kind = CLASSES[name.split(",")[0].split(" ")[0]]
        return kind(*positional, **named | options)

    torch.manual_seed(0)
    try:
        with warnings.catch_warnings(action="ignore"):  # of those that will be removed
            kernel = NESTED[nested](make).double()
    except (TypeError, RuntimeError, ValueError):  # no such option or number of columns
        return None
    for parameter, seed in zip(kernel.parameters(), range(99), strict=False):
        parameter.data += uniform(parameter.numel(), 1, seed).reshape(parameter.shape)
    kernel.requires_grad_(False).eval()  # LCEAKernel's returns nothing
    return kernel


def points(name, seed):
    unit = uniform(7, 3, seed)
    if name == "HammingIMQKernel":
        return torch.eye(3).double()[(3.0 * unit[:, 0]).long()]
    return (3.0 * unit).floor() if name in INDICES else 0.5 * unit  # within the unit ball


def has_one_value(kernel, X):
    try:
        return tuple(kernel(X[:1], X[1:2]).to_dense().shape) == (1, 1)
    except Exception:
        return False


def slopes(values, X):
    if not values.requires_grad:
        return torch.zeros_like(X)
    return torch.autograd.grad(values.sin().sum(), X)[0]


def deviation(prior, kernel, X, Z):
    r"""Largest difference from GPyTorch's matrix, relative to its largest value."""
    Z.requires_grad_()
    # Of equal arguments GPyTorch computes some sums only up to jitter.
    right = kernel(X, torch.cat([X, Z])).to_dense().mT
    left = prior.covariance(torch.cat([X, Z]), X)
    off = [
        left - right,
        prior.variance(X) - right[: len(X)].diagonal(),
        prior.plain.kernel.values(Z, X, pairs=True) - right[len(X) :].diagonal(),
        slopes(left, Z) - slopes(right, Z),
    ]
    return max(float(each.detach().abs().max()) for each in off) / float(right.abs().max())


def test_the_table_is_complete():
    every = {*gpytorch_kernels.__all__, *botorch_kernels.__all__}
    assert every <= {*NAMES, "Kernel", "keops"}


@pytest.mark.one_in(5)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", NAMES)
def test_values_are_gpytorchs_or_the_kernel_is_refused(name):
    found, X, Z = {}, points(name, 0), points(name, 1)
    for nested in NESTED:
        kernel = build(name, nested)
        if kernel is None:
            continue
        try:
            prior = Prior(kernel)
            prior.check_fits(X)
        except UnsupportedError:
            assert name in REFUSED or not has_one_value(kernel, X), nested
            continue
        found[nested] = deviation(prior, kernel, X, Z.clone())
    assert all(value <= 8.0 * KERNEL for value in found.values()), found
