r"""Small problems with a known answer: RKHS functions of known norm, frozen models."""

import functools
import operator
from dataclasses import dataclass

import torch
from botorch.models import SingleTaskGP
from gpytorch.constraints import GreaterThan
from gpytorch.distributions import MultivariateNormal
from gpytorch.kernels import (
    Kernel,
    LinearKernel,
    MaternKernel,
    PolynomialKernel,
    RBFKernel,
    ScaleKernel,
)
from gpytorch.likelihoods import GaussianLikelihood
from gpytorch.means import ConstantMean, Mean, ZeroMean
from gpytorch.models import ApproximateGP, ExactGP
from torch import Tensor

from kernelucb import (
    BKBVariationalStrategy,
    KernelFamilyUCB,
    KernelRegression,
    LikelihoodRegression,
    LikelihoodUCB,
)

SMOOTHNESS = {"matern12": 0.5, "matern32": 1.5, "matern52": 2.5}
KERNELS = ("rbf", "matern32", "matern52")


def float64(value: float) -> Tensor:
    r"""GPyTorch's setters round a Python float to float32; this does not."""
    return torch.tensor(value, dtype=torch.float64)


def frozen_kernel(name: str, lengthscale: float = 0.3, outputscale: float = 1.0):
    base = RBFKernel() if name == "rbf" else MaternKernel(nu=SMOOTHNESS[name])
    base.double().lengthscale = float64(lengthscale)
    kernel = base
    if outputscale != 1.0:
        kernel = ScaleKernel(base).double()
        kernel.outputscale = float64(outputscale)
    return kernel.requires_grad_(False)


def polynomial_kernels() -> dict[str, Kernel]:
    r"""Kernels of few features, whose values grow with the inputs; zero at the origin."""
    kernels = {
        "linear": LinearKernel().double(),
        "square": PolynomialKernel(power=2).double(),
        "cube": PolynomialKernel(power=3).double(),
    }
    kernels["linear"].variance = float64(1.0)
    return {name: kernel.requires_grad_(False) for name, kernel in kernels.items()}


def likelihood_ucb(X: Tensor, Y: Tensor, kernel: Kernel, **options) -> LikelihoodUCB:
    r"""The bound of successes or counts, from the options of the data and its own."""
    names = ("likelihood", "num_trials", "exposure", "mean_module")
    described = {name: options.pop(name) for name in names if name in options}
    return LikelihoodUCB(LikelihoodRegression(X, Y, kernel, **described), **options)


def family_ucb(model, kernels, select=8, **options) -> KernelFamilyUCB:
    r"""The bound over a family, with its search rule in words."""
    every = {"alternate": 8, "widest": 1, "simplest": None}.get(select, select)
    return KernelFamilyUCB(model, kernels, widest_every=every, **options)


def remaining(kernels, consistent):
    r"""Those that were not contradicted; slices keep the length scales between them."""
    parts = [kernels[i : i + 1] for i, kept in enumerate(consistent) if kept]
    return functools.reduce(operator.add, parts) if parts else kernels


def constant_mean(value: float) -> ConstantMean:
    mean = ConstantMean().double().requires_grad_(False)
    mean.constant = float64(value)
    return mean


def interval_of(acqf) -> list[float]:
    r"""Ends of a band's noise interval, as plain numbers."""
    return [*map(float, acqf.band.noise_interval)]


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def uniform(n: int, d: int, seed: int) -> Tensor:
    return torch.rand(n, d, dtype=torch.float64, generator=generator(seed))


def with_point(points: Tensor, point: Tensor) -> Tensor:
    r"""``n x d`` points and one more, so that it is one of the domain."""
    return torch.cat([points, point.reshape(1, -1)])


def normal(n: int, seed: int) -> Tensor:
    return torch.randn(n, dtype=torch.float64, generator=generator(seed))


@dataclass
class RKHSFunction:
    r"""``f = sum_i w_i k(c_i, .)`` with ``norm = sqrt(w^T K w)``."""

    kernel: Kernel
    centres: Tensor
    weights: Tensor

    @classmethod
    def random(cls, kernel: Kernel, norm: float, d: int, seed: int, terms: int = 12):
        centres, weights = uniform(terms, d, seed), normal(terms, seed + 1)
        gram = kernel(centres).to_dense()
        return cls(kernel, centres, weights * norm / (weights @ gram @ weights).sqrt())

    @property
    def norm(self) -> float:
        gram = self.kernel(self.centres).to_dense()
        return float((self.weights @ gram @ self.weights).sqrt())

    def __call__(self, X: Tensor) -> Tensor:
        return self.kernel(X, self.centres).to_dense() @ self.weights


@dataclass
class Problem:
    r"""Noisy observations of an RKHS function, and points to look at."""

    function: RKHSFunction
    X: Tensor
    Y: Tensor
    noise_std: float
    test_X: Tensor  # noqa: N815

    @property
    def kernel(self) -> Kernel:
        return self.function.kernel

    @property
    def state(self) -> KernelRegression:
        return KernelRegression(self.X, self.Y, self.kernel, self.noise_std)

    @property
    def model(self) -> SingleTaskGP:
        return frozen_model(self.X, self.Y, self.kernel, self.noise_std)


def make_problem(
    n: int = 10,
    d: int = 1,
    kernel: str = "rbf",
    norm: float = 2.0,
    noise_std: float = 0.1,
    seed: int = 0,
    duplicates: bool = False,
    outputscale: float = 1.0,
) -> Problem:
    function = RKHSFunction.random(
        frozen_kernel(kernel, outputscale=outputscale), norm, d, seed
    )
    X = uniform(n, d, seed + 2)
    if duplicates:
        X = X[torch.arange(n) % ((n + 1) // 2)]
    Y = function(X) + noise_std * normal(n, seed + 3)
    # Query points: fresh ones, one on a data point, one next to a data point.
    test_X = torch.cat([uniform(6, d, seed + 4), X[:1], X[:1] + 1e-4])
    return Problem(function, X, Y, noise_std, test_X)


def frozen_model(
    X: Tensor,
    Y: Tensor,
    kernel: Kernel,
    noise_std: float | Tensor,
    mean: Mean | float | None = None,
    outcome_transform=None,
    input_transform=None,
) -> SingleTaskGP:
    r"""A model whose hyper-parameters are given, in the model's own (standardised) units.

    A tensor as ``noise_std`` becomes ``train_Yvar``, which is in outcome units.
    """
    if mean is None or isinstance(mean, float):
        mean = ZeroMean() if mean is None else constant_mean(mean)
    fixed = isinstance(noise_std, Tensor)
    likelihood = None
    if not fixed:
        likelihood = GaussianLikelihood(noise_constraint=GreaterThan(1e-12)).double()
        likelihood.noise = float64(noise_std**2)
    model = SingleTaskGP(
        X,
        Y.reshape(-1, 1),
        train_Yvar=noise_std.reshape(-1, 1).square() if fixed else None,
        likelihood=likelihood,
        covar_module=kernel,
        mean_module=mean,
        outcome_transform=outcome_transform,
        input_transform=input_transform,
    )
    return model.double().eval().requires_grad_(False)


class OwnGP(ApproximateGP):
    r"""A user's GPyTorch model with inducing points drawn by posterior variance."""

    def __init__(self, X, Y, kernel, mean, likelihood, **options):
        super().__init__(BKBVariationalStrategy(self, X, Y, likelihood, **options))
        self.mean_module, self.covar_module = mean, kernel

    def forward(self, x):
        return MultivariateNormal(self.mean_module(x), self.covar_module(x))


class PlainGP(ExactGP):
    r"""A user's GPyTorch model, frozen, of kernel and constant mean."""

    def __init__(self, train_x, train_y, kernel, likelihood=None):
        if likelihood is None:
            likelihood = GaussianLikelihood().double()
            likelihood.noise = float64(0.04)
        super().__init__(train_x, train_y, likelihood)
        self.mean_module, self.covar_module = constant_mean(0.3), kernel
        self.requires_grad_(False)

    def forward(self, x):
        return MultivariateNormal(self.mean_module(x), self.covar_module(x))
