r"""Whether two modules were built alike."""

from hashlib import blake2b
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module


def fingerprint(module: Module) -> Tensor:
    r"""Hash of a module's settings outside its tensors, 16 bytes as ``uint8``.

    The settings are the classes and the plain public attributes of all its parts.
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


def plain_digest(values: Any) -> Tensor:
    r"""Hash of plain values, nested or not, 16 bytes as ``uint8``."""
    hashed = blake2b(repr(values).encode(), digest_size=16)
    return torch.tensor(list(hashed.digest()), dtype=torch.uint8)


def same_tensors(one: Tensor, other: Tensor) -> bool:
    r"""Whether dtype, shape and values agree, whatever the devices."""
    return one.dtype == other.dtype and torch.equal(one.to(other.device), other)


def digest(module: Module) -> str:
    r"""Hash of a module's settings and of all its tensors, in hexadecimal digits."""
    hashed = blake2b(bytes(fingerprint(module).tolist()), digest_size=16)
    for name, value in sorted(module.state_dict().items()):
        if torch.is_tensor(value):
            plain = value.detach().cpu().contiguous()
            hashed.update(f"{name} {plain.dtype} {tuple(plain.shape)}".encode())
            hashed.update(plain.numpy().tobytes())
    return hashed.hexdigest()
