r"""Command line: ``python -m benchmarks.norm estimate``."""

from pathlib import Path

import numpy as np

from benchmarks.norm.play import Run, Task, play
from benchmarks.runner import (
    RUN_OPTIONS,
    Benchmark,
    Call,
    markdown_table,
    number,
    write_summary,
)

KERNELS, NORMS, ROUNDS, SEEDS = ("rbf", "matern52"), (2.0, 5.0, 15.0), 50, 5
AT = (5, 20, 50)
# (inflation, floor, kept); inflation 0 is the true norm.
BOUNDS = {
    "true norm": (0.0, 0.0, False),
    "norm_bound=None": (1.0, 2.0, False),
    "NormTracker()": (1.0, 2.0, True),
    "NormTracker(inflation=1.5, floor=4)": (1.5, 4.0, True),
    "NormTracker(inflation=3, floor=4)": (3.0, 4.0, True),
}
BENCHMARK = Benchmark(
    "benchmarks.norm",
    "Bands with an estimated norm bound on functions of known norm.",
    *RUN_OPTIONS,
)


@BENCHMARK.command("estimate", options=[number("--seeds", "only the first ones", SEEDS)])
def estimate(call: Call) -> list[Path]:
    r"""Run what is missing, then write the table."""
    seeds = range(call.options.seeds)
    tasks = [task for s in seeds for b in BOUNDS for task in _tasks(b, s)]
    store = call.play(tasks, Run, play)
    rows = []
    for norm in NORMS:
        for bound in BOUNDS:
            tasks = [t for s in seeds for t in _tasks(bound, s) if t.norm == norm]
            runs = [store.load(task) for task in tasks]
            rows.append({"norm": norm, "bound": bound, "runs": len(runs), **_row(runs)})
    header = ["true norm", "bound", "held in every round"]
    header += [f"missed at {n}" for n in AT] + [f"bound / norm at {n}" for n in AT]
    header.append(f"regret at {AT[-1]}")
    lines = markdown_table(header, map(_cells, rows))
    return write_summary(call.folders.results, "estimate", rows, lines)


def _tasks(bound: str, seed: int) -> list[Task]:
    pairs = [(kernel, norm) for kernel in KERNELS for norm in NORMS]
    return [Task(k, norm, *BOUNDS[bound], ROUNDS, seed) for k, norm in pairs]


def _row(runs: list[Run]) -> dict[str, float]:
    missed = np.array([run.missed for run in runs])
    ratio = np.array([run.ratio for run in runs])
    regret = np.array([run.regret[-1] for run in runs])
    row = {"held": float((missed.max(1) == 0.0).mean())}
    row |= {f"missed_{n}": float(missed[:, n - 1].mean()) for n in AT}
    row |= {f"ratio_{n}": float(np.median(ratio[:, n - 1])) for n in AT}
    error = float(regret.std(ddof=1) / len(regret) ** 0.5) if len(runs) > 1 else 0.0
    return row | {"regret": float(regret.mean()), "regret_error": error}


def _cells(row: dict) -> list[str]:
    cells = [f"{row['norm']:g}", f"`{row['bound']}`", f"{row['held']:.0%}"]
    cells += [f"{row[f'missed_{n}']:.1%}" for n in AT]
    cells += [f"{row[f'ratio_{n}']:.2f}" for n in AT]
    return [*cells, f"{row['regret']:.3f} ± {row['regret_error']:.3f}"]


if __name__ == "__main__":
    BENCHMARK.main()
