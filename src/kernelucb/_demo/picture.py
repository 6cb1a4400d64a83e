r"""The picture of the demo."""

from itertools import accumulate
from pathlib import Path
from typing import Any

from kernelucb._demo.loop import Run
from kernelucb.acquisition import IGPUCB, AbbasiYadkoriUCB, MartingaleMixtureUCB
from kernelucb.acquisition.base import KernelUCB
from kernelucb.plotting import (
    plot_bands,
    plot_gap,
    plot_possible_maximizers,
    slice_points,
)
from kernelucb.plotting.style import RC, load_pyplot


def write_picture(run: Run, path: Path) -> None:
    r"""Bands through the recommended point, what may be the optimum, and the gap.

    The run has at least one round; the suffix of the path decides the format.
    """
    plt = load_pyplot()
    one = len(run.problem.bounds.T) == 1
    with plt.rc_context(RC):
        rows = 2 if one else 3
        figure = plt.figure(figsize=(9.0, 3.4 * rows), layout="constrained")
        axes = figure.subplots(rows, 1)
        _draw_bands(run, axes[0])
        if not one:
            plot_possible_maximizers(
                run.band, bounds=run.problem.bounds, data=(run.X, run.Y), ax=axes[1]
            )
        _draw_gap(run, axes[-1])
        level = f"of level {1 - run.delta:.6g}" if run.certified else "not certified"
        figure.suptitle(f"{run.problem.name}: {len(run.X)} outcomes, bands {level}")
        figure.savefig(path)
        plt.close(figure)


def _comparison(run: Run) -> dict[str, KernelUCB]:
    r"""Our band and those in common use, for the same data and assumptions."""
    data = run.band.regression
    common: dict[str, Any] = {"norm_bound": run.band.norm_bound, "delta": run.delta}
    alpha, horizon = run.noise**2, len(run.X) - len(run.played) + run.rounds
    return {
        "our band": run.band,
        "AMM": MartingaleMixtureUCB(data, fit="martingale", form="analytic", **common),
        "Abbasi-Yadkori": AbbasiYadkoriUCB(data, alpha=alpha, **common),
        "IGP": IGPUCB(data, horizon=horizon, **common),
    }


def _draw_bands(run: Run, axes: Any) -> None:
    box, initial = run.problem.bounds, len(run.X) - len(run.played)
    one = len(box.T) == 1
    plot_bands(
        _comparison(run),
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


def _draw_gap(run: Run, axes: Any) -> None:
    r"""The smallest gap so far, beside what only a simulation can know."""
    shown = run.certificates
    if run.certified:
        shown = [*accumulate(shown, lambda *two: min(two, key=lambda each: each.gap))]
    regrets = (run.regret(certificate) for certificate in shown)
    true = [regret for regret in regrets if regret is not None] or None
    plot_gap(shown, rounds=range(len(shown)), true_gaps=true, ax=axes)
    axes.set_yscale("symlog", linthresh=max(each.gap for each in shown) / 1e3 or 1.0)
    axes.set_title("smallest gap so far" if run.certified else "gap of the round")
