r"""From models of BoTorch or GPyTorch to numbers and a prior."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from botorch.exceptions import InputDataError, UnsupportedError
from botorch.models.gpytorch import BatchedMultiOutputGPyTorchModel
from botorch.models.model import Model, ModelList
from gpytorch.likelihoods import FixedNoiseGaussianLikelihood
from gpytorch.models import GP, IndependentModelList
from torch import Tensor
from torch.nn import ModuleList

from kernelucb._numerics.checks import finite
from kernelucb._numerics.estimates import (
    estimated_parts,
    is_estimate,
    learns,
    plain,
    trainable,
)
from kernelucb.regression.outcome_map import OutcomeUnits, outcome_units
from kernelucb.regression.prior import Prior
from kernelucb.regression.supported import (
    check_prior,
    check_supported,
    data_inputs,
    raw_inputs,
)


class ModelData(NamedTuple):
    r"""What the confidence bounds need of a model, in outcome units and float64.

    Where outcomes are transformed by more than ``Standardize``, outcome units are those
    after that: of ``log(Y)``, for ``Log``.

    Attributes:
        prior: Prior mean and covariance; also holds the input transform, and the map from
            outcomes to the units of all numbers here.
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

    It is one of BoTorch's, or a user's GPyTorch ``ExactGP`` whose ``forward`` is made of
    these two. As by BoTorch's ``posterior``, it is put into eval mode.

    Raises:
        UnsupportedError: If the model cannot be represented; the message says why.
        InputDataError: If it has no data or its data are not finite.
        BotorchTensorDimensionError: If a GPyTorch model's outcomes are not a vector.
    """
    check_supported(model)
    model.eval()  # in eval mode the stored inputs are the transformed ones
    units = outcome_units(getattr(model, "outcome_transform", None))
    inputs = model.train_inputs[0].detach()
    targets = model.train_targets.detach()
    if inputs.shape[-2] == 0:
        raise InputDataError("The model has no training data; a bound needs at least one.")
    finite("The model's training inputs", inputs)
    finite(f"The model's training outcomes{units.outcome_map.after}", targets)
    prior = Prior(
        covar_module=model.covar_module,
        mean_module=model.mean_module,
        input_transform=getattr(model, "input_transform", None),
        offset=units.offset,
        scale=units.scale,
        outcome_map=units.outcome_map,
    )
    prior.check_fits(inputs.double())
    check_prior(model, inputs)
    raw = raw_inputs(model)
    if inputs.dtype != torch.float64:
        as_data = torch.equal(data_inputs(model, raw), inputs)
        inputs = data_inputs(prior, raw.double()) if as_data else inputs.double()
    return ModelData(
        prior=prior,
        train_inputs=inputs,
        train_targets=_outcomes(units, targets),
        noise_std=_noise_std(model, len(targets)) * units.scale,
        dimension=raw.shape[-1],
        estimated=_estimated_parts(model, units),
        learned_inputs=_learned_inputs(model),
    )


def _outcomes(units: OutcomeUnits, targets: Tensor) -> Tensor:
    r"""The model's outcomes with ``Standardize`` undone, ``n`` values."""
    values, outcome_map = units.offset + units.scale * targets.double(), units.outcome_map
    rounding = torch.finfo(targets.dtype).eps ** 0.5 * float(values.abs().max())
    if float(values.min()) < outcome_map.least - rounding:
        raise InputDataError(
            f"The model has outcomes below {outcome_map.least_outcome:g}, where what is "
            f"modelled{outcome_map.after} is not a rising function of them. Remove the "
            "outcome transform, or model outcomes that are shifted upwards."
        )
    return values


def _noise_std(model: Any, count: int) -> Tensor:
    r"""Noise scales of the likelihood, ``n`` values, units of the model."""
    noise = plain(model.likelihood.noise).detach().double()
    noise = noise.clamp_min(0.0).sqrt().reshape(-1)
    if len(noise) not in (1, count):
        raise InputDataError(
            f"The likelihood has {len(noise)} noise variances for {count} observations; "
            "give it one for each, in their order."
        )
    return noise.expand(count)


def _estimated_parts(model: Any, units: OutcomeUnits) -> frozenset[str]:
    r"""Parts that come from the same data: trainable, or learned by a transform."""
    parts = set(estimated_parts(model.covar_module, model.mean_module))
    if _learned_inputs(model):
        parts.add("kernel")
    if units.learned:
        parts.add("mean")
    likelihood, mapped = model.likelihood, not units.outcome_map.is_identity
    # BoTorch's transforms take noise variances along by a slope at the noisy outcome.
    given_by_slopes = isinstance(likelihood, FixedNoiseGaussianLikelihood)
    noise_was_estimated = trainable(likelihood) or is_estimate(likelihood.noise)
    if noise_was_estimated or (mapped and given_by_slopes):
        parts.add("noise")
    return frozenset(parts)


def _learned_inputs(model: Any) -> bool:
    return learns(getattr(model, "input_transform", None), raw_inputs(model))


def observed_inputs(model: Any) -> Tensor:
    r"""Raw inputs of all observations of a model or state, or of several, ``n x d``.

    Raises:
        UnsupportedError: If it does not keep them.
    """
    if isinstance(model, ModelList | IndependentModelList | ModuleList):
        parts: Any = model if isinstance(model, ModuleList) else model.models
        return torch.cat([observed_inputs(part) for part in parts])
    prior = getattr(model, "prior", None)
    if hasattr(model, "train_inputs"):
        if isinstance(prior, Prior) and prior.input_transform is None:  # a state of ours
            return model.train_inputs
        if isinstance(model, Model | GP):
            return raw_inputs(model)
    raise UnsupportedError(
        f"{type(model).__name__} does not keep the inputs that were observed; give them as "
        "`observed`."
    )


def single_output_models(models: Any) -> list[Any]:
    r"""One model for each outcome.

    Args:
        models: A sequence of models with one output each, a ``ModelListGP`` (or GPyTorch's
            ``IndependentModelList``), or a model with independent outputs such as
            ``SingleTaskGP`` with several columns.

    Raises:
        UnsupportedError: If the outputs cannot be separated.
    """
    if isinstance(models, Sequence):
        return [single for model in models for single in single_output_models(model)]
    if isinstance(models, ModelList | IndependentModelList):
        parts: Any = models.models
        return single_output_models(list(parts))
    if not isinstance(models, Model) or models.num_outputs == 1:
        return [models]
    if not isinstance(models, BatchedMultiOutputGPyTorchModel):
        raise UnsupportedError(
            f"The outputs of {type(models).__name__} are not independent models; use a "
            "ModelListGP, or a SingleTaskGP with one column for each outcome."
        )
    return [models.subset_output([j]) for j in range(models.num_outputs)]


def per_output(name: str, value: Any, count: int) -> list[Any]:
    r"""One value for each output, from one for all or a sequence of that length."""
    if isinstance(value, Tensor) and value.dim() == 1:
        value = value.tolist()
    if not isinstance(value, Sequence) or isinstance(value, str):
        return [value] * count
    if len(value) != count:
        raise ValueError(f"{name} has {len(value)} entries for {count} outcomes.")
    return list(value)
