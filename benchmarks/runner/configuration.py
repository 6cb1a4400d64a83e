r"""The one reader of ``config.toml``: tables become dataclasses with checked fields.

What a table may leave out: a field with a default; and a field without one that a table
around it has, or ``[protocol]``. The fields of the whole are read in their order, and later
ones see what was read: a list of names stands for the things of these names, and where the
list is left out, all of them are meant.
"""

import sys
import tomllib
from collections import ChainMap
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from benchmarks.runner.folders import BenchmarkError

Kind = TypeVar("Kind")
_WORDS = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}
_WORDS |= {NoneType: "nothing"}


def load_configuration(kind: type[Kind], path: Path | None = None) -> Kind:
    r"""Read a file as ``kind``, a dataclass whose fields are the tables of the file.

    Args:
        kind: A ``dict`` of dataclasses among its fields is a table of tables; each gets
            its key as ``name``, if it has such a field.
        path: By default ``config.toml`` beside the module of ``kind``.

    Raises:
        BenchmarkError: If a key is unknown, missing or of another type; the message says
            where, and what should be there.
    """
    path = path or Path(str(sys.modules[kind.__module__].__file__)).with_name("config.toml")
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
        scope = ChainMap(values.get("protocol", {}))
        return _section(kind, values, "", scope, {})
    except ValueError as error:
        raise BenchmarkError(f"{path}: {error}") from error


def typed(kind: type[Kind], values: Mapping[str, Any]) -> Kind:
    r"""A dataclass from its fields as JSON or TOML has them.

    Raises:
        BenchmarkError: If one is unknown, missing or of another type.
    """
    return _section(kind, values, "", ChainMap(), {})


def _section(kind: Any, values: Any, place: str, around: ChainMap, named: dict) -> Any:
    where = f"[{place}]" if place else "the file"
    if not isinstance(values, Mapping):
        raise BenchmarkError(f"{place} must be a table, got {values!r}.")
    hints, known = get_type_hints(kind), {field.name: field for field in fields(kind)}
    if unknown := sorted(set(values) - set(known)):
        raise BenchmarkError(
            f"{where} has {unknown}, which means nothing there: rename or remove it; known "
            f"are {sorted(known)}."
        )
    scope, found = around.new_child(dict(values)), {}
    for name, field in known.items():
        optional = (field.default, field.default_factory) != (MISSING, MISSING)
        if name in values or (name in scope and not optional):
            here = f"{place}.{name}" if place else name
            found[name] = _value(hints[name], scope[name], here, scope, named)
            scope[name] = found[name]
        elif not optional:
            raise BenchmarkError(f"{where} lacks {name!r}: add it, {_words(hints[name])}.")
    return kind(**found)


def _value(hint: Any, value: Any, place: str, scope: ChainMap, named: dict) -> Any:
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Any:
        return value
    if is_dataclass(hint):
        if isinstance(value, str):
            return _named(value, named.get(hint, {}), place)
        done = isinstance(value, hint)  # pyright: ignore[reportArgumentType]
        return value if done else _section(hint, value, place, scope, named)
    if origin in (Union, UnionType):
        return _first(hint, value, place, scope, named)
    if origin is dict and isinstance(value, Mapping):
        return _table(inner[1], value, place, scope, named)
    if origin in (tuple, list):
        if isinstance(value, Mapping) and all(
            isinstance(v, inner[0]) for v in value.values()
        ):
            return tuple(value.values())
        items = inner[:1] * len(value) if isinstance(value, list | tuple) else ()
        items = inner if origin is tuple and Ellipsis not in inner else items
        if isinstance(value, list | tuple) and len(items) == len(value):
            pairs = enumerate(zip(items, value, strict=True))
            return origin(
                _value(item, v, f"{place}[{i}]", scope, named) for i, (item, v) in pairs
            )
    if hint is float and type(value) is int:
        return float(value)
    if type(value) is (hint if origin is None else origin) and origin not in (tuple, list):
        return value
    raise BenchmarkError(f"{place} must be {_words(hint)}, got {value!r}.")


def _table(item: Any, values: Mapping, place: str, scope: ChainMap, named: dict) -> dict:
    table = {
        key: _value(item, value, f"{place}.{key}", scope.new_child({"name": key}), named)
        for key, value in values.items()
    }
    if is_dataclass(item):
        named[item] = table
    return table


def _named(name: str, known: Mapping[str, Any], place: str) -> Any:
    if name not in known:
        raise BenchmarkError(f"{place} is {name!r}, which is none of {list(known)}.")
    return known[name]


def _first(hint: Any, value: Any, place: str, scope: ChainMap, named: dict) -> Any:
    for option in get_args(hint):
        try:
            return _value(option, value, place, scope, named)
        except BenchmarkError:
            continue
    raise BenchmarkError(f"{place} must be {_words(hint)}, got {value!r}.")


def _words(hint: Any) -> str:
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return " or ".join(map(_words, inner))
    if origin in (tuple, list):
        return f"a list, each {_words(inner[0])}"
    table = "a table" if origin is dict or is_dataclass(hint) else str(hint)
    return _WORDS.get(hint, table)
