r"""Command line: ``python -m benchmarks.papers.durand_2018 noise``."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from benchmarks.papers.durand_2018.configuration import Configuration
from benchmarks.papers.durand_2018.play import Run, play
from benchmarks.papers.durand_2018.streams import StreamRun, watch
from benchmarks.runner import RUN_OPTIONS, Benchmark, Call, load_configuration, number

BENCHMARK = Benchmark(
    "benchmarks.papers.durand_2018",
    "Experiments of Durand, Maillard & Pineau (2018).",
    number("--repetitions", "instead of those in config.toml"),
    number("--rounds", "instead of those in config.toml"),
    *RUN_OPTIONS,
)


@BENCHMARK.command("noise", "band")
def streams(call: Call) -> list[Path]:
    r"""``noise`` and ``band`` look at the same streams."""
    from benchmarks.papers.durand_2018 import stream_figures, stream_tables
    from benchmarks.papers.durand_2018.summaries import Streams

    configuration, options = load_configuration(Configuration), call.options
    tasks = configuration.stream_tasks(options.repetitions, options.rounds)
    store = call.play(tasks, StreamRun, watch)
    found = Streams(store, tasks, configuration.stream)
    write = {"noise": stream_tables.write_noise, "band": stream_tables.write_band}
    draw = {"noise": stream_figures.draw_noise, "band": stream_figures.draw_band}
    picture = call.folders.picture(found.stem(call.command))
    files = write[call.command](found, call.folders.results)
    return [*files, draw[call.command](found, picture)]


@BENCHMARK.command("regret", "rate", "joint", "concentration")
def bandits(call: Call) -> list[Path]:
    r"""Comparisons of bandits."""
    from benchmarks.papers.durand_2018 import bandit_figures, bandit_tables
    from benchmarks.papers.durand_2018.summaries import Bandits

    planned = load_configuration(Configuration).experiments[call.command]
    experiment = replace(
        planned,
        rounds=call.options.rounds or planned.rounds,
        repetitions=call.options.repetitions or planned.repetitions,
    )
    store = call.play(experiment.tasks(), Run, play)
    found = Bandits(store, experiment, planned)
    lines: dict[str, Callable[[Bandits], list[str]]] = {
        "regret": bandit_tables.regret,
        "rate": bandit_tables.rate,
        "joint": bandit_tables.joint,
        "concentration": bandit_tables.concentration,
    }
    files = bandit_tables.write(found, call.folders.results, lines[call.command](found))
    return [*files, bandit_figures.draw(found, call.folders.picture(found.stem))]


if __name__ == "__main__":
    BENCHMARK.main()
