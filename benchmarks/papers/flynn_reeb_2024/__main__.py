r"""Command line: ``python -m benchmarks.papers.flynn_reeb_2024 table1``."""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.papers.flynn_reeb_2024.configuration import (
    HERE,
    Configuration,
    load_configuration,
)
from benchmarks.papers.flynn_reeb_2024.play import Run, play
from benchmarks.papers.flynn_reeb_2024.summaries import Selection
from benchmarks.papers.flynn_reeb_2024.tables import (
    result_file,
    write_curves,
    write_figure7,
    write_paired,
    write_table1,
)
from benchmarks.runner import (
    ROOT,
    Folders,
    RunStore,
    add_run_options,
    chosen,
    run_tasks,
    update_report,
)

EXPERIMENTS = (
    *("table1", "paired"),
    *("figure1", "figure2", "figure4", "figure5", "figure6", "figure7"),
)
REPORT = ROOT / "docs" / "results" / "flynn_reeb_2024.md"


def main(arguments: Sequence[str] | None = None) -> None:
    r"""Run what is missing of one experiment, then write its tables and pictures."""
    options = _parser().parse_args(arguments)
    configuration = load_configuration()
    folders = Folders.of(HERE, options.output)
    for path in _run(options, configuration, folders):
        print(path)
        if path.suffix == ".md" and path != REPORT:
            print(path.read_text(encoding="utf-8"))


def _run(
    options: argparse.Namespace, configuration: Configuration, folders: Folders
) -> list[Path]:
    protocol = configuration.protocol
    rounds = options.rounds or protocol.rounds
    if options.experiment == "report":
        return update_report(REPORT, folders.results)
    if options.experiment == "figure1":
        from benchmarks.papers.flynn_reeb_2024.bands import run_figure1

        functions = options.repetitions or configuration.figure1["functions"]
        return run_figure1(configuration, functions, folders.results, folders.pictures)
    if options.experiment == "figure4":
        return _figure4(options, configuration, folders, rounds)
    experiment = configuration.experiments[options.experiment]
    selection = Selection(
        configuration,
        chosen(experiment.settings, options.settings, "--settings"),
        chosen(experiment.methods, options.methods, "--methods"),
        options.repetitions or experiment.repetitions,
        rounds,
    )
    store = RunStore(folders.runs, Run)
    run_tasks(selection.tasks(), store, play, options.engine, options.jobs)
    return _summarise(options.experiment)(store, selection, folders, options.experiment)


def _figure4(options, configuration: Configuration, folders: Folders, rounds: int):
    from benchmarks.papers.flynn_reeb_2024.figures import draw_times
    from benchmarks.papers.flynn_reeb_2024.timing import run_figure4

    repetitions = options.repetitions or configuration.figure4["repetitions"]
    files, curves = run_figure4(configuration, repetitions, rounds, folders.results)
    picture = folders.pictures / f"flynn_reeb_2024_{files[0].stem}.png"
    return files + draw_times(curves, list(configuration.methods.values()), picture)


def _summarise(experiment: str) -> Callable[..., list[Path]]:
    special = {"table1": _table1, "paired": _paired, "figure7": _figure7}
    return special.get(experiment, _curves)


def _table1(store: RunStore, selection: Selection, folders: Folders, _: str) -> list[Path]:
    return write_table1(store, selection, folders.results)


def _paired(store: RunStore, selection: Selection, folders: Folders, _: str) -> list[Path]:
    return write_paired(store, selection, folders.results)


def _figure7(
    store: RunStore, selection: Selection, folders: Folders, name: str
) -> list[Path]:
    from benchmarks.papers.flynn_reeb_2024.figures import draw_figure7

    picture = _picture(selection, folders, name)
    files = write_figure7(store, selection, folders.results)
    return files + draw_figure7(store, selection, picture)


def _curves(
    store: RunStore, selection: Selection, folders: Folders, name: str
) -> list[Path]:
    from benchmarks.papers.flynn_reeb_2024.figures import draw_regret

    picture = _picture(selection, folders, name)
    title = (
        f"{selection.settings[0].dimension}-dimensional arms; mean ± standard deviation "
        f"of {selection.repetitions} repetitions"
    )
    files = write_curves(store, selection, folders.results, name)
    return files + draw_regret(store, selection, picture, title)


def _picture(selection: Selection, folders: Folders, name: str) -> Path:
    r"""The picture is named as the table is, before that table is written."""
    stem = result_file(folders.results, name, selection, "").name
    return folders.pictures / f"flynn_reeb_2024_{stem}.png"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.papers.flynn_reeb_2024",
        description="Experiments of Flynn & Reeb (2024). Finished runs are kept: an "
        "interrupted command continues where it stopped.",
    )
    parser.add_argument("experiment", choices=(*EXPERIMENTS, "report"))
    parser.add_argument("--repetitions", type=int, help="instead of those in config.toml")
    parser.add_argument("--rounds", type=int, help="play fewer rounds of the same problems")
    parser.add_argument("--methods", nargs="+", help="only these")
    parser.add_argument("--settings", nargs="+", help="only these")
    add_run_options(parser)
    return parser


if __name__ == "__main__":
    main()
