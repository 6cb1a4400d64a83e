r"""What was estimated from the data: parameters, transforms and numbers."""

from copy import deepcopy
from typing import Any

import torch
from botorch.models.transforms.input import InputTransform
from torch import Tensor
from torch.nn import Module


class EstimatedNumber(float):
    r"""A number that was estimated; a bound that takes it says so in its assumptions.

    Arithmetic with it gives plain numbers, which count as given by the user.
    """


def trainable(module: Module | None) -> bool:
    r"""Whether a fit would change any of the module's parameters."""
    return module is not None and any(p.requires_grad for p in module.parameters())


def estimated_parts(
    covar_module: Module, mean_module: Module | None = None
) -> frozenset[str]:
    r"""Which of ``"kernel"`` and ``"mean"`` are trainable, so may have been fitted."""
    parts = {"kernel": covar_module, "mean": mean_module}
    return frozenset(name for name, module in parts.items() if trainable(module))


def learns(transform: InputTransform | None, inputs: Tensor) -> bool:
    r"""Whether an input transform is fitted to the data.

    Some say so: trainable ones, ``Normalize`` without bounds and ``InputStandardize``.
    Others are tried: copies in training mode that saw one half of the inputs and the other
    half must transform all inputs in the same way.

    Args:
        transform: The model's; it is not changed.
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
