r"""A table of past runs, and options that name its columns."""

import csv
import math
from pathlib import Path
from typing import NamedTuple

import torch
from botorch.exceptions import InputDataError
from torch import Tensor


class Table(NamedTuple):
    r"""Runs: ``n x d`` settings and ``n`` outcomes, and columns that are neither."""

    names: tuple[str, ...]  # of the inputs
    outcome: str
    inputs: Tensor
    outcomes: Tensor
    unused: tuple[str, ...]

    def by_name(self, option: str, text: str | None) -> dict[str, str]:
        r"""``{"time": "2"}`` from ``"time=2"``, for an option about the columns."""
        pairs = [part.partition("=") for part in (text or "").split(",") if part.strip()]
        for name, equals, value in pairs:
            if not equals or not value.strip():
                raise ValueError(f'{option} must be like "A=1,B=2", got {text!r}.')
            if name.strip() not in (*self.names, self.outcome):
                raise ValueError(
                    f"{option} names {name!r}; the inputs are {', '.join(self.names)}."
                )
        return {name.strip(): value.strip() for name, _, value in pairs}


def numbers(option: str, text: str, like: str) -> list[float]:
    r"""The numbers in an option of the form ``like``, between commas or colons."""
    separator = ":" if ":" in like else ","
    parts = text.split(separator)
    if not all(map(_is_number, parts)) or (separator == ":" and len(parts) != 2):
        raise ValueError(f'{option} must be like "{like}", got {text!r}.')
    return [*map(float, parts)]


def span(option: str, text: str) -> tuple[float, float]:
    r"""``(0.1, 10.0)`` from ``"0.1:10"``, for an option."""
    low, high = numbers(option, text, "0.1:10")
    if not low < high:
        raise ValueError(f"{option} must have its smaller number first, got {text!r}.")
    return low, high


def read_table(path: Path, outcome: str, inputs: list[str] | None) -> Table:
    r"""The table in a csv file with a header; commas, semicolons or tabs.

    Inputs are all columns of numbers but the outcome, unless they are named.

    Raises:
        InputDataError: If it is no such table; the message says what to change.
    """
    rows = _cells(path)
    header = [name.strip() for name in rows[0]]
    for name in [outcome, *(inputs or ())]:
        if header.count(name) != 1:
            there = f"its columns are {', '.join(header)}"
            raise InputDataError(f"{path} has not one column {name!r}; {there}.")
    cells = dict(zip(header, zip(*rows[1:], strict=True), strict=False))
    names = inputs
    if names is None:
        names = [name for name in header if any(map(_is_number, cells[name]))]
        names = [name for name in names if name != outcome]
    if not names or outcome in names or len({*names}) < len(names):
        raise InputDataError(
            f"The inputs must be different columns of numbers beside {outcome!r}, got "
            f"{', '.join(names) or 'none'}."
        )
    columns = {name: _column(name, cells[name]) for name in (*names, outcome)}
    rest = "; leave it out by naming the inputs: --inputs A,B."
    for name in names:
        values = columns[name].tolist()
        if len({*values}) == 1:
            constant = f"Column {name!r} is {values[0]:g} in every row, so its effect is "
            raise InputDataError(f"{constant}not known{rest}")
        counts = [values[0] + place for place in range(len(values))]
        if inputs is None and values == counts:
            raise InputDataError(f"Column {name!r} counts the rows{rest}")
    settings = torch.stack([columns[name] for name in names], -1)
    unused = tuple(name for name in header if name not in columns)
    return Table(tuple(names), outcome, settings, columns[outcome], unused)


def _cells(path: Path) -> list[list[str]]:
    r"""The rows of a file, all of the same length, the header first."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputDataError(f"{path} cannot be read: {error}.") from error
    lines = [line for line in text.splitlines() if line.strip(" ,;\t")]
    rows = [*csv.reader(lines, delimiter=max(",;\t", key="".join(lines[:1]).count))]
    if len(rows) < 3:
        count = max(len(rows) - 1, 0)
        raise InputDataError(f"{path} has {count} rows below its header; give two or more.")
    for number, row in enumerate(rows[1:], 1):
        if len(row) != len(rows[0]):
            raise InputDataError(
                f"Row {number} has {len(row)} cells, the header {len(rows[0])}; give each "
                "column a cell."
            )
    return rows


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _column(name: str, cells: tuple[str, ...]) -> Tensor:
    for number, cell in enumerate(cells, 1):
        if not _is_number(cell):
            raise InputDataError(
                f"Column {name!r} has {cell.strip()!r} in row {number}; give a number, "
                "delete the row, or leave the column out (--inputs A,B)."
            )
    return torch.tensor([*map(float, cells)], dtype=torch.float64)
