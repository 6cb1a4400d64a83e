r"""A table of past runs: how it is read, what its columns and rows are taken for."""

import hashlib
import math
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import torch
from botorch.exceptions import InputDataError
from torch import Tensor

import kernelucb.tables as tables
from kernelucb._numerics.checks import as_double
from kernelucb._numerics.estimates import Number
from kernelucb.data.exact import pool
from kernelucb.page.columns import Asked, Columns, check_names, columns_of, names_of

if TYPE_CHECKING:
    import pandas as pd

    # One run a row: a table in Python, or a csv file
    Runs = pd.DataFrame | str | PathLike[str]

Of = TypeVar("Of")


@dataclass(frozen=True)
class Given:
    r"""What a report was asked, by the names of its arguments; see ``kernelucb.report``.

    Names in ``bounds``, ``baseline`` and ``units`` have single spaces, and an open side of
    ``range`` is infinite.
    """

    table: "Runs"
    outcome: str
    minimize: bool
    inputs: Sequence[str] | None
    ignore: Sequence[str]
    categories: Sequence[str]
    missing: Sequence[str]
    decimal: str | None
    bounds: Mapping[str, tuple[float, float]]
    noise_std: Number | None
    kernel: str | None
    lengthscale: float | Sequence[float] | None
    mean: float | None
    norm_bound: float | None
    earlier: "Runs | None"
    range: tuple[float, float] | None
    baseline: Mapping[str, float | str]
    threshold: float | None
    tolerance: float | None
    window: float
    delta: float
    units: Mapping[str, str]
    history: bool
    effort: str


def named(values: Mapping[str, Of] | None) -> dict[str, Of]:
    r"""Values by names with single spaces; none without."""
    given = values or {}
    return dict(zip(names_of(given), given.values(), strict=True))


def closed(
    ends: tuple[float | None, float | None] | None,
) -> tuple[float, float] | None:
    r"""Limits of which one that is None is infinite."""
    if ends is None:
        return None
    low, high = ends
    return -math.inf if low is None else low, math.inf if high is None else high


class Table(Columns):
    r"""Runs as tensors."""

    @cached_property
    def inputs(self) -> Tensor:
        r"""``n x d`` settings."""
        return as_double(self.cells).mT

    @cached_property
    def outcomes(self) -> Tensor:
        r"""``n`` outcomes."""
        return as_double(self.results)

    @property
    def labels(self) -> list[str]:
        r"""Names of the columns of ``inputs``, such as ``"heat"`` or ``"solvent=DMF"``."""
        words = {n: [f"{n}={word}" for word in each] for n, each in self.choices.items()}
        return [label for name in self.columns for label in words.get(name, [name])]

    @property
    def numbers(self) -> dict[str, int]:
        r"""The columns of the inputs that are numbers, by name."""
        return {n: at[0] for n, at in self.columns.items() if n not in self.choices}

    @property
    def described(self) -> str:
        r"""The labels and the units of columns, in one line."""
        units = [f"{name} in {unit}" for name, unit in self.units.items()]
        return ", ".join([*self.labels, *units])

    def runs(self, places: Sequence[int] | None = None) -> set[tuple[float, ...]]:
        r"""Settings with their outcomes, of all runs or some, whatever their order."""
        rows = torch.column_stack([self.inputs, self.outcomes])
        return {*map(tuple, (rows if places is None else rows[places]).tolist())}

    def check_names(self, option: str, names: Iterable[str]) -> None:
        r"""Refuse names that are no inputs."""
        check_names(option, names, self.columns)

    def setting(self, option: str, given: Mapping[str, float | str]) -> Tensor:
        r"""``d`` coordinates of a setting with a number or a word for each input."""
        self.check_names(option, given)
        if missing := [name for name in self.columns if name not in given]:
            raise ValueError(f"{option} lacks {', '.join(missing)}; give every input.")
        point = list[float]()
        for name in self.columns:
            words, value = self.choices.get(name, []), str(given[name]).strip()
            number, unit = tables.number_of(value)
            if words and value not in words:
                raise ValueError(f"{option}: {name} is one of {', '.join(words)}.")
            if not words and (math.isnan(number) or unit not in ("", self.units.get(name))):
                raise ValueError(f"{option}: {name} must be a number, got {value!r}.")
            point += [float(value == word) for word in words] or [number]
        return as_double(point)

    # What `Wording.encoded` has.

    def of_columns(self, columns: Iterable[str]) -> list[str]:
        r"""The inputs to which some of the columns belong."""
        asked = {self.labels.index(column) for column in columns}
        return [name for name, at in self.columns.items() if asked & {*at}]

    def values(
        self, low: Sequence[float], high: Sequence[float]
    ) -> dict[str, list[float | str]]:
        r"""Two limits of each number, and the words of each choice, in a box."""
        found = dict[str, list[float | str]]()
        for name, at in self.columns.items():
            found[name] = [low[at[0]], high[at[0]]]
            if name in self.choices:
                pairs = zip(at, self.choices[name], strict=True)
                found[name] = [word for column, word in pairs if high[column] > 0.5]
        return found


def _sheet(table: "Runs") -> tables.Sheet:
    r"""The cells of a file, or of a DataFrame, whose rows count as in its csv text."""
    if isinstance(table, str | PathLike):
        return tables.read_file(Path(table))
    if levels := [name for name in table.index.names if name is not None]:
        table = table.reset_index(levels, allow_duplicates=True)
    digest = hashlib.sha256(table.to_csv(index=False).encode()).hexdigest()
    origin = f"a DataFrame, sha256 {digest} of its csv text"
    return replace(tables.in_python(table.items(), 2), origin=origin)


@contextmanager
def _asking() -> Generator[None, None, None]:
    r"""Errors of the reader as BoTorch's."""
    try:
        yield
    except (ValueError, OSError) as error:
        raise InputDataError(str(error)) from error


def table_of(given: Given) -> Table:
    r"""The runs of a file or a DataFrame; see ``report`` for what was ``given``.

    Raises:
        InputDataError: If a column can be taken for several things, or for none. All
            questions are in one message, each with the option that answers it.
    """
    tables.check_decimal(given.decimal)
    with _asking():
        return _table(given, _sheet(given.table))


def _table(given: Given, sheet: tables.Sheet) -> Table:
    asked = (given.outcome, given.inputs, given.ignore, given.categories)
    found = columns_of(sheet, Asked(*asked, given.missing, given.decimal))
    return Table(**vars(found))


def earlier_tasks(
    given: Given, earlier: "Runs", now: Table
) -> tuple[list[tuple[Tensor, Tensor]], str]:
    r"""Settings and mean outcomes of each task of ``earlier``, and its origin.

    It is read as this table. Of tasks with the same runs one counts, the one with more; a
    task with the runs of this table is left out.
    """
    with _asking():
        sheet = _sheet(earlier)
        names = [tables.single_spaced(cell) for cell in sheet.cells("task")]
        columns, words = [*now.columns], [*now.choices]
        asked = replace(given, inputs=columns, categories=words, ignore=())
        whole = _table(asked, sheet)
    if (whole.labels, whole.units) != (now.labels, now.units):
        raise InputDataError(
            f"--earlier has {whole.described}, the table {now.described}; words and units "
            "must be the same in both."
        )
    if whole.lost:
        raise InputDataError(
            f"--earlier lost outcomes, {whole.lost[0]}: give what was read."
        )
    tasks = dict[str, list[int]]()
    for place, row in enumerate(whole.rows):
        if (name := names[sheet.rows.index(row)]).lower() in tables.MISSING:
            raise InputDataError(
                f"--earlier has no 'task' in row {row}: fill it in (of merged cells only "
                "the first has the name)."
            )
        tasks.setdefault(name, []).append(place)
    known, found = [now.runs()], list[tuple[Tensor, Tensor]]()
    for places in sorted(tasks.values(), key=lambda each: -len(whole.runs(each))):
        runs = whole.runs(places)
        if known[0] <= runs or any(runs <= each for each in known):
            continue
        known.append(runs)
        outcomes = whole.outcomes[places]
        means = pool(whole.inputs[places], outcomes, torch.ones_like(outcomes))
        found.append((means.inputs, means.residuals))
    twice = len(tasks) - len(found)
    remark = f", without {twice} whose runs are in another or in this table" * bool(twice)
    return found, f"{sheet.origin}{remark}, {len(found)} tasks"
