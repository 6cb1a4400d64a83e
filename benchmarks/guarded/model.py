r"""A Gaussian process whose kernel and noise are given, without GPyTorch's bookkeeping."""

from typing import Any

import torch
from gpytorch.kernels import Kernel
from gpytorch.means import ZeroMean
from torch import Tensor

from benchmarks.practical.model import LeanGP


class KnownGP(LeanGP):
    r"""``SingleTaskGP`` with a zero mean, a fixed kernel and a fixed noise.

    Args:
        inputs: ``n x d``.
        outcomes: ``n``.
        kernel: Of unit variance.
        variance: Of the prior.
        noise_std: Noise scale.
    """

    _constant: Any = 0.0
    _offset: Any = 0.0
    _scale: Any = 1.0

    def __init__(
        self,
        inputs: Tensor,
        outcomes: Tensor,
        kernel: Kernel,
        variance: float,
        noise_std: float,
    ) -> None:
        column = outcomes.unsqueeze(-1)
        super().__init__(
            inputs,
            column,
            train_Yvar=torch.full_like(column, noise_std**2),
            covar_module=kernel,
            mean_module=ZeroMean(),
            outcome_transform=None,
        )
        self.variance = variance
        self.eval()

    def _variance(self, half: Tensor) -> Tensor:
        return (self.variance - half.square().sum(-2)).clamp_min(1e-12)

    def _covariance(self, left: Tensor, right: Tensor) -> Tensor:
        return self.variance * self.covar_module(left, right).to_dense()
