r"""Tables as people save them, read without torch, NumPy or pandas.

For ``report`` and its ``--earlier``, and for ``confirm``: one way from bytes to rows, and
one from cells to numbers, whether they come from a file or from Python.
"""

import csv
import hashlib
import math
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from io import StringIO
from itertools import islice
from numbers import Real
from pathlib import Path
from typing import Any

Cell = Real | str

MISSING = {"", "-", "?", "na", "n/a", "#n/a", "<na>", "nan", "nat", "none", "null"}
_MARKS = {"\t": "tabs", ";": "semicolons", "|": "bars", ",": "commas", " ": "blanks"}
_ALONE = "\x1f"  # between the cells of a table with one column: in no text
_JUDGED = 200  # rows by which a separator is chosen
# A word for what an instrument does not show: too small, too large, diverged.
_LOST = re.compile(
    r"[<>≤≥].*|[+-]?(inf|infinity|∞)|.*\b(lod|loq|bdl|blod|bql|blq|llod|lloq|uloq|oor)\b.*"
    r"|(below|above|under|over|out of|not detect|trace|saturat|overflow|overload|diverge).*"
)
# The last word of the name of a column that numbers the rows.
_COUNTER = re.compile(
    r"(^|[^a-z])(#|batch|count|elapsed|exp|experiment|id|idx|index|iter|iteration|lot|no|nr|num"
    r"|number|order|round|rows?|runs?|sample|seq|sequence|step|time|timestamp|trial)[^a-z]*$"
)
# The last word of the name of a column without a name, or of one that numbers repeats.
_LABEL = re.compile(r"(^|[^a-z])(column|rep|repeat|replicate|unnamed)[^a-z]*$")


@dataclass(frozen=True)
class Sheet:
    r"""Rows and columns of cells.

    Attributes:
        names: Names of the columns, all different, with single spaces.
        columns: Cells of each column: texts, or numbers that Python already had.
        rows: Numbers of the rows as a sheet counts them: the header is row 1.
        origin: Where it comes from, and its hash.
        separator: What is between the cells of the file; empty without.
        is_named: Whether the names are no numbers, which could be a row of the table.
    """

    names: list[str]
    columns: list[list[Cell]]
    rows: Sequence[int]
    origin: str = ""
    separator: str = ""
    is_named: bool = True

    def __post_init__(self) -> None:
        for name in self.names:
            if len(at := [i for i, n in enumerate(self.names, 1) if n == name]) > 1:
                raise ValueError(
                    f"There is not one column {name!r}: columns {', '.join(map(str, at))} "
                    "have this name; rename them."
                )

    def cells(self, name: str) -> list[Cell]:
        r"""Cells of a column.

        Raises:
            ValueError: If there is none of this name.
        """
        if name in self.names:
            return self.columns[self.names.index(name)]
        between = _MARKS.get(self.separator, "nothing")
        hint = f" ({between} between cells; a first line sep=; says otherwise)"
        raise ValueError(
            f"There is not one column {name!r}; the columns are {', '.join(self.names)}"
            f"{hint if self.separator else ''}."
        )


@dataclass(frozen=True)
class Column:
    r"""A column as texts and as numbers, NaN where there is none.

    Attributes:
        texts: Its cells.
        numbers: Their numbers, in ``unit``.
        blank: Which cells say that there is nothing.
        unit: What stood behind the number in all cells.
    """

    texts: list[str]
    numbers: list[float]
    blank: list[bool]
    unit: str

    @property
    def words(self) -> dict[int, str]:
        r"""The other cells, by their places."""
        every = enumerate(zip(self.texts, self.numbers, self.blank, strict=True))
        return {i: text for i, (text, x, gap) in every if math.isnan(x) and not gap}


def single_spaced(name: object) -> str:
    r"""A name with single spaces between its words, whatever it is."""
    return " ".join(str(name).split())


def was_lost(word: str) -> bool:
    r"""Whether a word says that an outcome was too small or too large to be measured."""
    return _LOST.fullmatch(word.strip().lower()) is not None


def no_number(word: str) -> str:
    r"""What to do with an outcome that is no number, but for leaving it out."""
    if was_lost(word):
        return (
            "it is not a finite number, but was lost because of its outcome, and without it "
            "the others look too good or too bad; give the number that was read"
        )
    return f"{word!r} is not a number; give one"


# From Python.


def in_python(columns: Iterable[tuple[Any, Any]], first: int) -> Sheet:
    r"""Columns by name, as of a dictionary or a DataFrame, whose rows begin with a number."""
    names, cells = list[str](), list[list[Cell]]()
    for name, column in columns:
        # The values of arrays, series and tensors; a list has them already.
        values = column.tolist() if hasattr(column, "tolist") else column
        names.append(single_spaced(name) or f"column_{len(names) + 1}")
        cells.append([_cell(value) for value in values])
    return Sheet(names, cells, range(first, first + max(map(len, cells), default=0)))


def _cell(value: Any) -> Cell:
    return value if isinstance(value, Real) else f"{value}".strip()


# From a file.


def read_file(source: Path, names: Sequence[str] = ()) -> Sheet:
    r"""The table in a file, or in standard input for ``-``.

    Args:
        source: A text in UTF-8, UTF-16 or Windows-1252, between tabs, semicolons, bars,
            commas or blanks; a first line ``sep=;`` is followed.
        names: Names of the columns if the first row, of numbers, has none.

    Raises:
        ValueError: If it is no table; the message names the row.
        OSError: If there is no such file.
    """
    is_file = str(source) != "-"
    content = source.read_bytes() if is_file else sys.stdin.buffer.read()
    text, remark = _decoded(content)
    if "\0" in text:
        raise ValueError(f"{source} cannot be read: it is no text; save the table as csv.")
    text, separator = text.replace("\r\n", "\n").replace("\r", "\n"), ""
    if first := re.match(r'"?sep=(.)"?[^\w\n]*\n', text, re.IGNORECASE):
        text, separator = text[first.end() :], first[1]  # how Excel notes it
    separator = separator or _separator(text)
    rows = [*_rows(text, separator, None)]
    if not rows:
        raise ValueError(f"{source} cannot be read: the table is empty.")
    header = rows[0][1]
    is_named = not all(map(_is_number, filter(None, header)))
    if is_named or len(names) != len(header) or header == [*names]:
        rows = rows[1:]
    else:
        header = [*names]
    for number, row in rows:
        if (count := _width(row)) > len(header):
            raise ValueError(
                f"{source} cannot be read: row {number} has {count} cells between "
                f"{_MARKS.get(separator, 'separators')}, the header {len(header)}; give "
                "each row as many, quote decimal commas, or name the separator in a first "
                "line such as sep=;"
            )
    cells = [[row[i] if i < len(row) else "" for _, row in rows] for i in range(len(header))]
    # What separators at the ends of lines leave over.
    kept = [i for i, name in enumerate(header) if name or any(cells[i])]
    return Sheet(
        [single_spaced(header[i]) or f"column_{i + 1}" for i in kept],
        [[*cells[i]] for i in kept],
        [number for number, _ in rows],
        f"{source.name}, sha256 {hashlib.sha256(content).hexdigest()}{remark}",
        separator,
        is_named,
    )


def _decoded(content: bytes) -> tuple[str, str]:
    head = content[:2]
    coding = "utf-16" if head in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    if len(head) == 2 and (head[0] == 0) != (head[1] == 0):  # UTF-16 without its mark
        coding = "utf-16-le" if head[0] else "utf-16-be"
    try:
        return content.decode(coding), ""
    except UnicodeDecodeError:
        return content.decode("cp1252", "replace"), ", read as Windows-1252"


def _rows(text: str, separator: str, most: int | None) -> Iterable[tuple[int, list[str]]]:
    r"""The rows that are neither blank nor a comment, with their numbers."""
    reader = csv.reader(
        StringIO(text), delimiter=separator, skipinitialspace=True, strict=True
    )
    found = list[tuple[int, list[str]]]()
    try:
        for number, row in enumerate(islice(reader, most), 1):
            cells = [cell.strip() for cell in row]
            if any(cells):
                found.append((number, cells))
    except csv.Error as error:
        raise ValueError(f"row {len(found) + 1}: {error}; close its quotes.") from error
    wide = max((_width(row) for _, row in found), default=0)
    is_first = True
    for number, row in found:
        # A line of words behind "#"; as wide as the others, it is a header or a run.
        if row[0].startswith("#") and _width(row) < wide and (is_first or _width(row) == 1):
            continue
        if is_first:
            row[0], is_first = row[0].removeprefix("# "), False
        yield number, row


def _width(row: Sequence[str]) -> int:
    r"""The number of cells up to the last one that is not blank."""
    return max((i for i, cell in enumerate(row, 1) if cell), default=0)


def _separator(text: str) -> str:
    r"""The separator by which most cells are numbers and the rows fit the header."""
    scores, reasons = dict[str, tuple[int, bool, int]](), list[ValueError]()
    for mark in (*_MARKS, _ALONE):
        if mark == " " and scores:  # only where no other separates the header
            continue
        try:
            rows = [row for _, row in _rows(text, mark, _JUDGED)]
        except ValueError as error:
            reasons.append(error)
            continue
        header, body = (len(rows[0]), rows[1:]) if rows else (0, [])
        if header > 1 or mark == _ALONE:
            widths = [*map(_width, body)]
            numbers = sum(_is_number(cell) for row in body for cell in row)
            fits = 2 * sum(width <= header for width in widths) >= len(body)
            scores[mark] = numbers, fits, widths.count(header)
    if not scores:
        raise reasons[0]
    return max(scores, key=lambda mark: scores[mark])  # of equals the first


# From cells to numbers.


def _pattern(mark: str, other: str) -> re.Pattern[str]:
    r"""Numbers with this decimal mark; thousands in groups of three are optional."""
    group = rf"[1-9][0-9]{{0,2}}([{other} '\u2019\u00a0\u202f\u2009])[0-9]{{3}}"
    whole = rf"(?:{group}(?:\2[0-9]{{3}})*(?![0-9])|[0-9]+)"
    number = rf"(?:{whole}(?:\{mark}[0-9]*)?|\{mark}[0-9]+)"
    # A unit begins with no sign that could belong to the number, or to a second one.
    unit = r"[^\s\d.,;:+\-\u2013/*^=<>~±×()'\u2019](?:\S*)(?:\s+[^\s\d]\S*)*"
    return re.compile(rf"([+-]?{number}(?:[eE][+-]?[0-9]+)?)\s*({unit})?")


_PATTERNS = {".": _pattern(".", ","), ",": _pattern(",", ".")}


def number_of(cell: Cell, mark: str = ".") -> tuple[float, str]:
    r"""The finite number in a cell and its unit; NaN where there is none."""
    if not isinstance(cell, str):
        return (cell if math.isfinite(cell) else math.nan), ""
    # U+2212 is the minus of a text processor.
    found = _PATTERNS[mark].fullmatch(cell.replace("\u2212", "-"))
    if found is None:
        return math.nan, ""
    value = float(re.sub(rf"[^0-9eE+\-\{mark}]", "", found[1]).replace(mark, "."))
    return (value if math.isfinite(value) else math.nan), found[3] or ""


def _is_number(cell: str) -> bool:
    whole = cell[-1:] not in ".,"
    return whole and any(not math.isnan(number_of(cell, mark)[0]) for mark in _PATTERNS)


def check_decimal(decimal: str | None) -> None:
    r"""Refuse what is no decimal mark."""
    if decimal not in (None, *_PATTERNS):
        raise ValueError(f'--decimal must be "." or ",", got {decimal!r}.')


def numbers_in(
    sheet: Sheet,
    names: Iterable[str],
    decimal: str | None = None,
    missing: Iterable[str] = (),
    words: Iterable[str] = (),
) -> dict[str, Column]:
    r"""Columns as numbers, with one decimal mark for all and one unit in each.

    Args:
        sheet: The table.
        names: Names of the columns.
        decimal: Decimal mark of the texts; by default that which fits all of them.
        missing: Further words, or numbers, that say that there is nothing.
        words: Names of columns whose units do not count.

    Raises:
        ValueError: If a column is not there, or a cell can be read in two ways.
    """
    cells = {name: sheet.cells(name) for name in names}
    mark = decimal or _decimal_mark(sheet, cells)
    gone = [*missing]
    nothing = MISSING | {word.lower() for word in gone}
    values = {number_of(word, mark)[0] for word in gone}
    found = dict[str, Column]()
    for name, column in cells.items():
        texts = [f"{cell}".strip().replace("\u2212", "-") for cell in column]
        read = [number_of(cell, mark) for cell in column]
        blank = [text.lower() in nothing for text in texts]
        blank = [gap or x in values for gap, (x, _) in zip(blank, read, strict=True)]
        first = dict[str, int]()  # where each unit comes first
        for i, (x, unit) in enumerate(read):
            if not blank[i] and not math.isnan(x):
                first.setdefault(unit, i)
        if len(first) > 1 and name not in words:
            one, other = [*first.values()][:2]
            raise ValueError(
                f"{name!r} has {texts[one]!r} in row {sheet.rows[one]} and {texts[other]!r} "
                f"in row {sheet.rows[other]}: write one unit in all cells, or none. (If "
                "these are names and not amounts, there is an option for columns of words.)"
            )
        numbers = [math.nan if gap else x for gap, (x, _) in zip(blank, read, strict=True)]
        found[name] = Column(texts, numbers, blank, next(iter(first), ""))
    return found


def _decimal_mark(sheet: Sheet, cells: dict[str, list[Cell]]) -> str:
    r"""The decimal mark of all texts.

    Raises:
        ValueError: If the cells do not agree, or can be read in two ways.
    """
    fit, shown, is_open = ".,", dict[str, str](), sheet.separator == ";"
    for name, column in cells.items():
        texts = {i: cell for i, cell in enumerate(column) if isinstance(cell, str)}
        # 1.012 beside 985 may be a thousand and twelve.
        beside = any(re.fullmatch("[1-9][0-9]{2}", cell) for cell in texts.values())
        for i, cell in texts.items():
            marks = "".join(m for m in ".," if not math.isnan(number_of(cell, m)[0]))
            if re.search("[.,]", cell) and marks:
                fit = "".join(mark for mark in fit if mark in marks)
                said = f"{name!r} has {cell!r} in row {sheet.rows[i]}"
                shown.setdefault(marks, said)
                is_open = is_open or "," in cell or (beside and len(marks) == 2)
    # "1.234" by itself is a decimal point, but not between semicolons.
    if len(fit) == 1 or not shown or (fit and not is_open):
        return fit[0]
    options = "say which is the decimal mark, --decimal . or --decimal ,"
    raise ValueError(f"{'; '.join(reversed(shown.values()))}: {options}")


def counts_rows(name: str, numbers: Sequence[float], strictly: bool = False) -> bool:
    r"""Whether a column numbers the rows, by its name and the order of its numbers.

    ``strictly`` where a column of outcomes may have such a name.
    """
    spaced = re.sub(r"([a-z])([A-Z])", r"\1 \2", name).lower()
    if strictly:
        steps = {b - a for a, b in zip(numbers, numbers[1:], strict=False)}
        named = _LABEL.search(spaced) or _COUNTER.search(spaced)
        return named is not None and steps in ({1.0}, {-1.0})
    if _LABEL.search(spaced) or not _COUNTER.search(spaced):
        return bool(_LABEL.search(spaced))
    # A clock or counter, unless its numbers repeat or are fractions without an order.
    if [*numbers] in (sorted(numbers), sorted(numbers, reverse=True)):
        return True
    return len({*numbers}) == len(numbers) and all(x % 1.0 == 0.0 for x in numbers)
