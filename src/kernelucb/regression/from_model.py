r"""The only reader of BoTorch and GPyTorch internals: model to numbers and prior."""

from typing import Any, NamedTuple

import torch
from botorch.exceptions import InputDataError, UnsupportedError
from botorch.models.gpytorch import GPyTorchModel
from botorch.models.model import Model, ModelList
from botorch.models.multitask import MultiTaskGP
from botorch.models.transforms.outcome import (
    ChainedOutcomeTransform,
    OutcomeTransform,
    Standardize,
)
from gpytorch.likelihoods import FixedNoiseGaussianLikelihood, GaussianLikelihood
from gpytorch.models import ExactGP
from gpytorch.settings import fast_computations
from torch import Tensor

from kernelucb._numerics.checks import finite
from kernelucb._numerics.estimates import estimated_parts, learns, trainable
from kernelucb.regression.prior import Prior

# Most rows at which a model's prior is compared with its kernel and mean, and the factor
# that takes a single one to a point nearby (an index of a category stays a valid one).
_COMPARED, _COMPARED_POSTERIOR, _NEARBY = 512, 8, 0.9


class ModelData(NamedTuple):
    r"""What the confidence bounds need of a model, in outcome units and float64.

    Attributes:
        prior: Prior mean and covariance; also holds the input transform.
        train_inputs: ``n x d'`` inputs as the kernel sees them.
        train_targets: ``n`` outcomes.
        noise_std: ``n`` noise standard deviations of the likelihood.
        dimension: Number of raw input columns ``d``.
        estimated: Those of ``"kernel"``, ``"mean"``, ``"noise"`` fitted to the same data.
        learned_inputs: Whether the input transform was.
    """

    prior: Prior
    train_inputs: Tensor
    train_targets: Tensor
    noise_std: Tensor
    dimension: int
    estimated: frozenset[str]
    learned_inputs: bool = False


def read_model(model: Any) -> ModelData:
    r"""Read a single-output exact GP with ``mean_module`` and ``covar_module``.

    Raises:
        UnsupportedError: If the model cannot be represented; the message says why.
        InputDataError: If it has no data or its data are not finite.
    """
    _check_supported(model)
    model.eval()  # in eval mode the stored inputs are the transformed ones
    outcome_transform = getattr(model, "outcome_transform", None)
    offset, scale = outcome_units(outcome_transform)
    inputs = model.train_inputs[0].detach()
    targets = model.train_targets.detach()
    if inputs.shape[-2] == 0:
        raise InputDataError("The model has no training data; a bound needs at least one.")
    finite("The model's training inputs", inputs)
    finite("The model's training outcomes", targets)
    prior = Prior(
        covar_module=model.covar_module,
        mean_module=model.mean_module,
        input_transform=getattr(model, "input_transform", None),
        offset=offset,
        scale=scale,
    )
    prior.check_fits(inputs.double())
    _check_prior(model, inputs)
    raw = raw_inputs(model)
    if inputs.dtype != torch.float64:
        # Where the inputs were exchanged in eval mode, only the transformed ones are known.
        known = torch.equal(model.transform_inputs(raw), model.train_inputs[0])
        inputs = prior.transform(raw.double()) if known else inputs.double()
    noise = model.likelihood.noise.detach().double().clamp_min(0.0).sqrt() * scale
    return ModelData(
        prior=prior,
        train_inputs=inputs,
        train_targets=offset + scale * targets.double(),
        noise_std=noise.reshape(-1).expand(inputs.shape[-2]),
        dimension=raw.shape[-1],
        estimated=_estimated_parts(model),
        learned_inputs=_learned_inputs(model),
    )


def _check_supported(model: Any) -> None:
    name = type(model).__name__
    if not isinstance(model, Model):
        raise UnsupportedError(f"Expected a BoTorch model, got {name}.")
    if getattr(model, "_is_ensemble", False) or getattr(model, "_is_fully_bayesian", False):
        raise UnsupportedError(
            f"{name} is an ensemble of models; the bound needs one fixed kernel. Use a "
            "SingleTaskGP."
        )
    if model.num_outputs != 1:
        raise UnsupportedError(
            f"{name} has {model.num_outputs} outputs, and the bound is for one. For a "
            "weighted sum of them use ScalarizedUCB.from_model(model, "
            "posterior_transform=...); otherwise build one SingleTaskGP and one bound for "
            "each outcome."
        )
    if isinstance(model, ModelList):
        raise UnsupportedError(
            f"{name} holds a single model; pass that model itself: model.models[0]."
        )
    exact = isinstance(model, ExactGP) and isinstance(model, GPyTorchModel)
    if not exact or isinstance(model, MultiTaskGP):
        raise UnsupportedError(
            f"{name} is not an exact single-task GP (variational, list, multi-task and "
            "non-GP models have no closed-form kernel regression). Use a SingleTaskGP."
        )
    if not (hasattr(model, "covar_module") and hasattr(model, "mean_module")):
        raise UnsupportedError(
            f"{name} must have attributes `mean_module` and `covar_module`."
        )
    if not isinstance(model.likelihood, (GaussianLikelihood, FixedNoiseGaussianLikelihood)):
        raise UnsupportedError(
            f"The likelihood {type(model.likelihood).__name__} is not Gaussian; use "
            "GaussianLikelihood or pass train_Yvar."
        )
    if len(model.batch_shape) > 0:
        raise UnsupportedError(
            f"{name} has batch shape {tuple(model.batch_shape)}; build one model without "
            "batch dimensions."
        )
    _check_input_transform(model)


def _check_input_transform(model: Any) -> None:
    transform = getattr(model, "input_transform", None)
    if getattr(transform, "is_one_to_many", False):
        raise UnsupportedError(
            f"The input transform {type(transform).__name__} turns one point into "
            "several; the bound is for a function of one point. Remove it."
        )


@torch.no_grad()
def _check_prior(model: Any, inputs: Tensor) -> None:
    r"""Refuse a model (in eval mode) whose methods give another prior than its parts do.

    ``inputs`` are its ``n x d'`` training inputs as the kernel sees them.
    """
    if not _is_of_the_library(type(model).__call__):
        raise _other_prior(model, "has its own `__call__`")
    if not _is_of_the_library(model.posterior) and not _posterior_is_as_read(model):
        raise _other_prior(model, "has its own `posterior`")
    raw, transform = raw_inputs(model), getattr(model, "input_transform", None)
    known = raw if transform is None else transform(raw)
    if not torch.equal(model.transform_inputs(raw), known):
        raise _other_prior(model, "transforms inputs by more than its `input_transform`")
    if not _is_of_the_library(model.forward) and not _prior_is_as_read(model, inputs):
        raise _other_prior(model, "has its own `forward`")


def _is_of_the_library(method: Any) -> bool:
    r"""Whether a method is BoTorch's or GPyTorch's, which read kernel and mean alone."""
    module = getattr(method, "__module__", None) or ""
    return module.split(".")[0] in ("botorch", "gpytorch")


def _posterior_is_as_read(model: Any) -> bool:
    r"""Whether ``posterior`` agrees with BoTorch's at some of the data, up to jitter."""
    rows = raw_inputs(model)[:_COMPARED_POSTERIOR]
    points = torch.cat([rows, _NEARBY * rows]).unsqueeze(-2)
    with fast_computations(False, False, False):
        own, theirs = model.posterior(points), GPyTorchModel.posterior(model, points)
    length = theirs.variance.max().sqrt() + theirs.mean.abs().max()
    return _agree(own.mean, theirs.mean, length) and _agree(
        own.variance, theirs.variance, length.square()
    )


def _prior_is_as_read(model: Any, inputs: Tensor) -> bool:
    r"""Whether ``forward`` agrees with kernel and mean at the data, up to jitter.

    A single observation is compared with a point nearby as well.
    """
    points = inputs[:: -(-len(inputs) // _COMPARED)]
    if len(points) == 1:
        points = torch.cat([points, _NEARBY * points])
    mean, prior = model.mean_module(points), model.forward(points)
    variance, between = _variance_and_block(model.covar_module(points))
    own_variance, own_between = _variance_and_block(prior.lazy_covariance_matrix)
    largest = variance.max()
    return (
        _agree(own_variance, variance, largest)
        and _agree(own_between, between, largest)
        and _agree(prior.mean, mean, largest.sqrt() + mean.abs().max())
    )


def _agree(own: Tensor, expected: Tensor, scale: Tensor) -> bool:
    r"""Whether two tensors differ by no more than jitter does, relative to a scale."""
    accuracy = torch.finfo(expected.dtype).eps ** 0.4
    return bool((own - expected).abs().max() <= accuracy * scale)


def _variance_and_block(covariance: Any) -> tuple[Tensor, Tensor]:
    r"""Diagonal and an off-diagonal block: GPyTorch adds jitter to some whole matrices."""
    half = covariance.shape[-1] // 2
    block = covariance[:half, half:].to_dense()
    return covariance.diagonal(dim1=-1, dim2=-2), block


def _other_prior(model: Any, what: str) -> UnsupportedError:
    return UnsupportedError(
        f"{type(model).__name__} {what}, so its prior is not that of `mean_module` and "
        "`covar_module`, which the bound is computed from. Pass a SingleTaskGP with "
        "covar_module=... and mean_module=..., and put what warps the inputs into the "
        "kernel or into input_transform=... ."
    )


def outcome_units(transform: OutcomeTransform | None) -> tuple[float, float]:
    r"""Offset and scale that take the model's units to outcome units."""
    offset, scale = 0.0, 1.0
    if transform is None:
        return offset, scale
    chained = isinstance(transform, ChainedOutcomeTransform)
    steps = list(transform.values()) if chained else [transform]
    for step in reversed(steps):
        if type(step) is not Standardize:
            raise UnsupportedError(
                f"The outcome transform {type(step).__name__} is not affine with known "
                "constants, so a norm bound in outcome units has no meaning under it. "
                "Use Standardize or no outcome transform."
            )
        if bool(step._is_trained):  # pyright: ignore[reportPrivateUsage]
            step_scale = float(step.stdvs.double().squeeze())
            offset = float(step.means.double().squeeze()) + step_scale * offset
            scale *= step_scale
    return offset, scale


def raw_inputs(model: Any) -> Tensor:
    r"""Inputs of the observations before the input transform, ``n x d``."""
    raw = getattr(model, "_original_train_inputs", None)
    return (model.train_inputs[0] if raw is None else raw).detach()


def _estimated_parts(model: Any) -> frozenset[str]:
    r"""Parts that come from the same data: trainable, or learned by a transform."""
    parts = set(estimated_parts(model.covar_module, model.mean_module))
    if _learned_inputs(model):
        parts.add("kernel")
    if getattr(model, "outcome_transform", None) is not None:
        parts.add("mean")
    if trainable(model.likelihood):
        parts.add("noise")
    return frozenset(parts)


def _learned_inputs(model: Any) -> bool:
    return learns(getattr(model, "input_transform", None), raw_inputs(model))
