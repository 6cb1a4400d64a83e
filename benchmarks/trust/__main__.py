r"""Command line of ``benchmarks.trust``: one experiment, ``all``, or ``report``."""

from collections.abc import Iterator
from pathlib import Path

from benchmarks.runner import (
    RUN_OPTIONS,
    Benchmark,
    Call,
    markdown_table,
    number,
    write_summary,
)
from benchmarks.trust.counts import cells, count, header
from benchmarks.trust.experiments import EXPERIMENTS

BENCHMARK = Benchmark(
    "benchmarks.trust",
    "Counts promises that were broken: false certified stops, unsafe evaluations, demo "
    "bands that miss, bands where outcomes are lost, and what is certified at the edges.",
    *RUN_OPTIONS,
    number("--seeds", "only the first ones"),
)


@BENCHMARK.command(*EXPERIMENTS, "all")
def run(call: Call) -> Iterator[Path]:
    r"""Run what is missing of one experiment or all, then write the tables."""
    for name in EXPERIMENTS if call.command == "all" else [call.command]:
        experiment = EXPERIMENTS[name]
        groups = experiment.groups(call.options.seeds or experiment.seeds)
        # Runs that several rows share are played once.
        tasks = list(dict.fromkeys(task for group in groups for task in group.tasks))
        print(f"{name}: {len(tasks)} runs")
        store = call.play(tasks, experiment.run_type, experiment.play)
        rows = [count(group, list(map(store.load, group.tasks))) for group in groups]
        lines = markdown_table(header(rows[0], experiment.event), map(cells, rows))
        yield from write_summary(call.folders.results, name, rows, lines)


if __name__ == "__main__":
    BENCHMARK.main()
