r"""The table of the rounds, at most 80 columns wide."""

import math

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from torch import Tensor

from kernelucb._demo.loop import NUM_CANDIDATES, Run

_LINE = 17  # widest column of inputs; the others need 60 with their gaps


def print_table(run: Run, console: Console) -> None:
    r"""One row for each round, the recommended point last, and what the columns mean."""
    gap = "certified\ngap*" if run.certified else "gap*"
    table = Table(box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    headings = ["round", "x", "y", "best y", "width\nat x", gap]
    headings += [] if run.known is None else ["truth\nin"]
    for heading in headings:
        justify = "left" if heading == "x" else "right"
        table.add_column(heading, justify=justify, no_wrap=True)
    for row in run.rounds:
        numbers = _numbers(row.y, row.best, row.width, row.gap)
        inputs = in_lines(row.x, run.problem.bounds)
        table.add_row(str(row.number), inputs, *numbers, *_percent(row.covered))
    table.add_section()
    end = run.ending()
    numbers = _numbers(end.best, end.width, end.gap)
    inputs = in_lines(end.x, run.problem.bounds)
    table.add_row("end", inputs, "", *numbers, *_percent(end.covered))
    console.print(table)
    console.print(_legend(run))


def _legend(run: Run) -> str:
    text = (
        "The row of a round is what the band said before its y; the last row, after all "
        "of them, is the recommended point.\n"
        f"* largest regret of the recommended point on {NUM_CANDIDATES} fixed candidates "
        "and the points evaluated: exact on this finite set, no claim between its points."
    )
    if run.known is None:
        return text
    return (
        f"{text} Truth in: share of the candidates where the band held the true function "
        "(only a simulation can know)."
    )


def in_lines(point: Tensor, bounds: Tensor) -> str:
    r"""The numbers of a point, as many in a line as the column of the table takes."""
    lines = [""]
    for text in as_texts(point, bounds):
        longer = f"{lines[-1]} {text}".strip()
        if lines[-1] and len(longer) > _LINE:
            lines.append(text)
        else:
            lines[-1] = longer
    return "\n".join(lines)


def as_texts(point: Tensor, bounds: Tensor) -> list[str]:
    r"""Numbers with two decimals on a side between 1 and 100, more or fewer elsewhere."""
    texts: list[str] = []
    for value, side in zip(point.tolist(), (bounds[1] - bounds[0]).tolist(), strict=True):
        exponent = math.floor(math.log10(side))
        decimals = max(2 - min(exponent, 0) - max(exponent - 1, 0), 0)
        texts.append(f"{value:.{decimals}f}")
    return texts


def _numbers(*values: float) -> list[str]:
    return [f"{value:.4g}" for value in values]


def _percent(covered: float | None) -> list[str]:
    # Rounded down: 100 % is every candidate.
    return [] if covered is None else [f"{math.floor(1000 * covered) / 10:g} %"]
