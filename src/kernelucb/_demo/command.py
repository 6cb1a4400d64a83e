r"""What ``python -m kernelucb`` does, from its arguments to its last line."""

import sys
from argparse import Namespace
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from kernelucb._demo.loop import Run, Settings
from kernelucb._demo.options import read_arguments
from kernelucb._demo.own import BlackBoxError
from kernelucb._demo.table import print_table
from kernelucb._demo.wording import conclusion, details, origin, promise, task
from kernelucb.exceptions import SolverError

_STOPPED = 1
_INTERRUPTED = 130  # what shells report for Ctrl-C


def run_demo(argv: Sequence[str] | None = None) -> int:
    r"""Run the demo with these arguments, by default those of the process.

    Returns the exit status: 0, 1 when the run had to stop, 130 after Ctrl-C in a round.
    """
    arguments = read_arguments(argv)
    names = Settings.__dataclass_fields__
    settings = Settings(**{name: getattr(arguments, name) for name in names})
    threads = torch.get_num_threads()
    # The matrices are tiny: on a busy machine threads only wait for each other.
    torch.set_num_threads(1)
    try:
        return _run(settings, arguments)
    except BlackBoxError as error:  # among the initial points
        print(f"kernelucb: {error}", file=sys.stderr)
        return _STOPPED
    finally:
        torch.set_num_threads(threads)


def _run(settings: Settings, arguments: Namespace) -> int:
    console = Console(highlight=False, markup=False)
    run = Run(arguments.make_problem(), settings)
    console.print(f"{promise(run)}\n\n{task(run)}\n\n{origin(run)}")
    status, ending = _play(run)
    if ending:
        print(f"kernelucb: {ending}", file=sys.stderr)
    if not run.rounds:
        return status
    print_table(run, console)
    console.print(details(run))
    for message in run.messages:
        console.print(f"Warning: {message}")
    console.print("\nWhat the band rests on:", style="bold")
    console.print(str(run.assumptions))
    if not arguments.no_picture and not _write_picture(run, arguments.output, console):
        status = status or _STOPPED
    console.print(f"\n{conclusion(run)}")
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
        except (KeyboardInterrupt, SolverError, BlackBoxError) as error:
            played = f"after {len(run.rounds)} of {total} rounds"
            if isinstance(error, KeyboardInterrupt):
                return _INTERRUPTED, f"interrupted {played}"
            return _STOPPED, f"stopped {played}: {error}"
    return 0, ""


def _write_picture(run: Run, path: Path, console: Console) -> bool:
    r"""Write it where matplotlib is installed; False if the file cannot be written."""
    if find_spec("matplotlib") is None:
        console.print("\nNo picture: it needs matplotlib (pip install kernelucb[plot]).")
        return True
    from kernelucb._demo.picture import write_picture

    try:
        write_picture(run, path)
    except OSError as error:  # found writable before the run; the disk may be full
        print(f"kernelucb: no picture: {error}", file=sys.stderr)
        return False
    console.print(f"\nPicture: {path}", soft_wrap=True)
    return True
