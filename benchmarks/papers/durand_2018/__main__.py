r"""Command line: ``python -m benchmarks.papers.durand_2018 noise``."""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.papers.durand_2018.configuration import (
    HERE,
    Configuration,
    load_configuration,
)
from benchmarks.papers.durand_2018.play import Run, play
from benchmarks.papers.durand_2018.streams import StreamRun, watch
from benchmarks.runner import (
    ROOT,
    Folders,
    RunStore,
    add_run_options,
    run_tasks,
    update_report,
)

STREAMS = ("noise", "band")
BANDITS = ("regret", "rate", "joint", "concentration")
REPORT = ROOT / "docs" / "results" / "durand_2018.md"


def main(arguments: Sequence[str] | None = None) -> None:
    r"""Run what is missing of one experiment, then write its tables and pictures."""
    options = _parser().parse_args(arguments)
    configuration = load_configuration()
    folders = Folders.of(HERE, options.output)
    if options.experiment == "report":
        paths = update_report(REPORT, folders.results)
    elif options.experiment in STREAMS:
        paths = _streams(options, configuration, folders)
    else:
        paths = _bandits(options, configuration, folders)
    for path in paths:
        print(path)
        if path.suffix == ".md" and path != REPORT:
            print(path.read_text(encoding="utf-8"))


def _streams(
    options: argparse.Namespace, configuration: Configuration, folders: Folders
) -> list[Path]:
    r"""``noise`` and ``band`` look at the same streams."""
    from benchmarks.papers.durand_2018 import stream_figures, stream_tables
    from benchmarks.papers.durand_2018.summaries import Streams

    tasks = configuration.stream_tasks(options.repetitions, options.rounds)
    store = RunStore(folders.runs, StreamRun)
    run_tasks(tasks, store, watch, options.engine, options.jobs)
    streams = Streams(store, tasks, configuration.stream)
    write = {"noise": stream_tables.write_noise, "band": stream_tables.write_band}
    draw = {"noise": stream_figures.draw_noise, "band": stream_figures.draw_band}
    files = write[options.experiment](streams, folders.results)
    return files + draw[options.experiment](streams, folders.pictures)


def _bandits(
    options: argparse.Namespace, configuration: Configuration, folders: Folders
) -> list[Path]:
    from benchmarks.papers.durand_2018 import bandit_figures, bandit_tables
    from benchmarks.papers.durand_2018.summaries import Bandits

    planned = configuration.experiments[options.experiment]
    experiment = replace(
        planned,
        rounds=options.rounds or planned.rounds,
        repetitions=options.repetitions or planned.repetitions,
    )
    store = RunStore(folders.runs, Run)
    run_tasks(experiment.tasks(), store, play, options.engine, options.jobs)
    bandits = Bandits(store, experiment, planned)
    write: dict[str, Callable[[Bandits, Path], list[Path]]] = {
        "regret": bandit_tables.write_regret,
        "rate": bandit_tables.write_rate,
        "joint": bandit_tables.write_joint,
        "concentration": bandit_tables.write_concentration,
    }
    files = write[options.experiment](bandits, folders.results)
    return files + bandit_figures.draw(bandits, folders.pictures)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.papers.durand_2018",
        description="Experiments of Durand, Maillard & Pineau (2018). Finished runs are "
        "kept: an interrupted command continues where it stopped.",
    )
    parser.add_argument("experiment", choices=(*STREAMS, *BANDITS, "report"))
    parser.add_argument("--repetitions", type=int, help="instead of those in config.toml")
    parser.add_argument("--rounds", type=int, help="instead of those in config.toml")
    add_run_options(parser)
    return parser


if __name__ == "__main__":
    main()
