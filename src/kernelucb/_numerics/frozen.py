r"""Copies of modules: frozen ones of what users give, and drafts of one's own."""

from copy import copy, deepcopy
from typing import TypeVar

import torch
from botorch.exceptions import UnsupportedError
from torch.nn import Module

ModuleT = TypeVar("ModuleT", bound=Module)


def frozen_copy(module: Module) -> Module:
    r"""A float64 copy that is not trained.

    Raises:
        UnsupportedError: If it is no module, or cannot be copied.
    """
    check_module(module)
    name = type(module).__name__
    try:
        frozen = deepcopy(module)
    except (RuntimeError, TypeError) as error:  # tensors computed from others, locks
        raise UnsupportedError(
            f"{name} cannot be copied, and a frozen copy of it is kept: {error}. Use one "
            "whose tensors are parameters or buffers."
        ) from error
    frozen.eval()  # LCEAKernel's returns nothing
    return frozen.to(torch.float64).requires_grad_(False)


def check_module(module: object) -> None:
    r"""Refuse what is no kernel and no mean: a name, or a class in place of an object."""
    if not isinstance(module, Module):
        raise UnsupportedError(
            f"Expected a GPyTorch kernel or mean, got {module!r}; give one that was built, "
            "such as gpytorch.kernels.RBFKernel()."
        )


def draft_of(module: ModuleT) -> ModuleT:
    r"""A copy whose tensors and parts can be replaced without those of the original."""
    draft = copy(module)
    own = {name: dict(vars(module)[name]) for name in ("_buffers", "_modules")}
    vars(draft).update(own)
    return draft
