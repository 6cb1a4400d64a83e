r"""What tells one construction of a module from another."""

from hashlib import blake2b

import torch
from torch import Tensor
from torch.nn import Module


def fingerprint(module: Module) -> Tensor:
    r"""16 bytes for what a module was built of and no tensor holds, as ``uint8``.

    Its parts' classes and plain public attributes.
    """
    digest = blake2b(digest_size=16)
    for name, part in module.named_modules():
        plain = {
            key: value
            for key, value in sorted(vars(part).items())
            if isinstance(value, str | float | int | tuple)
            and not key.startswith("_")
            and key != "training"
        }
        digest.update(repr((name, type(part).__qualname__, plain)).encode())
    return torch.tensor(list(digest.digest()), dtype=torch.uint8)


def same_tensors(one: Tensor, other: Tensor) -> bool:
    r"""Whether dtype, shape and values agree, wherever the tensors are."""
    return one.dtype == other.dtype and torch.equal(one.to(other.device), other)
