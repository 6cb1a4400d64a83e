r"""Small tables without torch's bookkeeping.

An operation of torch on a few numbers costs several microseconds, one of NumPy less than
one. Code that takes its functions from ``library_of`` its arrays runs with both: on NumPy
arrays that share the memory of tensors on the processor, on tensors elsewhere.
"""

from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor

# A NumPy array or a tensor.
Array = Any


def as_array(tensor: Tensor) -> Array:
    r"""The numbers of a tensor, without gradient: a NumPy array where torch allows it."""
    return tensor.detach().numpy() if tensor.device.type == "cpu" else tensor.detach()


def library_of(array: Array) -> ModuleType:
    r"""``torch`` for a tensor, otherwise ``numpy``."""
    return torch if isinstance(array, Tensor) else np
