r"""Tables as CSV and as Markdown."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import pandas as pd

from benchmarks.runner.files import write_atomically
from benchmarks.runner.provenance import record


def write_table(path: Path, rows: pd.DataFrame) -> None:
    r"""A CSV file with the columns as header, there in full or not at all.

    In a folder ``results`` its date and versions are noted where its content is new.
    """
    text = rows.to_csv(index=False, lineterminator="\n", na_rep="nan")
    known = path.exists() and path.read_text(encoding="utf-8") == text
    write_atomically(path, text)
    if path.parent.name == "results" and not known:
        record(path)


def read_table(path: Path) -> pd.DataFrame:
    r"""A CSV file, every cell as its text."""
    return pd.read_csv(path, dtype=str, keep_default_na=False)


def write_lines(path: Path, lines: Iterable[str]) -> None:
    r"""A text file."""
    write_atomically(path, "\n".join(lines) + "\n")


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    r"""The lines of a table."""
    lines = ["| " + " | ".join(header) + " |", "|---" * len(header) + "|"]
    return lines + ["| " + " | ".join(row) + " |" for row in rows]
