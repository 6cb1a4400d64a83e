r"""Command line: ``python -m benchmarks.practical compare``."""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.practical.configuration import (
    HERE,
    Configuration,
    Experiment,
    load_configuration,
)
from benchmarks.practical.figures import draw_ranks, draw_regret
from benchmarks.practical.play import Run, play
from benchmarks.practical.summaries import Results
from benchmarks.practical.tables import result_stem, write_tables
from benchmarks.runner import (
    ROOT,
    Folders,
    RunStore,
    add_run_options,
    chosen,
    run_tasks,
    update_report,
)

REPORT = ROOT / "docs" / "results" / "practical.md"


def main(arguments: Sequence[str] | None = None) -> None:
    r"""Run what is missing of one experiment, then write its tables and pictures."""
    options = _parser().parse_args(arguments)
    folders = Folders.of(HERE, options.output)
    for path in _run(options, folders):
        print(path)
        if path.suffix == ".md" and path != REPORT:
            print(path.read_text(encoding="utf-8"))


def _run(options: argparse.Namespace, folders: Folders) -> list[Path]:
    if options.experiment == "report":
        return update_report(REPORT, folders.results)
    experiment = _experiment(load_configuration(), options)
    store = RunStore(folders.runs, Run)
    if options.finished:
        experiment = experiment.finished(store)
    run_tasks(experiment.tasks(), store, play, options.engine, options.jobs)
    results = Results.of(store, experiment)
    stem = folders.pictures / f"practical_{result_stem(experiment)}"
    return [
        *write_tables(results, folders.results),
        draw_regret(results, stem.with_name(f"{stem.name}_regret.png")),
        draw_ranks(results, stem.with_name(f"{stem.name}_ranks.png")),
    ]


def _experiment(configuration: Configuration, options: argparse.Namespace) -> Experiment:
    r"""The experiment, or the part of it that was asked for."""
    whole = configuration.experiments[options.experiment]
    if options.methods:
        known = list(configuration.methods.values())
        whole = replace(whole, methods=tuple(chosen(known, options.methods, "--methods")))
    problems = chosen(whole.problems, options.problems, "--problems")
    if options.rounds:
        problems = [replace(problem, rounds=options.rounds) for problem in problems]
    seeds = whole.seeds[: options.seeds]
    return replace(whole, problems=tuple(problems), seeds=seeds)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.practical",
        description="Bayesian optimisation in practice. Finished runs are kept: an "
        "interrupted command continues where it stopped.",
    )
    parser.add_argument("experiment", choices=(*load_configuration().experiments, "report"))
    parser.add_argument("--methods", nargs="+", help="of config.toml, instead of its own")
    parser.add_argument("--problems", nargs="+", help="instead of all")
    parser.add_argument("--seeds", type=int, help="only the first ones")
    parser.add_argument("--rounds", type=int, help="instead of those of each problem")
    parser.add_argument(
        "--finished",
        action="store_true",
        help="play nothing; tables of the seeds that are finished",
    )
    add_run_options(parser)
    return parser


if __name__ == "__main__":
    main()
