r"""A table of past runs: how it is read, what its columns and rows are taken for."""

import hashlib
import io
import math
import re
import shlex
from argparse import Namespace
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from botorch.exceptions import InputDataError
from torch import Tensor

from kernelucb._numerics.checks import as_double
from kernelucb.data.exact import pool

_MISSING = {"", "-", "?", "na", "n/a", "#n/a", "<na>", "nan", "nat", "none", "null"}
# The last word of the name of a column that numbers the rows.
_COUNTER = re.compile(
    r"(^|[^a-z])(#|batch|count|elapsed|exp|experiment|id|idx|index|iter|iteration|lot|no|nr|num"
    r"|number|order|round|rows?|runs?|sample|seq|sequence|step|time|timestamp|trial)[^a-z]*$"
)
# The last word of the name of a column without a name, or of one that numbers repeats.
_LABEL = re.compile(r"(^|[^a-z])(column|rep|repeat|replicate|unnamed)[^a-z]*$")
# A word in the name of a column that says how far outcomes spread.
_SPREAD = re.compile(
    r"(^|[^a-z])(deviation|err|error|s\.d|sd|sem|stabw|stdabw|std|stddev|stderr|stdev"
    r"|uncertainty|variance)([^a-z]|$)"
)


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
    rows: list[int]
    unused_rows: Mapping[int, str]
    left_out: Mapping[str, str]

    @property
    def labels(self) -> list[str]:
        r"""Names of the columns of ``inputs``, such as ``"heat"`` or ``"solvent=DMF"``."""
        words = {n: [f"{n}={word}" for word in each] for n, each in self.choices.items()}
        return [label for name in self.columns for label in words.get(name, [name])]

    @property
    def numbers(self) -> dict[str, int]:
        r"""The columns of the inputs that are numbers, by name."""
        return {n: at[0] for n, at in self.columns.items() if n not in self.choices}

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
        point = list[float]()
        for name in self.columns:
            words, value = self.choices.get(name, []), str(given[name]).strip()
            number = _number(value, ".")
            if words and value not in words:
                raise ValueError(f"{option}: {name} is one of {', '.join(words)}.")
            if not words and math.isnan(number):
                raise ValueError(f"{option}: {name} must be a number, got {value!r}.")
            point += [float(value == word) for word in words] or [number]
        return as_double(point)

    # What `Wording.encoded` has.

    def of_columns(self, columns: Iterable[str]) -> list[str]:
        r"""The inputs to which some of the columns belong."""
        asked = {self.labels.index(column) for column in columns}
        return [name for name, at in self.columns.items() if asked & {*at}]

    def values(self, low: Sequence[float], high: Sequence[float]) -> dict[str, list[Any]]:
        r"""Two limits of each number, and the words of each choice, in a box."""
        found = dict[str, list[Any]]()
        for name, at in self.columns.items():
            found[name] = [low[at[0]], high[at[0]]]
            if name in self.choices:
                pairs = zip(at, self.choices[name], strict=True)
                found[name] = [word for column, word in pairs if high[column] > 0.5]
        return found


def _read(table: Any) -> tuple[Any, str, str]:
    r"""A DataFrame, where it comes from, and what is between the cells of its file.

    A DataFrame as it is, or the csv file of that name as texts: in UTF-8, else Windows'
    Latin 1, between commas, semicolons, tabs or bars, whichever its header has most of.
    """
    try:
        import pandas as pd
    except ImportError as error:
        message = "A report needs pandas: pip install kernelucb[report]."
        raise ImportError(message) from error
    if isinstance(table, pd.DataFrame):
        if levels := [name for name in table.index.names if name is not None]:
            table = table.reset_index(levels, allow_duplicates=True)
        digest = hashlib.sha256(table.to_csv(index=False).encode()).hexdigest()
        return table, f"a DataFrame, sha256 {digest} of its csv text", ""
    path, remark = Path(table), ""
    try:
        content = path.read_bytes()
        is_utf_16 = content[:2] in (b"\xff\xfe", b"\xfe\xff")
        try:
            text = content.decode("utf-16" if is_utf_16 else "utf-8-sig")
        except UnicodeDecodeError:
            text, remark = content.decode("cp1252", "replace"), ", read as Windows-1252"
        if "\0" in text:
            raise ValueError("it is no text; save the table as csv")
        if first := re.match(r"sep=(.)\r?\n", text):  # how Excel notes the separator
            text = text[first.end() :]
        header = text.lstrip().partition("\n")[0]
        separator = first[1] if first else max(",;\t|", key=header.count)
        # The header as a row: pandas would rename its columns, or take one for an index.
        options: dict[str, Any] = {"dtype": str, "keep_default_na": False}
        rows = pd.read_csv(
            io.StringIO(text), sep=separator, header=None, skipinitialspace=True, **options
        )
    except (OSError, ValueError) as error:  # parser errors are ValueErrors
        hint = "; give each row as many cells as the header, and quote decimal commas"
        raise InputDataError(f"{path} cannot be read: {error}{hint}.") from error
    rows = rows.fillna("").map(str.strip)
    rows = rows[(rows != "").any(axis=1)]
    if len(rows) < 3:
        count = max(len(rows) - 1, 0)
        raise InputDataError(f"{path} has {count} rows below its header; give two or more.")
    digest = hashlib.sha256(content).hexdigest()
    frame = rows.iloc[1:].set_axis(rows.iloc[0], axis=1)
    return frame, f"{path.name}, sha256 {digest}{remark}", separator


def _pattern(mark: str, other: str) -> re.Pattern[str]:
    r"""Numbers with this decimal mark; thousands in groups of three are optional."""
    group = rf"[1-9][0-9]{{0,2}}([{other} '\u2019\u00a0\u202f\u2009])[0-9]{{3}}"
    whole = rf"(?:[0-9]+|{group}(?:\1[0-9]{{3}})*)"
    number = rf"(?:{whole}(?:\{mark}[0-9]*)?|\{mark}[0-9]+)"
    return re.compile(rf"[+-]?{number}(?:[eE][+-]?[0-9]+)?")


_PATTERNS = {".": _pattern(".", ","), ",": _pattern(",", ".")}


def _number(cell: str, mark: str) -> float:
    r"""The finite number in a cell; NaN where there is none."""
    if not _PATTERNS[mark].fullmatch(cell):
        return math.nan
    value = float(re.sub(rf"[^0-9eE+\-\{mark}]", "", cell).replace(mark, "."))
    return value if math.isfinite(value) else math.nan


def _decimal_mark(texts: Any, separator: str) -> str:
    r"""The decimal mark of all numbers in a DataFrame of texts.

    Raises:
        InputDataError: If the cells do not agree, or can be read in two ways.
    """
    fit, shown, is_open = ".,", dict[str, str](), separator == ";"
    for name in texts:
        for row, cell in texts[name][texts[name].str.contains("[.,]")].items():
            if marks := "".join(m for m in ".," if not math.isnan(_number(cell, m))):
                fit = "".join(mark for mark in fit if mark in marks)
                shown.setdefault(marks, f"{name!r} has {cell!r} in row {row}")
                is_open = is_open or "," in cell
    # "1.234" by itself is a decimal point, but not between semicolons.
    if len(fit) == 1 or not shown or (fit and not is_open):
        return fit[0]
    options = "say which is the decimal mark, --decimal . or --decimal ,"
    raise InputDataError(f"{'; '.join(reversed(shown.values()))}: {options}")


def names_of(given: Any) -> list[str]:
    r"""Names with single spaces, whatever they are; a text is one name."""
    names = [given] if isinstance(given, str) else given
    return [" ".join(str(name).split()) for name in names]


def table_of(given: Namespace) -> Table:
    r"""The runs of a file or a DataFrame; see ``report`` for what was ``given``.

    Raises:
        InputDataError: If a column can be taken for several things, or for none. All
            questions are in one message, each with the option that answers it.
    """
    frame, origin, separator = _read(given.table)
    names = [name or f"column_{i}" for i, name in enumerate(names_of(frame.columns), 1)]
    (outcome,), ignore = names_of([given.outcome]), names_of(given.ignore)
    categories, missing = names_of(given.categories), names_of(given.missing)
    inputs = None if given.inputs is None else names_of(given.inputs)
    frame = frame.set_axis(names, axis=1).set_axis(range(1, len(frame) + 1), axis=0)
    for name in (*names, outcome, *(inputs or ()), *ignore, *categories):
        if names.count(name) != 1:
            there = f"the columns are {', '.join(names)}"
            raise InputDataError(f"There is not one column {name!r}; {there}.")
    taken = [name for name in names if name not in (outcome, *ignore)]
    if inputs is not None:
        taken = [*dict.fromkeys((*inputs, *categories))]
    for name in (*taken, *categories, outcome):
        if name in ignore or (name == outcome and name in (*taken, *categories)):
            raise InputDataError(f"{name!r} is input, outcome or ignored: choose one.")
    texts, numbers, mark = _parsed(frame[[*taken, outcome]], given.decimal, separator)
    blank = texts.map(str.lower).isin(_MISSING | {word.lower() for word in missing})
    blank |= numbers.isin([_number(word, mark) for word in missing]) & numbers.notna()
    words, used = texts.where(numbers.isna() & ~blank), ~blank[outcome]
    for row, word in words[outcome].dropna().items():
        raise InputDataError(
            f"The outcome {outcome!r} has {word!r} in row {row}; give a number, or say "
            f"that there is none: --missing {shlex.quote(word)}."
        )
    if (count := int(used.sum())) < 2:
        raise InputDataError(f"{outcome!r} has {count} numbers; give two or more.")
    left_out = {name: "not among --inputs" for name in names if name not in texts}
    left_out |= {name: "as asked by --ignore" for name in ignore}
    for name in left_out:
        if frame[name].map(str).nunique() == 1:
            left_out[name] += f"; {frame[name].iloc[0]} in every row"
    questions, flat = list[str](), list[list[float]]()
    columns, choices = dict[str, list[int]](), dict[str, list[str]]()
    for name in taken:
        if bool(blank[name].all()) and inputs is None and name not in categories:
            left_out[name] = "empty"
            continue
        cells, column = texts[name][used], (texts if name in categories else numbers)[name]
        gaps, others = blank[name] & used, words[name].dropna()
        asked = _question(column, others, gaps, inputs is None)
        if cells.nunique() == 1:
            value = cells.iloc[0] or "blank"
            asked = f"is {value} in every row: --ignore {shlex.quote(name)}"
        questions += [f"{name!r} {asked}"] if asked else []
        each = [column[used].tolist()]
        if name in categories:
            choices[name] = sorted({*cells})
            each = [(cells == word).tolist() for word in choices[name]]
        columns[name] = [*range(len(flat), len(flat) + len(each))]
        flat += each
    if questions:
        raise InputDataError("\n  ".join(["What are these columns?", *questions]))
    if not columns:
        raise InputDataError(f"There is no column of settings beside {outcome!r}.")
    unused = texts[outcome][~used].items()
    return Table(
        origin=origin,
        outcome=outcome,
        columns=columns,
        choices=choices,
        inputs=as_double(flat).mT,
        outcomes=as_double(numbers[outcome][used].tolist()),
        rows=used[used].index.tolist(),
        unused_rows={row: f"{outcome} is {text or 'blank'}" for row, text in unused},
        left_out={name: left_out[name] for name in names if name in left_out},
    )


def earlier_tasks(given: Namespace, now: Table) -> tuple[list[tuple[Tensor, Tensor]], str]:
    r"""Settings and mean outcomes of each task of ``given.earlier``, and its origin.

    It is read as this table.
    """
    frame, origin, _ = _read(given.earlier)
    frame = frame.set_axis(names_of(frame.columns), axis=1)
    if "task" not in frame:
        raise InputDataError(
            "--earlier needs a column 'task' with the name of each row's task; there are "
            f"{', '.join(frame.columns)}."
        )
    same = {"inputs": [*now.columns], "categories": [*now.choices], "ignore": ()}
    whole = table_of(Namespace(**vars(given) | same | {"table": frame}))
    if whole.labels != now.labels:
        raise InputDataError(
            f"--earlier has {', '.join(whole.labels)}, the table {', '.join(now.labels)}; "
            "the words must be the same in both."
        )
    tasks = dict[str, list[int]]()
    for place, row in enumerate(whole.rows):
        tasks.setdefault(str(frame["task"].iloc[row - 1]), []).append(place)
    found = list[tuple[Tensor, Tensor]]()
    for places in tasks.values():
        outcomes = whole.outcomes[places]
        means = pool(whole.inputs[places], outcomes, torch.ones_like(outcomes))
        found.append((means.inputs, means.residuals))
    return found, f"{origin}, {len(found)} tasks"


def _parsed(frame: Any, decimal: str | None, separator: str) -> tuple[Any, Any, str]:
    r"""The cells of a DataFrame as texts, as numbers or NaN, and the decimal mark."""
    typed = frame.select_dtypes("number", exclude=["timedelta", "complex"]).astype(float)
    # U+2212 is the minus of a text processor.
    texts = frame.astype(object).where(frame.notna(), "").astype(str)
    texts = texts.map(lambda cell: cell.strip().replace("\u2212", "-"))
    mark = decimal or _decimal_mark(texts.drop(columns=typed.columns), separator)
    if mark not in _PATTERNS:
        raise ValueError(f'--decimal must be "." or ",", got {decimal!r}.')
    numbers = texts.map(lambda cell: _number(cell, mark)).astype(float)
    return texts, numbers.assign(**typed.where(typed.abs() < math.inf)), mark


def _question(column: Any, words: Any, gaps: Any, is_default: bool) -> str:
    r"""The question about an input before it is one; empty without.

    ``column`` are its numbers, or its words where it is to be of words (then there are no
    other ``words``); ``gaps`` says in which rows it is blank beside an outcome.
    """
    name, is_number = shlex.quote(column.name), column.dtype == float
    if is_number and len(words):
        if column.isna().all():
            shown = ", ".join(map(repr, words.unique()[:3]))
            either = f"--categories {name} if it was set, else --ignore {name}"
            return f"holds words ({shown}): {either}"
        return (
            f"has {words.iloc[0]!r} in row {words.index[0]}: give a number, or take the "
            f"column as words (--categories {name}), or --ignore {name}"
        )
    if gaps.any():
        row = f"in row {gaps.idxmax()}, which has an outcome"
        return f"is blank {row}: fill it in, or --ignore {name}"
    if not (is_default and is_number):
        return ""
    seems, spaced = "", re.sub(r"([a-z])([A-Z])", r"\1 \2", column.name).lower()
    if _SPREAD.search(spaced):
        seems = "is a spread of the outcome"
    elif _counts(column.dropna(), spaced):
        first = ", ".join(f"{number:g}" for number in column.dropna()[:3])
        seems = f"counts the rows ({first}, ...)"
    answers = f"--ignore {name}, or name all that was set, with it: --inputs A,B"
    return f"{seems}, or so it seems: {answers}" if seems else ""


def _counts(column: Any, spaced: str) -> bool:
    r"""Whether a column numbers the rows, by its name and the order of its numbers."""
    if _LABEL.search(spaced) or not _COUNTER.search(spaced):
        return bool(_LABEL.search(spaced))
    # A clock or counter, unless its numbers repeat or are fractions without an order.
    is_sorted = column.is_monotonic_increasing or column.is_monotonic_decreasing
    return is_sorted or (column.is_unique and bool((column % 1.0 == 0.0).all()))
