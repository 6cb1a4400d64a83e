r"""Command line: ``python -m benchmarks.papers.flynn_reeb_2024 table1``."""

from pathlib import Path

from benchmarks.papers.flynn_reeb_2024.configuration import Configuration
from benchmarks.papers.flynn_reeb_2024.play import Run, play
from benchmarks.papers.flynn_reeb_2024.summaries import Selection
from benchmarks.papers.flynn_reeb_2024.tables import (
    result_stem,
    write_curves,
    write_figure7,
    write_paired,
    write_table1,
)
from benchmarks.runner import (
    RUN_OPTIONS,
    Benchmark,
    Call,
    RunStore,
    chosen,
    load_configuration,
    names,
    number,
)

BENCHMARK = Benchmark(
    "benchmarks.papers.flynn_reeb_2024",
    "Experiments of Flynn & Reeb (2024).",
    number("--repetitions", "instead of those in config.toml"),
    number("--rounds", "play fewer rounds of the same problems"),
    *RUN_OPTIONS,
)
PARTS = (names("--methods", "only these"), names("--settings", "only these"))


def _played(call: Call) -> tuple[RunStore[Run], Selection]:
    r"""Run what is missing of one experiment."""
    configuration, options = load_configuration(Configuration), call.options
    experiment = configuration.experiments[call.command]
    selection = Selection(
        configuration,
        chosen(experiment.settings, options.settings, "--settings"),
        chosen(experiment.methods, getattr(options, "methods", None), "--methods"),
        options.repetitions or experiment.repetitions,
        options.rounds or configuration.protocol.rounds,
    )
    return call.play(selection.tasks(), Run, play), selection


@BENCHMARK.command("table1", options=PARTS)
def table1(call: Call) -> list[Path]:
    r"""Regret beside the published one."""
    return write_table1(*_played(call), call.folders.results)


@BENCHMARK.command("paired_filters", "paired", options=PARTS[1:])
def paired(call: Call) -> list[Path]:
    r"""The filters against the exact bound, or that against the grid, in pairs."""
    return write_paired(*_played(call), call.folders.results, call.command)


@BENCHMARK.command("figure2", "figure5", "figure6", options=PARTS)
def curves(call: Call) -> list[Path]:
    r"""Regret against rounds."""
    from benchmarks.papers.flynn_reeb_2024.figures import draw_regret

    store, selection = _played(call)
    title = (
        f"{selection.settings[0].dimension}-dimensional arms; mean ± standard deviation "
        f"of {selection.repetitions} repetitions"
    )
    stem = result_stem(call.folders.results, call.command, selection)
    files = write_curves(store, selection, call.folders.results, call.command)
    return [*files, draw_regret(store, selection, call.folders.picture(stem), title)]


@BENCHMARK.command("figure7", options=PARTS)
def figure7(call: Call) -> list[Path]:
    r"""What loose beliefs cost."""
    from benchmarks.papers.flynn_reeb_2024.figures import draw_figure7

    store, selection = _played(call)
    # The picture is named as the table is, before that table is written.
    picture = call.folders.picture(
        result_stem(call.folders.results, call.command, selection)
    )
    files = write_figure7(store, selection, call.folders.results)
    return [*files, draw_figure7(store, selection, picture)]


@BENCHMARK.command("figure1")
def figure1(call: Call) -> list[Path]:
    r"""Bands around one function, and their widths over many."""
    from benchmarks.papers.flynn_reeb_2024.bands import run_figure1

    configuration = load_configuration(Configuration)
    functions = call.options.repetitions or configuration.figure1.functions
    return run_figure1(configuration, functions, call.folders)


@BENCHMARK.command("figure4")
def figure4(call: Call) -> list[Path]:
    r"""Time per round."""
    from benchmarks.papers.flynn_reeb_2024.figures import draw_times
    from benchmarks.papers.flynn_reeb_2024.timing import run_figure4

    configuration, options = load_configuration(Configuration), call.options
    repetitions = options.repetitions or configuration.figure4.repetitions
    rounds = options.rounds or configuration.protocol.rounds
    files, times = run_figure4(configuration, repetitions, rounds, call.folders.results)
    picture = call.folders.picture(files[0].stem)
    return [*files, draw_times(times, list(configuration.methods.values()), picture)]


if __name__ == "__main__":
    BENCHMARK.main()
