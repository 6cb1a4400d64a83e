r"""What the command lines have in common: options, folders, choices by name."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

ROOT = Path(__file__).parents[2]
Item = TypeVar("Item")


@dataclass(frozen=True)
class Folders:
    r"""Where runs, summaries and pictures go."""

    runs: Path
    results: Path
    pictures: Path

    @classmethod
    def of(cls, benchmark: Path, output: Path | None) -> "Folders":
        r"""The folders of a benchmark, or all of them under ``output``."""
        if output is None:
            pictures = ROOT / "docs" / "results" / "images"
            return cls(benchmark / "runs", benchmark / "results", pictures)
        return cls(output / "runs", output / "results", output / "images")


def add_run_options(parser: argparse.ArgumentParser) -> None:
    r"""How the runs are played and where they go; see ``run_tasks`` and ``Folders``."""
    parser.add_argument("--engine", choices=("joblib", "ray"), default="joblib")
    parser.add_argument(
        "--jobs", type=int, default=1, help="processes, or local Ray workers"
    )
    parser.add_argument("--output", type=Path, help="folder for runs, results and images")


def chosen(items: Sequence[Item], names: Sequence[str] | None, option: str) -> list[Item]:
    r"""The items with these names, in their own order; all of them without names."""
    known = [item.name for item in items]  # pyright: ignore[reportAttributeAccessIssue]
    unknown = set(names or ()) - set(known)
    if unknown:
        raise SystemExit(f"{option}: unknown {sorted(unknown)}; known are {known}.")
    pairs = zip(items, known, strict=True)
    return [item for item, name in pairs if not names or name in names]
