r"""What the columns of a table of runs are taken for; without torch."""

import math
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import kernelucb.tables as tables

# A word in the name of a column that says how far outcomes spread.
_SPREAD = re.compile(
    r"(^|[^a-z])(deviation|err|error|s\.d|sd|sem|stabw|stdabw|std|stddev|stderr|stdev"
    r"|uncertainty|variance)([^a-z]|$)"
)


class Asked(NamedTuple):
    r"""What a report was asked about columns; see ``kernelucb.report``."""

    outcome: str
    inputs: Sequence[str] | None
    ignore: Sequence[str]
    categories: Sequence[str]
    missing: Sequence[str]
    decimal: str | None


@dataclass(frozen=True)
class Columns:
    r"""Runs as numbers, and what was left out of the table.

    Attributes:
        origin: Name of the file and its hash.
        outcome: Name of the outcome.
        columns: For each input, by name, its places in ``cells``.
        choices: For each input of words, by name, the words, a column for each.
        cells: The numbers of each column; a word is a 1 in its column and 0 in the others.
        results: ``n`` outcomes.
        rows: The numbers of the runs in the table, whose header is row 1.
        unused_rows: Numbers of the other rows, and why they are not used.
        left_out: Names of the other columns, and why they are left out.
        units: By name, what stood behind the number in all cells of a column.
        lost: What stood for outcomes that were lost because they were small or large.
        whole: Inputs that are written in whole numbers.
    """

    origin: str
    outcome: str
    columns: Mapping[str, list[int]]
    choices: Mapping[str, list[str]]
    cells: list[list[float]]
    results: list[float]
    rows: list[int]
    unused_rows: Mapping[int, str]
    left_out: Mapping[str, str]
    units: Mapping[str, str]
    lost: list[str]
    whole: list[str]


def names_of(given: str | Iterable[object]) -> list[str]:
    r"""Names with single spaces, whatever they are; a text is one name."""
    return [*map(tables.single_spaced, [given] if isinstance(given, str) else given)]


def _roles(asked: Asked, sheet: tables.Sheet) -> tuple[list[str], str, list[str]]:
    r"""The names of the columns that are taken for inputs, the outcome and the choices."""
    ignore, (outcome,) = names_of(asked.ignore), names_of([asked.outcome])
    categories = names_of(asked.categories)
    inputs = None if asked.inputs is None else names_of(asked.inputs)
    for name in (outcome, *(inputs or ()), *ignore, *categories):
        sheet.cells(name)  # a name that is no column is refused
    taken = [name for name in sheet.names if name not in (outcome, *ignore)]
    if inputs is not None:
        taken = [*dict.fromkeys((*inputs, *categories))]
    for name in (*taken, *categories, outcome):
        if name in ignore or (name == outcome and name in (*taken, *categories)):
            raise ValueError(f"{name!r} is input, outcome or ignored: choose one.")
    return taken, outcome, categories


def _used(outcome: str, runs: tables.Column, rows: Sequence[int]) -> list[int]:
    r"""Places of the rows with an outcome; words that are no outcome are refused."""
    for i, word in runs.words.items():
        advice = tables.no_number(word) + tables.or_missing(word)
        raise ValueError(f"The outcome {outcome!r} has {word!r} in row {rows[i]}: {advice}")
    used = [i for i, gap in enumerate(runs.blank) if not gap]
    if len(used) < 2:
        raise ValueError(f"{outcome!r} has {len(used)} numbers; give two or more.")
    return used


def _left_out(
    asked: Asked, sheet: tables.Sheet, taken: Sequence[str], outcome: str
) -> dict[str, str]:
    r"""By name, why the other columns are left out."""
    left_out = {n: "not among --inputs" for n in sheet.names if n not in taken}
    left_out |= {name: "as asked by --ignore" for name in names_of(asked.ignore)}
    left_out.pop(outcome, None)
    for name in left_out:
        if len(cells := {f"{cell}" for cell in sheet.cells(name)}) == 1:
            left_out[name] += f"; {cells.pop()} in every row"
    return left_out


def whole(column: tables.Column, used: Sequence[int]) -> bool:
    r"""Whether a column is written in whole numbers, of which three or more differ."""
    texts = {column.texts[i] for i in used}
    return len(texts) > 2 and all(re.match(r"[+-]?\d+(?![\d.,])", each) for each in texts)


def check_names(option: str, names: Iterable[str], inputs: Iterable[str]) -> None:
    r"""Refuse names that are no inputs."""
    for name in names:
        if name not in (known := [*inputs]):
            raise ValueError(f"{option} names {name!r}; the inputs are {', '.join(known)}.")


def check_columns(
    table: Path, asked: Asked, named: Mapping[str, Mapping[str, object] | None]
) -> None:
    r"""Refuse, before anything slow, what the table or names in options are refused for.

    Raises:
        ValueError: As ``columns_of``, or if an option names no input.
        OSError: If there is no such file.
    """
    tables.check_decimal(asked.decimal)
    found = columns_of(tables.read_file(table), asked)
    for option, given in named.items():
        names = {*names_of(given or ())} - {found.outcome}
        check_names(option, names, found.columns)


def columns_of(sheet: tables.Sheet, asked: Asked) -> Columns:
    r"""What the columns of a sheet are taken for.

    Raises:
        ValueError: If a column can be taken for several things, or for none. All questions
            are in one message, each with the option that answers it.
    """
    taken, outcome, categories = _roles(asked, sheet)
    missing, is_default = names_of(asked.missing), asked.inputs is None
    if (count := len(sheet.rows)) < 2:
        raise ValueError(f"The table has {count} rows below its header; give two or more.")
    read = tables.numbers_in(sheet, [*taken, outcome], asked.decimal, missing, categories)
    runs = read.pop(outcome)
    used = _used(outcome, runs, sheet.rows)
    left_out = _left_out(asked, sheet, taken, outcome)
    questions, flat = list[str](), list[list[float]]()
    columns, choices = dict[str, list[int]](), dict[str, list[str]]()
    for name in taken:
        if all(read[name].blank) and is_default and name not in categories:
            left_out[name] = "empty"
            continue
        column, is_choice = read[name], name in categories
        cells = [column.texts[i] for i in used]
        question = _question(name, column, used, sheet.rows, is_choice, is_default)
        if len({*cells}) == 1:
            same = f"is {cells[0] or 'blank'} in every row"
            question = f"{same}: --ignore {shlex.quote(name)}"
        questions += [f"{name!r} {question}"] if question else []
        each = [[column.numbers[i] for i in used]]
        if is_choice:
            choices[name] = sorted({*cells})
            each = [[float(cell == word) for cell in cells] for word in choices[name]]
        columns[name] = [*range(len(flat), len(flat) + len(each))]
        flat += each
    if questions:
        raise ValueError("\n  ".join(["What are these columns?", *questions]))
    if not columns:
        raise ValueError(f"There is no column of settings beside {outcome!r}.")
    unused = {sheet.rows[i]: runs.texts[i] for i, gap in enumerate(runs.blank) if gap}
    units = {name: column.unit for name, column in (read | {outcome: runs}).items()}
    return Columns(
        origin=sheet.origin,
        outcome=outcome,
        columns=columns,
        choices=choices,
        cells=flat,
        results=[runs.numbers[i] for i in used],
        rows=[sheet.rows[i] for i in used],
        unused_rows={i: f"{outcome} is {text or 'blank'}" for i, text in unused.items()},
        left_out={name: left_out[name] for name in sheet.names if name in left_out},
        units={n: unit for n, unit in units.items() if unit and n not in choices},
        lost=[text for text in unused.values() if tables.was_lost(text)],
        whole=[name for name in columns if name not in choices and whole(read[name], used)],
    )


def _question(
    name: str,
    column: tables.Column,
    used: Sequence[int],
    rows: Sequence[int],
    is_choice: bool,
    is_default: bool,
) -> str:
    r"""The question about an input before it is one; empty without.

    ``used`` are the places with an outcome; a choice is to be of words.
    """
    words, option = {} if is_choice else column.words, shlex.quote(name)
    numbers = [x for x in column.numbers if not math.isnan(x)]
    if words and not numbers and not any(map(tables.was_lost, words.values())):
        shown = ", ".join(map(repr, [*dict.fromkeys(words.values())][:3]))
        either = f"--categories {option} if it was set, else --ignore {option}"
        return f"holds words ({shown}): {either}"
    for place, word in words.items():
        asked = f"has {word!r} in row {rows[place]}: give a number"
        if re.search(r"\d", word) or tables.was_lost(word):
            return asked
        return (
            f"{asked}, or take the column as words (--categories {option}), or --ignore it"
        )
    if gaps := [i for i in used if column.blank[i]]:
        row = f"in row {rows[gaps[0]]}, which has an outcome"
        return f"is blank {row}: fill it in, or --ignore {option}"
    if not is_default or is_choice:
        return ""
    seems = ""
    if _SPREAD.search(re.sub(r"([a-z])([A-Z])", r"\1 \2", name).lower()):
        seems = "is a spread of the outcome"
    elif tables.counts_rows(name, numbers):
        first = ", ".join(f"{number:g}" for number in numbers[:3])
        seems = f"counts the rows ({first}, ...)"
    answers = f"--ignore {option}, or name all that was set, with it: --inputs A,B"
    return f"{seems}, or so it seems: {answers}" if seems else ""
