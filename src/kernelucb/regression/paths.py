r"""Functions drawn from the posterior of a regression state, by Matheron's rule."""

import torch
from botorch.exceptions import UnsupportedError
from botorch.sampling.pathwise import GeneralizedLinearPath, gen_kernel_features
from torch import Tensor
from torch.nn import Module

from kernelucb.regression.exact import KernelRegression
from kernelucb.regression.outcome_map import IDENTITY, OutcomeMap


class PosteriorPaths(Module):
    r"""Draws of ``N(mean_tau, scale^2 cov_tau)`` that can be evaluated anywhere.

    With ``g`` drawn from the prior and ``eps`` from the noise, at ``lambda = tau noise^2``,
    ``m(x) + scale g(x) + k(x, X) (K + lambda)^-1 (y - m - scale (g(X) + sqrt(tau) eps))``.
    The update is exact, in the eigenbasis of the state; ``g`` is a random sum of BoTorch's
    Fourier features. Random numbers come from torch's global generator.

    Source: Wilson et al. (2020), Matheron's rule.

    Args:
        regression: The data and the prior.
        regularizer: ``tau``; an infinite one leaves the prior.
        scale: Factor of the standard deviation.
        num_paths: Number of functions.
        num_features: Number of Fourier features, even.
        outcome_map: Of the regression, for outcomes; without it values are on its scale.

    Raises:
        UnsupportedError: If BoTorch has no Fourier features for the kernel.
    """

    weights: Tensor

    def __init__(
        self,
        regression: KernelRegression,
        regularizer: float,
        scale: float,
        num_paths: int,
        num_features: int,
        outcome_map: OutcomeMap = IDENTITY,
    ) -> None:
        super().__init__()
        self.regression, self.scale, self.outcome_map = regression, scale, outcome_map
        self.prior_paths = _prior_paths(regression, num_paths, num_features)
        with torch.no_grad():
            self.register_buffer("weights", self._weights(regularizer))

    def _weights(self, tau: float) -> Tensor:
        r"""Weights of the training sections, ``num_paths x n``."""
        state, basis = self.regression, self.regression.feature_basis
        values = state.prior.scale * self.prior_paths(state.distinct_inputs)
        noise = torch.randn_like(values)  # in the eigenbasis, where it is white as well
        lam, root = state.eigenvalues, tau**0.5
        prior = (values @ basis) * (lam / (lam + tau))
        noisy = noise * (state.singular_values / (lam / root + root))
        mean = state.mean_terms / (lam + tau)
        return (mean - self.scale * (prior + noisy)) @ basis.mT

    def forward(self, x: Tensor) -> Tensor:
        r"""Values at ``n x d`` points for all paths, or ``num_paths x n x d`` each its own.

        ``num_paths x n x 1``, as of BoTorch's deterministic models; differentiable.
        """
        prior = self.regression.prior
        inputs = prior.transform(x.to(self.weights))
        sections = prior.covariance(inputs, self.regression.distinct_inputs)
        update = (sections @ self.weights.unsqueeze(-1)).squeeze(-1)
        drawn = prior.scale * self.prior_paths(inputs)
        values = prior.mean(inputs) + self.scale * drawn + update
        return self.outcome_map.inverse(values).unsqueeze(-1)


def _prior_paths(
    regression: KernelRegression, num_paths: int, num_features: int
) -> GeneralizedLinearPath:
    kernel = regression.prior.covar_module
    try:
        features = gen_kernel_features(
            kernel=kernel,
            num_inputs=regression.train_inputs.shape[-1],
            num_outputs=num_features,
        )
    except NotImplementedError as error:
        raise UnsupportedError(
            f"BoTorch has no Fourier features for {type(kernel).__name__}; sample on a "
            "finite set of candidates, or use an RBF or Matern kernel."
        ) from error
    values = regression.eigenvalues
    weights = torch.randn(
        num_paths, features.num_outputs, dtype=values.dtype, device=values.device
    )
    return GeneralizedLinearPath(feature_map=features, weight=weights)
