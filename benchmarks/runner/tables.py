r"""Tables as CSV and as Markdown, and when they were made, with which versions."""

import hashlib
import platform
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import distributions
from pathlib import Path

import pandas as pd

from benchmarks.runner.files import write_atomically

_PACKAGES = ("kernelucb", "torch", "gpytorch", "botorch", "ax-platform", "numpy", "scipy")


def write_table(path: Path, rows: pd.DataFrame) -> None:
    r"""A CSV file with the columns as header, there in full or not at all.

    In a folder ``results`` its date and versions are noted where its content is new.
    """
    text = rows.to_csv(index=False, lineterminator="\n", na_rep="nan")
    known = path.exists() and path.read_text(encoding="utf-8") == text
    write_atomically(path, text)
    if path.parent.name == "results" and not known:
        _record(path)


def _record(table: Path) -> None:
    r"""Note date and versions beside a table, in the file ``made.csv`` of its folder."""
    path, rows = table.with_name("made.csv"), {}
    if path.exists():
        rows = read_table(path).set_index("table").to_dict("index")
    versions = {each.name: each.version for each in distributions()}
    rows[table.name] = {
        "digest": hashlib.sha256(table.read_bytes()).hexdigest()[:16],
        "date": datetime.now(UTC).date().isoformat(),
        "python": platform.python_version(),
        **{package: versions.get(package, "") for package in _PACKAGES},
    }
    frame = pd.DataFrame.from_dict(dict(sorted(rows.items())), orient="index")
    write_atomically(path, frame.to_csv(index_label="table", lineterminator="\n"))


def read_table(path: Path) -> pd.DataFrame:
    r"""A CSV file, every cell as its text."""
    return pd.read_csv(path, dtype=str, keep_default_na=False)


def write_lines(path: Path, lines: Iterable[str]) -> None:
    write_atomically(path, "\n".join(lines) + "\n")


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    r"""The lines of a table."""
    lines = ["| " + " | ".join(header) + " |", "|---" * len(header) + "|"]
    return lines + ["| " + " | ".join(row) + " |" for row in rows]


def captioned(text: str, header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    r"""The lines of a paragraph and of the table below it."""
    return [text, "", *markdown_table(header, rows)]


def as_texts(rows: pd.DataFrame, formats: Mapping[str, str]) -> pd.DataFrame:
    r"""The rows with some columns as texts in these formats."""
    texts = {name: [format(v, f) for v in rows[name]] for name, f in formats.items()}
    return rows.assign(**texts)
