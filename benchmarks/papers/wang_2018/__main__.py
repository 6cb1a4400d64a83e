r"""Command line: ``python -m benchmarks.papers.wang_2018 grasp``."""

import argparse
from collections.abc import Sequence
from dataclasses import replace

from benchmarks.papers.wang_2018.configuration import HERE, load_experiments
from benchmarks.papers.wang_2018.play import Run, play
from benchmarks.papers.wang_2018.tables import write_tables
from benchmarks.runner import (
    ROOT,
    Folders,
    RunStore,
    add_run_options,
    chosen,
    run_tasks,
    update_report,
)

REPORT = ROOT / "docs" / "results" / "wang_2018.md"


def main(arguments: Sequence[str] | None = None) -> None:
    r"""Run what is missing of one experiment, then write its table and picture."""
    experiments = load_experiments()
    options = _parser(list(experiments)).parse_args(arguments)
    folders = Folders.of(HERE, options.output)
    if options.experiment == "report":
        update_report(REPORT, folders.results)
        return
    experiment = experiments[options.experiment]
    partial = options.problems or options.evaluations or options.methods
    if partial and options.output is None:
        raise SystemExit("A part of an experiment needs --output, beside the full results.")
    experiment = replace(
        experiment,
        problems=options.problems or experiment.problems,
        evaluations=options.evaluations or experiment.evaluations,
        methods=tuple(chosen(experiment.methods, options.methods, "--methods")),
    )
    store = RunStore(folders.runs, Run)
    run_tasks(experiment.tasks(), store, play, options.engine, options.jobs)
    files = write_tables(store, experiment, folders.results)
    from benchmarks.papers.wang_2018.figures import draw

    picture = folders.pictures / f"wang_2018_{experiment.name}.png"
    for path in files + draw(store, experiment, picture):
        print(path)
    print(files[1].read_text(encoding="utf-8"))


def _parser(experiments: list[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.papers.wang_2018",
        description="Experiments of Wang, Kim & Kaelbling (2018). Finished runs are kept: "
        "an interrupted command continues where it stopped.",
    )
    parser.add_argument("experiment", choices=(*experiments, "report"))
    parser.add_argument("--problems", type=int, help="only the first of them")
    parser.add_argument("--evaluations", type=int, help="instead of those in config.toml")
    parser.add_argument("--methods", nargs="+", help="only these")
    add_run_options(parser)
    return parser


if __name__ == "__main__":
    main()
