r"""Command line: ``python -m benchmarks.filters width|lengths|...|branin``."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.filters import branin, calibrated, weights, width
from benchmarks.filters.configuration import Configuration, Task
from benchmarks.filters.tables import (
    calibrated_rows,
    calibrated_table,
    lengths_rows,
    lengths_table,
    weights_rows,
    weights_table,
    width_rows,
    width_table,
)
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
    "benchmarks.filters",
    "The mixture of filters against the exact set of the paper.",
    number("--functions", "instead of those in config.toml"),
    number("--observations", "only settings with at most so many"),
    *RUN_OPTIONS,
)


def _tasks(call: Call, part: Any, kind: type[Task] = Task, *further: int) -> list[Task]:
    r"""The functions of a part that were asked for, setting by setting."""
    most, functions = call.options.observations, call.options.functions
    return [
        kind(CONFIGURATION.protocol, setting, function, *further)
        for setting in part.settings
        if most is None or setting.observations <= most
        for function in range(functions or part.functions)
    ]


@BENCHMARK.command("width")
def run_width(call: Call) -> list[Path]:
    r"""Mean widths over a grid of kernels, dimensions, observations and noise."""
    tasks = _tasks(call, CONFIGURATION.width)
    store = call.play(tasks, width.Run, width.play, "width")
    rows = width_rows((task, store.load(task)) for task in tasks)
    return write_summary(call.folders.results, "width", rows, width_table(rows))


@BENCHMARK.command("lengths")
def run_lengths(call: Call) -> list[Path]:
    r"""Mean widths under longer and shorter length scales."""
    tasks, found = _tasks(call, CONFIGURATION.lengths), {}
    for factor in CONFIGURATION.lengths.length_factors:
        protocol = replace(CONFIGURATION.protocol, length_factor=factor)
        own = [replace(task, protocol=protocol) for task in tasks]
        store = call.play(own, width.Run, width.play, f"lengths/{factor:g}")
        found[factor] = width_rows((task, store.load(task)) for task in own)
    rows = lengths_rows(found)
    return write_summary(call.folders.results, "lengths", rows, lengths_table(rows))


@BENCHMARK.command("calibrated")
def run_calibrated(call: Call) -> list[Path]:
    r"""Widths against sets that hold for one design and one round."""
    part = CONFIGURATION.calibrated
    tasks = _tasks(call, part, calibrated.Task, part.simulations)
    store = call.play(tasks, calibrated.Run, calibrated.play, "calibrated")
    rows = calibrated_rows((task, store.load(task)) for task in tasks)
    return write_summary(call.folders.results, "calibrated", rows, calibrated_table(rows))


@BENCHMARK.command("weights")
def run_weights(call: Call) -> list[Path]:
    r"""Widths of better weights, wherever they can be found."""
    part = CONFIGURATION.weights
    tasks = _tasks(call, part, weights.Task, part.steps, part.points)
    store = call.play(tasks, weights.Run, weights.play, "weights")
    rows = weights_rows((task, store.load(task)) for task in tasks)
    return write_summary(call.folders.results, "weights", rows, weights_table(rows))


@BENCHMARK.command("branin")
def run_branin(call: Call) -> list[Path]:
    r"""Certified gaps on Branin under kernels of very different norms."""
    part = CONFIGURATION.branin
    tasks = part.tasks(call.options.functions)
    store = call.play(tasks, branin.Run, branin.play, "branin")
    rows = list(branin.rows(store, tasks))
    return write_summary(call.folders.results, "branin", rows, branin.table(part, rows))


if __name__ == "__main__":
    BENCHMARK.main()
