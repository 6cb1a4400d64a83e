r"""Small things that torch lacks for arrays of numbers.

An operation of torch on a few numbers costs several microseconds, one of NumPy less than
one. Code that takes its functions from ``library_of`` its arrays runs with both: on NumPy
arrays that share the memory of tensors on the processor, on tensors elsewhere.
"""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor

# A NumPy array or a tensor.
Array = Any

# Points that are evaluated together: memory does not grow with their number, and most
# intermediate results stay in the processor's cache.
_TOGETHER = 512


def as_array(tensor: Tensor) -> Array:
    r"""The numbers of a tensor, without gradient: a NumPy array where torch allows it."""
    return tensor.detach().numpy() if tensor.device.type == "cpu" else tensor.detach()


def library_of(array: Array) -> ModuleType:
    r"""``torch`` for a tensor, otherwise ``numpy``."""
    return torch if isinstance(array, Tensor) else np


def safe_sqrt(value: Tensor) -> Tensor:
    r"""Square root with gradient zero instead of infinity at zero."""
    positive = value > 0
    return torch.where(positive, torch.where(positive, value, 1.0).sqrt(), 0.0)


def in_parts(X: Tensor, evaluate: Callable[[Tensor], Tensor]) -> Tensor:
    r"""Evaluate ``n x d`` points a few at a time, by a map to ``... x m`` values.

    The ``... x n`` values are written to one tensor: small results that stay alive between
    large intermediate ones would fragment the memory.
    """
    if len(X) <= _TOGETHER:
        return evaluate(X)
    start, results = 0, X.new_empty(0)
    for part in X.split(_TOGETHER):
        values = evaluate(part)
        if start == 0:
            results = values.new_empty(*values.shape[:-1], len(X))
        results[..., start : start + len(part)] = values
        start += len(part)
    return results
