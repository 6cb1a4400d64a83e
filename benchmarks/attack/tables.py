r"""Counts of each family and distinct failures, before and after."""

import re
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from benchmarks.attack.families import FAMILIES
from benchmarks.attack.tasks import Run
from benchmarks.attack.verdicts import KINDS
from benchmarks.runner import markdown_table, read_table, write_lines, write_table

_KEPT = Path(__file__).parent / "results"
_NUMBER = re.compile(r"[-+]?\d[\d.]*(e[-+]?\d+)?|nan|inf")
_LINE = re.compile(r":\d+")
_HEADER = ["family", "what", "cases", "refused", "raw errors", "silently wrong", "minutes"]


def save_counts(folder: Path, label: str, runs: dict[str, Sequence[Run]]) -> list[Path]:
    r"""Write ``<label>.csv`` and ``<label>_failures.csv``; other families stay."""
    counts, failures = folder / f"{label}.csv", folder / f"{label}_failures.csv"
    played = [_count(name, own) for name, own in runs.items()]
    rows = pd.DataFrame([*_others(counts, runs), *played])
    write_table(counts, rows.sort_values("family", key=lambda f: f.map(_ORDER)))
    found = [row for name, own in runs.items() for row in _distinct(name, own)]
    if found := [*_others(failures, runs), *found]:
        write_table(failures, found)
    else:
        failures.unlink(missing_ok=True)
    return [counts]


def save_table(folder: Path) -> Path:
    r"""Write ``attack.md`` from ``before.csv`` and ``after.csv``, whichever there are.

    One that is not in the folder is taken from the repository.
    """
    lines = []
    for label in ("before", "after"):
        places = [base / f"{label}.csv" for base in (folder, _KEPT)]
        path = next(filter(Path.exists, places), None)
        if path is not None:
            rows = read_table(path)
            total = rows.drop(columns="family").astype(float).sum()
            cells = [
                _cells(row)
                for row in [*rows.to_dict("records"), {"family": "all", **total}]
            ]
            lines += ["", f"{label.capitalize()}:", "", *markdown_table(_HEADER, cells)]
    path = folder / "attack.md"
    write_lines(path, lines[1:])
    return path


_ORDER = {name: place for place, name in enumerate(FAMILIES)}


def _others(path: Path, runs: dict[str, Sequence[Run]]) -> list[dict]:
    r"""The rows of a file about families that were not played."""
    rows = read_table(path).to_dict("records") if path.exists() else []
    return [row for row in rows if row["family"] not in runs]


def _cells(row: dict) -> list[str]:
    words = FAMILIES[row["family"]].words if row["family"] in FAMILIES else ""
    numbers = [f"{int(row[key]):,}" for key in ("cases", "typed", "untyped", "wrong")]
    return [row["family"], words, *numbers, f"{float(row['seconds']) / 60:.1f}"]


def _count(name: str, runs: Sequence[Run]) -> dict[str, str]:
    kinds = pd.DataFrame([run.counts for run in runs]).sum()[list(KINDS)]
    seconds = sum(run.seconds for run in runs)
    counts = {"cases": str(kinds.sum()), **kinds.astype(str)}
    return {"family": name, **counts, "seconds": f"{seconds:.0f}"}


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
