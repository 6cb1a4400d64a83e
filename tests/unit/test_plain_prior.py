r"""A frozen prior with a standard kernel is evaluated without GPyTorch's bookkeeping."""

import copy
import pickle

import pytest
import torch
from botorch.exceptions import UnsupportedError
from botorch.models.transforms.input import ChainedInputTransform, Normalize
from gpytorch.kernels import (
    LinearKernel,
    MaternKernel,
    PeriodicKernel,
    RBFKernel,
    RQKernel,
    ScaleKernel,
)
from gpytorch.means import ConstantMean, LinearMean, ZeroMean
from torch.testing import assert_close

from kernelucb import (
    KernelRegression,
    MartingaleMixtureUCB,
    describe_norm_bound,
    regret_certificate,
)
from kernelucb._numerics.kernels import Library, Stationary, read_kernel
from kernelucb.confidence.martingale_mixture.dual import Ellipsoids
from kernelucb.regression.prior import Prior
from problems import make_problem, normal, uniform
from tolerances import GRADCHECK, REARRANGED

UNSCALED = {
    "rbf": RBFKernel,
    "matern 1/2": lambda **given: MaternKernel(nu=0.5, **given),
    "matern 3/2": lambda **given: MaternKernel(nu=1.5, **given),
    "matern 5/2": lambda **given: MaternKernel(nu=2.5, **given),
    "rational quadratic": RQKernel,
}
SHAPES = {
    "one length scale": {},
    "ard": {"ard_num_dims": 3},
    "two columns": {"ard_num_dims": 2, "active_dims": (0, 2)},
}
# The promise for values; rounding of squared distances of order ten.
EQUAL = 1e-12


def make_kernel(name, shape, scales, dtype=torch.float64):
    kernel = UNSCALED[name](**SHAPES[shape])
    lengths = torch.tensor([0.4, 0.9, 1.7])[: kernel.ard_num_dims or 1]
    kernel.lengthscale = lengths
    if name == "rational quadratic":
        kernel.alpha = 1.3
    for scale in scales:
        kernel = ScaleKernel(kernel)
        kernel.outputscale = scale
    return kernel.to(dtype)


@pytest.mark.parametrize("scales", [(), (2.5,), (2.5, 0.3)], ids=len)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", UNSCALED)
class TestStandardKernels:
    def test_values_and_gradients_are_gpytorchs(self, name, shape, scales):
        kernel = make_kernel(name, shape, scales)
        prior = Prior(kernel, scale=1.5)
        left, right = uniform(9, 3, 0).requires_grad_(), uniform(7, 3, 1)
        own, theirs = prior.covariance(left, right), 1.5**2 * kernel(left, right).to_dense()
        assert_close(own, theirs, rtol=0.0, atol=EQUAL)
        assert_close(prior.covariance(left.detach(), right), own.detach())
        weights = uniform(9, 7, 2)
        slopes = [
            torch.autograd.grad((value * weights).sum(), left)[0] for value in (own, theirs)
        ]
        assert_close(*slopes, rtol=0.0, atol=10 * EQUAL)
        expected = 1.5**2 * kernel(left, left, diag=True)
        assert_close(prior.variance(left), expected.detach(), rtol=0.0, atol=EQUAL)

    def test_equal_points_are_at_distance_zero(self, name, shape, scales):
        prior = Prior(make_kernel(name, shape, scales))
        X = uniform(5, 3, 0).requires_grad_()
        values = prior.covariance(X, X.detach())
        assert_close(values.diagonal(), prior.variance(X), rtol=EQUAL, atol=0.0)
        (slopes,) = torch.autograd.grad(values.diagonal().sum(), X)
        assert bool(torch.isfinite(slopes).all())


def test_a_single_precision_kernel_is_read_as_the_float64_copy():
    kernel = make_kernel("matern 5/2", "ard", (2.5,), torch.float32)
    X = uniform(6, 3, 0)
    assert_close(
        Prior(kernel).covariance(X, X),
        copy.deepcopy(kernel).double()(X, X).to_dense().detach(),
        rtol=0.0,
        atol=EQUAL,
    )


@pytest.mark.parametrize(
    "kernel",
    [LinearKernel(), PeriodicKernel(), RBFKernel() + MaternKernel(), 2 * [RBFKernel]],
    ids=["linear", "periodic", "sum", "batch"],
)
def test_others_fall_back(kernel):
    if isinstance(kernel, list):
        kernel = RBFKernel(batch_shape=torch.Size([2]))
        assert isinstance(read_kernel(kernel), Library)
        with pytest.raises(UnsupportedError):
            Prior(kernel).check_fits(uniform(2, 2, 0))
        return
    prior, X, Z = Prior(kernel.double()), uniform(5, 2, 0), uniform(4, 2, 1)
    assert not isinstance(prior.plain.kernel, Stationary)
    expected = kernel(X, Z).to_dense().detach()
    assert_close(prior.covariance(X, Z), expected, rtol=0.0, atol=EQUAL)
    assert_close(prior.variance(X), kernel(X, X, diag=True).detach())


def test_means():
    X = uniform(4, 2, 0)
    constant = ConstantMean()
    constant.constant = 0.7
    for mean, value in ((None, 0.0), (ZeroMean(), 0.0), (constant, 0.7)):
        prior = Prior(RBFKernel(), mean, offset=2.0, scale=3.0)
        assert_close(prior.mean(X), torch.full((4,), 2.0 + 3.0 * value).double())
    linear = LinearMean(2).double()
    prior = Prior(RBFKernel(), linear, offset=2.0, scale=3.0)
    assert prior.plain.mean is None
    assert_close(prior.mean(X), 2.0 + 3.0 * linear(X).detach())


def test_copies_and_loaded_states_follow_their_own_numbers():
    prior, X = Prior(make_kernel("rbf", "ard", (2.0,))), uniform(4, 3, 0)
    values = prior.covariance(X, X)
    for twin in (copy.deepcopy(prior), pickle.loads(pickle.dumps(prior))):
        assert_close(twin.covariance(X, X), values, rtol=0.0, atol=0.0)
    other = Prior(make_kernel("rbf", "ard", (3.0,)))
    prior.load_state_dict(other.state_dict())
    assert_close(prior.covariance(X, X), other.covariance(X, X))
    assert bool((prior.covariance(X, X) != values).all())


@pytest.mark.parametrize("sign", [1, -1])
def test_gradients_at_fixed_regularisers(sign):
    problem = make_problem(n=12)
    band = MartingaleMixtureUCB(problem.state, norm_bound=3.0).confidence_set
    X = uniform(5, problem.X.shape[-1], 3).requires_grad_()
    tau = torch.logspace(-3, 3, 5, dtype=torch.float64).numpy()
    assert torch.autograd.gradcheck(
        lambda X: Ellipsoids(band, band.project(X), sign).bounds(tau), X, **GRADCHECK
    )
    ellipsoids = Ellipsoids(band, band.project(X), sign)
    fused, whole = ellipsoids.bounds(tau), ellipsoids._pending_bounds(torch.tensor(tau))
    assert_close(fused, whole, rtol=REARRANGED, atol=REARRANGED)
    slopes = [torch.autograd.grad(v.sum(), X, retain_graph=True)[0] for v in (fused, whole)]
    assert_close(*slopes, rtol=REARRANGED, atol=REARRANGED)


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
    wavy = frozen(Wavy(RBFKernel()))
    for kernel in (wavy, frozen(ScaleKernel(wavy)), wavy + frozen(RBFKernel())):
        prior = Prior(kernel)
        assert not prior.has_constant_variance
        assert not prior.falls_with_distance()
    assert prior.variance(uniform(20, 2, 0)).std() > 0.1
    chained = Doubled(first=Normalize(2, bounds=torch.eye(2).double()))
    assert not Prior(frozen(RBFKernel()), None, chained).falls_with_distance()


def test_a_subclass_has_no_certificate_over_a_box():
    X, Y, box = uniform(8, 1, 0), normal(8, 1), torch.tensor([[0.0], [1.0]]).double()
    state = KernelRegression(X, Y, frozen(Wavy(RBFKernel())), 0.1)
    band = MartingaleMixtureUCB(state, norm_bound=50.0)
    assert not regret_certificate(band, bounds=box).rigorous
    described = describe_norm_bound(state, 50.0, bounds=box)
    assert not described.everywhere
    assert described.range > 50.0 * 2.0


def frozen(module):
    return module.double().requires_grad_(False)
