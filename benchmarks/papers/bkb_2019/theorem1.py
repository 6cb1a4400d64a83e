r"""Tables of Theorem 1 (variances, inducing points) and of Theorem 2's coverage."""

from pathlib import Path

import numpy as np
from scipy.stats import binom

from benchmarks.papers.bkb_2019.accuracy import Run, measure
from benchmarks.papers.bkb_2019.configuration import Configuration
from benchmarks.runner import (
    Folders,
    RunStore,
    markdown_table,
    run_tasks,
    write_atomically,
    write_rows,
)
from kernelucb.confidence.bkb import accuracy_factor


def run_theorem1(
    configuration: Configuration, folders: Folders, trials: int, engine: str, jobs: int
) -> list[Path]:
    r"""Measure what is missing; then the tables."""
    store, rows, table = RunStore(folders.runs, Run), [], []
    section = configuration.raw["theorem1"]
    for qbar in section["qbar"]:
        tasks = configuration.accuracy_tasks(qbar, trials)
        run_tasks(tasks, store, measure, engine, jobs)
        runs = [store.load(task) for task in tasks]
        setting = tasks[0].setting
        number, factor = setting.oversampling(qbar), accuracy_factor(setting.epsilon)
        rows += _rows(qbar, number, section["checks"], runs)
        table.append(_summary(qbar, number, factor, runs))
    lines = [
        f"{setting.arms} arms of {setting.data}, functions of norm {setting.norm_bound:g}, "
        f"{setting.rounds} rounds, {trials} sequences; Theorem 1 allows variance ratios "
        f"from {1 / factor:.3g} to {factor:.3g} in all but {setting.delta:.0%} of them. "
        f"Checked at all arms in rounds {', '.join(map(str, section['checks']))}.",
        "",
        *markdown_table(
            [
                "qbar",
                "smallest ratio",
                "largest ratio",
                "sequences outside",
                "m",
                "distinct arms",
                "effective dimension",
                "bands that missed",
            ],
            table,
        ),
        "",
        f"{int(binom.isf(1e-6, trials, setting.delta))} of {trials} would still agree with "
        f"delta = {setting.delta:g} (false alarm 1e-6).",
    ]
    files = [folders.results / "theorem1.csv", folders.results / "theorem1.md"]
    write_rows(files[0], rows)
    write_atomically(files[1], "\n".join(lines) + "\n")
    return files


def _summary(qbar: float | str, number: float, factor: float, runs: list[Run]) -> list[str]:
    smallest = np.array([run.smallest for run in runs])
    largest = np.array([run.largest for run in runs])
    outside = ((smallest < 1 / factor) | (largest > factor)).any(1)
    missed = [not all(run.covered) for run in runs]
    label = f"{number:.0f} (theorem)" if qbar == "theorem" else f"{number:g}"
    return [
        label,
        f"{smallest.min():.4f}",
        f"{largest.max():.4f}",
        str(int(outside.sum())),
        f"{np.mean([run.inducing[-1] for run in runs]):.1f}",
        f"{np.mean([run.distinct[-1] for run in runs]):.1f}",
        f"{np.mean([run.dimension[-1] for run in runs]):.1f}",
        str(sum(missed)),
    ]


def _rows(
    qbar: float | str, number: float, checks: list[int], runs: list[Run]
) -> list[dict]:
    return [
        {
            "qbar": qbar,
            "qbar_value": f"{number:.6g}",
            "round": check,
            "smallest": f"{min(run.smallest[at] for run in runs):.6g}",
            "largest": f"{max(run.largest[at] for run in runs):.6g}",
            "inducing": f"{np.mean([run.inducing[at] for run in runs]):.4g}",
            "distinct": f"{np.mean([run.distinct[at] for run in runs]):.4g}",
            "dimension": f"{np.mean([run.dimension[at] for run in runs]):.4g}",
            "missed": sum(not run.covered[at] for run in runs),
            "trials": len(runs),
        }
        for at, check in enumerate(checks)
    ]
