r"""Command line: ``python -m benchmarks.norm estimate``."""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.norm.play import Run, Task, play
from benchmarks.runner import (
    ROOT,
    Folders,
    RunStore,
    add_run_options,
    markdown_table,
    run_tasks,
    update_report,
    write_atomically,
    write_rows,
)

HERE = Path(__file__).parent
REPORT = ROOT / "docs" / "results" / "norm.md"
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


def main(arguments: Sequence[str] | None = None) -> None:
    r"""Run what is missing, then write the table."""
    options = _parser().parse_args(arguments)
    folders = Folders.of(HERE, options.output)
    if options.experiment == "report":
        paths = update_report(REPORT, folders.results)
    else:
        store = RunStore(folders.runs, Run)
        seeds = range(options.seeds or SEEDS)
        tasks = [task for s in seeds for b in BOUNDS for task in _tasks(b, s)]
        run_tasks(tasks, store, play, options.engine, options.jobs)
        paths = _tables(store, list(seeds), folders.results)
    for path in paths:
        print(path)


def _tasks(bound: str, seed: int) -> list[Task]:
    pairs = [(kernel, norm) for kernel in KERNELS for norm in NORMS]
    return [Task(k, norm, *BOUNDS[bound], ROUNDS, seed) for k, norm in pairs]


def _tables(store: RunStore, seeds: list[int], results: Path) -> list[Path]:
    rows = []
    for norm in NORMS:
        for bound in BOUNDS:
            tasks = [t for s in seeds for t in _tasks(bound, s) if t.norm == norm]
            runs = [store.load(task) for task in tasks]
            rows.append({"norm": norm, "bound": bound, "runs": len(runs), **_row(runs)})
    write_rows(results / "estimate.csv", rows)
    header = ["true norm", "bound", "held in every round"]
    header += [f"missed at {n}" for n in AT] + [f"bound / norm at {n}" for n in AT]
    header.append(f"regret at {AT[-1]}")
    lines = markdown_table(header, (_cells(row) for row in rows))
    table = results / "estimate.md"
    write_atomically(table, "\n".join(lines) + "\n")
    return [results / "estimate.csv", table]


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


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.norm",
        description="Bands with an estimated norm bound on functions of known norm. "
        "Finished runs are kept: an interrupted command continues where it stopped.",
    )
    parser.add_argument("experiment", choices=["estimate", "report"])
    parser.add_argument("--seeds", type=int, help="only the first ones")
    add_run_options(parser)
    return parser


if __name__ == "__main__":
    main()
