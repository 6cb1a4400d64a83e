r"""Successes or counts with a prior of the latent function they depend on."""

from functools import cached_property
from typing import NamedTuple

import torch
from botorch.exceptions import InputDataError
from gpytorch.kernels import Kernel
from gpytorch.means import Mean
from torch import Tensor

from kernelucb._numerics.checks import training_targets
from kernelucb._numerics.estimates import estimated_parts
from kernelucb.regression.exact import KernelRegression
from kernelucb.regression.from_model import ModelData
from kernelucb.regression.likelihood.losses import (
    LINKS,
    Likelihood,
    Loss,
    checked_outcomes,
)
from kernelucb.regression.named import fixed_mean
from kernelucb.regression.pooling import Pooled, distinct_rows
from kernelucb.regression.prior import Prior

_MOST_STEPS, _CONVERGED = 200, 1e-13


class Mode(NamedTuple):
    r"""The function with the least sum of loss and penalty, at the distinct inputs.

    Attributes:
        latent: ``u`` values.
        weights: ``u`` coefficients of the kernel sections in ``f - mean``.
        loss: Sum of the loss.
        norm: RKHS norm of ``f - mean``, prior units.
    """

    latent: Tensor
    weights: Tensor
    loss: float
    norm: float


class PseudoRegression(KernelRegression):
    r"""A ``KernelRegression`` of pseudo-outcomes, with noise scales that are none."""

    @property
    def pending_noise_std(self) -> Tensor:
        r"""That of the mean precision: where the loss is flat, scales have no limit."""
        return self.noise_scales.square().reciprocal().mean().rsqrt()


class LikelihoodRegression:
    r"""Successes or counts, with a prior of the latent function behind them.

    What ``KernelRegression`` is for outcomes with additive noise: data and prior, frozen.
    Given the past, the outcome at ``x`` is 1 with probability ``sigmoid(f(x))``
    (``"bernoulli"``), a number of successes in ``num_trials`` with that probability each
    (``"binomial"``), or a Poisson count of mean ``exposure * exp(f(x))`` (``"poisson"``).
    Kernel and mean are those of ``f``, the log odds or the log rate. Outcomes at repeated
    inputs are added up, which loses nothing.

    Example:
        >>> data = LikelihoodRegression(X, survived, kernel, likelihood="bernoulli")
        >>> check_consistency(data, norm_bound=3.0)

    Attributes:
        dimension: Number of raw input columns ``d``.
        outcomes: The outcomes, in the order in which they came.
        loss: The same, added up at the ``u`` distinct inputs.
        prior: Frozen prior of the latent function; its ``outcome_map`` is the link.
        estimated: Which of ``"kernel"`` and ``"mean"`` may have been fitted to these data.
    """

    def __init__(
        self,
        train_X: Tensor,
        train_Y: Tensor,
        covar_module: Kernel,
        *,
        likelihood: Likelihood = "bernoulli",
        num_trials: float | Tensor | None = None,
        exposure: float | Tensor | None = None,
        mean_module: float | Mean | None = None,
    ) -> None:
        r"""Data and prior from tensors and a GPyTorch kernel.

        Args:
            train_X: ``n x d`` inputs.
            train_Y: ``n x 1`` or ``n`` outcomes: 0 or 1, numbers of successes, or counts.
            covar_module: Kernel of the latent function, output scale included. Trainable
                parameters count as estimated: freeze (``requires_grad_(False)``) what was
                fixed before the data.
            likelihood: ``"bernoulli"``, ``"binomial"`` or ``"poisson"``.
            num_trials: For ``"binomial"``, one number or ``n``.
            exposure: For ``"poisson"``, one number or ``n``, above 0; 1 when absent. Time,
                area or number of items: ``bounds`` are rates for each unit of it.
            mean_module: Known mean of the latent function, a number or a frozen GPyTorch
                mean; zero when absent.

        Raises:
            BotorchTensorDimensionError: If the shapes do not fit together.
            InputDataError: If there are no data, they are not finite, or an outcome is
                impossible.
            ValueError: If ``num_trials`` or ``exposure`` is missing or out of place.
        """
        counts, mean = training_targets(train_X, train_Y), fixed_mean(mean_module)
        outcomes = checked_outcomes(likelihood, counts, num_trials, exposure)
        prior = Prior(covar_module, mean, outcome_map=LINKS[likelihood])
        inputs, estimated = train_X.detach().double(), estimated_parts(covar_module, mean)
        self._set(prior.to(train_X.device), inputs, outcomes, train_X.shape[-1], estimated)

    @classmethod
    def from_parts(
        cls,
        prior: Prior,
        inputs: Tensor,
        outcomes: Loss,
        dimension: int,
        estimated: frozenset[str],
    ) -> "LikelihoodRegression":
        r"""From kernel inputs (``n x d'``) and outcomes under a prior."""
        data = cls.__new__(cls)
        data._set(prior, inputs, outcomes, dimension, estimated)
        return data

    @torch.no_grad()
    def _set(
        self,
        prior: Prior,
        inputs: Tensor,
        outcomes: Loss,
        dimension: int,
        estimated: frozenset[str],
    ) -> None:
        prior.check_fits(inputs)
        self.prior, self.train_inputs, self.outcomes = prior, inputs, outcomes
        self.dimension, self.estimated = dimension, estimated
        self.positions, self.index = distinct_rows(inputs)
        self.distinct_inputs = inputs[self.positions]
        self.loss = outcomes.pooled(self.index, len(self.positions))
        self.mean = prior.mean(self.distinct_inputs)
        self.variance = prior.variance(self.distinct_inputs)
        kernel_matrix = prior.covariance(self.distinct_inputs, self.distinct_inputs)
        self.kernel_matrix = 0.5 * (kernel_matrix + kernel_matrix.mT)
        if not bool(torch.isfinite(self.kernel_matrix).all()):
            raise InputDataError(
                "The kernel matrix is not finite: the inputs are too large for the kernel. "
                "Rescale the inputs."
            )

    @property
    def num_observations(self) -> int:
        r"""Number of outcomes ``n``."""
        return len(self.train_inputs)

    def with_shorter_lengthscales(self, factor: float) -> "LikelihoodRegression | None":
        r"""Under a kernel with all length scales divided by ``factor``.

        That is the same kernel at inputs multiplied by ``factor``. None for kernels and
        means of which that is not known.
        """
        if not self.prior.has_constant_variance or self.prior.plain.mean is None:
            return None
        known = self.outcomes, self.dimension, self.estimated
        return self.from_parts(self.prior, factor * self.train_inputs, *known)

    @cached_property
    def most_probable(self) -> Mode:
        r"""The mode of the prior as it stands, with the outcomes: ``mode(1)``."""
        return self.mode(1.0)

    @torch.no_grad()
    def mode(self, regularizer: float, start: Mode | None = None) -> Mode:
        r"""Minimiser of ``sum_i l_i(f) + regularizer |f - mean|^2 / 2``.

        Newton's method with halved steps, in the coefficients of the kernel sections:
        Rasmussen & Williams (2006), Algorithm 3.1. It begins at ``start``.
        """
        best = self.at(torch.zeros_like(self.mean) if start is None else start.weights)
        value = best.loss + 0.5 * regularizer * best.norm**2
        for _ in range(_MOST_STEPS):
            step = self._newton_step(best, regularizer)
            size, found = 1.0, best
            while size > _CONVERGED:
                found = self.at(best.weights + size * step)
                changed = found.loss + 0.5 * regularizer * found.norm**2
                if changed <= value:  # NaN and infinity are not
                    break
                size *= 0.5
            else:
                return best
            gain, best, value = value - changed, found, changed
            if gain <= _CONVERGED * (1.0 + abs(value)):
                break
        return best

    @torch.no_grad()
    def at(self, weights: Tensor) -> Mode:
        r"""The function with ``u`` coefficients of the kernel sections."""
        deviation = self.kernel_matrix @ weights
        latent = self.mean + deviation
        norm = float((weights @ deviation).clamp_min(0.0).sqrt())
        return Mode(latent, weights, float(self.loss.value(latent).sum()), norm)

    def _newton_step(self, mode: Mode, regularizer: float) -> Tensor:
        slope, curvature = self.loss.slope(mode.latent), self.loss.curvature(mode.latent)
        roots = curvature.sqrt()
        system = roots.unsqueeze(-1) * self.kernel_matrix * roots / regularizer
        factor = _factor(system + torch.eye(len(roots)).to(system))
        target = curvature * (mode.latent - self.mean) - slope
        shift = (roots * (self.kernel_matrix @ target) / regularizer).unsqueeze(-1)
        solved = torch.cholesky_solve(shift, factor).squeeze(-1)
        return (target - roots * solved) / regularizer - mode.weights

    @torch.no_grad()
    def linearised(self, latent: Tensor, curvature: Tensor) -> PseudoRegression:
        r"""The regression of parabolas in place of the losses.

        They touch the losses at ``latent`` (``u`` values) with the ``u`` curvatures: that
        is, noisy observations ``latent - l' / curvature`` with the variances
        ``1 / curvature``. Those at one input are shared by the outcomes there, so that
        state and data have the same observations.
        """
        targets = latent - self.loss.slope(latent) / curvature
        noise, counts = curvature.rsqrt(), self.index.bincount().to(latent)
        pooled = Pooled(
            self.distinct_inputs, targets - self.mean, noise, None, self.positions
        )
        data = ModelData(
            prior=self.prior,
            train_inputs=self.train_inputs,
            train_targets=targets[self.index],
            noise_std=(noise * counts.sqrt())[self.index],
            dimension=self.dimension,
            # No noise scale of an outcome: a bound that took it for one must not say so.
            estimated=self.estimated | {"noise"},
        )
        return PseudoRegression.from_data(data, pooled)


def _factor(matrix: Tensor) -> Tensor:
    r"""Cholesky factor; of a matrix a little larger where round-off hides its unit part.

    Newton's steps are then shorter, and end where they would have.
    """
    factor, failed = torch.linalg.cholesky_ex(matrix)
    excess = torch.finfo(matrix.dtype).eps * len(matrix) * matrix.diagonal().max()
    while bool(failed):
        larger = matrix + excess * torch.eye(len(matrix)).to(matrix)
        factor, failed = torch.linalg.cholesky_ex(larger)
        excess = 10.0 * excess
    return factor
