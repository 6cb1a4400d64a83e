r"""Successes or counts from a model of BoTorch or GPyTorch."""

from typing import Any, Literal, NamedTuple

import torch
from botorch.exceptions import InputDataError, UnsupportedError
from botorch.models.approximate_gp import ApproximateGPyTorchModel
from gpytorch.kernels import Kernel
from gpytorch.likelihoods import BernoulliLikelihood
from gpytorch.likelihoods.poisson_likelihood import PoissonLikelihood
from gpytorch.means import Mean
from gpytorch.models import ApproximateGP
from torch import Tensor

from kernelucb._numerics.checks import one_of, training_targets
from kernelucb._numerics.estimates import estimated_parts, learns
from kernelucb.regression.from_model import prior_is_as_read, read_model
from kernelucb.regression.kernel_family import Lengths
from kernelucb.regression.likelihood.losses import LINKS, Likelihood, checked_outcomes
from kernelucb.regression.likelihood.regression import LikelihoodRegression
from kernelucb.regression.named import check_lengths, fixed_kernel, fixed_mean
from kernelucb.regression.prior import Prior

Reported = Literal["counts", "rates"]
# Standardize and decimal files round outcomes: counts by so much of themselves, counts from
# rates by so much.
_ROUNDED, _ROUNDED_RATES = 1e-6, 1e-3
_LIKELIHOODS: dict[type, Likelihood] = {
    BernoulliLikelihood: "bernoulli",
    PoissonLikelihood: "poisson",
}


class _Read(NamedTuple):
    r"""What a model says; ``kernel`` is None where it has none of the latent function."""

    inputs: Tensor
    targets: Tensor
    dimension: int
    input_transform: Any = None
    learned_inputs: bool = False
    kernel: Kernel | None = None
    mean: Mean | None = None


def likelihood_data(
    model: Any,
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
) -> LikelihoodRegression:
    r"""The data of a model; arguments and errors as for ``LikelihoodUCB.from_model``."""
    one_of("outcomes", outcomes, "counts", "rates")
    if isinstance(kernel, str):
        kernel = fixed_kernel(kernel, lengthscale, outputscale)
    elif lengthscale is not None or outputscale != 1.0:
        raise ValueError(
            "lengthscale and outputscale go with the name of a kernel; give one, such "
            'as kernel="rbf", or leave them out.'
        )
    if isinstance(model, LikelihoodRegression):
        own = (likelihood, num_trials, exposure, kernel, mean, train_X, train_Y)
        if any(each is not None for each in own):
            raise ValueError(
                "The model is a LikelihoodRegression, which holds outcomes, likelihood, "
                "kernel and mean; leave out what describes them."
            )
        return model
    variational = isinstance(model, ApproximateGPyTorchModel | ApproximateGP)
    read = _variational(model, train_X, train_Y) if variational else _exact(model)
    likelihood = likelihood or _LIKELIHOODS.get(type(getattr(model, "likelihood", None)))
    if likelihood is None:
        raise UnsupportedError(
            'The model does not say what its outcomes are; give likelihood="bernoulli", '
            '"binomial" or "poisson".'
        )
    module = read.mean if mean is None and kernel is None else fixed_mean(mean)
    kernel = read.kernel if kernel is None else kernel
    if kernel is None:
        raise UnsupportedError(
            f"The kernel of {type(model).__name__} is one of outcomes, not of log odds or "
            "log rates; give kernel=..., fixed before the data."
        )
    check_lengths(lengthscale, read.inputs)
    counts = _counts(read.targets, outcomes, num_trials, exposure)
    checked = checked_outcomes(likelihood, counts, num_trials, exposure)
    estimated = estimated_parts(kernel, module)
    if read.learned_inputs:
        estimated |= {"kernel"}
    prior = Prior(kernel, module, read.input_transform, outcome_map=LINKS[likelihood])
    known = read.inputs, checked, read.dimension, estimated
    return LikelihoodRegression.from_parts(prior.to(read.inputs.device), *known)


def _exact(model: Any) -> _Read:
    r"""The data of an exact GP; its kernel is one of the outcomes themselves."""
    data = read_model(model)
    if not data.prior.outcome_map.is_identity:
        raise UnsupportedError(
            f"The model is of the outcome{data.prior.outcome_map.after}; give one of the "
            "outcomes as they were reported (outcome_transform=None or Standardize)."
        )
    known = data.train_inputs, data.train_targets, data.dimension
    return _Read(*known, data.prior.input_transform, data.learned_inputs)


def _variational(model: Any, train_X: Tensor | None, train_Y: Tensor | None) -> _Read:
    r"""The data, kernel and mean of a variational GP, which may not keep its outcomes."""
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
    inputs = inputs.detach().double()
    with torch.no_grad():
        own = inputs.to(next(iter(inner.covar_module.parameters()), inputs).dtype)
        if not prior_is_as_read(inner, own):
            raise UnsupportedError(
                f"{name} has a `forward` that is not made of `mean_module` and "
                "`covar_module`; give kernel and data to a LikelihoodRegression."
            )
    learned = transform is not None and learns(transform, inputs)
    known = inputs, targets, dimension, transform, learned
    return _Read(*known, inner.covar_module, inner.mean_module)


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
    return kept[0], targets.detach().double().reshape(-1)


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
