r"""BoTorch's ``SingleTaskGP`` with its defaults, and a posterior that costs less."""

from copy import copy
from typing import Any

import torch
from botorch.models import SingleTaskGP
from botorch.posteriors import GPyTorchPosterior
from gpytorch.distributions import MultivariateNormal
from linear_operator.operators import DenseLinearOperator, DiagLinearOperator
from torch import Tensor


class LeanGP(SingleTaskGP):
    r"""``SingleTaskGP(inputs, outcomes)`` whose posterior skips GPyTorch's bookkeeping."""

    mean_module: Any
    covar_module: Any
    likelihood: Any
    outcome_transform: Any

    def __init__(self, inputs: Tensor, outcomes: Tensor, **prior: Any) -> None:
        super().__init__(inputs, outcomes, **prior)
        self._solved: tuple[Tensor, Tensor] | None = None

    def train(self, mode: bool = True) -> "LeanGP":
        r"""Hyper-parameters may change from here on."""
        self._solved = None
        return super().train(mode)

    def plain(self) -> SingleTaskGP:
        r"""The same model with BoTorch's posterior: bounds refuse methods of one's own."""
        model = copy(self)
        model.__class__ = SingleTaskGP
        return model

    def posterior(
        self,
        X,
        output_indices=None,
        observation_noise=False,
        posterior_transform=None,
    ) -> GPyTorchPosterior:
        r"""Posterior at ``b x q x d`` points, outcome units; latent, or with noise."""
        if output_indices or posterior_transform:
            raise NotImplementedError("Only the posterior of the one output.")
        scale = self._scale
        if X.ndim == 3 and X.shape[1] > 1 and torch.equal(X[1:, :-1], X[:-1, :-1]):
            mean, covariance = self._joint(X[0, :-1], X[:, -1])
            covariance = DenseLinearOperator(covariance * scale**2)
        elif X.shape[-2] == 1:
            mean, half = self._half(X)
            covariance = DiagLinearOperator(self._variance(half) * scale**2)
        else:
            mean, half = self._half(X)
            dense = self._covariance(X, X) - half.mT @ half
            covariance = DenseLinearOperator(dense * scale**2)
        if observation_noise:
            noise = self.likelihood.noise.detach() * scale**2
            covariance = covariance.add_diagonal(noise)
        return GPyTorchPosterior(
            MultivariateNormal(self._offset + scale * mean, covariance)
        )

    def _half(self, X: Tensor) -> tuple[Tensor, Tensor]:
        r"""Mean, and what the covariance loses by the data as ``half.mT @ half``."""
        factor, weights = self._solve()
        kernel = self._covariance(X, self.train_inputs[0])
        # One right-hand side for all batches; a solve for each would cost much more.
        columns = kernel.flatten(end_dim=-2).mT
        half = torch.linalg.solve_triangular(factor, columns, upper=False)
        return self._constant + kernel @ weights, half.mT.reshape(kernel.shape).mT

    def _joint(self, baseline: Tensor, points: Tensor) -> tuple[Tensor, Tensor]:
        r"""Means and covariances of the ``m`` same points with each of ``b`` others."""
        b, m = len(points), len(baseline)
        mean, half = self._half(torch.cat([baseline, points]))
        ours, theirs = half[:, :m], half[:, m:]
        covariance = mean.new_empty(b, m + 1, m + 1)
        covariance[:, :m, :m] = self._covariance(baseline, baseline) - ours.mT @ ours
        cross = self._covariance(points, baseline) - theirs.mT @ ours
        covariance[:, m, :m] = covariance[:, :m, m] = cross
        covariance[:, m, m] = self._variance(theirs)
        return torch.cat([mean[:m].expand(b, m), mean[m:, None]], dim=-1), covariance

    def _variance(self, half: Tensor) -> Tensor:
        return 1.0 - half.square().sum(-2)

    @property
    def _constant(self) -> Tensor:
        return self.mean_module.constant.detach()

    @property
    def _offset(self) -> Tensor:
        return self.outcome_transform.means.squeeze()

    @property
    def _scale(self) -> Tensor:
        return self.outcome_transform.stdvs.squeeze()

    @torch.no_grad()
    def _solve(self) -> tuple[Tensor, Tensor]:
        r"""Cholesky factor of the covariance of the outcomes, and ``K^-1 (y - m)``."""
        if self.training:
            self.eval()
        if self._solved is None:
            inputs = self.train_inputs[0]
            covariance = self._covariance(inputs, inputs)
            covariance.diagonal().add_(self.likelihood.noise)
            factor = torch.linalg.cholesky(covariance)
            residuals = (self.train_targets - self._constant)[:, None]
            weights = torch.cholesky_solve(residuals, factor)[:, 0]
            self._solved = factor, weights
        return self._solved

    def _covariance(self, left: Tensor, right: Tensor) -> Tensor:
        lengthscale = self.covar_module.lengthscale.detach()
        left, right = left / lengthscale, right / lengthscale
        squares = left.square().sum(-1)[..., None] + right.square().sum(-1)[..., None, :]
        return torch.exp(left @ right.mT - 0.5 * squares)
