r"""Command line: ``python -m benchmarks.counts coverage|width|regret|safe``."""

from pathlib import Path

from benchmarks.counts import coverage, regret, safe, tables, width
from benchmarks.counts.configuration import Configuration
from benchmarks.runner import (
    RUN_OPTIONS,
    Benchmark,
    Call,
    load_configuration,
    number,
    write_summary,
)

CONFIGURATION = load_configuration(Configuration)
BENCHMARK = Benchmark("benchmarks.counts", "Successes and counts.", *RUN_OPTIONS)


@BENCHMARK.command(
    "coverage", options=(number("--sequences", "at most, for each case and belief"),)
)
def run_coverage(call: Call) -> list[Path]:
    r"""How often a band misses the function in any round."""
    part = CONFIGURATION.coverage
    tasks = part.tasks(call.options.sequences)
    store = call.play(tasks, coverage.Run, coverage.play, call.command)
    found = coverage.rows(store, tasks)
    lines = tables.coverage_table(part, found)
    return write_summary(call.folders.results, call.command, found, lines)


@BENCHMARK.command(
    "width",
    options=(
        number("--functions", "only the first ones"),
        number("--observations", "only settings with at most so many"),
    ),
)
def run_width(call: Call) -> list[Path]:
    r"""Mean widths of the bands, against the exact set and rivals."""
    part, options = CONFIGURATION.width, call.options
    tasks = part.tasks(options.functions, options.observations)
    store = call.play(tasks, width.Run, width.play, call.command)
    found = width.rows(store, tasks)
    lines = tables.width_table(part, found)
    return write_summary(call.folders.results, call.command, found, lines)


@BENCHMARK.command("regret", options=(number("--runs", "only the first ones"),))
def run_regret(call: Call) -> list[Path]:
    r"""Looking for the largest success probability."""
    part = CONFIGURATION.regret
    tasks = part.tasks(call.options.runs)
    store = call.play(tasks, regret.Run, regret.play, call.command)
    found = regret.rows(store, tasks)
    lines = tables.regret_table(part, found)
    return write_summary(call.folders.results, call.command, found, lines)


@BENCHMARK.command("safe", options=(number("--runs", "only the first ones"),))
def run_safe(call: Call) -> list[Path]:
    r"""Runs with a constraint on a failure probability."""
    part = CONFIGURATION.safe
    tasks = part.tasks(call.options.runs)
    store = call.play(tasks, safe.Run, safe.play, call.command)
    found = safe.rows(store, tasks)
    lines = tables.safe_table(part, found)
    return write_summary(call.folders.results, call.command, found, lines)


if __name__ == "__main__":
    BENCHMARK.main()
