r"""Learners on the synthetic continuous domain."""

from functools import lru_cache
from typing import Any

import torch
from botorch.acquisition import UpperConfidenceBound
from botorch.models import SingleTaskGP
from botorch.optim import optimize_acqf
from gpytorch.kernels import Kernel, RBFKernel, ScaleKernel
from gpytorch.means import ConstantMean, Mean
from torch import Tensor

from benchmarks.papers.wang_2018.gaussian import Fit, PooledPrior, fit, standardised
from benchmarks.papers.wang_2018.problems import (
    SPAN,
    Settings,
    name_of_data,
    new_function,
    own_stream,
    synthetic_tasks,
)
from benchmarks.runner import stream
from kernelucb import MartingaleMixtureUCB, MetaPI, MetaUCB
from kernelucb.confidence.meta import exploration_factor
from kernelucb.models import FeatureMetaModel

BOX = torch.tensor([[-SPAN, -SPAN], [SPAN, SPAN]], dtype=torch.float64)
_SEARCH = {"num_restarts": 2, "raw_samples": 128, "options": {"maxiter": 40}}


def play_synthetic(task: Settings) -> list[float]:
    r"""Noise-free values of the points tried, in their order."""
    f, random = new_function(task), own_stream(task)
    torch.manual_seed(int(random.integers(2**31)))
    X, Y = torch.zeros(0, 2).double(), torch.zeros(0, 1).double()
    for _ in range(task["evaluations"]):
        acqf = _acquisition(task, X, Y)
        if acqf is None:
            x = torch.from_numpy(random.uniform(-SPAN, SPAN, (1, 2)))
        else:
            x, _value = optimize_acqf(acqf, BOX, q=1, **_SEARCH)
        noise = task["noise_std"] * float(random.standard_normal())
        X, Y = torch.cat([X, x]), torch.cat([Y, (f(x) + noise).unsqueeze(-1)])
    return f(X).tolist()


def _acquisition(task: Settings, X: Tensor, Y: Tensor) -> Any:
    r"""The method's acquisition function; None where it plays at random."""
    name, delta, noise_std = task["method"], task["delta"], task["noise_std"]
    zeta = exploration_factor(task["tasks"], len(X) + 1, delta)
    if name in ("pem_ucb", "pem_pi", "mixture"):
        prior = estimated_prior(_key(task))
        if name == "mixture" and len(X):
            gp = prior.to_gp(X, Y, noise_std)
            bound = prior.norm_bound(task["norm_probability"])
            return MartingaleMixtureUCB(gp, norm_bound=bound, delta=delta)
        model = prior.condition_on_observations(X, Y)
        return MetaPI(model) if name == "pem_pi" else MetaUCB(model, delta=delta)
    if name == "random" or len(X) == 0:
        return None
    if name == "tlsm":
        pool = _pool(_key(task))
        prior = _PooledMean(pool), _PooledKernel(pool)
        gp = _gp(X, standardised(Y, 0), *prior, pool.own.noise)
    elif name == "known":
        gp = _stationary(X, Y, Fit(0.0, 1.0, task["lengthscale"], noise_std**2))
    else:
        gp = _stationary(X, Y, fit(X, Y.squeeze(-1)))
    return UpperConfidenceBound(gp, beta=zeta**2)


def _key(task: Settings) -> tuple:
    r"""What the training tasks depend on: all but problem, method and evaluations."""
    own = ("problem", "method", "evaluations")
    return tuple((name, value) for name, value in task.items() if name not in own)


@lru_cache(maxsize=1)
def estimated_prior(key: tuple) -> FeatureMetaModel:
    r"""The prior from the training tasks; the same for all problems."""
    task = dict(key)
    numbers = {"num_features": task["num_features"], "seed": task["seed"]}
    return FeatureMetaModel(*synthetic_tasks(task), **numbers, progress=False)


@lru_cache(maxsize=1)
def _pool(key: tuple) -> PooledPrior:
    r"""Yogatama & Mann (2014): one response surface for all standardised tasks."""
    task = dict(key)
    inputs, values = synthetic_tasks(task)
    order = stream(task["seed"], "pool", name_of_data(task)).permutation(values.numel())
    chosen = torch.from_numpy(order[: task["pooled_points"]])
    return PooledPrior.of(inputs, standardised(values, 1), chosen)


class _PooledMean(Mean):
    def __init__(self, pool: PooledPrior) -> None:
        super().__init__()
        self.pool = pool

    def forward(self, x: Tensor) -> Tensor:
        return self.pool.mean(x)


class _PooledKernel(Kernel):
    def __init__(self, pool: PooledPrior) -> None:
        super().__init__()
        self.pool = pool

    def forward(self, x1: Tensor, x2: Tensor, diag: bool = False, **_) -> Tensor:
        covariance = self.pool.covariance(x1, x2)
        return covariance.diagonal(dim1=-2, dim2=-1) if diag else covariance


def _stationary(X: Tensor, Y: Tensor, parameters: Fit) -> SingleTaskGP:
    r"""A GP with a constant mean and a squared-exponential kernel."""
    kernel = ScaleKernel(RBFKernel()).double()
    kernel.outputscale = torch.tensor(parameters.variance).double()
    kernel.base_kernel.lengthscale = torch.tensor(parameters.length).double()
    mean = ConstantMean().double()
    mean.constant = torch.tensor(parameters.mean).double()
    return _gp(X, Y, mean, kernel, parameters.noise)


def _gp(X: Tensor, Y: Tensor, mean: Mean, kernel: Kernel, noise: float) -> SingleTaskGP:
    r"""A GP with a given prior; BoTorch takes no noise variance below 1e-6."""
    gp = SingleTaskGP(
        X,
        Y,
        train_Yvar=torch.full_like(Y, max(noise, 1e-6)),
        covar_module=kernel,
        mean_module=mean,
        outcome_transform=None,
    )
    return gp.requires_grad_(False).eval()
