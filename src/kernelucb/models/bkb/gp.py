r"""The GPyTorch model that holds prior and strategy."""

from typing import Any

import torch
from gpytorch.distributions import MultivariateNormal
from gpytorch.kernels import Kernel
from gpytorch.means import Mean, ZeroMean
from gpytorch.models import ApproximateGP
from torch import Tensor
from torch.nn import Module

from kernelucb._numerics.frozen import frozen_copy
from kernelucb.models.bkb.strategy import BKBVariationalStrategy


class SketchedGP(ApproximateGP):
    r"""A GP with a fixed mean and kernel on a ``BKBVariationalStrategy``.

    Args:
        covar_module: Kernel; a frozen float64 copy is kept.
        dimension: Number of columns of the kernel's inputs.
        regularizer: ``lam``, the noise variance.
        qbar: Oversampling factor.
        seed: Seed of the draws.
        device: Where the data lie.
        mean_module: Known prior mean; zero when absent.
    """

    mean_module: Any
    covar_module: Any
    variational_strategy: BKBVariationalStrategy

    def __init__(
        self,
        covar_module: Kernel,
        dimension: int,
        regularizer: float,
        qbar: float,
        seed: int,
        device: torch.device,
        mean_module: Mean | None = None,
    ) -> None:
        strategy = BKBVariationalStrategy(self, dimension, regularizer, qbar, seed, device)
        super().__init__(strategy)
        self.mean_module = frozen(mean_module or ZeroMean(), device)
        self.covar_module = frozen(covar_module, device)

    def forward(self, x: Tensor) -> MultivariateNormal:
        r"""The prior."""
        return MultivariateNormal(self.mean_module(x), self.covar_module(x))


def frozen(module: Module, device: torch.device) -> Any:
    r"""A float64 copy that is not trained."""
    return frozen_copy(module).to(device)
