r"""Command line: ``python -m benchmarks.scale width|large``."""

import argparse
import csv
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch

from benchmarks.runner import ROOT, Folders, update_report
from benchmarks.scale import large, width
from benchmarks.scale.tables import large_table, width_table

HERE, REPORT = Path(__file__).parent, ROOT / "docs" / "results" / "scale.md"


def main(arguments: Sequence[str] | None = None) -> None:
    r"""Measure, write the numbers and their table, and copy the table into the report."""
    options = _parser().parse_args(arguments)
    folders = Folders.of(HERE, options.output)
    folders.results.mkdir(parents=True, exist_ok=True)
    if options.experiment == "report":
        update_report(REPORT, folders.results)
        return
    torch.set_num_threads(options.threads)
    if options.experiment == "width":
        path = folders.results / "width.csv"
        _write(path, width.HEADER, width.measure())
        table = width_table(path)
        from benchmarks.scale.figures import draw

        draw(path, folders.pictures / "scale_width.png")
    else:
        sizes = options.observations, options.candidates, options.inducing
        further = None if options.pairs else options.further
        name = "large_pairs" if options.pairs else "large"
        path = folders.results / f"{name}.csv"
        _write(path, large.HEADER, large.measure(*sizes, further))
        table = large_table(path, *sizes, further, options.threads)
    path.with_suffix(".md").write_text(table, encoding="utf-8")
    print(table)


def _write(path: Path, header: Iterable[str], rows: Iterable[Iterable]) -> None:
    rows = list(rows)
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([header, *rows])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.scale",
        description="The certified band for very many observations: its width against the "
        "exact one, and one selection at full size.",
    )
    parser.add_argument("experiment", choices=("width", "large", "report"))
    parser.add_argument("--observations", type=int, default=100_000)
    parser.add_argument("--candidates", type=int, default=1_000_000)
    parser.add_argument("--inducing", type=int, default=300)
    parser.add_argument(
        "--further", type=int, default=1_600, help="points for the remainder"
    )
    parser.add_argument("--pairs", action="store_true", help="the pass over pairs instead")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--output", type=Path, help="folder for results and images")
    return parser


if __name__ == "__main__":
    main()
