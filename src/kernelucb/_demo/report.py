r"""What the demo prints: what is promised, the rounds, and what may be said at the end."""

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from torch import Tensor

from kernelucb._demo.loop import Run
from kernelucb._demo.problems import NUM_SETTINGS

_LINE = 28  # widest column of inputs; the others need 50 with their gaps


def opening(run: Run) -> str:
    r"""What kind of band this is, what is minimised, and where the numbers come from."""
    problem, known = run.problem, run.problem.function
    box = " x ".join(f"[{low:g}, {high:g}]" for low, high in problem.bounds.T.tolist())
    noise = (
        "Gaussian with standard deviation" if known else "said to be sub-Gaussian, scale"
    )
    task = (
        f"Minimising {problem.name} over {NUM_SETTINGS:,} settings spread evenly over "
        f"{box}; the noise is {noise} {run.noise:.4g}. {len(run.X)} initial points, then "
        f"{run.rounds} rounds: guarded qLogNEI on a model that is refitted in every round, "
        "and every fourth round the band's own bound."
    )
    bound = f"The norm bound, {run.band.norm_bound:.6g}, was given."
    if run.estimate:
        bound = "The norm bound is estimated in every round (NormTracker.cautious)."
    elif run.given_norm is None:
        bound = f"The norm bound is that norm, rounded up: {run.band.norm_bound:.6g}."
    return f"{_promise(run)}\n\n{task}\n\n{problem.origin} {bound}"


def _promise(run: Run) -> str:
    summary, known = run.assumptions.summary, run.problem.function
    if run.estimate:
        return (
            f"{summary}: in every round, from the data. Nothing proves that the estimate "
            "is large enough, so the band may miss the function."
        )
    if known and run.norm_too_small:
        return (
            f"{summary}: the norm bound given, {run.given_norm:.6g}, is too small for this "
            f"function, whose norm is {known.norm:.6g}. The band may miss it."
        )
    if not run.certified:
        return f"{summary}: the initial points contradict it. The band may miss."
    fixed = "kernel, mean, noise and norm bound are fixed before the run"
    if known:
        return f"{summary}: {fixed}, and true of this function."
    doubt = "Whether they are true of this function, only you can know."
    return f"{summary}, if what was given is true: {fixed}. {doubt}"


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
        numbers = (f"{value:.4g}" for value in (row.y, row.best, row.certificate.gap))
        table.add_row(str(row.number), _text(row.x), *numbers)
    console.print(table)
    console.print(
        "* how much better than the point recommended before this round's outcome any of "
        f"the {NUM_SETTINGS:,} settings can be, at most"
    )
    for message in run.messages:
        console.print(f"Warning: {message}")
    if run.problem.function:
        missed = sum(not row.covered for row in run.played)
        console.print(
            "Only a simulation can know: the band missed the true function somewhere in "
            f"{missed} of {len(run.played)} rounds, and the point recommended at the end "
            f"is {run.regret(run.best):.4g} from the best setting."
        )


def conclusion(run: Run) -> str:
    r"""The smallest gap in words, and whether it says anything."""
    best = run.best
    none, promised = "If the band holds, none", f"not certified; {run.assumptions.summary}"
    if run.messages:
        promised += ", contradicted by the data"
    if run.certified:
        none, promised = "None", f"certified, with probability {1 - run.delta:.6g}"
        promised += "" if run.problem.function else ", if what was given is true"
        promised += "; the smallest gap of all rounds, whose bands hold at once"
    text = (
        f"Recommended after {len(run.played)} rounds: x = ({_text(best.recommended)}). "
        f"{none} of the {NUM_SETTINGS:,} settings is better by more than {best.gap:.4g} "
        f"({promised})."
    )
    values, name = run.truth, "the function's range"
    if values is None:
        values, name = run.Y, "the range of the outcomes"
    spread = float(values.max() - values.min())
    if best.gap < spread:
        return f"{text} That is {best.gap / spread:.2g} times {name}, {spread:.4g}."
    return f"{text} That is larger than {name}, {spread:.4g}: it says nothing yet."


def _text(point: Tensor) -> str:
    return ", ".join(f"{value:.4g}" for value in point.tolist())
