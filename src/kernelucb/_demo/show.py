r"""What the demo prints and draws, from its promise to its last line."""

import sys
from argparse import Namespace
from importlib.util import find_spec
from itertools import accumulate
from pathlib import Path
from typing import Any

import torch
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from torch import Tensor

from kernelucb._demo.problems import NUM_SETTINGS, make_problem
from kernelucb._demo.run import Run
from kernelucb._numerics.digits import at_most, one_minus
from kernelucb.acquisition import IGPUCB, AbbasiYadkoriUCB, MartingaleMixtureUCB
from kernelucb.exceptions import SolverError

_LINE = 28  # widest column of inputs; the others need 50 with their gaps
_STOPPED = 1
_INTERRUPTED = 130  # what shells report for Ctrl-C


def run_demo(arguments: Namespace) -> int:
    r"""Run the demo; the exit status: 0, 1 when it had to stop, 130 after Ctrl-C."""
    threads = torch.get_num_threads()
    # The matrices are tiny: on a busy machine threads only wait for each other.
    torch.set_num_threads(1)
    try:
        return _shown(arguments)
    finally:
        torch.set_num_threads(threads)


def _shown(arguments: Namespace) -> int:
    run = Run(
        make_problem(arguments.function),
        rounds=arguments.rounds,
        seed=arguments.seed,
        delta=arguments.delta,
        given_norm=arguments.norm_bound,
        estimate=arguments.estimate,
    )
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
                state = f"best {row.best:.4g}, gap {at_most(row.certificate.gap)}"
                progress.update(task, advance=1, state=state)
        except (KeyboardInterrupt, SolverError) as error:
            played = f"after {len(run.played)} of {run.rounds} rounds"
            if isinstance(error, KeyboardInterrupt):
                return _INTERRUPTED, f"interrupted {played}"
            return _STOPPED, f"stopped {played}: {error}"
    return 0, ""


def opening(run: Run) -> str:
    r"""What kind of band this is, what is minimised, and where the numbers come from."""
    problem = run.problem
    box = " x ".join(f"[{low:g}, {high:g}]" for low, high in problem.bounds.T.tolist())
    task = (
        f"Minimising {problem.name} over {NUM_SETTINGS:,} settings spread evenly over "
        f"{box}; the noise is Gaussian with standard deviation {run.noise:.4g}. "
        f"{len(run.X)} initial points, then {run.rounds} rounds: guarded qLogNEI on a "
        "model that is refitted in every round, and every fourth round the band's own "
        "bound."
    )
    bound = f"The norm bound is that norm, rounded up: {run.band.norm_bound:.6g}."
    if run.estimate:
        bound = "The norm bound is estimated in every round (NormTracker.cautious)."
    elif run.given_norm is not None:
        bound = f"The norm bound, {run.band.norm_bound:.6g}, was given."
    return f"{_promise(run)}\n\n{task}\n\n{problem.origin} {bound}"


def _promise(run: Run) -> str:
    summary = run.assumptions.summary
    if run.estimate:
        return (
            f"{summary}: in every round, from the data. Nothing proves that the estimate "
            "is large enough, so the band may miss the function."
        )
    if run.norm_too_small:
        return (
            f"{summary}: the norm bound given, {run.given_norm:.6g}, is too small for "
            f"this function, whose norm is {run.problem.function.norm:.6g}. The band may "
            "miss it."
        )
    if not run.certified:
        return f"{summary}: the initial points contradict it. The band may miss."
    return (
        f"{summary}: kernel, mean, noise and norm bound are fixed before the run, and true "
        "of this function."
    )


def print_rounds(run: Run, console: Console) -> None:
    r"""One row for each round, what its columns mean, and what only a simulation knows."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    gap = "certified\ngap*" if run.certified else "gap*"
    for heading in ("round", "x", "y", "best y", gap):
        if heading == "x":
            table.add_column(heading, max_width=_LINE)
        else:
            table.add_column(heading, justify="right", no_wrap=True)
    for row in run.played:
        numbers = f"{row.y:.4g}", f"{row.best:.4g}", at_most(row.certificate.gap)
        table.add_row(str(row.number), _text(row.x), *numbers)
    console.print(table)
    console.print(
        "* how much better than the point recommended before this round's outcome any of "
        f"the {NUM_SETTINGS:,} settings can be, at most"
    )
    for message in run.messages:
        console.print(f"Warning: {message}")
    missed = sum(not row.covered for row in run.played)
    console.print(
        "Only a simulation can know: the band missed the true function somewhere in "
        f"{missed} of {len(run.played)} rounds, and the point recommended at the end is "
        f"{run.regret(run.best):.4g} from the best setting."
    )


def conclusion(run: Run) -> str:
    r"""The smallest gap in words, and whether it says anything."""
    best = run.best
    none, promised = "If the band holds, none", f"not certified; {run.assumptions.summary}"
    if run.messages:
        promised += ", contradicted by the data"
    if run.certified:
        none, promised = "None", f"certified, with probability {one_minus(run.delta)}"
        promised += "; the smallest gap of all rounds, whose bands hold at once"
    text = (
        f"Recommended after {len(run.played)} rounds: x = ({_text(best.recommended)}). "
        f"{none} of the {NUM_SETTINGS:,} settings is better by more than "
        f"{at_most(best.gap)} ({promised})."
    )
    spread = float(run.truth.max() - run.truth.min())
    whole = f"the function's range, {spread:.4g}"
    if best.gap < spread:
        return f"{text} That is {best.gap / spread:.2g} times {whole}."
    return f"{text} That is larger than {whole}: it says nothing yet."


def _text(point: Tensor) -> str:
    return ", ".join(f"{value:.4g}" for value in point.tolist())


def _write_picture(run: Run, path: Path, console: Console) -> bool:
    r"""Write it where matplotlib is installed; False if the file cannot be written."""
    if find_spec("matplotlib") is None:
        console.print("\nNo picture: it needs matplotlib (pip install kernelucb[plot]).")
        return True
    try:
        draw(run, path)
    except OSError as error:
        print(f"kernelucb: no picture: {error}", file=sys.stderr)
        return False
    console.print(f"\nPicture: {path}", soft_wrap=True)
    return True


def draw(run: Run, path: Path) -> None:
    r"""Bands through the recommended point, and the gap; the suffix decides the format."""
    from kernelucb.plotting.style import RC, load_pyplot

    plt = load_pyplot()
    with plt.rc_context(RC):
        figure = plt.figure(figsize=(9.0, 6.8), layout="constrained")
        axes = figure.subplots(2, 1)
        draw_bands(run, axes[0])
        draw_gap(run, axes[1])
        level = f"of level {one_minus(run.delta)}" if run.certified else "not certified"
        figure.suptitle(f"{run.problem.name}: {len(run.X)} outcomes, bands {level}")
        figure.savefig(path)
        plt.close(figure)


def draw_bands(run: Run, axes: Any) -> None:
    r"""Our band and those in common use, for the same data and assumptions."""
    from kernelucb.plotting import plot_bands, slice_points

    data = run.band.regression
    common: dict[str, Any] = {"norm_bound": run.band.norm_bound, "delta": run.delta}
    initial, box = len(run.X) - len(run.played), run.problem.bounds
    bands = {
        "our band": run.band,
        "AMM": MartingaleMixtureUCB(data, fit="martingale", form="analytic", **common),
        "Abbasi-Yadkori": AbbasiYadkoriUCB(data, alpha=run.noise**2, **common),
        "IGP": IGPUCB(data, horizon=initial + run.rounds, **common),
    }
    one = len(box.T) == 1
    plot_bands(
        bands,
        slice_points(run.best.recommended, 0, *box[:, 0].tolist()),
        data=(run.X[:initial], run.Y[:initial]),
        chosen=(run.X[initial:], run.Y[initial:]),
        true_function=run.problem.function,
        fade=not one,
        ax=axes,
        x_label="input $x$" if one else "input $x_1$",
        y_label="outcome, to be minimised",
        data_name="initial points",
    )
    if not one:
        axes.set_title("through the recommended point; marks off the line are fainter")


def draw_gap(run: Run, axes: Any) -> None:
    r"""The smallest gap so far, beside what only a simulation can know."""
    from kernelucb.plotting import plot_gap

    shown = run.certificates
    if run.certified:
        shown = [*accumulate(shown, lambda *two: min(two, key=lambda each: each.gap))]
    true = [run.regret(certificate) for certificate in shown]
    plot_gap(shown, rounds=range(len(shown)), true_gaps=true, ax=axes)
    axes.set_yscale("symlog", linthresh=max(each.gap for each in shown) / 1e3 or 1.0)
    axes.set_title("smallest gap so far" if run.certified else "gap of the round")
