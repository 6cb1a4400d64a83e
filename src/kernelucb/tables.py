r"""Tables as people save them, read without torch, NumPy or pandas.

For ``report`` and its ``--earlier``, and for ``confirm``: one way from bytes to rows, and
one from cells to numbers, whether they come from a file or from Python.
"""

import csv
import hashlib
import math
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from io import BytesIO, StringIO
from itertools import chain, islice
from numbers import Real
from pathlib import Path
from zipfile import BadZipFile

MISSING = {"", "-", "?", "na", "n/a", "#n/a", "<na>", "nan", "nat", "none", "null"}
_MARKS = {"\t": "tabs", ";": "semicolons", "|": "bars", ",": "commas", " ": "blanks"}
_WORKBOOKS = {".xlsx", ".xlsm", ".xls", ".ods"}
_ALONE = "\x1f"  # between the cells of a table with one column: in no text
_JUDGED = 200  # rows by which a separator is chosen
# A word for what an instrument does not show: too small, too large, diverged.
_LOST = re.compile(
    r"[<>≤≥].*|[+-]?(inf|infinity|∞)|.*\b(b?lod|loq|bdl|bql|blq|ll[od]q?|uloq|oor)\b.*"
    r"|(below|above|under|over|out of|not detect|trace|saturat|diverge).*"
)
# The last word of the name of a column that numbers the rows.
_COUNTER = re.compile(
    r"(^|[^a-z])(#|batch|count|day|elapsed|exp|experiment|id|idx|index|iter|iteration|lot|no|nr"
    r"|num|number|order|pair|round|rows?|runs?|sample|seq|sequence|step|time|timestamp|trial"
    r"|week)[^a-z]*$"
)
# The last word of the name of a column without a name, or of one that numbers repeats.
_LABEL = re.compile(r"(^|[^a-z])(column|rep|repeat|replicate|unnamed)[^a-z]*$")


@dataclass(frozen=True)
class Sheet:
    r"""Rows and columns of cells.

    Attributes:
        names: Names of the columns, with single spaces.
        columns: Cells of each column, as texts.
        rows: Numbers of the rows as a sheet counts them: the header is row 1.
        origin: Where it comes from, and its hash.
        separator: What is between the cells of the file; empty without.
        is_named: Whether the names are no numbers, which could be a row of the table.
        numbers: Of each column cells that were numbers already, by their places; empty for
            a file.
    """

    names: list[str]
    columns: list[list[str]]
    rows: Sequence[int]
    origin: str = ""
    separator: str = ""
    is_named: bool = True
    numbers: Sequence[Mapping[int, Real]] = ()

    def cells(self, name: str) -> list[str]:
        r"""Cells of the one column of this name.

        Raises:
            ValueError: If there is none, or more than one.
        """
        return self.columns[self.place(name)]

    def place(self, name: str) -> int:
        r"""Place of the one column of this name; errors as for ``cells``."""
        if self.names.count(name) == 1:
            return self.names.index(name)
        hint = " (a first line sep=; names another separator)" if self.separator else ""
        there = f"the columns are {', '.join(self.names)}{hint}"
        raise ValueError(f"There is not one column {name!r}; {there}.")


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
    return word.lower() not in MISSING and _LOST.fullmatch(word.lower()) is not None


def no_number(word: str) -> str:
    r"""What to do with an outcome that is no number, but for leaving it out."""
    if not was_lost(word):
        return f"{word!r} is not a number; give a number"
    why = "is not a finite number: it was lost because of its outcome, without which others"
    return f"{word!r} {why} look better or worse than they are; give what was read"


def or_missing(word: str) -> str:
    r"""The advice that a word may say that there is no outcome, where it can."""
    if was_lost(word) or re.search(r"\d", word):
        return ""
    why = "where nothing was measured and the outcome is not the reason"
    return f", or, {why}, say so: --missing {shlex.quote(word)}"


# From Python and from files to cells.


def in_python(columns: Iterable[tuple[object, Iterable[object]]], first: int) -> Sheet:
    r"""Columns by name, of a dictionary or a DataFrame; ``first`` is their first row."""
    names, cells, numbers = list[str](), list[list[str]](), list[dict[int, Real]]()
    for name, column in columns:
        names.append(single_spaced(name) or f"column_{len(names) + 1}")
        # The values of arrays, series and tensors; a list has them already.
        tolist: Callable[[], Iterable[object]] | None = getattr(column, "tolist", None)
        values = [*(column if tolist is None else tolist())]
        numbers.append({i: x for i, x in enumerate(values) if isinstance(x, Real)})
        cells.append([f"{x}".strip() for x in values])
    rows = range(first, first + max(map(len, cells), default=0))
    return Sheet(names, cells, rows, numbers=numbers)


def read_file(source: Path, names: Sequence[str] = ()) -> Sheet:
    r"""The table in a file, or in standard input for ``-``.

    Args:
        source: A text in UTF-8, UTF-16 or Windows-1252, between tabs, semicolons, bars,
            commas or blanks; a first line ``sep=;`` is followed. Or a workbook of one
            sheet, where pandas is installed.
        names: Names of the columns if the first row, of numbers, has none.

    Raises:
        ValueError: If it is no table; the message names the row.
        OSError: If there is no such file.
    """
    if str(source) != "-":
        content = source.read_bytes()
        if source.suffix.lower() in _WORKBOOKS:
            return _workbook(source, content)
    else:  # a stand-in for standard input may have texts only
        bare = getattr(sys.stdin, "buffer", None)
        content = bare.read() if bare else sys.stdin.read().encode()
    text, remark = _decoded(content)
    fault = f"{source} cannot be read: "
    if "\0" in text:
        raise ValueError(f"{fault}it is no text; save the table as csv.")
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    first = re.match(r'"?sep=(.)"?[^\w\n]*\n', text, re.IGNORECASE)  # Excel's note
    try:
        text, mark = (text[first.end() :], first[1]) if first else (text, _separator(text))
        rows = _rows(text, mark)
    except csv.Error as error:
        raise ValueError(f"{fault}{error}; close all quotes.") from error
    if not rows:
        raise ValueError(f"{fault}the table is empty.")
    header = rows[min(rows)]
    is_named = not all(map(_is_number, filter(None, header)))
    if is_named or len(names) != len(header) or header == [*names]:
        del rows[min(rows)]
    else:
        header = [*names]
    for number, row in rows.items():
        if (count := _width(row)) > len(header):
            counts = (
                f"row {number} has {count} cells between {_MARKS.get(mark, mark)}, the "
            )
            advice = "quote decimal commas, or name the separator in a first line sep=;"
            raise ValueError(f"{fault}{counts}header {len(header)}; {advice}")
        row += [""] * (len(header) - len(row))
    cells = [[row[i] for row in rows.values()] for i in range(len(header))]
    # Without what separators at the ends of lines leave over.
    kept = [i for i, name in enumerate(header) if name or any(cells[i])]
    named = [single_spaced(header[i]) or f"column_{i + 1}" for i in kept]
    origin = f"{source.name}, sha256 {hashlib.sha256(content).hexdigest()}{remark}"
    return Sheet(named, [cells[i] for i in kept], [*rows], origin, mark, is_named)


def _workbook(source: Path, content: bytes) -> Sheet:
    r"""The one sheet of a workbook, whose first row has the names."""
    try:
        import pandas as pd

        read: dict[str, pd.DataFrame] = pd.read_excel(BytesIO(content), sheet_name=None)
    except (ImportError, ValueError, OSError, BadZipFile) as error:
        raise ValueError(
            f"{source} cannot be read as a workbook: {error} Or save its sheet as csv."
        ) from error
    sheets = {name: frame for name, frame in read.items() if len(frame)}
    if len(sheets) != 1:
        found = f"sheets with rows: {', '.join(sheets) or 'none'}"
        raise ValueError(
            f"{source} has {found}; save the one as csv, or delete the others."
        )
    ((name, frame),) = sheets.items()
    digest = hashlib.sha256(content).hexdigest()
    origin = f"{source.name}, sheet {name}, sha256 {digest}"
    return replace(in_python(frame.items(), 2), origin=origin)


def _decoded(content: bytes) -> tuple[str, str]:
    head, coding = content[:2], "utf-8-sig"
    if head in (b"\xff\xfe", b"\xfe\xff"):
        coding = "utf-16"
    elif len(head) == 2 and 0 in head and any(head):  # UTF-16 without its mark
        coding = "utf-16-le" if head[0] else "utf-16-be"
    try:
        return content.decode(coding), ""
    except UnicodeDecodeError:
        return content.decode("cp1252", "replace"), ", read as Windows-1252"


def _rows(text: str, mark: str, most: int | None = None) -> dict[int, list[str]]:
    r"""The rows that are neither blank nor a comment, by their numbers."""
    lines = csv.reader(StringIO(text), delimiter=mark, skipinitialspace=True, strict=True)
    every = enumerate(([cell.strip() for cell in row] for row in islice(lines, most)), 1)
    rows = {number: row for number, row in every if any(row)}
    plain = {i: row for i, row in rows.items() if row[0][:1] != "#"}
    wide, first = max(map(_width, plain.values()), default=0), min(plain, default=0)
    if plain and any(map(_is_number, plain[first])):
        first = 0  # the names stand behind "#"
    # A line behind "#"; with as many cells as others it is a header or a run.
    comments = (
        i for i in rows if i not in plain and (i < first or _width(rows[i]) != wide)
    )
    for i in [*comments]:
        del rows[i]
    if rows:
        rows[min(rows)][0] = rows[min(rows)][0].removeprefix("# ")
    return rows


def _width(row: Sequence[str]) -> int:
    r"""The number of cells up to the last one that is not blank."""
    return max((i for i, cell in enumerate(row, 1) if cell), default=0)


def _separator(text: str) -> str:
    r"""The separator by which most cells are numbers and the rows fit the header."""
    scores, fault = dict[str, tuple[int, bool, int]](), csv.Error("no row")
    for mark in (*_MARKS, _ALONE):
        try:
            header, *body = _rows(text, mark, _JUDGED).values() or [[]]
        except csv.Error as error:
            fault = error
            continue
        if len(header) > 1 or mark == _ALONE:
            widths, most = [*map(_width, body)], len(header)
            numbers = sum(_is_number(cell) for row in body for cell in row)
            fits = 2 * sum(width <= most for width in widths) >= len(body)
            scores[mark] = numbers, fits, widths.count(most)
    if not scores:
        raise fault
    return max(scores, key=scores.__getitem__)  # of equals the first


# From cells to numbers.


def _pattern(mark: str, other: str) -> re.Pattern[str]:
    r"""Numbers with this decimal mark; thousands in groups of three are optional."""
    group = rf"[1-9][0-9]{{0,2}}([{other} '\u2019\u00a0\u202f\u2009])[0-9]{{3}}"
    whole = rf"(?:{group}(?:\2[0-9]{{3}})*(?![0-9])|[0-9]+)"
    number = rf"(?:{whole}(?:\{mark}[0-9]+|\{mark}(?=$|[eE]))?|\{mark}[0-9]+)"
    # A unit begins with no sign that could belong to the number, or to a second one; a "j"
    # is that of a complex number.
    unit = r"(?!j$)[^\s\d.,;:|_+\-\u2013/*^=<>~±\u00d7()'\u2019]\S*(?:\s+[^\s\d]\S*)*"
    return re.compile(rf"([+-]?{number}(?:[eE][+-]?[0-9]+)?)\s*({unit})?")


_PATTERNS = {".": _pattern(".", ","), ",": _pattern(",", ".")}


def number_of(text: str, mark: str = ".") -> tuple[float, str]:
    r"""The finite number in a text and its unit; NaN where there is none."""
    # U+2212 is the minus of a text processor.
    found = _PATTERNS[mark].fullmatch(text.replace("\u2212", "-"))
    if found is None:
        return math.nan, ""
    value = float(re.sub(rf"[^0-9eE+\-\{mark}]", "", found[1]).replace(mark, "."))
    return (value if math.isfinite(value) else math.nan), found[3] or ""


def _marks(text: str) -> str:
    r"""The decimal marks with which a text is a number."""
    return "".join(m for m in _PATTERNS if not math.isnan(number_of(text, m)[0]))


def _is_number(text: str) -> bool:
    return text[-1:] not in ".," and bool(_marks(text))


def check_decimal(decimal: str | None) -> None:
    r"""Refuse what is no decimal mark."""
    if decimal not in (None, *_PATTERNS):
        raise ValueError(f'--decimal must be "." or ",", got {decimal!r}.')


def numbers_in(
    sheet: Sheet,
    names: Iterable[str],
    decimal: str | None = None,
    missing: Sequence[str] = (),
    choices: Sequence[str] = (),
    alike: bool = False,
) -> dict[str, Column]:
    r"""Columns as numbers, with one decimal mark for all and one unit in each.

    Args:
        sheet: The table.
        names: Names of the columns.
        decimal: Decimal mark of the texts; by default that which fits all of them.
        missing: Further words, or numbers, that say that there is nothing.
        choices: Names of columns of words, whose units do not count.
        alike: Whether the columns hold one quantity.

    Raises:
        ValueError: If a column is not there, or a cell can be read in two ways.
    """
    places, found = {name: sheet.place(name) for name in names}, dict[str, Column]()
    known = {n: sheet.numbers[at] if sheet.numbers else {} for n, at in places.items()}
    written = {
        n: {i: x for i, x in enumerate(sheet.columns[at]) if i not in known[n]}
        for n, at in places.items()
    }
    mark = decimal or _decimal_mark(sheet, written, alike)
    nothing = MISSING | {word.lower() for word in missing}
    values = {number_of(word, mark)[0] for word in missing if _is_number(word)}
    for name, at in places.items():
        texts = [cell.replace("\u2212", "-") for cell in sheet.columns[at]]
        read, gaps, first = list[float](), list[bool](), dict[str, int]()  # by unit
        for i, cell in enumerate(sheet.columns[at]):
            given = known[name].get(i)
            x, unit = number_of(cell, mark) if given is None else (float(given), "")
            gaps.append(texts[i].lower() in nothing or x in values)
            read.append(x if math.isfinite(x) and not gaps[i] else math.nan)
            if not math.isnan(read[i]):
                first.setdefault(unit, i)
        if len(first) > 1 and name not in choices:
            said = [f"{texts[i]!r} in row {sheet.rows[i]}" for i in first.values()]
            names_too = "names of things need the option for columns of words"
            both = f"{name!r} has {said[0]} and {said[1]}"
            raise ValueError(f"{both}: write one unit, or none, in all cells ({names_too})")
        found[name] = Column(texts, read, gaps, next(iter(first), ""))
    return found


def _decimal_mark(sheet: Sheet, written: dict[str, dict[int, str]], alike: bool) -> str:
    r"""The decimal mark of all texts.

    Raises:
        ValueError: If the cells do not agree, or can be read in two ways.
    """
    fit, shown, is_open = ".,", dict[str, str](), sheet.separator == ";"
    for name, texts in written.items():
        # 1.012 beside 985 may be a thousand and twelve.
        near = [*chain(*map(dict.values, written.values()))] if alike else texts.values()
        beside = any(re.fullmatch("[1-9][0-9]{2}", text) for text in near)
        for i, text in texts.items():
            if re.search("[.,]", text) and (marks := _marks(text)):
                fit = "".join(mark for mark in fit if mark in marks)
                shown.setdefault(marks, f"{name!r} has {text!r} in row {sheet.rows[i]}")
                is_open = is_open or "," in text or (beside and len(marks) == 2)
    # "1.234" by itself is a decimal point, but not between semicolons.
    if len(fit) == 1 or not shown or (fit and not is_open):
        return fit[0]
    options = "say which is the decimal mark, --decimal . or --decimal ,"
    raise ValueError(f"{'; '.join(reversed(shown.values()))}: {options}")


def counts_rows(name: str, numbers: Sequence[float]) -> bool:
    r"""Whether a column numbers the rows, by its name and the order of its numbers."""
    spaced = re.sub(r"([a-z])([A-Z])", r"\1 \2", name).lower()
    is_label, is_counter = _LABEL.search(spaced), _COUNTER.search(spaced)
    if is_label or not is_counter:
        return bool(is_label)
    # A clock or counter, unless its numbers repeat or are fractions without an order.
    if [*numbers] in (sorted(numbers), sorted(numbers, reverse=True)):
        return True
    return len({*numbers}) == len(numbers) and all(x % 1.0 == 0.0 for x in numbers)
