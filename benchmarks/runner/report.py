r"""Copies the tables of ``results/`` into the report, between its markers."""

import re
from pathlib import Path

from benchmarks.runner.store import write_atomically

_BLOCK = re.compile(r"(<!-- begin (\w+) -->\n).*?(<!-- end \2 -->)", re.DOTALL)


def update_report(report: Path, results: Path) -> list[Path]:
    r"""Replace every marked block by the table of that name.

    Raises:
        FileNotFoundError: If a table is missing; the message names the command for it.
    """

    def table(match: re.Match[str]) -> str:
        path = results / f"{match[2]}.md"
        if not path.exists():
            raise FileNotFoundError(
                f"{path} is missing: run the command {match[2]!r} first."
            )
        return match[1] + "\n" + path.read_text(encoding="utf-8") + "\n" + match[3]

    text = report.read_text(encoding="utf-8")
    write_atomically(report, _BLOCK.sub(table, text))
    return [report]
