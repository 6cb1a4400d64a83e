r"""Command line: ``python -m benchmarks.papers.bkb_2019 regret``."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from benchmarks.papers.bkb_2019.configuration import HERE, load_configuration
from benchmarks.papers.bkb_2019.regret import run_regret
from benchmarks.papers.bkb_2019.starvation import run_starvation
from benchmarks.papers.bkb_2019.theorem1 import run_theorem1
from benchmarks.papers.bkb_2019.timing import run_long, run_time
from benchmarks.runner import ROOT, Folders, add_run_options, chosen, update_report

REPORT = ROOT / "docs" / "results" / "bkb_2019.md"


def main(arguments: Sequence[str] | None = None) -> None:
    r"""Run what is missing of one experiment, then write its tables and pictures."""
    options = _parser().parse_args(arguments)
    folders = Folders.of(HERE, options.output)
    try:
        files = _run(options, folders)
    except FileNotFoundError as error:
        raise SystemExit(str(error)) from error
    for path in files:
        print(path)
        if path.suffix == ".md" and path != REPORT:
            print(path.read_text(encoding="utf-8"))


def _run(options: argparse.Namespace, folders: Folders) -> list[Path]:
    configuration = load_configuration()
    engine, jobs = options.engine, options.jobs
    if options.experiment == "report":
        return update_report(REPORT, folders.results)
    if options.experiment == "time":
        return run_time(configuration, folders.results)
    if options.experiment == "long":
        return run_long(configuration, folders.results, options.rounds)
    if options.experiment == "starvation":
        picture = folders.pictures / "bkb_2019_starvation.png"
        return run_starvation(
            configuration.raw["protocol"]["seed"], folders.results, picture
        )
    if options.experiment == "theorem1":
        return run_theorem1(configuration, folders, options.trials, engine, jobs)
    trials = options.trials or configuration.raw["regret"]["trials"]
    methods = chosen(configuration.methods, options.methods, "--methods")
    return run_regret(configuration, folders, trials, methods, engine, jobs)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.papers.bkb_2019",
        description="Experiments of Calandriello et al. (2019). Finished runs are kept: an "
        "interrupted command continues where it stopped.",
    )
    experiments = ("theorem1", "regret", "time", "long", "starvation", "report")
    parser.add_argument("experiment", choices=experiments)
    parser.add_argument("--trials", type=int, help="instead of those in config.toml")
    parser.add_argument("--rounds", type=int, help="of `long`")
    parser.add_argument(
        "--methods", nargs="+", help="of `regret`; exact and uniform are always needed"
    )
    add_run_options(parser)
    return parser


if __name__ == "__main__":
    main()
