r"""Table and picture of the regret."""

from pathlib import Path

import numpy as np

from benchmarks.papers.bkb_2019.configuration import Configuration, Method
from benchmarks.papers.bkb_2019.play import Run, play
from benchmarks.runner import (
    Folders,
    Moments,
    RunStore,
    markdown_table,
    run_tasks,
    write_atomically,
    write_rows,
)
from kernelucb.plotting.style import RC, load_pyplot

_BASELINE = "exact"
# With the ten colours of the cycle no two methods share both.
_DASHES = ("-", (0, (5, 2)), (0, (1, 1)), (0, (5, 1.5, 1, 1.5)), (0, (9, 2)), (0, (3, 1)))


def run_regret(
    configuration: Configuration,
    folders: Folders,
    trials: int,
    methods: list[Method],
    engine: str,
    jobs: int,
) -> list[Path]:
    r"""Play what is missing; then tables and a picture."""
    store, files, lines, rows = RunStore(folders.runs, Run), [], [], []
    section = configuration.raw["regret"]
    curves = {}
    for data in section["data"]:
        tasks = configuration.regret_tasks(data, trials, methods)
        run_tasks(tasks, store, play, engine, jobs)
        runs: dict[str, list[Run]] = {method.name: [] for method in methods}
        for task in tasks:
            runs[task.method.name].append(store.load(task))
        curves[data] = {
            name: np.cumsum([run.regret for run in own], axis=1)
            for name, own in runs.items()
        }
        lines += [*_table(data, methods, runs, curves[data]), ""]
        rows += _rows(data, curves[data])
    files = [folders.results / "regret.csv", folders.results / "regret.md"]
    write_rows(files[0], rows)
    write_atomically(files[1], "\n".join(lines))
    return files + _draw(curves, methods, folders.pictures / "bkb_2019_regret.png")


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
        "method with the same regulariser (for the certified rows: over the first).",
        "",
        *markdown_table(
            [
                "method",
                "regret",
                "over exact",
                "over uniform",
                "m",
                "updates",
                "processor seconds",
            ],
            rows,
        ),
    ]


def _rows(data: str, curves: dict[str, np.ndarray]) -> list[dict]:
    rounds = curves[_BASELINE].shape[1]
    shown = np.unique(np.geomspace(1, rounds, 16).round().astype(int))
    return [
        {
            "data": data,
            "method": name,
            "round": number,
            "mean": f"{Moments.of(curve[:, number - 1]).mean:.5g}",
            "standard_error": f"{Moments.of(curve[:, number - 1]).standard_error:.3g}",
            "trials": len(curve),
        }
        for name, curve in curves.items()
        for number in shown
    ]


def _draw(curves: dict, methods: list[Method], path: Path) -> list[Path]:
    plt = load_pyplot()
    with plt.rc_context(RC):
        figure, panels = plt.subplots(
            1, len(curves), figsize=(9.0, 4.2), layout="constrained", squeeze=False
        )
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
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=130)
        plt.close(figure)
    return [path]
