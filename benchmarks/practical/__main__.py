r"""Command line: ``python -m benchmarks.practical compare``."""

from argparse import Namespace
from dataclasses import replace
from pathlib import Path

from benchmarks.practical.configuration import Configuration, Experiment
from benchmarks.practical.figures import draw_ranks, draw_regret
from benchmarks.practical.play import Run, play
from benchmarks.practical.summaries import Results
from benchmarks.practical.tables import result_stem, write_tables
from benchmarks.runner import (
    RUN_OPTIONS,
    Benchmark,
    Call,
    RunStore,
    chosen,
    load_configuration,
    names,
    number,
    option,
)

CONFIGURATION = load_configuration(Configuration)
BENCHMARK = Benchmark(
    "benchmarks.practical",
    "Bayesian optimisation in practice.",
    names("--methods", "of config.toml, instead of its own"),
    names("--problems", "instead of all"),
    number("--seeds", "only the first ones"),
    number("--rounds", "instead of those of each problem"),
    option(
        "--finished",
        action="store_true",
        help="play nothing; tables of the seeds that are finished",
    ),
    *RUN_OPTIONS,
)


@BENCHMARK.command(*CONFIGURATION.experiments)
def compare(call: Call) -> list[Path]:
    r"""Run what is missing of one experiment, then write its tables and pictures."""
    experiment = _part(CONFIGURATION.experiments[call.command], call.options)
    if call.options.finished:
        experiment = experiment.finished(RunStore(call.folders.runs, Run))
    store = call.play(experiment.tasks(), Run, play)
    results, stem = Results.of(store, experiment), result_stem(experiment)
    return [
        *write_tables(results, call.folders.results),
        draw_regret(results, call.folders.picture(f"{stem}_regret")),
        draw_ranks(results, call.folders.picture(f"{stem}_ranks")),
    ]


def _part(whole: Experiment, options: Namespace) -> Experiment:
    r"""The experiment, or the part of it that was asked for."""
    if options.methods:
        known = CONFIGURATION.methods.values()
        whole = replace(whole, methods=tuple(chosen(known, options.methods, "--methods")))
    problems = chosen(whole.problems, options.problems, "--problems")
    if options.rounds:
        problems = [replace(problem, rounds=options.rounds) for problem in problems]
    seeds = whole.seeds[: options.seeds]
    return replace(whole, problems=tuple(problems), seeds=seeds)


if __name__ == "__main__":
    BENCHMARK.main()
