r"""Saved states: every entry is checked and copied before an object takes any of them."""

import json
import math
import numbers
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from typing import Any

import torch
from torch import Tensor

from kernelucb.exceptions import StateError

Reader = Callable[[str, Any], Any]

VERSION = 1


def sealed(entries: Mapping[str, Any]) -> dict[str, Any]:
    r"""The entries with version and checksum, as ``read_state`` takes them."""
    return {"version": VERSION, "checksum": _checksum(entries), **entries}


def read_state(owner: str, state: Any, readers: Mapping[str, Reader]) -> dict[str, Any]:
    r"""Checked copies of the entries of a saved state, without version and checksum.

    Args:
        owner: Name of the class, for the message.
        state: What was saved, from ``sealed``.
        readers: For each key, what checks and copies its value.

    Raises:
        StateError: If a key is missing or unknown, the version is not this release's, a
            reader refuses a value, or a value was changed after it was saved.
    """
    own = {"version": _own_version, "checksum": text}
    values = read_entries(owner, state, {**own, **readers})
    entries = {name: state[name] for name in readers}
    if values["checksum"] != _checksum(entries):
        raise StateError(f"The state of {owner} was changed after it was saved.")
    return {name: values[name] for name in readers}


def read_entries(owner: str, state: Any, readers: Mapping[str, Reader]) -> dict[str, Any]:
    r"""Checked copies of all entries of a mapping; see ``read_state``."""
    if not isinstance(state, Mapping):
        raise StateError(
            f"The state of {owner} must be a mapping, got {type(state).__name__}."
        )
    if missing := readers.keys() - state.keys():
        raise StateError(f"The state of {owner} lacks {_names(missing)}.")
    if unknown := state.keys() - readers.keys():
        raise StateError(f"{owner} has no {_names(unknown)} in its state.")
    return {name: read(name, state[name]) for name, read in readers.items()}


def _own_version(name: str, value: Any) -> int:
    if type(value) is not int or value != VERSION:
        raise StateError(
            f"The state has version {value!r}; this release of kernelucb reads version "
            f"{VERSION}."
        )
    return value


def text(name: str, value: Any) -> str:
    r"""Reader of text."""
    if not isinstance(value, str):
        raise StateError(f"{name} must be text, got {type(value).__name__}.")
    return value


def real(
    lower: float = -math.inf, upper: float = math.inf, *, infinite: bool = False
) -> Reader:
    r"""Reader of one number in a closed range, finite unless ``infinite`` is set."""

    def read(name: str, value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, numbers.Real):
            raise StateError(f"{name} must be a number, got {type(value).__name__}.")
        try:
            number = float(value)
        except OverflowError as error:
            raise StateError(f"{name} is too large for a number.") from error
        if not lower <= number <= upper or (math.isinf(number) and not infinite):
            raise StateError(f"{name} must lie in [{lower}, {upper}], got {number}.")
        return number

    return read


def whole(lower: int = 0, upper: float = math.inf) -> Reader:
    r"""Reader of one whole number in a closed range."""

    def read(name: str, value: Any) -> int:
        if type(value) is not int or not lower <= value <= upper:
            raise StateError(
                f"{name} must be a whole number in [{lower}, {upper}], got {value!r}."
            )
        return value

    return read


def flag(name: str, value: Any) -> bool:
    r"""Reader of True or False."""
    if type(value) is not bool:
        raise StateError(f"{name} must be True or False, got {value!r}.")
    return value


def same(own: Any) -> Reader:
    r"""Reader of an argument that must equal the object's own."""

    def read(name: str, value: Any) -> Any:
        if type(value) is not type(own) or value != own:
            raise StateError(
                f"{name} is {value!r} in the state and {own!r} here; build the object with "
                "the saved arguments."
            )
        return own

    return read


def optional(reader: Reader) -> Reader:
    r"""Reader of None or of what ``reader`` takes."""
    return lambda name, value: None if value is None else reader(name, value)


def sequence(reader: Reader) -> Reader:
    r"""Reader of a list of what ``reader`` takes."""

    def read(name: str, value: Any) -> list[Any]:
        if not isinstance(value, Sequence) or isinstance(value, str):
            raise StateError(f"{name} must be a list, got {type(value).__name__}.")
        return [reader(f"{name}[{i}]", entry) for i, entry in enumerate(value)]

    return read


def reals(
    shape: Sequence[int | None], lower: float = -math.inf, upper: float = math.inf
) -> Reader:
    r"""Reader of a float64 tensor of finite values in a closed range.

    Args:
        shape: The sizes wanted, None for any size.
        lower: Smallest value.
        upper: Largest value.
    """
    return lambda name, value: _tensor(name, value, torch.float64, shape, lower, upper)


def wholes(
    shape: Sequence[int | None], lower: float = -math.inf, upper: float = math.inf
) -> Reader:
    r"""Reader of an int64 tensor in a closed range; ``shape`` as for ``reals``."""
    return lambda name, value: _tensor(name, value, torch.int64, shape, lower, upper)


def generator_state(name: str, value: Any) -> Tensor:
    r"""Reader of the state of a ``torch.Generator`` on the CPU."""
    checked = _tensor(name, value, torch.uint8, (None,), 0, 255).cpu()
    try:
        torch.Generator().set_state(checked)
    except RuntimeError as error:
        raise StateError(
            f"{name} must be the state of a torch.Generator: {error}"
        ) from error
    return checked


def _tensor(
    name: str,
    value: Any,
    dtype: torch.dtype,
    shape: Sequence[int | None],
    lower: float,
    upper: float,
) -> Tensor:
    if not isinstance(value, Tensor) or value.dtype != dtype:
        kind = value.dtype if isinstance(value, Tensor) else type(value).__name__
        raise StateError(f"{name} must be a tensor of {dtype}, got {kind}.")
    if value.layout != torch.strided or value.is_meta:
        raise StateError(f"{name} must be a dense tensor with values.")
    sizes = tuple(value.shape)
    fits = len(sizes) == len(shape) and all(
        want in (None, size) for want, size in zip(shape, sizes, strict=True)
    )
    if not fits:
        wanted = " x ".join("any" if want is None else str(want) for want in shape)
        raise StateError(f"{name} must have shape ({wanted}), got {sizes}.")
    copy = value.detach().clone()
    inside = torch.isfinite(copy) & (copy >= lower) & (copy <= upper)
    if not bool(inside.all()):
        raise StateError(f"{name} must hold finite numbers in [{lower}, {upper}].")
    return copy


def same_values(saved: Tensor, own: Tensor) -> bool:
    r"""Whether prior values are the same up to what devices make of them.

    Args:
        saved: Values of the kernel of a saved state.
        own: Values of one's own, of the same shape.
    """
    rounding = 1e-9 * float(own.abs().max())
    return torch.allclose(saved.to(own), own, rtol=1e-9, atol=1e-3 * rounding)


def _checksum(entries: Mapping[str, Any]) -> str:
    digest = blake2b(digest_size=16)
    for name in sorted(entries):
        value = entries[name]
        if isinstance(value, Tensor):
            plain = value.detach().cpu().contiguous()
            digest.update(f"{name} {plain.dtype} {tuple(plain.shape)}".encode())
            digest.update(plain.numpy().tobytes())
        else:
            digest.update(f"{name} {_plain_text(name, value)}".encode())
    return digest.hexdigest()


def _plain_text(name: str, value: Any) -> str:
    try:
        return json.dumps(value, sort_keys=True)
    except (TypeError, ValueError, RecursionError) as error:
        raise StateError(f"{name} must hold plain values: {error}.") from error


def _names(keys: set[Any]) -> str:
    return ", ".join(sorted(map(str, keys)))
