r"""A Gaussian process whose kernel and noise are given, without GPyTorch's bookkeeping."""

import torch
from botorch.models import SingleTaskGP
from botorch.posteriors import GPyTorchPosterior
from gpytorch.distributions import MultivariateNormal
from gpytorch.kernels import Kernel
from gpytorch.means import ZeroMean
from linear_operator.operators import DenseLinearOperator, DiagLinearOperator
from torch import Tensor


class KnownGP(SingleTaskGP):
    r"""``SingleTaskGP`` with a zero mean, a fixed kernel and a fixed noise.

    Args:
        inputs: ``n x d``.
        outcomes: ``n``.
        kernel: Of unit variance.
        variance: Of the prior.
        noise_std: Noise scale.
    """

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
            torch.full_like(column, noise_std**2),
            covar_module=kernel,
            mean_module=ZeroMean(),
            outcome_transform=None,
        )
        self.eval()
        self.inputs, self.variance = inputs, variance
        covariance = self._covariance(inputs, inputs)
        covariance.diagonal().add_(noise_std**2)
        self._factor = torch.linalg.cholesky(covariance)
        self._weights = torch.cholesky_solve(column, self._factor).squeeze(-1)

    def posterior(
        self,
        X,
        output_indices=None,
        observation_noise=False,
        posterior_transform=None,
    ) -> GPyTorchPosterior:
        r"""Latent posterior at ``b x q x d`` points."""
        if output_indices or observation_noise or posterior_transform:
            raise NotImplementedError("Only the latent posterior of the one output.")
        kernel = self._covariance(X, self.inputs)
        half = torch.linalg.solve_triangular(self._factor, kernel.mT, upper=False)
        if X.shape[-2] == 1:
            rest = self.variance - half.square().sum(-2)
            covariance = DiagLinearOperator(rest.clamp_min(1e-12))
        else:
            covariance = DenseLinearOperator(self._covariance(X, X) - half.mT @ half)
        return GPyTorchPosterior(MultivariateNormal(kernel @ self._weights, covariance))

    def _covariance(self, left: Tensor, right: Tensor) -> Tensor:
        return self.variance * self.covar_module(left, right).to_dense()
