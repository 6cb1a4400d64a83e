r"""When a table of results was made, and with which versions."""

import hashlib
import platform
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pandas as pd

from benchmarks.runner.files import write_atomically

PACKAGES = ("kernelucb", "torch", "gpytorch", "botorch", "ax-platform", "numpy", "scipy")
NAME = "made.csv"


def record(table: Path) -> None:
    r"""Note date and versions beside a table, in the file ``made.csv`` of its folder."""
    path = table.with_name(NAME)
    rows = _rows(path)
    rows[table.name] = {
        "digest": _digest(table),
        "date": datetime.now(UTC).date().isoformat(),
        "python": platform.python_version(),
        **{package: _version(package) for package in PACKAGES},
    }
    frame = pd.DataFrame.from_dict(dict(sorted(rows.items())), orient="index")
    text = frame.to_csv(index_label="table", lineterminator="\n")
    write_atomically(path, text)


def _rows(path: Path) -> dict[str, dict[str, str]]:
    if not path.exists():
        return {}
    frame = pd.read_csv(path, dtype=str, keep_default_na=False).set_index("table")
    return {str(name): dict(row) for name, row in frame.to_dict(orient="index").items()}


def _digest(table: Path) -> str:
    return hashlib.sha256(table.read_bytes()).hexdigest()[:16]


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
