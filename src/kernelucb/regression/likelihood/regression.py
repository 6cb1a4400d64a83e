r"""Successes or counts, with a prior of the latent function."""

from functools import cached_property
from typing import Any, Literal, NamedTuple, Self

import torch
from botorch.exceptions import InputDataError, UnsupportedError
from botorch.models.approximate_gp import ApproximateGPyTorchModel
from botorch.models.model import Model
from gpytorch.kernels import Kernel
from gpytorch.likelihoods import BernoulliLikelihood
from gpytorch.likelihoods.poisson_likelihood import PoissonLikelihood
from gpytorch.means import Mean
from gpytorch.models import ApproximateGP
from torch import Tensor

from kernelucb._numerics.checks import one_of, training_targets
from kernelucb._numerics.estimates import estimated_parts, learns
from kernelucb.regression.exact import KernelRegression
from kernelucb.regression.from_model import ModelData, prior_is_as_read, read_model
from kernelucb.regression.kernel_family import Lengths
from kernelucb.regression.likelihood.losses import (
    LINKS,
    Likelihood,
    Loss,
    checked_outcomes,
)
from kernelucb.regression.named import check_lengths, fixed_kernel, fixed_mean
from kernelucb.regression.pooling import Pooled, distinct_rows
from kernelucb.regression.prior import Prior

Reported = Literal["counts", "rates"]
Parts = tuple[Prior, Tensor, Loss, int, frozenset[str]]
_LIKELIHOODS: dict[type, Likelihood] = {
    BernoulliLikelihood: "bernoulli",
    PoissonLikelihood: "poisson",
}
# Standardize and decimal files round outcomes: counts by so much of themselves, counts from
# rates by so much.
_ROUNDED, _ROUNDED_RATES = 1e-6, 1e-3
# Of Newton's method.
_MOST_STEPS, _CONVERGED = 200, 1e-13


class Mode(NamedTuple):
    r"""The function with the least sum of loss and penalty, at the distinct inputs."""

    latent: Tensor  # `u` values
    weights: Tensor  # `u` coefficients of the kernel sections in `f - mean`
    loss: float  # sum of the loss
    norm: float  # RKHS norm of `f - mean`, prior units


class PseudoRegression(KernelRegression):
    r"""A ``KernelRegression`` of pseudo-outcomes, with noise scales that are none."""

    @property
    def pending_noise_std(self) -> Tensor:
        r"""That of the mean precision: where the loss is flat, scales have no limit."""
        return self.noise_scales.square().reciprocal().mean().rsqrt()


class LikelihoodRegression:
    r"""Successes or counts, with a prior of the latent function behind them.

    The counterpart of ``KernelRegression``: frozen data and prior. Given the past, the
    outcome at ``x`` is 1 with probability ``sigmoid(f(x))`` (``"bernoulli"``), a number of
    successes in ``num_trials`` with that probability each (``"binomial"``), or a Poisson
    count of mean ``exposure * exp(f(x))`` (``"poisson"``). Kernel and mean are those of
    ``f``, the log odds or the log rate. Outcomes at repeated inputs are added up, which
    loses no information.

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
        inputs, estimated = (
            train_X.detach().to(torch.float64, copy=True),
            estimated_parts(covar_module, mean),
        )
        self._set(prior, inputs, outcomes, train_X.shape[-1], estimated)

    @classmethod
    def from_parts(cls, *parts: *Parts) -> Self:
        r"""From prior, kernel inputs (``n x d'``), outcomes, ``d`` and what was fitted."""
        data = cls.__new__(cls)
        data._set(*parts)
        return data

    @torch.no_grad()
    def _set(self, *parts: *Parts) -> None:
        prior, inputs, self.outcomes, self.dimension, self.estimated = parts
        self.prior, self.train_inputs = prior.to(inputs.device), inputs
        prior.check_fits(inputs)
        self.positions, self.index = distinct_rows(inputs)
        self.distinct_inputs = inputs[self.positions]
        self.loss = self.outcomes.pooled(self.index, len(self.positions))
        self.mean = prior.mean(self.distinct_inputs)
        self.variance = prior.variance(self.distinct_inputs)
        kernel_matrix = prior.covariance(self.distinct_inputs, self.distinct_inputs)
        self.kernel_matrix = 0.5 * (kernel_matrix + kernel_matrix.mT)
        if not bool(torch.isfinite(self.kernel_matrix).all()):
            raise InputDataError(
                "The kernel matrix is not finite: the inputs are too large for the kernel. "
                "Rescale the inputs."
            )

    @classmethod
    def from_model(
        cls,
        model: "LikelihoodRegression | Model | ApproximateGP",
        *,
        likelihood: Likelihood | None = None,
        num_trials: float | Tensor | None = None,
        exposure: float | Tensor | None = None,
        outcomes: Reported = "counts",
        kernel: Kernel | str | None = None,
        lengthscale: Lengths | None = None,
        outputscale: float = 1.0,
        mean: float | Mean | None = None,
        train_X: Tensor | None = None,
        train_Y: Tensor | None = None,
    ) -> "LikelihoodRegression":
        r"""From a variational GP, or from an exact GP that holds the data.

        From a ``SingleTaskVariationalGP`` or ``ApproximateGP`` data, kernel and mean are
        taken, which count as estimated unless frozen; the variational posterior and the
        inducing points are not used. GPyTorch's ``BernoulliLikelihood`` has another link
        (probit): here kernel and mean are those of the log odds. From an exact GP
        (``SingleTaskGP`` of 0 and 1, as in Ax) only the data are taken.

        Args:
            model: The model; a ``LikelihoodRegression`` is given back.
            likelihood: ``"bernoulli"``, ``"binomial"`` or ``"poisson"``; by default that of
                the model's likelihood.
            num_trials: See the class.
            exposure: See the class.
            outcomes: ``"counts"``, or ``"rates"`` where the outcomes are proportions of
                ``num_trials``, or counts over ``exposure``.
            kernel: A kernel, or ``"rbf"``, ``"matern52"``, ``"matern32"``, ``"matern12"``;
                by default that of a variational model.
            lengthscale: Length scale of a kernel given by name, in units of the kernel's
                inputs; one number, or one for each input.
            outputscale: Prior variance of a kernel given by name.
            mean: Prior mean of the log odds or log rate, a number or a frozen GPyTorch
                mean; by default that of a variational model, or zero.
            train_X: ``n x d`` inputs, for a variational model that does not keep its data.
            train_Y: ``n x 1`` or ``n`` outcomes, for the same case.

        Raises:
            UnsupportedError: If the model cannot be read, or has no kernel of log odds or
                log rates and none is given.
            InputDataError: If it keeps no outcomes, or they are impossible.
            ValueError: If an argument is missing or out of place.
        """
        one_of("outcomes", outcomes, "counts", "rates")
        if isinstance(kernel, str):
            chosen: Any = fixed_kernel(kernel, lengthscale, outputscale)
        elif lengthscale is None and outputscale == 1.0:
            chosen = kernel
        else:
            raise ValueError(
                "lengthscale and outputscale go with the name of a kernel; give one, such "
                'as kernel="rbf", or leave them out.'
            )
        if isinstance(model, LikelihoodRegression):
            own = (likelihood, num_trials, exposure, kernel, mean, train_X, train_Y)
            if any(each is not None for each in own):
                raise ValueError(
                    "The model is a LikelihoodRegression, which holds outcomes, "
                    "likelihood, kernel and mean; leave out what describes them."
                )
            return model
        variational = isinstance(model, ApproximateGPyTorchModel | ApproximateGP)
        data = _variational(model, train_X, train_Y) if variational else read_model(model)
        likelihood = likelihood or _LIKELIHOODS.get(
            type(getattr(model, "likelihood", None))
        )
        if likelihood is None:
            raise UnsupportedError(
                "The model does not say what its outcomes are; give "
                'likelihood="bernoulli", "binomial" or "poisson".'
            )
        module, read = fixed_mean(mean), data.prior
        if not read.outcome_map.is_identity:
            raise UnsupportedError(
                f"The model is of the outcome{read.outcome_map.after}; give one of the "
                "outcomes as they were reported (outcome_transform=None or Standardize)."
            )
        if chosen is None and variational:
            chosen, module = read.covar_module, read.mean_module if mean is None else module
        if chosen is None:
            raise UnsupportedError(
                f"The kernel of {type(model).__name__} is one of outcomes, not of log odds "
                "or log rates; give kernel=..., fixed before the data."
            )
        check_lengths(lengthscale, data.train_inputs)
        counts = _counts(data.train_targets, outcomes, num_trials, exposure)
        checked = checked_outcomes(likelihood, counts, num_trials, exposure)
        learned = frozenset({"kernel"} if data.learned_inputs else ())
        estimated = estimated_parts(chosen, module) | learned
        transform: Any = read.input_transform
        prior = Prior(chosen, module, transform, outcome_map=LINKS[likelihood])
        return cls.from_parts(prior, data.train_inputs, checked, data.dimension, estimated)

    @property
    def estimated_anyway(self) -> frozenset[str]:
        r"""What stays estimated under another prior; see ``ModelData``."""
        transformed = self.prior.input_transform is not None
        return self.estimated & {"kernel"} if transformed else frozenset[str]()

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


def _variational(model: Any, train_X: Tensor | None, train_Y: Tensor | None) -> ModelData:
    r"""The data, kernel and mean of a variational GP, which may not keep its outcomes.

    Its noise scale is none.
    """
    name, of_botorch = type(model).__name__, isinstance(model, ApproximateGPyTorchModel)
    inner: Any = model.model if of_botorch else model
    if of_botorch and model.num_outputs != 1:
        raise UnsupportedError(
            f"{name} has {model.num_outputs} outputs; build one model for each."
        )
    if getattr(model, "outcome_transform", None) is not None:
        raise UnsupportedError(
            f"{name} has an outcome transform; successes and counts are taken as they are."
        )
    if not (hasattr(inner, "covar_module") and hasattr(inner, "mean_module")):
        raise UnsupportedError(f"{name} must have `mean_module` and `covar_module`.")
    model.eval()
    transform = getattr(model, "input_transform", None)
    if train_X is None or train_Y is None:
        inputs, targets = _kept(transform, inner, name)
        dimension = getattr(transform, "d", inputs.shape[-1])
    else:
        targets, dimension = training_targets(train_X, train_Y), train_X.shape[-1]
        inputs = train_X if transform is None else transform(train_X)
    inputs = inputs.detach().to(torch.float64, copy=True)
    with torch.no_grad():
        own = inputs.to(next(iter(inner.covar_module.parameters()), inputs).dtype)
        if not prior_is_as_read(inner, own):
            raise UnsupportedError(
                f"{name} has a `forward` that is not made of `mean_module` and "
                "`covar_module`; give kernel and data to a LikelihoodRegression."
            )
    learned = transform is not None and learns(transform, inputs)
    prior = Prior(inner.covar_module, inner.mean_module, transform)
    known = inputs, targets, targets, dimension, frozenset[str](), learned
    return ModelData(prior, *known)


def _kept(transform: Any, inner: Any, name: str) -> tuple[Tensor, Tensor]:
    r"""Inputs as the kernel sees them, and outcomes, that a variational GP keeps."""
    targets = getattr(inner, "train_targets", None)
    kept = getattr(inner, "train_inputs", None)
    if targets is None or kept is None:
        raise InputDataError(
            f"{name} does not keep its outcomes; give train_X and train_Y as well."
        )
    if transform is not None and any(True for _ in transform.parameters()):
        raise InputDataError(
            f"{name} keeps its inputs as its transform made them when it was built, and "
            "the transform has parameters that may be others now; give train_X and "
            "train_Y as well."
        )
    if kept[0].dim() != 2:
        raise UnsupportedError(f"{name} has batch dimensions; build one model without.")
    return kept[0], targets.detach().to(torch.float64, copy=True).reshape(-1)


def _counts(
    targets: Tensor,
    outcomes: Reported,
    num_trials: float | Tensor | None,
    exposure: float | Tensor | None,
) -> Tensor:
    r"""Whole numbers from outcomes that rounding may have touched."""
    of_rates = outcomes == "rates"
    amount = exposure if num_trials is None else num_trials
    scale = amount if of_rates and amount is not None else 1.0
    values = targets * torch.as_tensor(scale, dtype=torch.float64).to(targets).reshape(-1)
    whole = values.round()
    far = (values - whole).abs()
    allowed = _ROUNDED_RATES if of_rates else _ROUNDED * (1.0 + whole.abs())
    if not bool((far <= allowed).all()):
        kind = "counts over num_trials or exposure" if of_rates else "whole numbers"
        worst = float(values[far.argmax()])
        raise InputDataError(f"The outcomes must be {kind}; one is a count of {worst:g}.")
    return whole
