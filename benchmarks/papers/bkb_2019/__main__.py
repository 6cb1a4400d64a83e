r"""Command line: ``python -m benchmarks.papers.bkb_2019 regret``."""

from pathlib import Path

from benchmarks.papers.bkb_2019.configuration import Configuration
from benchmarks.papers.bkb_2019.regret import run_regret
from benchmarks.papers.bkb_2019.starvation import run_starvation
from benchmarks.papers.bkb_2019.theorem1 import run_theorem1
from benchmarks.papers.bkb_2019.timing import run_long, run_time
from benchmarks.papers.bkb_2019.widths import run_widths
from benchmarks.runner import (
    RUN_OPTIONS,
    Benchmark,
    Call,
    chosen,
    load_configuration,
    names,
    number,
)

BENCHMARK = Benchmark(
    "benchmarks.papers.bkb_2019",
    "Experiments of Calandriello et al. (2019).",
)
TRIALS = number("--trials", "instead of those in config.toml")
METHODS = names("--methods", "some; exact and uniform are always needed")


@BENCHMARK.command("theorem1", options=[TRIALS, *RUN_OPTIONS])
def theorem1(call: Call) -> list[Path]:
    r"""Accuracy of the variances, number of inducing points, coverage."""
    return run_theorem1(load_configuration(Configuration), call, call.options.trials)


@BENCHMARK.command("regret", options=[TRIALS, METHODS, *RUN_OPTIONS])
def regret(call: Call) -> list[Path]:
    r"""Regret of all methods."""
    configuration = load_configuration(Configuration)
    trials = call.options.trials or configuration.regret.trials
    methods = chosen(configuration.methods.values(), call.options.methods, "--methods")
    return run_regret(configuration, call, trials, methods)


@BENCHMARK.command("widths")
def widths(call: Call) -> list[Path]:
    r"""Widths of the radii at one oversampling."""
    return run_widths(load_configuration(Configuration), call.folders.results)


@BENCHMARK.command("time")
def time(call: Call) -> list[Path]:
    r"""Time of a round against the yardstick."""
    return run_time(load_configuration(Configuration), call.folders.results)


@BENCHMARK.command("long", options=[number("--rounds", "instead of those in config.toml")])
def long(call: Call) -> list[Path]:
    r"""Very many rounds."""
    configuration = load_configuration(Configuration)
    return run_long(configuration, call.folders.results, call.options.rounds)


@BENCHMARK.command("starvation")
def starvation(call: Call) -> list[Path]:
    r"""Variances of sparse posteriors."""
    return run_starvation(load_configuration(Configuration).protocol.seed, call.folders)


if __name__ == "__main__":
    BENCHMARK.main()
