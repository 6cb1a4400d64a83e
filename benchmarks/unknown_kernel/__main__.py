r"""Command line: ``python -m benchmarks.unknown_kernel regret``."""

from pathlib import Path

from benchmarks.runner import (
    RUN_OPTIONS,
    Benchmark,
    Call,
    load_configuration,
    names,
    number,
    write_summary,
)
from benchmarks.runner.events import event_table
from benchmarks.unknown_kernel import (
    boxes,
    conjunction,
    coverage,
    play,
    published,
    stops,
    stops_table,
    tables,
)
from benchmarks.unknown_kernel.configuration import Configuration
from benchmarks.unknown_kernel.settings import Experiment

CONFIGURATION = load_configuration(Configuration)
BENCHMARK = Benchmark(
    "benchmarks.unknown_kernel",
    "Bandits whose length scale is not known.",
    number("--seeds", "only the first ones"),
    *RUN_OPTIONS,
)
_PARTS = (
    names("--methods", "play only these; no tables are written"),
    names("--settings", "play only these; no tables are written"),
)


@BENCHMARK.command(*CONFIGURATION.experiments, options=_PARTS)
def regret(call: Call) -> list[Path]:
    r"""Regret, convergence and bands of every learner on finitely many arms."""
    experiment = CONFIGURATION.experiments[call.command].with_seeds(call.options.seeds)
    methods, settings = call.options.methods, call.options.settings
    chosen = [
        task
        for task in experiment.tasks()
        if task.method.name in (methods or [task.method.name])
        and task.setting in _chosen(experiment, settings)
    ]
    store = call.play(chosen, play.Run, play.play)
    if methods or settings:
        return []
    return tables.write_tables(store, experiment, call.folders.results)


@BENCHMARK.command("coverage")
def run_coverage(call: Call) -> list[Path]:
    r"""Violations in any round over many short sequences, for every rule."""
    part, few = CONFIGURATION.coverage, call.options.seeds
    tasks = {select: part.tasks(select, few or part.sequences) for select in part.selects}
    tasks[f"{part.selects[0]}, too long"] = part.wrong_tasks(few or part.wrong_sequences)
    every = [task for blocks in tasks.values() for task in blocks]
    store = call.play(every, coverage.Run, coverage.play, "coverage")
    rows = coverage.rows(store, tasks)
    return write_summary(call.folders.results, "coverage", rows, coverage.table(part, rows))


@BENCHMARK.command("published")
def run_published(call: Call) -> list[Path]:
    r"""The rivals on the first problem of Ziomek et al."""
    part = CONFIGURATION.published
    seeds = call.options.seeds or part.seeds
    tasks = [
        published.Task(part, name, seed)
        for seed in range(seeds)
        for name in published.LEARNERS
    ]
    store = call.play(tasks, published.Run, published.play, "published")
    rows = published.rows(store, part, seeds)
    lines = published.table(part, rows)
    return write_summary(call.folders.results, "published", rows, lines)


@BENCHMARK.command("boxes")
def run_boxes(call: Call) -> list[Path]:
    r"""Regret in the unit cube, with the library's acquisition functions."""
    part = CONFIGURATION.boxes
    tasks = part.tasks(CONFIGURATION.settings, call.options.seeds)
    store = call.play(tasks, boxes.Run, boxes.play, "boxes")
    rows = boxes.rows((task, store.load(task)) for task in tasks)
    lines = boxes.table(part, rows)
    return write_summary(call.folders.results, "boxes", rows, lines)


@BENCHMARK.command("conjunction")
def run_conjunction(call: Call) -> list[Path]:
    r"""Certified gaps where two kernels are right, under each and under both."""
    part, few = CONFIGURATION.conjunction, call.options.seeds
    tasks, blocks = part.tasks(few), part.blocks(few)
    store = call.play([*tasks, *blocks], conjunction.Run, conjunction.play, "conjunction")
    rows = list(conjunction.rows(store, tasks))
    missed = [each for block in blocks for each in store.load(block).missed]
    lines = conjunction.table(part, rows, missed)
    return write_summary(call.folders.results, "conjunction", rows, lines)


@BENCHMARK.command("stops", "stops_ax")
def run_stops(call: Call) -> list[Path]:
    r"""Certified stops by a family beside a refitted search, and in Ax experiments."""
    in_ax = call.command == "stops_ax"
    searches = [search for search in stops_table.SEARCHES if (search == "ax") == in_ax]
    rows, seeds = [], call.options.seeds or stops_table.SEEDS
    for search in searches:
        tasks = stops_table.tasks_of(search, seeds)
        store = call.play(tasks, stops.Run, stops.play)
        rows += stops_table.rows(search, [store.load(task) for task in tasks])
    summary = event_table(rows, "false stops")
    return write_summary(call.folders.results, call.command, rows, summary.lines)


def _chosen(experiment: Experiment, settings: list[str] | None) -> list:
    return [experiment.settings[name] for name in settings or experiment.settings]


if __name__ == "__main__":
    BENCHMARK.main()
