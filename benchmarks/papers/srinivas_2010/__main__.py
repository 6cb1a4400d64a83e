r"""Command line: ``python -m benchmarks.papers.srinivas_2010 synthetic``."""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.papers.srinivas_2010.configuration import (
    HERE,
    Experiment,
    load_configuration,
)
from benchmarks.papers.srinivas_2010.figures import draw_regret
from benchmarks.papers.srinivas_2010.gain import run_information_gain
from benchmarks.papers.srinivas_2010.play import Run, play
from benchmarks.papers.srinivas_2010.priors import prior_of
from benchmarks.papers.srinivas_2010.tables import result_stem, write_tables
from benchmarks.runner import (
    ROOT,
    Folders,
    RunStore,
    add_run_options,
    run_tasks,
    update_report,
)

REPORT = ROOT / "docs" / "results" / "srinivas_2010.md"


def main(arguments: Sequence[str] | None = None) -> None:
    r"""Run what is missing of one experiment, then write its tables and pictures."""
    options = _parser().parse_args(arguments)
    folders = Folders.of(HERE, options.output)
    for path in _run(options, folders):
        print(path)
        if path.suffix == ".md" and path != REPORT:
            print(path.read_text(encoding="utf-8"))


def _run(options: argparse.Namespace, folders: Folders) -> list[Path]:
    configuration = load_configuration()
    if options.experiment == "report":
        return update_report(REPORT, folders.results)
    if options.experiment == "information_gain":
        return run_information_gain(configuration.gain, folders.results, folders.pictures)
    experiment = configuration.experiments[options.experiment]
    setting = replace(
        experiment.setting,
        trials=options.trials or experiment.setting.trials,
        rounds=options.rounds or experiment.setting.rounds,
    )
    return _play(options, folders, Experiment(setting, experiment.methods))


def _play(
    options: argparse.Namespace, folders: Folders, experiment: Experiment
) -> list[Path]:
    try:
        prior_of(experiment.setting)
    except FileNotFoundError as error:
        raise SystemExit(str(error)) from error
    store = RunStore(folders.runs, Run)
    run_tasks(experiment.tasks(), store, play, options.engine, options.jobs)
    files = write_tables(store, experiment, folders.results)
    picture = folders.pictures / f"srinivas_2010_{result_stem(experiment)}.png"
    return files + draw_regret(store, experiment, picture)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.papers.srinivas_2010",
        description="Experiments of Srinivas et al. (2010). Finished runs are kept: an "
        "interrupted command continues where it stopped.",
    )
    experiments = (*load_configuration().experiments, "information_gain", "report")
    parser.add_argument("experiment", choices=experiments)
    parser.add_argument("--trials", type=int, help="instead of those in config.toml")
    parser.add_argument(
        "--rounds", type=int, help="play fewer rounds of the same functions"
    )
    add_run_options(parser)
    return parser


if __name__ == "__main__":
    main()
