r"""What ``python -m kernelucb`` does, from its options to its last line."""

import sys
from argparse import Namespace
from importlib.util import find_spec
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from kernelucb._demo.loop import Run
from kernelucb._demo.problems import BlackBoxError, make_problem, own_problem
from kernelucb._demo.report import conclusion, opening, print_rounds
from kernelucb.exceptions import SolverError

_STOPPED = 1
_INTERRUPTED = 130  # what shells report for Ctrl-C


def run_demo(arguments: Namespace) -> int:
    r"""Run the demo; the exit status: 0, 1 when it had to stop, 130 after Ctrl-C."""
    threads = torch.get_num_threads()
    # The matrices are tiny: on a busy machine threads only wait for each other.
    torch.set_num_threads(1)
    try:
        return _run(_start(arguments), arguments)
    except BlackBoxError as error:  # before the first round
        print(f"kernelucb: {error}", file=sys.stderr)
        return _STOPPED
    finally:
        torch.set_num_threads(threads)


def _start(arguments: Namespace) -> Run:
    name = arguments.function
    if ":" in name:
        said = arguments.length_scale or 0.5, arguments.mean or 0.0
        problem = own_problem(name, arguments.bounds, *said)
    else:
        problem = make_problem(name)
    return Run(
        problem,
        rounds=arguments.rounds,
        seed=arguments.seed,
        delta=arguments.delta,
        noise_std=arguments.noise_std,
        given_norm=arguments.norm_bound,
        estimate=arguments.estimate,
    )


def _run(run: Run, arguments: Namespace) -> int:
    console = Console(highlight=False, markup=False)
    console.print(opening(run))
    status, ending = _play(run)
    if ending:
        print(f"kernelucb: {ending}", file=sys.stderr)
    if not run.played:
        return status
    print_rounds(run, console)
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
    with progress:
        task = progress.add_task(run.problem.name, total=run.rounds, state="starting")
        try:
            for row in run.steps():
                state = f"best {row.best:.4g}, gap {row.certificate.gap:.4g}"
                progress.update(task, advance=1, state=state)
        except (KeyboardInterrupt, SolverError, BlackBoxError) as error:
            played = f"after {len(run.played)} of {run.rounds} rounds"
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
    except OSError as error:
        print(f"kernelucb: no picture: {error}", file=sys.stderr)
        return False
    console.print(f"\nPicture: {path}", soft_wrap=True)
    return True
