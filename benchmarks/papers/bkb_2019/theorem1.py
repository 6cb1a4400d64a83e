r"""Tables of Theorem 1 (variances, inducing points) and of Theorem 2's coverage."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.papers.bkb_2019.accuracy import Run, measure
from benchmarks.papers.bkb_2019.configuration import Configuration, Setting
from benchmarks.runner import Call, markdown_table, write_summary
from kernelucb.confidence.bkb import accuracy_factor

_PLAYS = {
    "bound": "chosen by the bound of Theorem 2, one a round",
    "random": "distinct arms in random order, in blocks of a tenth of those so far",
}


def run_theorem1(
    configuration: Configuration, call: Call, trials: int | None
) -> list[Path]:
    r"""Measure what is missing; then the tables."""
    rows, lines = [], []
    for play, section in configuration.theorem1.items():
        runs_of = {}
        for qbar in section.qbar:
            tasks = configuration.accuracy_tasks(play, qbar, trials)
            store = call.play(tasks, Run, measure)
            runs_of[qbar] = [store.load(task) for task in tasks]
            rows += _rows(play, qbar, section.checks, tasks[0].setting, runs_of[qbar])
        lines += [*_table(play, section.checks, tasks[0].setting, runs_of), ""]
    return write_summary(call.folders.results, "theorem1", rows, lines[:-1])


def _table(play: str, checks: Sequence[int], setting: Setting, runs_of: dict) -> list[str]:
    factor, trials = accuracy_factor(setting.epsilon), len(next(iter(runs_of.values())))
    table = [_summary(qbar, setting, factor, runs) for qbar, runs in runs_of.items()]
    header = [
        "qbar",
        "smallest ratio",
        "largest ratio",
        "sequences outside",
        "m",
        "distinct arms",
        "effective dimension",
        "bands that missed",
    ]
    return [
        f"{setting.arms} arms of {setting.data}, {_PLAYS[play]}; functions of norm "
        f"{setting.norm_bound:g}, {setting.rounds} rounds, {trials} sequences. Theorem 1 "
        f"allows variance ratios from {1 / factor:.3g} to {factor:.3g} in all but "
        f"{setting.delta:.0%} of them. Checked at all arms in rounds "
        f"{', '.join(map(str, checks))}.",
        "",
        *markdown_table(header, table),
        "",
        f"None of {trials} shows a rate of at most {1.0 - 0.05 ** (1.0 / trials):.1%} at "
        f"95 % confidence (delta = {setting.delta:.1%}).",
    ]


def _summary(
    qbar: float | str, setting: Setting, factor: float, runs: list[Run]
) -> list[str]:
    number = setting.oversampling(qbar)
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
    play: str, qbar: float | str, checks: Sequence[int], setting: Setting, runs: list[Run]
) -> list[dict]:
    return [
        {
            "play": play,
            "qbar": qbar,
            "qbar_value": f"{setting.oversampling(qbar):.6g}",
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
