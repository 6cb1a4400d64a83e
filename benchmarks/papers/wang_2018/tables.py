r"""Best value found against the number of evaluations."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.papers.wang_2018.configuration import Experiment, Method, Setting
from benchmarks.papers.wang_2018.play import Run
from benchmarks.runner import (
    Moments,
    RunStore,
    markdown_table,
    paired_difference,
    read_table,
    write_summary,
)

COLUMNS = (1, 2, 3, 5, 10, 20)


def best_values(
    store: RunStore[Run], experiment: Experiment, setting: Setting, method: Method
) -> np.ndarray | None:
    r"""Best value so far, ``problems x evaluations``; None where the method refused."""
    runs = [store.load(task) for task in experiment.runs_of(setting, method)]
    if any(run.refused for run in runs):
        return None
    return np.maximum.accumulate([run.values for run in runs], axis=1)


def write_tables(store: RunStore[Run], experiment: Experiment, folder: Path) -> list[Path]:
    r"""``<experiment>.csv`` with all numbers and ``<experiment>.md`` for the report."""
    rows, lines = [], []
    published = _published() if experiment.name == "grasp" else {}
    columns = [n for n in COLUMNS if n <= experiment.evaluations]
    header = ["setting", "method", *(str(n) for n in columns)]
    for setting in experiment.settings:
        for method in experiment.methods:
            best = best_values(store, experiment, setting, method)
            cells = ["not defined"] * len(columns)
            if best is not None:
                moments = {n: Moments.of(best[:, n - 1]) for n in columns}
                rows += [_row(setting, method, n, m) for n, m in moments.items()]
                cells = [_cell(m) for m in moments.values()]
            lines.append([_words(experiment, setting), method.label, *cells])
            if method.name in published:
                name = f"{method.label}, authors' stored run"
                lines.append(["", name, *published[method.name]])
    text = [
        f"Best value found after so many evaluations, mean ± 1.96 standard errors over "
        f"{experiment.problems} problems.",
        "",
        *markdown_table(header, lines),
        *_comparisons(store, experiment),
    ]
    return write_summary(folder, experiment.name, rows, text)


def _row(setting: Setting, method: Method, evaluations: int, moments: Moments) -> dict:
    return {
        "method": method.name,
        "share": setting.share,
        "missing": setting.missing,
        "evaluations": evaluations,
        "mean": round(moments.mean, 4),
        "std": round(moments.std, 4),
        "n": moments.n,
    }


def _cell(moments: Moments) -> str:
    return f"{moments.mean:.3f} ± {1.96 * moments.standard_error:.3f}"


def _words(experiment: Experiment, setting: Setting) -> str:
    if setting.missing or setting.held_out > 1:
        return f"{setting.missing:.0%} missing"
    of = "tasks" if experiment.domain.name == "grasp" else "points of each task"
    return f"{setting.share:.0%} of the {of}"


def _published() -> dict[str, list[str]]:
    r"""Curves stored with the authors' code: mean and 1.96 standard errors, as cells."""
    table = read_table(Path(__file__).with_name("expected.csv"))
    pairs = zip(table["mean"], table["interval"], strict=True)
    table["cell"] = [f"{float(m):.3f} ± {float(i):.3f}" for m, i in pairs]
    return table.groupby("method")["cell"].agg(list).to_dict()


def _comparisons(store: RunStore[Run], experiment: Experiment) -> Sequence[str]:
    r"""Paired differences of PEM-BO UCB to the others, first setting."""
    setting = experiment.settings[0]
    ours = [m for m in experiment.methods if m.name == "pem_ucb"]
    if len(experiment.settings) > 1 or not ours or len(experiment.methods) < 2:
        return []
    reference = best_values(store, experiment, setting, ours[0])
    text = "Paired differences, PEM-BO UCB minus the other (mean ± 1.96 standard errors):"
    columns = [n for n in COLUMNS if n <= experiment.evaluations]
    table = []
    for method in experiment.methods:
        best = best_values(store, experiment, setting, method)
        if method is ours[0] or reference is None or best is None:
            continue
        pairs = [paired_difference(reference[:, n - 1], best[:, n - 1]) for n in columns]
        table.append([method.label, *(_signed(pair) for pair in pairs)])
    return ["", text, "", *markdown_table(["other", *map(str, columns)], table)]


def _signed(moments: Moments) -> str:
    if math.isclose(moments.mean, 0.0, abs_tol=5e-4):
        return f"0.000 ± {1.96 * moments.standard_error:.3f}"
    return f"{moments.mean:+.3f} ± {1.96 * moments.standard_error:.3f}"
