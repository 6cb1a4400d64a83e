r"""Command line; see ``--help``."""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from benchmarks.overview import words
from benchmarks.runner import ROOT, write_lines

PAGE = ROOT / "docs" / "results" / "index.md"

HEAD = (
    "# What was measured",
    "",
    "One line for each claim, made from a committed table by",
    "`python -m benchmarks.overview`. The links lead to the tables, with date and versions",
    "where they were recorded. Every command can be run again with the",
    "[tested versions](../../constraints.txt).",
    "",
)


@dataclass(frozen=True)
class Line:
    r"""A claim.

    Attributes:
        folder: Of the benchmark.
        table: Without folder and ending.
        words: The sentence, from the rows of the table.
        command: After ``python -m benchmarks.``; that of the folder with the table's name.
        page: Below ``docs/results``; that with the folder's name.
    """

    folder: str
    table: str
    words: Callable[[pd.DataFrame], str]
    command: str = ""
    page: str = ""

    def text(self) -> str:
        r"""The line of the page."""
        path = ROOT / "benchmarks" / self.folder / "results" / f"{self.table}.csv"
        command = self.command or f"{self.folder.replace('/', '.')} {self.table}"
        page = self.page or f"{Path(self.folder).name}.md"
        return (
            f"- {self.words(pd.read_csv(path))} [More]({page}).<br>"
            f"`python -m benchmarks.{command}`"
        )


SECTIONS = {
    "How narrow": (
        Line("filters", "width", words.width),
        Line("filters", "designs", words.designs),
        Line("laboratory", "widths", words.laboratory),
        Line("papers/durand_2018", "band", words.noise),
    ),
    "Whether it holds": (
        Line("trust", "stops", words.stops),
        Line("trust", "lost", words.lost),
        Line("safety", "coverage", words.safe_set),
        Line("experiments", "safe", words.safe_ax),
        Line("guarded", "coverage", words.guarded),
        Line("counts", "coverage", words.counts),
        Line("norm", "estimate", words.norm),
        Line(
            "reliability",
            "curves_held_out",
            words.reliability,
            command="reliability curves",
        ),
        Line("stopping", "stops", words.stopping),
        Line("attack", "attack", words.attack),
    ),
    "How well it searches and stops": (
        Line("practical", "compare_runs", words.search, command="practical compare"),
        Line("papers/flynn_reeb_2024", "paired_filters", words.bandits),
        Line(
            "unknown_kernel", "regret_runs", words.family, command="unknown_kernel regret"
        ),
        Line("experiments", "dimensions", words.dimensions),
        Line("papers/srinivas_2010", "synthetic", words.prior_sample),
        Line("papers/wang_2018", "grasp", words.earlier_tasks),
    ),
    "What it costs": (
        Line("speed", "optimize_acqf", words.speed),
        Line("scale", "large", words.sketch),
        Line("papers/bkb_2019", "time", words.arms),
    ),
}


def main(arguments: Sequence[str] | None = None) -> None:
    r"""Write the page."""
    parser = argparse.ArgumentParser(description="One page of all that was measured.")
    parser.add_argument("--output", type=Path, default=PAGE, help="the file")
    path, lines = parser.parse_args(arguments).output, list(HEAD)
    for section, entries in SECTIONS.items():
        lines += [f"## {section}", "", *(entry.text() for entry in entries), ""]
    write_lines(path, lines[:-1])
    print(path)


if __name__ == "__main__":
    main()
