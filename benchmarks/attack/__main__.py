r"""Command line: ``python -m benchmarks.attack {numerics,...,all,report,case}``."""

import argparse
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from benchmarks.attack.families import FAMILIES
from benchmarks.attack.tables import save_counts, save_table
from benchmarks.attack.tasks import Run, Task, play, tasks_of
from benchmarks.runner import (
    ROOT,
    Folders,
    RunStore,
    add_run_options,
    run_tasks,
    update_report,
)

HERE = Path(__file__).parent
REPORT = ROOT / "docs" / "results" / "attack.md"


def main(arguments: Sequence[str] | None = None) -> None:
    r"""Run what is missing, then write the tables; or play one case."""
    options = _parser().parse_args(arguments)
    if options.command == "case":
        if len(options.which) != 2:
            raise SystemExit("case takes the name of a family and a seed.")
        family, seed = options.which
        print(*FAMILIES[family].play(int(seed)), sep="\n")
        return
    folders = Folders.of(HERE, options.output)
    if options.command == "report":
        save_table(folders.results)
        print(*update_report(REPORT, folders.results))
        return
    names = list(FAMILIES) if options.command == "all" else [options.command]
    for name in names:
        _run(name, options, folders)
    print(save_table(folders.results))


def _run(name: str, options: argparse.Namespace, folders: Folders) -> None:
    r"""Play a family and write its counts."""
    family = FAMILIES[name]
    store = RunStore(folders.runs / options.label, Run)
    tasks = tasks_of(name, family, options.cases)
    print(f"{name}: {sum(task.cases for task in tasks)} cases")
    player = partial(_play, name)
    run_tasks(tasks, store, player, options.engine, options.jobs)
    runs = [store.load(task) for task in tasks]
    for path in save_counts(folders.results, options.label, {name: runs}):
        print(path)


def _play(name: str, task: Task) -> Run:
    return play(task, FAMILIES[name])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.attack",
        description="Attacks the public API and counts what is silently wrong and what "
        "fails without a typed error. Finished cases are kept: an interrupted command "
        "continues where it stopped.",
    )
    parser.add_argument("command", choices=[*FAMILIES, "all", "report", "case"])
    parser.add_argument("which", nargs="*", help="after `case`: a family and a seed")
    parser.add_argument("--cases", type=int, help="only the first ones of each family")
    parser.add_argument(
        "--label", default="after", choices=("before", "after"), help="column of the table"
    )
    add_run_options(parser)
    return parser


if __name__ == "__main__":
    main()
