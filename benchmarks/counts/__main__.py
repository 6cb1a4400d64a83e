r"""Command line: ``python -m benchmarks.counts coverage|width|regret|safe``."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

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


def _summarised(
    call: Call, player: Any, tasks: Sequence[Any], table: Callable[[Any], list[str]]
) -> list[Path]:
    r"""Play the tasks that are not finished, and write rows and table of all."""
    store = call.play(tasks, player.Run, player.play, call.command)
    found = player.rows(store, tasks)
    return write_summary(call.folders.results, call.command, found, table(found))


@BENCHMARK.command(
    "coverage", options=(number("--sequences", "at most, for each case and belief"),)
)
def run_coverage(call: Call) -> list[Path]:
    r"""How often a band misses the function in any round."""
    part = CONFIGURATION.coverage
    tasks = part.tasks(call.options.sequences)
    return _summarised(call, coverage, tasks, partial(tables.coverage_table, part))


@BENCHMARK.command(
    "width",
    options=(
        number("--functions", "only the first ones"),
        number("--observations", "only settings with at most so many"),
    ),
)
def run_width(call: Call) -> list[Path]:
    r"""Mean widths of the bands, against the whole set and rivals."""
    part, options = CONFIGURATION.width, call.options
    tasks = part.tasks(options.functions, options.observations)
    return _summarised(call, width, tasks, partial(tables.width_table, part))


@BENCHMARK.command("regret", options=(number("--runs", "only the first ones"),))
def run_regret(call: Call) -> list[Path]:
    r"""Looking for the largest success probability."""
    part = CONFIGURATION.regret
    tasks = part.tasks(call.options.runs)
    return _summarised(call, regret, tasks, partial(tables.regret_table, part))


@BENCHMARK.command("safe", options=(number("--runs", "only the first ones"),))
def run_safe(call: Call) -> list[Path]:
    r"""Runs with a constraint on a failure probability."""
    part = CONFIGURATION.safe
    tasks = part.tasks(call.options.runs)
    return _summarised(call, safe, tasks, partial(tables.safe_table, part))


if __name__ == "__main__":
    BENCHMARK.main()
