r"""Frozen copies of the modules that users give."""

from copy import deepcopy

import torch
from botorch.exceptions import UnsupportedError
from torch.nn import Module


def frozen_copy(module: Module) -> Module:
    r"""A float64 copy that is not trained.

    Raises:
        UnsupportedError: If it cannot be copied.
    """
    name = type(module).__name__
    try:
        copy = deepcopy(module)
    except (RuntimeError, TypeError) as error:  # tensors computed from others, locks
        raise UnsupportedError(
            f"{name} cannot be copied, and a frozen copy of it is kept: {error}. Use one "
            "whose tensors are parameters or buffers."
        ) from error
    copy.eval()  # LCEAKernel's returns nothing
    return copy.to(torch.float64).requires_grad_(False)
