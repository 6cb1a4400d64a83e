r"""Several outcomes: one model for each, and one argument for each."""

from collections.abc import Sequence
from typing import Any

from botorch.exceptions import UnsupportedError
from botorch.models.gpytorch import BatchedMultiOutputGPyTorchModel
from botorch.models.model import Model, ModelList
from gpytorch.models import IndependentModelList
from torch import Tensor


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
