r"""Table and picture of the regret."""

from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.papers.bkb_2019.configuration import Configuration, Method
from benchmarks.papers.bkb_2019.play import Run, play
from benchmarks.runner import (
    Call,
    Moments,
    markdown_table,
    moments_table,
    picture,
    spaced,
    write_summary,
)

_BASELINE = "exact"
_COLUMNS = (
    *("regret", "over exact", "over uniform"),
    *("m", "updates", "processor seconds"),
)
# With the ten colours of the cycle no two methods share both.
_DASHES = ("-", (0, (5, 2)), (0, (1, 1)), (0, (5, 1.5, 1, 1.5)), (0, (9, 2)), (0, (3, 1)))


def run_regret(
    configuration: Configuration, call: Call, trials: int, methods: list[Method]
) -> list[Path]:
    r"""Play what is missing; then tables and a picture."""
    lines, curves = [], {}
    for data in configuration.regret.data:
        tasks = configuration.regret_tasks(data, trials, methods)
        store = call.play(tasks, Run, play)
        runs: dict[str, list[Run]] = {method.name: [] for method in methods}
        for task in tasks:
            runs[task.method.name].append(store.load(task))
        curves[data] = {
            name: np.cumsum([run.regret for run in own], axis=1)
            for name, own in runs.items()
        }
        lines += [*_table(data, methods, runs, curves[data]), ""]
    rows = pd.concat([_curve_table(data, own) for data, own in curves.items()])
    files = write_summary(call.folders.results, "regret", rows, lines[:-1])
    return [*files, _draw(curves, methods, call.folders.picture("regret"))]


def _table(
    data: str, methods: list[Method], runs: dict[str, list[Run]], curves: dict
) -> list[str]:
    rows = []
    for method in methods:
        final, own = curves[method.name][:, -1], runs[method.name]
        ratios = Moments.of(final / curves[method.exact][:, -1])
        regret = Moments.of(final)
        uniform = Moments.of(final / curves["uniform"][:, -1])
        rows.append(
            [
                method.label,
                f"{regret.mean:.1f} ± {regret.standard_error:.1f}",
                f"{ratios.mean:.3f} ± {ratios.standard_error:.3f}",
                f"{uniform.mean:.3f}",
                f"{np.mean([run.inducing for run in own]):.0f}",
                f"{np.mean([run.steps for run in own]):.0f}",
                f"{np.mean([run.seconds for run in own]):.1f}",
            ]
        )
    rounds = curves[_BASELINE].shape[1]
    return [
        f"{data}: cumulative regret ± standard error after {rounds} rounds, "
        f"{len(curves[_BASELINE])} subsets of arms; ratios are paired, over the exact "
        "method with the same regulariser (IGP-UCB and uniform play: over the first).",
        "",
        *markdown_table(["method", *_COLUMNS], rows),
    ]


def _curve_table(data: str, curves: dict[str, np.ndarray]) -> pd.DataFrame:
    named = {(data, name): curve for name, curve in curves.items()}
    shown = spaced(curves[_BASELINE].shape[1], 16)
    table = moments_table(named, ["data", "method"], shown).rename(columns={"n": "trials"})
    table["mean"] = table["mean"].map("{:.5g}".format)
    table["standard_error"] = table["standard_error"].map("{:.3g}".format)
    return table[["data", "method", "round", "mean", "standard_error", "trials"]]


def _draw(curves: dict, methods: list[Method], path: Path) -> Path:
    shape = {"figsize": (9.0, 4.2), "squeeze": False, "dpi": 130}
    with picture(path, 1, len(curves), **shape) as (figure, panels):
        for axes, (data, own) in zip(panels[0], curves.items(), strict=True):
            uniform = own["uniform"].mean(0)
            for number, method in enumerate(methods):
                if method.name == "uniform":
                    continue
                axes.plot(
                    np.arange(1, len(uniform) + 1),
                    own[method.name].mean(0) / uniform,
                    linestyle=_DASHES[number % len(_DASHES)],
                    label=method.label if axes is panels[0][0] else None,
                )
            axes.set(title=data, xlabel="round $t$", ylim=(0, None))
        panels[0][0].set_ylabel("regret over that of uniform play")
        figure.legend(loc="outside lower center", ncols=2, handlelength=4.0)
    return path
