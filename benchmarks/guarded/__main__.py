r"""Command line: ``python -m benchmarks.guarded arms``."""

from pathlib import Path

from benchmarks.guarded import coverage, play, tables
from benchmarks.guarded.configuration import Configuration
from benchmarks.runner import (
    RUN_OPTIONS,
    Benchmark,
    Call,
    load_configuration,
    number,
    write_summary,
)

CONFIGURATION = load_configuration(Configuration)
BENCHMARK = Benchmark(
    "benchmarks.guarded",
    "Guarded search where kernel, norm and noise are known.",
    *RUN_OPTIONS,
)
_SEQUENCES = (number("--sequences", "at most, for each rule and belief"),)
_SEEDS = (number("--seeds", "only the first ones"),)


@BENCHMARK.command(*CONFIGURATION.experiments, options=_SEEDS)
def compare(call: Call) -> list[Path]:
    r"""Regret and certified gaps of guarded rules over those of the upper bound."""
    experiment = CONFIGURATION.experiments[call.command].with_seeds(call.options.seeds)
    store = call.play(experiment.tasks(), play.Run, play.play)
    results = tables.Results(store, experiment)
    lines = tables.table(results)
    return write_summary(call.folders.results, call.command, results.rows(), lines)


@BENCHMARK.command(
    "coverage", options=(number("--sequences", "at most, for each rule and belief"),)
)
def run_coverage(call: Call) -> list[Path]:
    r"""Misses in any round over many short sequences, for every rule."""
    part = CONFIGURATION.coverage
    tasks = part.tasks(call.options.sequences)
    store = call.play(tasks, coverage.Run, coverage.play, "coverage")
    rows = coverage.rows(store, tasks)
    return write_summary(call.folders.results, "coverage", rows, coverage.table(part, rows))


if __name__ == "__main__":
    BENCHMARK.main()
