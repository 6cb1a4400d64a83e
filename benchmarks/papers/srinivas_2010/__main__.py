r"""Command line: ``python -m benchmarks.papers.srinivas_2010 synthetic``."""

from dataclasses import replace
from pathlib import Path

from benchmarks.papers.srinivas_2010.configuration import Configuration, Experiment
from benchmarks.papers.srinivas_2010.figures import draw_regret
from benchmarks.papers.srinivas_2010.gain import run_information_gain
from benchmarks.papers.srinivas_2010.play import Run, play
from benchmarks.papers.srinivas_2010.priors import prior_of
from benchmarks.papers.srinivas_2010.tables import result_stem, write_tables
from benchmarks.runner import RUN_OPTIONS, Benchmark, Call, load_configuration, number

CONFIGURATION = load_configuration(Configuration)
BENCHMARK = Benchmark(
    "benchmarks.papers.srinivas_2010",
    "Experiments of Srinivas et al. (2010).",
    number("--trials", "instead of those in config.toml"),
    number("--rounds", "play fewer rounds of the same functions"),
    *RUN_OPTIONS,
)


@BENCHMARK.command(*CONFIGURATION.experiments)
def regret(call: Call) -> list[Path]:
    r"""Run what is missing of one experiment, then write its tables and picture."""
    experiment = CONFIGURATION.experiments[call.command]
    setting = replace(
        experiment.setting,
        trials=call.options.trials or experiment.setting.trials,
        rounds=call.options.rounds or experiment.setting.rounds,
    )
    prior_of(setting)  # says before the first run that data are absent
    experiment = Experiment(setting, experiment.methods)
    store = call.play(experiment.tasks(), Run, play)
    files = write_tables(store, experiment, call.folders.results)
    picture = call.folders.picture(result_stem(experiment))
    return [*files, draw_regret(store, experiment, picture)]


@BENCHMARK.command("information_gain")
def information_gain(call: Call) -> list[Path]:
    r"""Figure 3."""
    return run_information_gain(CONFIGURATION.information_gain, call.folders)


if __name__ == "__main__":
    BENCHMARK.main()
