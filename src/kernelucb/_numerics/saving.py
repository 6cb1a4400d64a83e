r"""Saved states of objects that learn: settings and data, read by replay.

A state is a dictionary of tensors and plain values, which ``torch.save`` takes. What was
computed from the data is not saved: an object that reads a state takes in the data again.
Acquisition functions follow from their arguments; see ``acquisition/base.py``.
"""

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module

from kernelucb.exceptions import StateError

VERSION = 2


def saved(owner: object, settings: Any, **entries: Any) -> dict[str, Any]:
    r"""A state of ``owner``: its class, its settings and copies of what it has learnt.

    ``settings`` say how it was built, and must be the same where the state is loaded. For a
    kernel they have its values on the first inputs, which tell two kernels apart and
    survive another device.
    """
    return {
        "kernelucb": VERSION,
        "class": type(owner).__name__,
        "settings": settings,
        **{name: _copied(value) for name, value in entries.items()},
    }


def opened(owner: object, settings: Any, state: Any, *names: str) -> list[Any]:
    r"""Copies of the named entries of a state that an object built alike has saved.

    Raises:
        StateError: If it is no state of this class and version, was saved under other
            settings, or lacks an entry.
    """
    name = type(owner).__name__
    if not isinstance(state, Mapping) or state.get("class") != name:
        raise StateError(
            f"This is no state of a {name}; give what its state_dict() returned."
        )
    if (version := state.get("kernelucb")) != VERSION:
        raise StateError(
            f"The state has version {version!r}; this release reads version {VERSION}."
        )
    if missing := [each for each in names if each not in state]:
        raise StateError(f"The state of {name} lacks {', '.join(missing)}.")
    if not same_values(own := state.get("settings"), settings):
        raise StateError(
            f"The state was saved by a {name} that was built otherwise: "
            f"{_difference(own, settings)}. Build it with the saved arguments, kernel and "
            "mean."
        )
    return [_copied(state[each]) for each in names]


def same_values(one: Any, other: Any, rtol: float = 1e-9, atol: float = 1e-12) -> bool:
    r"""Whether nested values and tensors agree, up to what devices make of tensors."""
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        if one.shape != other.shape or one.dtype != other.dtype:
            return False
        return torch.allclose(one.to(other), other, rtol=rtol, atol=atol)
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(
            same_values(one[key], other[key], rtol, atol) for key in other
        )
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        pairs = zip(one, other, strict=False)
        return len(one) == len(other) and all(
            same_values(*pair, rtol, atol) for pair in pairs
        )
    return type(one) is type(other) and one == other


def _difference(saved: Any, own: Any) -> str:
    r"""Which settings differ, in words."""
    if not (isinstance(saved, Mapping) and isinstance(own, Mapping)):
        return f"its settings are {saved!r} in the state and {own!r} here"
    return ", ".join(
        f"{name} has other values"
        if isinstance(own.get(name), Tensor)
        else f"{name} is {saved.get(name)!r} in the state and {own.get(name)!r} here"
        for name in {**saved, **own}
        if not same_values(saved.get(name), own.get(name))
    )


def _copied(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, Tensor) else value


def fingerprint(module: Module) -> Tensor:
    r"""Hash of a module's settings outside its tensors, 16 bytes as ``uint8``.

    The settings are the classes and the plain public attributes of all its parts.
    """
    parts: list[Any] = []
    for name, part in module.named_modules():
        plain = {
            key: value
            for key, value in sorted(vars(part).items())
            if isinstance(value, str | float | int | tuple)
            and not key.startswith("_")
            and key != "training"
        }
        parts.append((name, type(part).__qualname__, plain))
    return plain_digest(parts)


def plain_digest(values: Any) -> Tensor:
    r"""Hash of plain values, nested or not, 16 bytes as ``uint8``."""
    hashed = blake2b(repr(values).encode(), digest_size=16)
    return torch.tensor(list(hashed.digest()), dtype=torch.uint8)
