r"""Command line: ``python -m benchmarks.attack {numerics,...,all,report,case}``."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.attack.families import FAMILIES
from benchmarks.attack.tables import save_counts, save_table
from benchmarks.attack.tasks import Run, Task, play, tasks_of
from benchmarks.runner import RUN_OPTIONS, Benchmark, Call, number, option

BENCHMARK = Benchmark(
    "benchmarks.attack",
    "Random problems, 50 digits and BoTorch's own checks: what is silently wrong, and what "
    "fails without a typed error.",
)
LABEL = option(
    "--label", default="after", choices=("before", "after"), help="column of the table"
)
CASES = number("--cases", "only the first ones of each family")


@BENCHMARK.command(*FAMILIES, "all", options=[CASES, LABEL, *RUN_OPTIONS])
def run(call: Call) -> Iterator[Path]:
    r"""Run what is missing, then write the tables."""
    label = call.options.label
    for name in FAMILIES if call.command == "all" else [call.command]:
        tasks = tasks_of(name, FAMILIES[name], call.options.cases)
        print(f"{name}: {sum(task.cases for task in tasks)} cases")
        store = call.play(tasks, Run, partial(_play, name), below=label)
        runs = [store.load(task) for task in tasks]
        yield from save_counts(call.folders.results, label, {name: runs})
    yield save_table(call.folders.results)


def _play(name: str, task: Task) -> Run:
    return play(task, FAMILIES[name])


@BENCHMARK.command(
    "case",
    options=[option("family", choices=tuple(FAMILIES)), option("seed", type=int)],
)
def case(call: Call) -> None:
    r"""Play one case."""
    print(*FAMILIES[call.options.family].play(call.options.seed), sep="\n")


if __name__ == "__main__":
    BENCHMARK.main()
