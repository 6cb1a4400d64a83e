r"""Which models can be read, and whether their methods agree with their parts."""

from typing import Any

import torch
from botorch.exceptions import BotorchTensorDimensionError, InputDataError, UnsupportedError
from botorch.models.gpytorch import BatchedMultiOutputGPyTorchModel, GPyTorchModel
from botorch.models.model import Model, ModelList
from botorch.models.multitask import MultiTaskGP
from botorch.posteriors import TransformedPosterior
from gpytorch.likelihoods import FixedNoiseGaussianLikelihood, GaussianLikelihood
from gpytorch.models import GP, ExactGP, IndependentModelList
from gpytorch.settings import fast_computations
from torch import Tensor

# Most rows at which a model's prior is compared with its kernel and mean, and the factor
# that takes a single one to a point nearby (an index of a category stays a valid one).
_COMPARED, _COMPARED_POSTERIOR, _NEARBY = 512, 8, 0.9


@torch.no_grad()
def raw_inputs(model: Any) -> Tensor:
    r"""Inputs of the observations before the input transform, ``n x d``.

    Raises:
        InputDataError: If the model is in eval mode and its training inputs are not what
            the input transform makes of these.
    """
    inputs = model.train_inputs[0].detach()
    if not getattr(model, "_has_transformed_inputs", False):
        return inputs
    raw = model._original_train_inputs.detach().to(inputs.device)
    # Observations that a model was conditioned on are transformed as queries are.
    ways = data_inputs(model, raw), kernel_inputs(model, raw)
    accuracy = max(torch.finfo(part.dtype).eps for part in (raw, inputs)) ** 0.75
    known = torch.stack([_same_rows(way, inputs, accuracy) for way in ways]).any(0)
    if not bool(known.all()):
        raise InputDataError(
            f"The training inputs of {type(model).__name__} are not what its input "
            "transform makes of the raw ones: in eval mode, set_train_data takes inputs as "
            "they are, and a changed transform leaves them as they were. Call "
            "model.train() before model.set_train_data with raw inputs, and before the "
            "transform is changed."
        )
    return raw


def data_inputs(model: Any, raw: Tensor) -> Tensor:
    r"""``n x d`` raw inputs as BoTorch transforms those of the data, not of queries."""
    transform = getattr(model, "input_transform", None)
    return raw if transform is None else transform.preprocess_transform(raw)


def _same_rows(inputs: Tensor, other: Tensor, accuracy: float) -> Tensor:
    r"""Which rows of ``other`` are those of ``inputs``, up to rounding in each column."""
    if inputs.shape[-2:] != other.shape[-2:]:
        return other.new_zeros(other.shape[:-1], dtype=torch.bool)
    rounding = accuracy * other.norm(dim=-2, keepdim=True)
    return ((inputs - other).abs() <= rounding).all(-1)


def kernel_inputs(model: Any, raw: Tensor) -> Tensor:
    r"""``n x d`` raw inputs as the kernel sees them; GPyTorch has no input transforms."""
    return model.transform_inputs(raw) if isinstance(model, Model) else raw


def check_supported(model: Any) -> None:
    r"""Refuse all but exact GPs of one outcome, by BoTorch or GPyTorch.

    Raises:
        UnsupportedError: If the model cannot be represented; the message says why.
        InputDataError: If a model by GPyTorch has no data.
        BotorchTensorDimensionError: If its outcomes are not a vector.
    """
    name = type(model).__name__
    if not isinstance(model, Model | GP):
        raise UnsupportedError(
            f"Expected a BoTorch model or a GPyTorch ExactGP, got {name}."
        )
    if getattr(model, "_is_ensemble", False) or getattr(model, "_is_fully_bayesian", False):
        raise UnsupportedError(
            f"{name} is an ensemble of models; the bound needs one fixed kernel. Use a "
            "SingleTaskGP."
        )
    _check_outputs(model, name)
    written_for_botorch = isinstance(model, GPyTorchModel) or not isinstance(model, Model)
    exact = isinstance(model, ExactGP) and written_for_botorch
    if not exact or isinstance(model, MultiTaskGP):
        raise UnsupportedError(
            f"{name} is not an exact single-task GP (variational, list, multi-task and "
            "non-GP models have no closed-form kernel regression). Use a SingleTaskGP, or "
            "for very many observations NystromRegression or BKBModel."
        )
    if not isinstance(model, Model):
        _check_plain(model, name)
    if not (hasattr(model, "covar_module") and hasattr(model, "mean_module")):
        raise UnsupportedError(
            f"{name} must have attributes `mean_module` and `covar_module`, from which the "
            "bound is computed. Use a SingleTaskGP, or give your own model these two."
        )
    if not isinstance(model.likelihood, GaussianLikelihood | FixedNoiseGaussianLikelihood):
        raise UnsupportedError(
            f"The likelihood {type(model.likelihood).__name__} is not Gaussian; use "
            "GaussianLikelihood or pass train_Yvar."
        )
    inputs: Any = model.train_inputs
    if len(batch_shape := inputs[0].shape[:-2]) > 0:
        raise UnsupportedError(
            f"{name} has batch shape {tuple(batch_shape)}; build one model without batch "
            "dimensions."
        )
    _check_input_transform(model)


def _check_outputs(model: Any, name: str) -> None:
    r"""Refuse models of several outcomes, and lists."""
    is_list = isinstance(model, ModelList | IndependentModelList)
    parts: Any = getattr(model, "models", ())
    count = getattr(model, "num_outputs", len(parts) if is_list else 1)
    if (
        count != 1
        and not is_list
        and not isinstance(model, BatchedMultiOutputGPyTorchModel)
    ):
        raise UnsupportedError(
            f"{name} has {count} outputs that depend on each other, and the bound is for "
            "one. Build one SingleTaskGP and one bound for each of them, from its own data."
        )
    if count != 1:
        raise UnsupportedError(
            f"{name} has {count} outputs, and the bound is for one. For a weighted sum of "
            "them use ScalarizedUCB.from_model(model, posterior_transform=...), for one "
            "with limits on others ConstrainedUCB.from_model(model, constraints=...), and "
            "for a band of each outcome_bands(model)."
        )
    if is_list:
        raise UnsupportedError(
            f"{name} holds a single model; pass that model itself: model.models[0]."
        )


def _check_plain(model: Any, name: str) -> None:
    r"""What BoTorch sees to and GPyTorch does not: one input, a vector, no transforms."""
    if model.train_inputs is None or model.train_targets is None:
        raise InputDataError(f"{name} has no training data; a bound needs at least one.")
    if len(model.train_inputs) != 1:
        raise UnsupportedError(
            f"{name} takes {len(model.train_inputs)} input tensors; the bound is for a "
            "function of one. Pass one tensor with all columns as train_inputs."
        )
    rows, shape = model.train_inputs[0].shape[:-1], tuple(model.train_targets.shape)
    if len(shape) > len(rows) and shape[-1] != 1:
        raise UnsupportedError(
            f"{name} has outcomes of shape {shape}, and the bound is for one outcome. "
            "Build one model for each."
        )
    if shape != tuple(rows):
        raise BotorchTensorDimensionError(
            f"{name} has inputs of shape {tuple(model.train_inputs[0].shape)} and outcomes "
            f"of shape {shape}; GPyTorch takes `n x d` (or `n`) inputs and `n` outcomes: "
            "pass train_Y.squeeze(-1)."
        )
    for transform in ("input_transform", "outcome_transform"):
        if getattr(model, transform, None) is not None:
            raise UnsupportedError(
                f"{name} has an {transform}, which GPyTorch does not apply. Derive the "
                "class from botorch.models.gpytorch.GPyTorchModel as well, or leave it out."
            )


def _check_input_transform(model: Any) -> None:
    transform = getattr(model, "input_transform", None)
    if getattr(transform, "is_one_to_many", False):
        raise UnsupportedError(
            f"The input transform {type(transform).__name__} turns one point into "
            "several; the bound is for a function of one point. Remove it."
        )


@torch.no_grad()
def check_prior(model: Any, inputs: Tensor) -> None:
    r"""Refuse a model (in eval mode) whose methods give another prior than its parts do.

    ``inputs`` are its ``n x d'`` training inputs as the kernel sees them.
    """
    if not _is_of_the_library(type(model).__call__):
        raise _other_prior(model, "has its own `__call__`")
    own_posterior = isinstance(model, Model) and not _is_of_the_library(model.posterior)
    if own_posterior and not _posterior_is_as_read(model):
        raise _other_prior(model, "has its own `posterior`")
    raw, transform = raw_inputs(model), getattr(model, "input_transform", None)
    known = raw if transform is None else transform(raw)
    if not torch.equal(kernel_inputs(model, raw), known):
        raise _other_prior(model, "transforms inputs by more than its `input_transform`")
    if not _is_of_the_library(model.forward) and not prior_is_as_read(model, inputs):
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
        both = model.posterior(points), GPyTorchModel.posterior(model, points)
    own, theirs = map(_before_transforms, both)
    length = theirs.variance.max().sqrt() + theirs.mean.abs().max()
    return _agree(own.mean, theirs.mean, length) and _agree(
        own.variance, theirs.variance, length.square()
    )


def _before_transforms(posterior: Any) -> Any:
    r"""The Gaussian posterior on the model's own scale."""
    while isinstance(posterior, TransformedPosterior):
        posterior = posterior._posterior  # pyright: ignore[reportPrivateUsage]
    return posterior


def prior_is_as_read(model: Any, inputs: Tensor) -> bool:
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
