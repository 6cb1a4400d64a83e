#!/usr/bin/env python3
# Copyright (c) Meta Platforms, Inc. and affiliates.
#
# This source code is licensed under the MIT license found in the
# LICENSE file in the root directory of this source tree.

r"""
Upper confidence bound by martingale mixtures: a confidence band that holds for
every point and every round at once, in place of a guessed ``beta``.

Contributor: kernelucb

.. [Flynn2024martingale]
    H. Flynn and D. Reeb. Tighter Confidence Bounds for Sequential Kernel
    Regression. 2024. arXiv:2403.12732.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import torch
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.acquisition.analytic import PosteriorMean
from botorch.acquisition.input_constructors import acqf_input_constructor
from botorch.acquisition.logei import qLogNoisyExpectedImprovement
from botorch.acquisition.objective import LinearMCObjective
from botorch.exceptions import InputDataError, UnsupportedError
from botorch.exceptions.warnings import BotorchWarning
from botorch.models import SingleTaskGP
from botorch.utils.transforms import t_batch_mode_transform
from torch import Tensor

# Ridge parameters, in units of the noise variance: a grid, and how often the
# interval around its best point is cut by the golden ratio. The value at a minimum
# depends on its place to second order.
_GRID = torch.logspace(-12, 12, 97, dtype=torch.float64)
_CUTS = 34
_GOLDEN = 0.5 * (math.sqrt(5.0) - 1.0)
_INTERIOR = 1e-6  # by how much a norm is raised above the least consistent one


class MartingaleMixtureUpperConfidenceBound(AcquisitionFunction):
    r"""Martingale-mixture upper confidence bound [Flynn2024martingale]_.

    The largest value at ``x`` over all functions that explain the data,

    .. math::

        \mathrm{UCB}(x) = \max \Bigl\{ f(x) :
        \sum_{i \le n} (y_i - f(x_i))^2 \le R_n^2,
        \; \|f - m\|_{\mathcal{H}} \le B \Bigr\},

    with the squared radius of the martingale mixture (Eq. (8), covariance ``K``),

    .. math::

        R_n^2 = (y - m)^\top (I + K / \sigma^2)^{-1} (y - m)
        + \sigma^2 \ln \det (I + K / \sigma^2) + 2 \sigma^2 \ln (1 / \delta),

    computed by the dual (Theorem 4.5): a minimum over the ridge parameter ``alpha`` of
    the posterior mean at ``alpha`` plus a multiple of its standard deviation. The
    minimiser is found without gradient; by the envelope theorem the value there has the
    right one.

    **What holds.** With probability ``1 - delta`` the band of ``band`` contains ``f``
    at every point after every round at once, for inputs chosen from the past by any
    rule, if

    - the kernel and the mean were fixed before the data (hyper-parameters that were
      fitted to them leave the theorem, and the bound is a heuristic);
    - :math:`\|f - m\|_{\mathcal{H}} \le B` for ``model.covar_module`` as it stands;
    - the noise is conditionally sub-Gaussian with scale ``noise_std``.

    All numbers are in the units of ``model.train_targets``; models with an outcome
    transform are refused, since estimated units leave the theorem as well.

    Example:
        >>> kernel = RBFKernel().double().requires_grad_(False)
        >>> model = SingleTaskGP(
        ...     X,
        ...     Y,
        ...     covar_module=kernel,
        ...     mean_module=ZeroMean(),
        ...     outcome_transform=None,
        ... )
        >>> acqf = MartingaleMixtureUpperConfidenceBound(
        ...     model, norm_bound=10.0, noise_std=0.1
        ... )
        >>> candidate, value = optimize_acqf(
        ...     acqf, bounds, q=1, num_restarts=8, raw_samples=256
        ... )
        >>> lower, upper = acqf.band(X)
    """

    def __init__(
        self,
        model: SingleTaskGP,
        norm_bound: float,
        noise_std: float,
        delta: float = 0.05,
        maximize: bool = True,
    ) -> None:
        r"""Martingale-mixture upper confidence bound.

        Args:
            model: A single-output exact GP without outcome transform; its kernel, mean
                and data are used, not its likelihood.
            norm_bound: Bound ``B`` on the RKHS norm of ``f - m``.
            noise_std: Sub-Gaussian scale ``sigma`` of the noise.
            delta: Failure probability.
            maximize: If False, the value is minus the lower bound.
        """
        for name, value in {"norm_bound": norm_bound, "noise_std": noise_std}.items():
            if not (math.isfinite(value) and value > 0.0):
                raise ValueError(f"{name} must be finite and above 0, got {value}.")
        if not 0.0 < delta < 1.0:
            raise ValueError(f"delta must be between 0 and 1, got {delta}.")
        if getattr(model, "outcome_transform", None) is not None:
            raise UnsupportedError(
                "The bound is in the units of the training targets; use a model with "
                "outcome_transform=None."
            )
        if model.num_outputs != 1 or len(model.batch_shape) > 0:
            raise UnsupportedError("The model must have one output and no batch shape.")
        super().__init__(model=model)
        model.eval()
        self.maximize, self.noise_std, self.delta = maximize, float(noise_std), delta
        self.train_X = model.train_inputs[0].detach()
        with torch.no_grad():
            residuals = model.train_targets - model.mean_module(self.train_X)
            covariance = self._covariance(self.train_X, self.train_X)
            eigenvalues, vectors = torch.linalg.eigh(covariance / self.noise_std**2)
        if not bool(
            torch.isfinite(eigenvalues).all() & torch.isfinite(residuals).all()
        ):
            raise InputDataError("The model's data or kernel matrix are not finite.")
        # Round-off makes small eigenvalues of zeros: these directions are left out.
        cutoff = len(eigenvalues) * torch.finfo(torch.float64).eps * eigenvalues.amax()
        kept = eigenvalues > cutoff
        self.eigenvalues, self.vectors = eigenvalues[kept], vectors[:, kept]
        targets = residuals.double() / self.noise_std
        self.targets = self.vectors.mT @ targets
        # What no function at the inputs explains, in every sum of squares.
        self.rest = float(
            (targets.square().sum() - self.targets.square().sum()).clamp(0.0)
        )
        log_det = torch.log1p(self.eigenvalues).sum()
        confidence = 2.0 * math.log(1.0 / delta)
        self.squared_radius = float(self._misfit(torch.ones(1)) + log_det) + confidence
        self.norm_bound = self._consistent(float(norm_bound))

    def _covariance(self, X: Tensor, other: Tensor) -> Tensor:
        r"""Covariances of `b x d` and `n x d` transformed inputs, `b x n`, float64."""
        return self.model.covar_module(X, other).to_dense().double()

    def _misfit(self, tau: Tensor) -> Tensor:
        r"""``tau (y - m)^T (K + tau)^{-1} (y - m)`` in noise units, for `t` values."""
        tau = tau.to(self.eigenvalues).unsqueeze(-1)
        share = tau / (self.eigenvalues + tau)
        return (share * self.targets.square()).sum(-1) + self.rest

    def _consistent(self, norm_bound: float) -> float:
        r"""The norm bound, raised with a warning where no function satisfies it."""

        def negative(tau: Tensor) -> Tensor:
            return -(self._misfit(tau) - self.squared_radius) / tau

        tau = _minimizer(negative, torch.zeros(1, dtype=torch.float64))
        squared = -float(negative(tau))
        least = math.sqrt(max(squared, 0.0)) * (1.0 + _INTERIOR)
        if squared <= norm_bound**2:
            return max(norm_bound, least)
        warnings.warn(
            f"No function of norm at most {norm_bound:.4g} explains the data: the norm "
            f"must be at least {least:.4g}, which is used instead, without a "
            "guarantee. norm_bound or noise_std is too small, or the kernel is wrong.",
            BotorchWarning,
            stacklevel=3,
        )
        return least

    def _side(self, X: Tensor, sign: float) -> Tensor:
        r"""Upper (``sign = 1``) or lower bound at `b x d` points, `b` values."""
        inputs = self.model.transform_inputs(X)
        mean = self.model.mean_module(inputs).double()
        variance = self.model.covar_module(inputs, diag=True).double()
        across = self._covariance(inputs, self.train_X) @ self.vectors
        features = across / (self.noise_std * self.eigenvalues.sqrt())
        residual = (variance - features.square().sum(-1)).clamp_min(0.0)

        def bound(tau: Tensor, v: Tensor, left: Tensor) -> Tensor:
            # `sign` times the deviation from the mean, at one `tau` for each point
            inner = tau.unsqueeze(-1) / (self.eigenvalues + tau.unsqueeze(-1))
            estimate = ((1.0 - inner) * v * self.targets / self.eigenvalues.sqrt()).sum(
                -1
            )
            spread = (inner * v.square()).sum(-1) + left
            excess = self.squared_radius + tau * self.norm_bound**2 - self._misfit(tau)
            root = (excess.clamp_min(0.0) / tau * spread).clamp_min(1e-300).sqrt()
            return sign * estimate + root

        with torch.no_grad():
            tau = _minimizer(lambda t: bound(t, features, residual), residual)
        value = bound(tau, features, residual)
        ball = self.norm_bound * variance.clamp_min(1e-300).sqrt()
        return mean + sign * torch.minimum(value, ball)

    def band(self, X: Tensor) -> tuple[Tensor, Tensor]:
        r"""Lower and upper bound.

        Args:
            X: A `b x d`-dim Tensor of points.

        Returns:
            Two `b`-dim Tensors, in the units of the training targets.
        """
        lower, upper = self._side(X, -1.0), self._side(X, 1.0)
        return lower.to(X), upper.to(X)

    @t_batch_mode_transform(expected_q=1)
    def forward(self, X: Tensor) -> Tensor:
        r"""Evaluate the bound on the candidate set X.

        Args:
            X: A `(b) x 1 x d`-dim Tensor of `(b)` t-batches of `d`-dim design points.

        Returns:
            A `(b)`-dim Tensor of values: the upper bound, or minus the lower bound.
        """
        points = X.squeeze(-2)
        flat = points.reshape(-1, X.shape[-1])
        value = self._side(flat, 1.0) if self.maximize else -self._side(flat, -1.0)
        return value.reshape(points.shape[:-1]).to(X)


def get_acquisition_function_of_turn(
    bound: MartingaleMixtureUpperConfidenceBound, X_baseline: Tensor
) -> AcquisitionFunction:
    r"""The acquisition function of the next point of a search in turns.

    One point in three is that of the upper bound, one that of the noisy expected
    improvement on the observed points, one that of the posterior mean: exploration,
    a way out of local optima, exploitation. The best of the points that maximise the
    upper bound keeps its guarantee, whatever is played between them; the band does not
    depend on turns.

    Args:
        bound: The bound on all data so far. The two other functions are of its model,
            whose likelihood counts in them.
        X_baseline: A `n x d`-dim Tensor of the observed points.

    Returns:
        The bound itself, ``qLogNoisyExpectedImprovement`` or ``PosteriorMean``.

    Example:
        >>> acqf = get_acquisition_function_of_turn(
        ...     MartingaleMixtureUpperConfidenceBound(
        ...         model, norm_bound=10.0, noise_std=0.1
        ...     ),
        ...     X_baseline=X,
        ... )
    """
    model, turn = bound.model, len(X_baseline) % 3
    if turn == 0:
        return bound
    if turn == 1:
        sign = torch.tensor([1.0 if bound.maximize else -1.0]).to(X_baseline)
        return qLogNoisyExpectedImprovement(
            model, X_baseline, objective=LinearMCObjective(sign), prune_baseline=True
        )
    return PosteriorMean(model, maximize=bound.maximize)


def _minimizer(function: Callable[[Tensor], Tensor], like: Tensor) -> Tensor:
    r"""For each of `b` problems the minimiser over the ridge parameter, `b` values.

    The function is quasi-convex in the logarithm: the best point of a grid, then golden
    section between its neighbours.
    """
    grid = _GRID.to(like.device)
    values = torch.stack([function(tau.expand_as(like)) for tau in grid])
    best = values.argmin(0).clamp(1, len(grid) - 2)
    low, high = grid[best - 1].log(), grid[best + 1].log()
    for _ in range(_CUTS):
        left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        smaller = function(left.exp()) < function(right.exp())
        low, high = torch.where(smaller, low, left), torch.where(smaller, right, high)
    return (0.5 * (low + high)).exp()


@acqf_input_constructor(MartingaleMixtureUpperConfidenceBound)
def construct_inputs_martingale_mixture(
    model: SingleTaskGP,
    norm_bound: float,
    noise_std: float,
    delta: float = 0.05,
    maximize: bool = True,
) -> dict[str, Any]:
    r"""Construct kwargs for ``MartingaleMixtureUpperConfidenceBound``.

    Args:
        model: See the class.
        norm_bound: See the class.
        noise_std: See the class.
        delta: Failure probability.
        maximize: If False, the value is minus the lower bound.

    Returns:
        A dict mapping kwarg names of the constructor to values.
    """
    return {
        "model": model,
        "norm_bound": norm_bound,
        "noise_std": noise_std,
        "delta": delta,
        "maximize": maximize,
    }
