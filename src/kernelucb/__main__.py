r"""The demo: ``python -m kernelucb`` minimises a noisy test function.

Says what the band rests on, prints a table of the rounds, and writes a picture of the
exact band against the bounds in common use.
"""

import math
import sys
from argparse import Namespace
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import torch
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from kernelucb._demo.loop import NUM_CANDIDATES, Run, Settings
from kernelucb._demo.options import make_parser
from kernelucb._demo.problems import make_problem
from kernelucb._demo.wording import origin, promise, task
from kernelucb.exceptions import SolverError

_STOPPED = 1
_INTERRUPTED = 130  # what shells report for Ctrl-C


def main(argv: Sequence[str] | None = None) -> int:
    r"""Run the demo with these arguments, by default those of the process.

    Returns the exit status: 0, 1 when the run had to stop, 130 after Ctrl-C.
    """
    arguments = make_parser().parse_args(argv)
    names = Settings.__dataclass_fields__
    settings = Settings(**{name: getattr(arguments, name) for name in names})
    threads = torch.get_num_threads()
    # The matrices are tiny: on a busy machine threads only wait for each other.
    torch.set_num_threads(1)
    try:
        return _run(settings, arguments)
    except KeyboardInterrupt:
        print("kernelucb: interrupted", file=sys.stderr)
        return _INTERRUPTED
    finally:
        torch.set_num_threads(threads)


def _run(settings: Settings, arguments: Namespace) -> int:
    console = Console(highlight=False, markup=False)
    run = Run(make_problem(arguments.function), settings)
    console.print(f"{promise(run)}\n\n{task(run)}\n\n{origin(run)}")
    status, ending = _play(run)
    if ending:
        print(f"kernelucb: {ending}", file=sys.stderr)
    if run.rounds:
        _print_table(run, console)
    _print_closing(run, console)
    if run.rounds and not arguments.no_picture:
        _write_picture(run, arguments.output, console)
    return status


def _play(run: Run) -> tuple[int, str]:
    r"""Play under a progress bar; returns the exit status and why it ended early."""
    terminal = Console(stderr=True)
    progress = Progress(
        TextColumn("[progress.description]{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("rounds, {task.fields[state]}"),
        console=terminal,
        transient=True,
        disable=not terminal.is_terminal,
    )
    total = run.settings.rounds
    with progress:
        task = progress.add_task(run.problem.name, total=total, state="starting")
        try:
            for row in run.steps():
                state = f"best {row.best:.4g}, gap {row.gap:.4g}"
                progress.update(task, advance=1, state=state)
        except (KeyboardInterrupt, SolverError) as error:
            played = f"after {len(run.rounds)} of {total} rounds"
            if isinstance(error, KeyboardInterrupt):
                return _INTERRUPTED, f"interrupted {played}"
            return _STOPPED, f"stopped {played}: {error}"
    return 0, ""


def _print_table(run: Run, console: Console) -> None:
    gap = "certified gap*" if run.certified else "gap*"
    table = Table(box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for heading in ("round", "x", "y", "best y", "width at x", gap, "truth in"):
        justify = "left" if heading == "x" else "right"
        table.add_column(heading, justify=justify, no_wrap=True)
    for row in run.rounds:
        numbers = [f"{value:.4g}" for value in (row.y, row.best, row.width, row.gap)]
        covered = f"{math.floor(1000 * row.covered) / 10:g} %"
        table.add_row(str(row.number), _in_threes(row.x.tolist()), *numbers, covered)
    console.print(table)
    console.print(
        f"* largest regret of the recommended point on {NUM_CANDIDATES} fixed candidates "
        "and the points evaluated: exact on this finite set, no claim between its "
        "points. Truth in: share of the candidates where the band held the true "
        "function (only a simulation can know).",
    )


def _print_closing(run: Run, console: Console) -> None:
    point, gap = run.certificate()
    value = float(run.problem.function(point.unsqueeze(0)))
    where = ", ".join(f"{number:.4g}" for number in point.tolist())
    promised = f"not certified, norm {run.norm_status}"
    if run.certified:
        promised = f"certified, with probability {1 - run.settings.delta:.6g}"
    console.print(
        f"\nRecommended: x = ({where}). Its regret on the candidates is at most "
        f"{gap:.4g} ({promised}). True value {value:.4g}, {_minimum(run)}.",
    )
    missed = sum(row.covered < 1.0 for row in run.rounds)
    console.print(
        f"The band missed the true function somewhere in {missed} of {len(run.rounds)} "
        f"rounds. Norm bound in the end: {run.acquisition.norm_bound:.4g}; norm of the "
        f"true function: {run.problem.function.norm:.4g}.",
    )
    for message in run.messages:
        console.print(f"Warning: {message}")
    console.print("\nWhat the band rests on:", style="bold")
    console.print(str(run.assumptions))


def _minimum(run: Run) -> str:
    text = f"true minimum {run.problem.function.minimum:.4g} (found by search)"
    original = run.problem.original
    if original is None:
        return text
    return f"{text}; of {original.title} itself {original.minimum:.4g}"


def _in_threes(values: list[float]) -> str:
    r"""Numbers in lines of three."""
    texts = [f"{value:.2f}" for value in values]
    lines = [" ".join(texts[start : start + 3]) for start in range(0, len(texts), 3)]
    return "\n".join(lines)


def _write_picture(run: Run, path: Path, console: Console) -> None:
    if find_spec("matplotlib") is None:
        console.print("\nNo picture: it needs matplotlib (pip install kernelucb[plot]).")
        return
    from kernelucb._demo.picture import write_picture

    write_picture(run, path)
    console.print(f"\nPicture: {path}", soft_wrap=True)


if __name__ == "__main__":
    sys.exit(main())
