r"""Command line: ``python -m benchmarks.papers.wang_2018 grasp``."""

from dataclasses import replace
from pathlib import Path

from benchmarks.papers.wang_2018.configuration import Configuration
from benchmarks.papers.wang_2018.play import Run, play
from benchmarks.papers.wang_2018.tables import write_tables
from benchmarks.runner import (
    RUN_OPTIONS,
    Benchmark,
    BenchmarkError,
    Call,
    chosen,
    load_configuration,
    names,
    number,
)

EXPERIMENTS = load_configuration(Configuration).experiments
BENCHMARK = Benchmark(
    "benchmarks.papers.wang_2018",
    "Experiments of Wang, Kim & Kaelbling (2018).",
    number("--problems", "only the first of them"),
    number("--evaluations", "instead of those in config.toml"),
    names("--methods", "only these"),
    *RUN_OPTIONS,
)


@BENCHMARK.command(*EXPERIMENTS)
def best_values(call: Call) -> list[Path]:
    r"""Run what is missing of one experiment, then write its table and picture."""
    experiment, options = EXPERIMENTS[call.command], call.options
    partial = options.problems or options.evaluations or options.methods
    if partial and options.output is None:
        raise BenchmarkError(
            "A part of an experiment needs --output, beside the full results."
        )
    experiment = replace(
        experiment,
        problems=options.problems or experiment.problems,
        evaluations=options.evaluations or experiment.evaluations,
        methods=tuple(chosen(experiment.methods, options.methods, "--methods")),
    )
    store = call.play(experiment.tasks(), Run, play)
    files = write_tables(store, experiment, call.folders.results)
    from benchmarks.papers.wang_2018.figures import draw

    return [*files, draw(store, experiment, call.folders.picture(experiment.name))]


if __name__ == "__main__":
    BENCHMARK.main()
