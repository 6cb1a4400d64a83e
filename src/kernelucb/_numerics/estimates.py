r"""What was taken from the data: parameters, transforms, and numbers that say so."""

from copy import deepcopy
from typing import Any

import torch
from botorch.models.transforms.input import InputTransform
from torch import Tensor
from torch.nn import Module


class EstimatedNumber(float):
    r"""A number that was estimated: a bound that takes it marks it so.

    Arithmetic gives plain numbers, which are the user's own.
    """


def trainable(module: Module | None) -> bool:
    r"""Whether a fit would change any of the module's parameters."""
    return module is not None and any(p.requires_grad for p in module.parameters())


def estimated_parts(
    covar_module: Module, mean_module: Module | None = None
) -> frozenset[str]:
    r"""Which of ``"kernel"`` and ``"mean"`` may have been fitted: the trainable ones."""
    parts = {"kernel": covar_module, "mean": mean_module}
    return frozenset(name for name, module in parts.items() if trainable(module))


def learns(transform: InputTransform | None, inputs: Tensor) -> bool:
    r"""Whether an input transform takes anything from the data.

    ``Normalize`` without bounds and ``InputStandardize`` learn theirs anew in training
    mode, as buffers. Transforms that do not say so are tried: trained on one half of the
    inputs and on the other, they must give the same.

    Args:
        transform: As it is in the model; it stays so.
        inputs: ``n x d`` raw inputs.
    """
    if transform is None:
        return False
    parts: list[Any] = list(transform.modules())
    if trainable(transform) or any(getattr(p, "learn_coefficients", False) for p in parts):
        return True
    half = max(1, len(inputs) // 2)
    outputs = []
    for part in (inputs[:half], inputs[-half:]):
        probe = deepcopy(transform).train()
        probe(part)
        outputs.append(probe.eval()(inputs))
    return not torch.equal(*outputs)
