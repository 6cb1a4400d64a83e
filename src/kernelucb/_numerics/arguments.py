r"""Arguments are checked against a function's type hints before it runs.

Run-time type checkers (beartype, typeguard) have no rule for "a number or a tensor with one
element, but no bool", and one error type for every argument.
"""

import inspect
import numbers
import operator
import sys
import typing
from collections.abc import Callable, Mapping, Sequence
from functools import cache, wraps
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, TypeVar, Union

import numpy as np
import torch
from botorch.exceptions import InputDataError, UnsupportedError
from botorch.models.model import Model
from torch import Tensor
from torch.nn import Module

from kernelucb._numerics import checks

Function = TypeVar("Function", bound=Callable[..., Any])

_NO = object()


class _Kind(NamedTuple):
    r"""One kind of value.

    Attributes:
        words: What it is, for messages.
        error: Raised for other values.
        read: Returns a value as the function is to have it, or ``_NO`` if it is of another
            kind.
    """

    words: str
    error: type[Exception]
    read: Callable[[str, Any], Any]


def checked(function: Function) -> Function:
    r"""Check the arguments of a function or method against its type hints.

    Numbers of any kind are converted to the ``float``, ``int`` or ``bool`` of the hint;
    everything else is passed on as it is. Kinds of hints that are unknown here are not
    checked. Where a function takes ``candidates`` or ``bounds``, two rows given by position
    could be either, and are refused.

    Raises:
        ValueError: If a number, flag, text or sequence of these has the wrong type, or two
            rows are given by position where they could be a box.
        InputDataError: If an argument is no tensor, or not dense or not floating-point.
        UnsupportedError: If a model, kernel or other object has the wrong class.
    """
    kinds = cache(lambda: _kinds_of(function))

    @wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        named = kinds()
        given = zip(named.items(), arguments, strict=False)
        read = [_read(name, kind, value) for (name, kind), value in given]
        if "bounds" in named:
            _refuse_two_rows(dict(zip(named, read, strict=False)).get("candidates"))
        options = {
            name: _read(name, named.get(name), value) for name, value in options.items()
        }
        return function(*read, *arguments[len(read) :], **options)

    # Ax asks inspect.getfullargspec, which does not look through wraps.
    vars(call)["__signature__"] = inspect.signature(function)
    return typing.cast(Function, call)


def _refuse_two_rows(candidates: Tensor | None) -> None:
    r"""Refuse ``2 x d`` candidates that were given by position."""
    if candidates is not None and candidates.ndim == 2 and len(candidates) == 2:
        raise ValueError(
            "Two rows given by position are either two points or the limits of a box: say "
            "candidates= for the points, or bounds= for the box."
        )


def _kinds_of(function: Callable[..., Any]) -> dict[str, _Kind | None]:
    r"""The kind of each argument, in order; None where any value will do."""
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except NameError:  # a user's subclass may import hints for type checkers only
        hints = {}
    names = inspect.signature(function).parameters
    return {name: _kind(hints[name]) if name in hints else None for name in names}


def _read(name: str, kind: _Kind | None, value: Any) -> Any:
    if kind is None:
        return value
    result = kind.read(name, value)
    if result is not _NO:
        return result
    if kind.error is InputDataError:
        checks.tensor(name, value)
    raise kind.error(f"{name} must be {kind.words}, got {_shown(value)}.")


def _shown(value: Any) -> str:
    r"""A value in a message: itself where it is short, else its type."""
    short = isinstance(value, (str, bytes, numbers.Number, NoneType))
    text = repr(value) if short else type(value).__name__
    return text if len(text) <= 60 else f"{text[:60]}..."


def _kind(hint: Any) -> _Kind | None:
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if hint in _PLAIN:
        return _PLAIN[hint]
    if origin in (Union, UnionType):
        return _union([_kind(option) for option in inner])
    if origin is Literal:
        return _literal(inner)
    if origin is typing.Annotated:
        return _tensor_of(inner[1]) if isinstance(inner[1], torch.dtype) else None
    if origin is type:
        return _instances(f"a subclass of {inner[0].__name__}", _subclass_of(inner[0]))
    if origin is Callable:
        return _instances("callable", callable)
    if origin in (Sequence, list) or (origin is tuple and Ellipsis in inner):
        return _sequence(_kind(inner[0]))
    if origin is tuple:
        return _tuple([_kind(part) for part in inner])
    if origin in (Mapping, dict):
        return _mapping(_kind(inner[0]), _kind(inner[1]))
    if inspect.isclass(hint) and hint not in (object, Any):
        return _instances(f"an instance of {hint.__name__}", _instance_of(hint))
    return None


def _is_number(value: object) -> bool:
    if isinstance(value, Tensor):
        real = not (value.is_complex() or value.dtype == torch.bool)
        return real and checks._is_dense(value) and value.numel() == 1
    return not isinstance(value, bool) and isinstance(value, numbers.Real)


def _number(name: str, value: Any) -> Any:
    return checks.number(name, value) if _is_number(value) else _NO


def _whole(name: str, value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        return _NO
    if abs(integer := int(value)) > sys.maxsize:
        raise ValueError(f"{name} must be at most {sys.maxsize} in size.")
    return integer


def _flag(_: str, value: Any) -> Any:
    return bool(value) if isinstance(value, (bool, np.bool_)) else _NO


def _tensor(name: str, value: Any) -> Any:
    return checks.tensor(name, value) if isinstance(value, Tensor) else _NO


_PLAIN: dict[Any, _Kind] = {
    float: _Kind("a number", ValueError, _number),
    int: _Kind("a whole number", ValueError, _whole),
    bool: _Kind("True or False", ValueError, _flag),
    str: _Kind("a text", ValueError, lambda _, v: v if isinstance(v, str) else _NO),
    NoneType: _Kind("None", ValueError, lambda _, v: v if v is None else _NO),
    Tensor: _Kind("a tensor", InputDataError, _tensor),
}


def _tensor_of(dtype: torch.dtype) -> _Kind:
    def read(_: str, value: Any) -> Any:
        fits = isinstance(value, Tensor) and value.dtype == dtype
        return value if fits and checks._is_dense(value) else _NO

    return _Kind(f"a dense tensor of {dtype}", ValueError, read)


def _literal(values: tuple[Any, ...]) -> _Kind:
    words = [f'"{value}"' if isinstance(value, str) else repr(value) for value in values]

    def read(_: str, value: Any) -> Any:
        same = (type(value) is type(own) and value == own for own in values)
        return value if any(same) else _NO

    return _Kind(_either(words), ValueError, read)


def _union(options: list[_Kind | None]) -> _Kind | None:
    if None in options:
        return None
    # Tensors first: a tensor of one element would be read as a number otherwise.
    kinds = sorted(filter(None, options), key=lambda kind: kind.read is not _tensor)
    words = [kind.words for kind in options if kind is not None]
    errors = {kind.error for kind in kinds if kind.words != "None"}
    # The error of the commonest kind among them: numbers, then tensors.
    error = next(e for e in (ValueError, InputDataError, UnsupportedError) if e in errors)

    def read(name: str, value: Any) -> Any:
        for kind in kinds:
            result = kind.read(name, value)
            if result is not _NO:
                return result
        return _NO

    return _Kind(_either(words), error, read)


_BUILT_IN = list, tuple, range


def _sequence(item: _Kind | None) -> _Kind:
    def read(name: str, value: Any) -> Any:
        if not _is_sequence(value):
            return _NO
        parts = [_read(f"{name}[{i}]", item, part) for i, part in enumerate(value)]
        own_kind = isinstance(value, Sequence) and not isinstance(value, _BUILT_IN)
        unchanged = own_kind and all(map(operator.is_, parts, value))
        return value if unchanged else parts

    if item is None:
        return _Kind("a sequence", ValueError, read)
    return _Kind(f"a sequence, each {item.words}", item.error, read)


def _tuple(items: list[_Kind | None]) -> _Kind:
    def read(name: str, value: Any) -> Any:
        if not _is_sequence(value) or len(value) != len(items):
            return _NO
        parts = enumerate(zip(items, value, strict=True))
        return tuple(_read(f"{name}[{i}]", item, part) for i, (item, part) in parts)

    words = ["any" if item is None else item.words for item in items]
    return _Kind(f"({', '.join(words)})", ValueError, read)


def _is_sequence(value: Any) -> bool:
    r"""Whether it has a length and entries by number, as lists and vectors have."""
    if isinstance(value, (str, bytes, Mapping)) or getattr(value, "ndim", 1) == 0:
        return False
    return hasattr(value, "__len__") and hasattr(value, "__getitem__")


def _mapping(key: _Kind | None, item: _Kind | None) -> _Kind:
    def read(name: str, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return _NO
        return {
            _read(f"a key of {name}", key, k): _read(f"{name}[{k!r}]", item, part)
            for k, part in value.items()
        }

    return _Kind("a mapping", ValueError, read)


def _instances(words: str, fits: Callable[[Any], bool]) -> _Kind:
    return _Kind(words, UnsupportedError, lambda _, v: v if fits(v) else _NO)


def _instance_of(kind: type) -> Callable[[Any], bool]:
    if getattr(kind, "_is_protocol", False):
        wanted = [name for name in dir(kind) if not name.startswith("_")]
        return lambda value: all(hasattr(value, name) for name in wanted)
    # A regression state may stand for a model; the reader refuses other modules.
    accepted = Module if kind is Model else kind
    return lambda value: isinstance(value, accepted)


def _subclass_of(kind: type) -> Callable[[Any], bool]:
    return lambda value: inspect.isclass(value) and issubclass(value, kind)


def _either(words: list[str]) -> str:
    return " or ".join(filter(None, [", ".join(words[:-1]), words[-1]]))
