r"""Saved states: every entry is checked and copied before an object takes any of them."""

import math
import numbers
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from kernelucb.exceptions import StateError

Reader = Callable[[str, Any], Any]

VERSION = 1


def read_state(owner: str, state: object, readers: Mapping[str, Reader]) -> dict[str, Any]:
    r"""Checked copies of the entries of a saved state, without its version.

    Args:
        owner: Name of the class, for the message.
        state: What was saved; it also holds ``"version"``.
        readers: For each key, what checks and copies its value.

    Raises:
        StateError: If a key is missing or unknown, the version is another, or a value is
            not what the reader expects. Nothing has been changed then.
    """
    if not isinstance(state, Mapping):
        raise StateError(
            f"The state of {owner} must be a mapping, got {type(state).__name__}."
        )
    wanted = {"version", *readers}
    if missing := wanted - state.keys():
        raise StateError(f"The state of {owner} lacks {_names(missing)}.")
    if unknown := state.keys() - wanted:
        raise StateError(f"{owner} has no {_names(unknown)} in its state.")
    if type(state["version"]) is not int or state["version"] != VERSION:
        raise StateError(
            f"The state of {owner} has version {state['version']!r}; this release of "
            f"kernelucb reads version {VERSION}."
        )
    return {name: read(name, state[name]) for name, read in readers.items()}


def real(
    lower: float = -math.inf, upper: float = math.inf, *, infinite: bool = False
) -> Reader:
    r"""Reader of one number in a closed range, finite unless ``infinite`` is set."""

    def read(name: str, value: Any) -> float:
        if not isinstance(value, numbers.Real) or isinstance(value, bool):
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
    r"""Reader of an argument that must be that of the object itself."""

    def read(name: str, value: Any) -> Any:
        if type(value) is not type(own) or value != own:
            raise StateError(
                f"{name} is {value!r} in the state and {own!r} here; build the object with "
                "the saved arguments."
            )
        return own

    return read


def optional(reader: Reader) -> Reader:
    r"""Reader of None or what another reader takes."""
    return lambda name, value: None if value is None else reader(name, value)


def sequence(reader: Reader) -> Reader:
    r"""Reader of a list of what another reader takes."""

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
        shape: Its sizes; None where any will do.
        lower: Least value.
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
        raise StateError(f"{name} is no state of a random generator: {error}") from error
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


def _names(keys: set[Any]) -> str:
    return ", ".join(sorted(map(str, keys)))
