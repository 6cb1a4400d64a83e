r"""Command line: ``python -m benchmarks.experiments dimensions``."""

from collections.abc import Callable
from pathlib import Path

from benchmarks.experiments import coverage, dimensions, tables, trials
from benchmarks.experiments.configuration import Configuration, Experiments
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
    "benchmarks.experiments",
    "Experiments with many inputs, categories, contexts and outcome constraints.",
    *RUN_OPTIONS,
)
_SEEDS = (number("--seeds", "only the first ones"),)


@BENCHMARK.command("dimensions", options=_SEEDS)
def run_dimensions(call: Call) -> list[Path]:
    r"""Certified gaps in four and six dimensions, on functions of known norm."""
    part = CONFIGURATION.dimensions
    tasks = part.tasks(call.options.seeds)
    store = call.play(tasks, dimensions.Run, dimensions.play, call.command)
    rows = dimensions.rows(store, tasks)
    lines = dimensions.table(rows, len(part.tasks()))
    return write_summary(call.folders.results, call.command, rows, lines)


@BENCHMARK.command(
    "coverage", options=(number("--sequences", "at most, for each case and belief"),)
)
def run_coverage(call: Call) -> list[Path]:
    r"""Wrong reports on a mixed space, in contexts and with a constraint."""
    part = CONFIGURATION.coverage
    tasks = part.tasks(call.options.sequences)
    store = call.play(tasks, coverage.Run, coverage.play, call.command)
    rows = coverage.rows(store, tasks)
    return write_summary(
        call.folders.results, call.command, rows, coverage.table(part, rows)
    )


@BENCHMARK.command("safe", options=_SEEDS)
def run_safe(call: Call) -> list[Path]:
    r"""Ax experiments whose trials must not violate a constraint."""
    return _run_experiments(call, CONFIGURATION.safe, tables.safe_table)


@BENCHMARK.command("explored", options=_SEEDS)
def run_explored(call: Call) -> list[Path]:
    r"""Ax experiments whose trials may violate constraints."""
    return _run_experiments(call, CONFIGURATION.explored, tables.explored_table)


@BENCHMARK.command("mixed", "optimiser", "tuning", options=_SEEDS)
def run_reactions(call: Call) -> list[Path]:
    r"""Ax experiments on reactions: ours, certified and estimated, beside Ax alone."""
    part = getattr(CONFIGURATION, call.command)
    return _run_experiments(call, part, tables.mixed_table)


def _run_experiments(call: Call, part: Experiments, table: Callable) -> list[Path]:
    known = {**CONFIGURATION.settings, **CONFIGURATION.reactions}
    tasks = part.tasks(known, call.options.seeds)
    store = call.play(tasks, trials.Run, trials.play, call.command)
    rows = tables.rows(store, tasks)
    return write_summary(call.folders.results, call.command, rows, table(part, rows))


if __name__ == "__main__":
    BENCHMARK.main()
