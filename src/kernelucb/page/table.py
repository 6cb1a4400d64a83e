r"""A table of past runs: how it is read, what its columns and rows are taken for."""

import csv
import hashlib
import io
import math
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import torch
from botorch.exceptions import InputDataError
from torch import Tensor

from kernelucb._numerics.checks import as_double

_MISSING = {"", "-", "?", "na", "n/a", "#n/a", "<na>", "nan", "nat", "none", "null"}
_SEPARATORS = ",;\t|"
# The last word of the name of a column that numbers the rows.
_COUNTERS = (
    r"(#|batch|count|exp|experiment|id|idx|index|iter|iteration|lot|no|nr|num|number|order"
    r"|round|rows?|runs?|sample|seq|sequence|step|trial|unnamed)"
)
_LEAST_SORTED = 5  # rows from which numbers that only rise or fall look like a counter
_LEAST_LEVELS = 4  # where each is repeated: three may be the levels of a design
_SHOWN = 3  # cells of a column in a message


class Source(NamedTuple):
    r"""Where a table comes from."""

    frame: Any  # a DataFrame
    origin: str  # for the page
    separator: str = ""  # of the cells in a file


@dataclass(frozen=True)
class Table:
    r"""Runs as numbers, and what was left out of the table.

    Attributes:
        origin: Name of the file and its hash.
        outcome: Name of the outcome.
        columns: For each input, by name, its columns in ``inputs``.
        choices: For each input of words, by name, the words, a column for each.
        inputs: ``n x d`` settings; a word is a 1 in its column and 0 in the others.
        outcomes: ``n`` outcomes.
        rows: The numbers of the runs in the table, from 1.
        unused_rows: Numbers of the other rows, and why they are not used.
        left_out: Names of the other columns, and why they are left out.
    """

    origin: str
    outcome: str
    columns: Mapping[str, list[int]]
    choices: Mapping[str, list[str]]
    inputs: Tensor
    outcomes: Tensor
    rows: tuple[int, ...]
    unused_rows: Mapping[int, str]
    left_out: Mapping[str, str]

    @property
    def numbers(self) -> dict[str, int]:
        r"""The columns of the inputs that are numbers, by name."""
        return {
            name: own[0] for name, own in self.columns.items() if not self.is_choice(name)
        }

    @property
    def labels(self) -> list[str]:
        r"""Names of the columns of ``inputs``, such as ``"heat"`` or ``"solvent=DMF"``."""
        listed: list[str] = []
        for name in self.columns:
            words = self.choices.get(name)
            listed += [name] if words is None else [f"{name}={word}" for word in words]
        return listed

    @property
    def groups(self) -> list[list[int]]:
        r"""The columns of each input of words."""
        return [self.columns[name] for name in self.choices]

    def check_names(self, option: str, names: Iterable[str]) -> None:
        r"""Refuse names that are no inputs."""
        for name in names:
            if name not in self.columns:
                inputs = ", ".join(self.columns)
                raise ValueError(f"{option} names {name!r}; the inputs are {inputs}.")

    def setting(self, option: str, given: Mapping[str, Any]) -> Tensor:
        r"""``d`` coordinates of a setting with a number or a word for each input."""
        self.check_names(option, given)
        if missing := [name for name in self.columns if name not in given]:
            raise ValueError(f"{option} lacks {', '.join(missing)}; give every input.")
        point = torch.zeros(self.inputs.shape[1], dtype=torch.float64)
        for name, own in self.columns.items():
            if self.is_choice(name):
                word, words = str(given[name]).strip(), self.choices[name]
                if word not in words:
                    raise ValueError(f"{option}: {name} is one of {', '.join(words)}.")
                point[own[words.index(word)]] = 1.0
                continue
            try:
                point[own[0]] = float(given[name])
            except ValueError as error:
                message = f"{option}: {name} must be a number, got {given[name]!r}."
                raise ValueError(message) from error
        return point

    # What sentences of a report ask: see `Wording`.

    def of_columns(self, columns: Iterable[str]) -> list[str]:
        r"""The inputs to which some of the columns belong."""
        asked = {*columns}
        return [
            n for n, own in self.columns.items() if asked & {self.labels[i] for i in own}
        ]

    def is_choice(self, name: str) -> bool:
        r"""Whether an input is of words."""
        return name in self.choices

    def parameters(self, point: Sequence[float]) -> dict[str, Any]:
        r"""Numbers and words of a point, by the names of the inputs."""
        return {name: ends[0] for name, ends in self.values(point, point, point).items()}

    def values(
        self, point: Sequence[float], low: Sequence[float], high: Sequence[float]
    ) -> dict[str, list[Any]]:
        r"""Two limits of each number, and the words of each choice, in a box."""
        found: dict[str, list[Any]] = {}
        for name, own in self.columns.items():
            found[name] = [low[own[0]], high[own[0]]]
            if self.is_choice(name):
                pairs = zip(own, self.choices[name], strict=True)
                found[name] = [word for column, word in pairs if high[column] > 0.5]
        return found


def read_source(table: Any) -> Source:
    r"""A DataFrame as it is, or the csv file of that name, as a table of texts.

    A file is read as UTF-8, else as Windows' Latin 1; its cells are between commas,
    semicolons, tabs or bars, whichever gives every row as many cells as the header.

    Raises:
        InputDataError: If it is no table; the message says what to change.
        ImportError: If pandas is absent.
    """
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError(
            "A report needs pandas: pip install kernelucb[report]."
        ) from error
    if isinstance(table, pd.DataFrame):
        text = table.to_csv(index=False)
        return Source(table, f"a DataFrame, {_hash(text.encode())} of its csv text")
    path = Path(table)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputDataError(f"{path} cannot be read: {error}.") from error
    text, encoding = _decoded(path, content)
    rows, separator = _cells(path, text)
    header = [name.strip() or f"column_{i}" for i, name in enumerate(rows[0], 1)]
    frame = pd.DataFrame(rows[1:], columns=pd.Index(header), dtype=object)
    return Source(frame, f"{path.name}, {_hash(content)}{encoding}", separator)


def _hash(content: bytes) -> str:
    return f"sha256 {hashlib.sha256(content).hexdigest()}"


def _decoded(path: Path, content: bytes) -> tuple[str, str]:
    r"""The text of a file, and a remark where it is not in UTF-8."""
    encodings = {"utf-8-sig": "", "cp1252": ", read as Windows-1252"}
    encodings |= {"latin-1": ", read as Latin 1"}
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        encodings = {"utf-16": ", read as UTF-16"}
    for encoding, remark in encodings.items():
        try:
            text = content.decode(encoding)
        except UnicodeDecodeError:
            continue
        if "\0" not in text:
            return text, remark
    raise InputDataError(f"{path} cannot be read: it is no text; save the table as csv.")


def _cells(path: Path, text: str) -> tuple[list[list[str]], str]:
    r"""The rows of a file, all of the same length, the header first; their separator."""
    separators = _SEPARATORS
    if first := re.match(r"sep=(.)\r?\n", text):  # how Excel notes it
        separators, text = first[1], text[first.end() :]

    def split(separator: str) -> list[list[str]]:
        lines = csv.reader(
            io.StringIO(text, newline=""), delimiter=separator, skipinitialspace=True
        )
        return [row for row in lines if any(map(str.strip, row))]

    def fits(separator: str) -> tuple[bool, int]:
        header, *rows = tables[separator] or [[]]
        return all(len(row) == len(header) for row in rows), len(header)

    try:
        tables = {separator: split(separator) for separator in separators}
    except csv.Error as error:
        raise InputDataError(f"{path} cannot be read: {error}.") from error
    several = [each for each in tables if fits(each)[1] > 1]
    separator = max(several or tables, key=fits)
    rows = tables[separator]
    if len(rows) < 3:
        count = max(len(rows) - 1, 0)
        raise InputDataError(f"{path} has {count} rows below its header; give two or more.")
    for number, row in enumerate(rows[1:], 1):
        if len(row) != len(rows[0]):
            hint = ""
            if separator == "," and len(row) > len(rows[0]):
                hint = " (with decimal commas, quote the numbers or use semicolons)"
            raise InputDataError(
                f"Row {number} has {len(row)} cells, the header {len(rows[0])}; give each "
                f"column a cell{hint}."
            )
    return rows, separator


# Numbers.


def _pattern(mark: str) -> re.Pattern[str]:
    r"""Numbers with this decimal mark; thousands in groups of three are optional."""
    other = "," if mark == "." else "."
    group = rf"[1-9][0-9]{{0,2}}([{other} '\u2019\u00a0\u202f\u2009])[0-9]{{3}}"
    whole = rf"(?:[0-9]+|{group}(?:\1[0-9]{{3}})*)"
    fraction = rf"\{mark}[0-9]+"
    return re.compile(rf"[+-]?(?:{whole}(?:\{mark}[0-9]*)?|{fraction})(?:[eE][+-]?[0-9]+)?")


_PATTERNS = {mark: _pattern(mark) for mark in ".,"}


def _number(cell: str, mark: str) -> float | None:
    r"""The finite number in a cell; None where there is none."""
    if not _PATTERNS[mark].fullmatch(cell):
        return None
    digits = re.sub(rf"[^0-9eE+\-\{mark}]", "", cell).replace(mark, ".")
    value = float(digits)
    return value if math.isfinite(value) else None


def _decimal_mark(columns: Mapping[str, list[str]], given: str | None, file: str) -> str:
    r"""The decimal mark of all numbers in columns of texts.

    Raises:
        InputDataError: If the cells do not agree, or allow two readings.
    """
    if given is not None:
        if given not in _PATTERNS:
            raise ValueError(f'--decimal must be "." or ",", got {given!r}.')
        return given
    sure, doubtful = dict[str, str](), dict[str, str]()
    thousands = False
    for name, cells in columns.items():
        for row, cell in enumerate(cells, 1):
            marks = [mark for mark in _PATTERNS if _number(cell, mark) is not None]
            if not marks or not set(cell) & {".", ","}:
                continue
            where = f"{name!r} has {cell!r} in row {row}"
            if len(marks) == 1:
                thousands |= {".", ","} <= set(cell)
                sure.setdefault(marks[0], where)
            else:
                doubtful.setdefault("." if "." in cell else ",", where)
    ask = "say which is the decimal mark: --decimal . or --decimal ,"
    if len(sure) == 2:
        raise InputDataError(f"{'; '.join(sure.values())}: {ask}.")
    mark = next(iter(sure), ".")
    # "1.234" and "1,234" are thousands or not: a point between commas is a decimal one.
    clear = {mark} if sure or file != ";" else set[str]()
    others = {} if thousands else {m: w for m, w in doubtful.items() if m not in clear}
    for where in others.values():
        raise InputDataError(f"{where}, which can be read in two ways: {ask}.")
    return mark


# Columns.


class _Column(NamedTuple):
    r"""A column as texts, stripped, and as numbers where it has some."""

    cells: list[str]
    numbers: list[float | None]
    missing: list[bool]

    @property
    def words(self) -> dict[str, int]:
        r"""Cells that are neither numbers nor missing, and the first row of each."""
        found: dict[str, int] = {}
        each = zip(self.cells, self.numbers, self.missing, strict=True)
        for row, (cell, number, missing) in enumerate(each, 1):
            if number is None and not missing:
                found.setdefault(cell, row)
        return found

    @property
    def shown(self) -> str:
        r"""``"'AB', 'CD', ..."``."""
        several = list(dict.fromkeys(self.words))
        more = ", ..." if len(several) > _SHOWN else ""
        return f"{', '.join(map(repr, several[:_SHOWN]))}{more}"


def table_of(
    table: Any,
    outcome: str,
    inputs: Sequence[str] | None,
    ignore: Sequence[str],
    categories: Sequence[str],
    missing: Sequence[str],
    decimal: str | None,
) -> Table:
    r"""The runs of a file or a DataFrame; see ``report`` for the options.

    Raises:
        InputDataError: If a column can be taken for several things, or for none. All
            questions are in one message, each with the option that answers it.
    """
    frame, origin, separator = read_source(table)
    names = [" ".join(str(name).split()) for name in frame.columns]
    for name in (outcome, *(inputs or ()), *ignore, *categories):
        if name not in names:
            raise InputDataError(f"No column {name!r}; the columns are {', '.join(names)}.")
    for name in names:
        if names.count(name) > 1:
            raise InputDataError(f"There are {names.count(name)} columns {name!r}; rename.")
    taken = [name for name in names if name not in (outcome, *ignore)]
    if inputs is not None:
        taken = [*dict.fromkeys((*inputs, *categories))]
    for name in (*taken, *categories):
        if name in (outcome, *ignore):
            raise InputDataError(
                f"{name!r} is an input, the outcome or ignored: choose one."
            )
    place = {name: i for i, name in enumerate(names)}
    used = {name: frame.iloc[:, place[name]] for name in (*taken, outcome)}
    columns = _columns(used, [*missing], decimal, separator)

    seen = columns[outcome]
    for word, row in seen.words.items():
        raise InputDataError(
            f"The outcome {outcome!r} has {word!r} in row {row}; give a number, or say "
            f"that there is none: --missing {shlex.quote(word)}."
        )
    kept = [i for i, empty in enumerate(seen.missing) if not empty]
    if len(kept) < 2:
        raise InputDataError(
            f"{len(kept)} rows have a number in {outcome!r}; two are needed."
        )
    because = {i + 1: f"{outcome} is {seen.cells[i] or 'blank'}" for i in range(len(frame))}
    reasons = {name: "not among --inputs" for name in names if name not in used}
    reasons |= {name: "as asked by --ignore" for name in ignore}
    for name in reasons:
        values = frame.iloc[:, place[name]].astype(str).unique().tolist()
        if len(values) == 1:
            reasons[name] += f"; {values[0]} in every row"
    questions, parts = list[str](), dict[str, list[list[float]]]()
    choices: dict[str, list[str]] = {}
    for name in taken:
        own = columns[name]
        if all(own.missing) and inputs is None and name not in categories:
            reasons[name] = "empty"
        elif question := _question(name, own, kept, inputs is None, name in categories):
            questions.append(question)
        elif name in categories:
            words = sorted({own.cells[i] for i in kept})
            choices[name] = words
            parts[name] = [[float(own.cells[i] == w) for i in kept] for w in words]
        else:
            parts[name] = [[own.numbers[i] or 0.0 for i in kept]]
    if questions:
        raise InputDataError("\n  ".join(["What are these columns?", *questions]))
    if not parts:
        raise InputDataError(f"There is no column of settings beside {outcome!r}.")
    where: dict[str, list[int]] = {}
    for name, each in parts.items():
        start = sum(map(len, where.values()))
        where[name] = [*range(start, start + len(each))]
    return Table(
        origin=origin,
        outcome=outcome,
        columns=where,
        choices=choices,
        inputs=as_double([column for each in parts.values() for column in each]).mT,
        outcomes=as_double([seen.numbers[i] for i in kept]),
        rows=tuple(i + 1 for i in kept),
        unused_rows={row: why for row, why in because.items() if row - 1 not in kept},
        left_out={name: reasons[name] for name in names if name in reasons},
    )


def _columns(
    used: Mapping[str, Any], missing: list[str], decimal: str | None, separator: str
) -> dict[str, _Column]:
    r"""The columns of a DataFrame as texts and numbers."""
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    blank = _MISSING | {word.strip().lower() for word in missing}
    texts: dict[str, list[str]] = {}
    for name, column in used.items():
        empty = column.isna().tolist()
        cells = zip(column.tolist(), empty, strict=True)
        # U+2212 is the minus of a text processor.
        texts[name] = [
            "" if none else str(cell).strip().replace("\u2212", "-") for cell, none in cells
        ]
    typed = {
        name
        for name, column in used.items()
        if is_numeric_dtype(column) and not is_bool_dtype(column)
    }
    plain = {name: cells for name, cells in texts.items() if name not in typed}
    mark = _decimal_mark(plain, decimal, separator)
    found: dict[str, _Column] = {}
    for name, cells in texts.items():
        none = [cell.lower() in blank for cell in cells]
        numbers: list[float | None] = [_number(cell, mark) for cell in cells]
        if name in typed:
            numbers = [float(cell) if math.isfinite(cell) else None for cell in used[name]]
        found[name] = _Column(cells, numbers, none)
    return found


def _question(
    name: str, own: _Column, kept: list[int], by_default: bool, is_choice: bool
) -> str | None:
    r"""What has to be asked about a column before it is an input; None for nothing."""
    words, shown = own.words, shlex.quote(name)
    ignore = f"--ignore {shown}"
    blank = [i + 1 for i in kept if own.missing[i]]
    if blank and (is_choice or not words):
        return (
            f"{name!r} is blank in row {blank[0]}, which has an outcome: fill it in, "
            f"delete the row, or {ignore}"
        )
    if len({own.cells[i] if own.numbers[i] is None else own.numbers[i] for i in kept}) == 1:
        value = own.cells[kept[0]]
        return f"{name!r} is {value} in every row, so its effect is not known: {ignore}"
    if is_choice:
        return None
    if words and any(number is not None for number in own.numbers):
        word, row = next(iter(words.items()))
        return (
            f"{name!r} has {word!r} in row {row}: give a number, or take the column as "
            f"words (--categories {shown}), or {ignore}"
        )
    if words:
        return (
            f"{name!r} holds words ({own.shown}): --categories {shown} if it was set, else "
            f"{ignore}"
        )
    numbers = [number for number in own.numbers if number is not None]
    if by_default and _counts(name, numbers):
        first = ", ".join(f"{number:g}" for number in numbers[:_SHOWN])
        return (
            f"{name!r} counts the rows ({first}, ...), or so it seems: {ignore}, or name "
            "all that was set, with it: --inputs A,B"
        )
    return None


def _counts(name: str, values: list[float]) -> bool:
    r"""Whether a column seems to number the rows, perhaps with gaps or in another order."""
    if not all(value.is_integer() for value in values):
        return False
    steps = [after - before for before, after in pairwise(values)]
    rises = all(step >= 0.0 for step in steps) or all(step <= 0.0 for step in steps)
    differ = len({*values}) == len(values)
    # The last word, also of "trialIndex" and "run_2".
    start, spaced = r"(?:^|[^a-z])", re.sub(r"([a-z])([A-Z])", r"\1 \2", name).lower()
    if re.search(rf"{start}{_COUNTERS}[^a-z]*$", spaced):
        return rises or differ
    if not differ:  # 1, 1, 2, 2, 3, 3, 4, 4: numbers of settings
        by_one = {*map(abs, steps)} == {0.0, 1.0}
        return rises and by_one and len({*values}) >= _LEAST_LEVELS
    dense = max(values) - min(values) + 1.0 < 2.0 * len(values)
    # Equal steps other than 1 are a design: 20, 40, 60, 80.
    uneven = len({*steps}) > 1
    return dense or (rises and uneven and len(values) >= _LEAST_SORTED)
