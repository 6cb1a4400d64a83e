r"""Models at hyper-parameters of largest posterior density, quickly.

``fit_gpytorch_mll`` has the same objective, start and optimizer, and ten times the cost: of
so few outcomes, GPyTorch's bookkeeping is most of its work.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from botorch.models import SingleTaskGP
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize
from torch import Tensor

from benchmarks.calibration.problems import baybe, matern

Array = NDArray[np.float64]
Pair = tuple[Array, Array]  # values and derivatives


def gaussian(squares: Array) -> Pair:
    r"""Correlation by squared distances over lengthscales."""
    values = np.exp(-0.5 * squares)
    return values, -0.5 * values


def matern52(squares: Array) -> Pair:
    r"""As above."""
    r = np.sqrt(5.0 * squares)
    decay = np.exp(-r)
    return (1.0 + r + r * r / 3.0) * decay, -5.0 / 6.0 * (1.0 + r) * decay


def log_normal(prior: Any, x: Array) -> Pair:
    r"""Logarithm of the density, up to a constant."""
    scale = float(prior.scale)
    standard = (np.log(x) - float(prior.loc)) / scale
    return -np.log(x) - 0.5 * standard**2, -(1.0 + standard / scale) / x


def gamma(prior: Any, x: Array) -> Pair:
    r"""As above."""
    power, rate = float(prior.concentration) - 1.0, float(prior.rate)
    return power * np.log(x) - rate * x, power / x - rate


@dataclass(frozen=True)
class QuickFit:
    r"""The fit of a model of unit variance with a constant mean and Gaussian noise."""

    build: Callable[[Tensor, Tensor], SingleTaskGP]
    correlation: Callable[[Array], Pair]
    of_lengths: Callable[[Any, Array], Pair]
    of_noise: Callable[[Any, Array], Pair]

    def __call__(self, X: Tensor, Y: Tensor) -> SingleTaskGP:
        r"""The model of ``n x d`` inputs and ``n x 1`` outcomes, fitted."""
        return self.fitted(self.build(X, Y), X)

    def fitted(self, model: Any, X: Tensor) -> SingleTaskGP:
        r"""The model, of ``n x d`` inputs as its kernel sees them, fitted in place."""
        kernel, noise = model.covar_module, model.likelihood.noise_covar
        targets = model.train_targets.numpy()
        apart = np.square(X.numpy()[:, None] - X.numpy()).transpose(2, 0, 1)

        def loss(hyper: Array) -> tuple[float, Array]:
            r"""Minus the log of the posterior density by each outcome; its gradient."""
            variance, lengths, rest = hyper[:1], hyper[2:], targets - hyper[1]
            squares = apart / lengths[:, None, None] ** 2
            K, slope = self.correlation(squares.sum(0))
            factor = cho_factor(K + variance * np.eye(len(K)), lower=True)
            inverse = cho_solve(factor, np.eye(len(K)))
            weights = inverse @ rest
            along = 0.5 * (np.outer(weights, weights) - inverse)  # by entries of the matrix
            by_noise = self.of_noise(noise.noise_prior, variance)
            by_lengths = self.of_lengths(kernel.lengthscale_prior, lengths)
            density = -0.5 * rest @ weights - np.log(factor[0].diagonal()).sum()
            density += by_noise[0].sum() + by_lengths[0].sum()
            steps = (along * slope * -2.0 * squares).sum((1, 2)) / lengths + by_lengths[1]
            gradient = [along.trace() + by_noise[1], weights.sum(keepdims=True), steps]
            return -density / len(K), -np.concatenate(gradient) / len(K)

        first = [noise.noise.item(), 0.0, *kernel.lengthscale[0].tolist()]
        shortest = float(kernel.raw_lengthscale_constraint.lower_bound) or 1e-3
        limits: list[Any] = [(float(noise.raw_noise_constraint.lower_bound), None)]
        limits += [(None, None), *[(shortest, None)] * X.shape[1]]
        found = minimize(loss, first, jac=True, method="L-BFGS-B", bounds=limits)
        best = torch.from_numpy(found.x)
        noise.noise, model.mean_module.constant = best[0], best[1]
        kernel.lengthscale = best[2:]
        return model.eval()


MODELS = {
    "BoTorch": QuickFit(SingleTaskGP, gaussian, log_normal, log_normal),
    "Matern": QuickFit(matern, matern52, gamma, log_normal),
    "BayBE": QuickFit(baybe, matern52, gamma, gamma),
}
