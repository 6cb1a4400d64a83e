r"""Hyper-parameters of maximum posterior density, without GPyTorch's overhead.

The objective is the one of ``fit_gpytorch_mll`` for a ``SingleTaskGP`` with its default
priors, and so are the starting point (the modes of the priors) and the bounds below; the
logarithms of noise and length scales are better conditioned for L-BFGS-B than BoTorch's
parameters. Where it fails, ``fit_gpytorch_mll`` itself is asked.
"""

import math
from typing import Any

import numpy as np
import torch
from botorch.exceptions import ModelFittingError
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from gpytorch.mlls import ExactMarginalLogLikelihood
from scipy.linalg import LinAlgError, cho_solve, cholesky
from scipy.optimize import minimize
from torch import Tensor

from benchmarks.practical.model import LeanGP

Hyperparameters = dict[str, Tensor]


def fitted_model(
    inputs: Tensor,
    outcomes: Tensor,
    previous: Hyperparameters | None,
    refit: bool = True,
) -> tuple[LeanGP, bool]:
    r"""Model of the data with its hyper-parameters refitted.

    Args:
        inputs: ``n x d``, in the unit cube.
        outcomes: ``n``.
        previous: Hyper-parameters to take where the fit fails; the modes of their priors
            without.
        refit: Whether there is a fit; these are taken otherwise.

    Returns:
        The model in evaluation mode, and whether the fit failed.
    """
    model = LeanGP(inputs, outcomes[:, None])
    if previous and not refit:
        model.load_state_dict(previous, strict=False)
        return model.eval(), False
    if Objective(model).fit():
        return model.eval(), False
    initial = {name: value.clone() for name, value in hyperparameters(model).items()}
    try:
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    except ModelFittingError:
        model.load_state_dict(previous or initial, strict=False)
        return model.eval(), True
    return model.eval(), False


def hyperparameters(model: SingleTaskGP) -> Hyperparameters:
    r"""Everything that the fit decides."""
    return {name: value.detach() for name, value in model.named_parameters()}


class Objective:
    r"""Minus the log posterior density over ``n`` at (mean, ln noise, ln length scales)."""

    def __init__(self, model: SingleTaskGP) -> None:
        self.model: Any = model
        self.inputs = model.train_inputs[0].numpy()
        self.targets = model.train_targets.numpy()
        covar, noise = self.model.covar_module, self.model.likelihood.noise_covar
        priors = [noise.noise_prior, *[covar.lengthscale_prior] * self.inputs.shape[1]]
        self.location = np.array([float(prior.loc) for prior in priors])
        self.scale = np.array([float(prior.scale) for prior in priors])
        constraints = [noise.raw_noise_constraint]
        constraints += [covar.raw_lengthscale_constraint] * self.inputs.shape[1]
        least = [math.log(float(constraint.lower_bound)) for constraint in constraints]
        # Without bounds above, a first step of L-BFGS-B may overflow.
        most = self.location + 6.0 * self.scale
        self.bounds = [(None, None), *zip(least, most, strict=True)]

    def point(self) -> np.ndarray:
        r"""Where the model is."""
        constant = self.model.mean_module.constant.detach().reshape(1)
        noise = self.model.likelihood.noise.detach().log()
        lengthscale = self.model.covar_module.lengthscale.detach().log()[0]
        return torch.cat([constant, noise, lengthscale]).numpy()

    def fit(self, start: np.ndarray | None = None) -> bool:
        r"""Move the model to the maximum, from where it is; whether it was found."""
        first = self.point() if start is None else start
        try:
            result = minimize(self, first, jac=True, method="L-BFGS-B", bounds=self.bounds)
        except LinAlgError:
            return False
        if not (result.success and np.all(np.isfinite(result.x))):
            return False
        self.move(result.x)
        return True

    def move(self, point: np.ndarray) -> None:
        r"""Move the model there."""
        values = torch.from_numpy(point)
        self.model.mean_module.initialize(constant=values[0])
        self.model.likelihood.initialize(noise=values[1].exp())
        self.model.covar_module.initialize(lengthscale=values[2:].exp())

    def __call__(self, point: np.ndarray) -> tuple[float, np.ndarray]:
        r"""Value and gradient."""
        n, noise = len(self.targets), math.exp(point[1])
        scaled = self.inputs / np.exp(point[2:])
        squares = 0.5 * np.square(scaled).sum(-1)
        kernel = np.exp(scaled @ scaled.T - squares[:, None] - squares)
        factor = cholesky(kernel + noise * np.eye(n), lower=True, check_finite=False)
        inverse = cho_solve((factor, True), np.eye(n), check_finite=False)
        residuals = self.targets - point[0]
        weights = inverse @ residuals
        likelihood = -0.5 * residuals @ weights - np.log(factor.diagonal()).sum()
        # d/dt of the log likelihood is sum(outer * dK/dt) / 2.
        outer = np.outer(weights, weights) - inverse
        slopes = outer * kernel
        spread = slopes.sum(-1) @ np.square(scaled) - ((slopes @ scaled) * scaled).sum(0)
        # Log-normal priors: densities of noise and length scales, not of their logarithms.
        deviation = (point[1:] - self.location) / self.scale
        prior = -(point[1:] + 0.5 * np.square(deviation) + np.log(self.scale)).sum()
        constant = 0.5 * math.log(2.0 * math.pi) * (n + len(deviation))
        gradient = np.concatenate(
            [[weights.sum()], [0.5 * noise * np.trace(outer)], spread]
        )
        gradient[1:] -= 1.0 + deviation / self.scale
        return -(likelihood + prior - constant) / n, -gradient / n
