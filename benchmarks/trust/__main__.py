r"""Command line: ``python -m benchmarks.trust {stops,unsafe,demo,lost,all,report}``."""

import argparse
from collections.abc import Sequence
from pathlib import Path

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
from benchmarks.trust.counts import cells, count, header
from benchmarks.trust.experiments import EXPERIMENTS

HERE = Path(__file__).parent
REPORT = ROOT / "docs" / "results" / "trust.md"


def main(arguments: Sequence[str] | None = None) -> None:
    r"""Run what is missing, then write the tables."""
    options = _parser().parse_args(arguments)
    folders = Folders.of(HERE, options.output)
    if options.experiment == "report":
        for path in update_report(REPORT, folders.results):
            print(path)
        return
    names = EXPERIMENTS if options.experiment == "all" else [options.experiment]
    for name in names:
        for path in _run(name, options, folders):
            print(path)


def _run(name: str, options: argparse.Namespace, folders: Folders) -> list[Path]:
    r"""Play one experiment and write its table."""
    experiment = EXPERIMENTS[name]
    store = RunStore(folders.runs, experiment.run_type)
    groups = experiment.groups(options.seeds or experiment.seeds)
    # Runs that several rows share are played once.
    tasks = list(dict.fromkeys(task for group in groups for task in group.tasks))
    print(f"{name}: {len(tasks)} runs")
    run_tasks(tasks, store, experiment.play, options.engine, options.jobs)
    rows = [count(group, [store.load(task) for task in group.tasks]) for group in groups]
    results, table = folders.results / f"{name}.csv", folders.results / f"{name}.md"
    write_rows(results, rows)
    lines = markdown_table(header(rows[0], experiment.event), map(cells, rows))
    write_atomically(table, "\n".join(lines) + "\n")
    return [results, table]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.trust",
        description="Counts promises that were broken: false certified stops, unsafe "
        "evaluations, demo bands that miss, and bands where outcomes are lost. Finished "
        "runs are kept: an interrupted command continues where it stopped.",
    )
    parser.add_argument("experiment", choices=[*EXPERIMENTS, "all", "report"])
    parser.add_argument("--seeds", type=int, help="only the first ones")
    add_run_options(parser)
    return parser


if __name__ == "__main__":
    main()
