r"""Rows as CSV and as Markdown."""

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.runner.store import write_atomically


def write_rows(path: Path, rows: Sequence[dict]) -> None:
    r"""A CSV file with the keys of the first row as header."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_atomically(path, text.getvalue())


def read_rows(path: Path) -> list[dict[str, str]]:
    r"""The rows of a CSV file, as text."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    r"""The lines of a table."""
    lines = ["| " + " | ".join(header) + " |", "|---" * len(header) + "|"]
    return lines + ["| " + " | ".join(row) + " |" for row in rows]
