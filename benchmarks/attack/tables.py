r"""Counts of each family and distinct failures, before and after."""

import re
from collections.abc import Sequence
from pathlib import Path

from benchmarks.attack.families import FAMILIES
from benchmarks.attack.tasks import Run
from benchmarks.attack.verdicts import KINDS
from benchmarks.runner import markdown_table, read_rows, write_atomically, write_rows

_KEPT = Path(__file__).parent / "results"
_NUMBER = re.compile(r"[-+]?\d[\d.]*(e[-+]?\d+)?|nan|inf")
_LINE = re.compile(r":\d+")
_HEADER = ["family", "what", "cases", "refused", "raw errors", "silently wrong", "minutes"]


def save_counts(folder: Path, label: str, runs: dict[str, Sequence[Run]]) -> list[Path]:
    r"""Write ``<label>.csv`` and ``<label>_failures.csv``; other families stay."""
    counts, failures = folder / f"{label}.csv", folder / f"{label}_failures.csv"
    old = {row["family"]: row for row in _read(counts)}
    rows = old | {name: _count(name, played) for name, played in runs.items()}
    write_rows(counts, [rows[name] for name in FAMILIES if name in rows])
    kept = [row for row in _read(failures) if row["family"] not in runs]
    found = [row for name, played in runs.items() for row in _distinct(name, played)]
    if kept or found:
        write_rows(failures, [*kept, *found])
    else:
        failures.unlink(missing_ok=True)
    return [counts]


def save_table(folder: Path) -> Path:
    r"""Write ``attack.md`` from ``before.csv`` and ``after.csv``, whichever there are.

    One that is not in the folder is taken from the repository.
    """
    lines = []
    tables = {
        label: _read(folder / f"{label}.csv") or _read(_KEPT / f"{label}.csv")
        for label in ("before", "after")
    }
    for label, rows in tables.items():
        if rows:
            total = {"family": "all", "seconds": "0", "what": ""}
            for key in ("cases", *KINDS[1:]):
                total[key] = str(sum(int(row[key]) for row in rows))
            total["seconds"] = str(sum(float(row["seconds"]) for row in rows))
            cells = [_cells(row) for row in [*rows, total]]
            lines += ["", f"{label.capitalize()}:", "", *markdown_table(_HEADER, cells)]
    path = folder / "attack.md"
    write_atomically(path, "\n".join(lines[1:]) + "\n")
    return path


def _cells(row: dict[str, str]) -> list[str]:
    words = FAMILIES[row["family"]].words if row["family"] in FAMILIES else ""
    numbers = [f"{int(row[key]):,}" for key in ("cases", "typed", "untyped", "wrong")]
    return [row["family"], words, *numbers, f"{float(row['seconds']) / 60:.1f}"]


def _count(name: str, runs: Sequence[Run]) -> dict[str, str]:
    counts = {kind: str(sum(run.counts[kind] for run in runs)) for kind in KINDS}
    cases = sum(sum(run.counts.values()) for run in runs)
    seconds = sum(run.seconds for run in runs)
    return {"family": name, "cases": str(cases), **counts, "seconds": f"{seconds:.0f}"}


def _distinct(name: str, runs: Sequence[Run]) -> list[dict[str, str]]:
    r"""Failures that differ by more than numbers, the most frequent first."""
    groups: dict[tuple[str, ...], list] = {}
    for run in runs:
        for seed, kind, where, message, case in run.failures:
            # Errors by their type and place, wrong results by what is wrong.
            text = message.split(":")[0] if kind == "untyped" else _NUMBER.sub("#", message)
            key = (kind, _LINE.sub("", where), text[:40])
            groups.setdefault(key, []).append((seed, where, message, case))
    order = sorted(groups.items(), key=lambda item: -len(item[1]))
    return [
        {
            "family": name,
            "kind": kind,
            "cases": str(len(cases)),
            **dict(zip(("seed", "where", "message", "case"), cases[0], strict=True)),
        }
        for (kind, _, _), cases in order
    ]


def _read(path: Path) -> list[dict[str, str]]:
    return read_rows(path) if path.exists() else []
