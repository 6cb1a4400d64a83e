r"""The practical benchmark: experiments, resuming, ranks and other tables."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from practical_bench import configuration, repository_importable  # noqa: F401

pytestmark = pytest.mark.slow


def command(output: Path, *options: str) -> None:
    from benchmarks.practical.__main__ import BENCHMARK

    BENCHMARK.main(["compare", "--output", str(output), *options])


SMALL = ("--problems", "branin", "kc1", "--seeds", "1", "--rounds", "2", "--methods")


def test_command_writes_tables_and_resumes(tmp_path, monkeypatch):
    from benchmarks.practical import __main__ as entry
    from benchmarks.practical.play import play

    command(tmp_path, *SMALL, "ucb_2", "random")
    results = tmp_path / "results"
    names = {path.name for path in results.iterdir()}
    parts = ("runs.csv", "curves.csv", "ranks.md", "simple.md", "recommended.md")
    assert names == {f"compare_part_{part}" for part in parts} | {"made.csv"}
    assert len((results / "compare_part_runs.csv").read_text().splitlines()) == 1 + 4
    assert len(list((tmp_path / "images").iterdir())) == 2
    files = sorted((tmp_path / "runs").rglob("*.json"))
    assert len(files) == 4
    gone, kept = files[0], {path: path.read_text() for path in files[1:]}
    before = json.loads(gone.read_text())
    gone.unlink()
    played = []
    monkeypatch.setattr(entry, "play", lambda t: (played.append(t.location), play(t))[1])
    command(tmp_path, *SMALL, "ucb_2", "random")
    assert len(played) == 1
    after = json.loads(gone.read_text())
    assert (before["regret"], before["task"]) == (after["regret"], after["task"])
    assert kept == {path: path.read_text() for path in kept}


def test_unfinished_seeds_stay_out_of_the_tables(tmp_path):
    from benchmarks.practical.play import Run, play
    from benchmarks.runner import RunStore

    experiment = configuration().experiments["compare"]
    problems = tuple(replace(p, rounds=1) for p in experiment.problems if p.name == "kc1")
    small = replace(experiment, problems=problems, methods=experiment.methods[-1:])
    store = RunStore(tmp_path, Run)
    with pytest.raises(ValueError, match="No seed"):
        small.finished(store)
    for seed in (20, 22):
        wanted = small.task(problems[0], small.methods[0], seed)
        store.save(wanted, play(wanted))
    assert small.finished(store).seeds == (20, 22)


def test_a_seed_is_finished_before_the_next_and_tuning_has_seeds_of_its_own():
    experiments = configuration().experiments
    choosing = [experiments.pop(name) for name in ("tuning", "choice")]
    apart = {seed for experiment in choosing for seed in experiment.seeds}
    for experiment in experiments.values():
        seeds = [item.seed for item in experiment.tasks()]
        assert seeds == sorted(seeds)
        number = len(experiment.problems) * len(experiment.methods)
        assert len(seeds) == len(experiment.seeds) * number
        assert not set(experiment.seeds) & apart
        assert all(method in experiment.methods for method in experiment.ours)


def test_an_experiment_has_problems_that_all_of_its_methods_can_play():
    r"""Analytic functions cannot choose batches, and Ax searches a box."""
    experiments = configuration().experiments
    assert {p.batch for p in experiments.pop("batches").problems} == {4}
    assert {p.family for p in experiments["ax"].problems} == {"synthetic"}
    for experiment in experiments.values():
        assert {p.batch for p in experiment.problems} == {1}
        names = {method.name for method in experiment.methods}
        assert experiment.name == "ax" or "ax_default" not in names


# Summaries


def results(curves: dict):
    r"""Results of hand-made runs, ``(problem, method) -> recommended regret of seeds``."""
    from benchmarks.practical.play import Run
    from benchmarks.practical.summaries import Results

    experiment = configuration().experiments["compare"]
    problems = tuple(replace(p, rounds=1) for p in experiment.problems[:2])
    small = replace(experiment, problems=problems, methods=experiment.methods[:3])
    runs = {
        (problem.name, method.name): [
            Run([4.0, 9.0, value], [4.0, value], 0, 0, 0, 0.0, 0.0)
            for value in curves[number][column]
        ]
        for number, problem in enumerate(problems)
        for column, method in enumerate(small.methods)
    }
    return Results(replace(small, seeds=(0, 1)), runs)


BY_HAND = [[[1.0, 2.0], [3.0, 2.0], [2.0, 5.0]], [[8.0, 8.0], [0.5, 0.5], [1.0, 2.0]]]


def test_ranks_of_a_hand_example():
    r"""Problem 1: ranks (1, 3, 2) and (1.5, 1.5, 3); problem 2: (3, 1, 2) twice."""
    from benchmarks.practical.summaries import mean_ranks, ranks_of_means

    values = results(BY_HAND).values("recommended")
    assert values.shape == (2, 3, 2)
    moments = mean_ranks(values)
    assert [m.mean for m in moments] == pytest.approx([2.125, 1.625, 2.25])
    # By seed: (2, 2.25), (2, 1.25), (2, 2.5); half the difference is the standard error.
    assert [m.standard_error for m in moments] == pytest.approx([0.125, 0.375, 0.25])
    # Means: (1.5, 2.5, 3.5) and (8, 0.5, 1.5).
    assert ranks_of_means(values).tolist() == [2.0, 1.5, 2.5]


def test_regret_is_normalised_by_the_starts_and_the_simple_one_never_grows():
    from benchmarks.practical.summaries import geometric_means

    hand = results(BY_HAND)
    problem, method = hand.experiment.problems[1], hand.experiment.methods[0]
    assert hand.curves("simple", problem, method).tolist() == [[4.0, 4.0]] * 2
    normalised = hand.normalised("recommended")
    expected = [math.sqrt(1.5 / 4 * 8 / 4), math.sqrt(2.5 / 4 * 0.5 / 4)]
    assert geometric_means(normalised)[:2] == pytest.approx(expected)
    assert geometric_means(np.zeros((2, 3, 2))) == pytest.approx([1e-4] * 3)


def test_worst_deciles_are_quantiles_over_the_seeds():
    from benchmarks.practical.summaries import worst_deciles

    values = np.stack([np.arange(11.0), 4.0 * np.arange(11.0)])[:, None]  # two problems
    assert worst_deciles(values) == pytest.approx([math.sqrt(9.0 * 36.0)])
    assert worst_deciles(np.zeros((2, 3, 2))) == pytest.approx([1e-4] * 3)


def test_each_of_ours_is_compared_with_every_other_in_pairs(tmp_path):
    from benchmarks.practical.summaries import Results
    from benchmarks.practical.tables import write_tables

    hand = results(BY_HAND)
    methods = hand.experiment.methods
    named = replace(hand.experiment, ours=methods[:2])
    write_tables(Results(named, hand.runs), tmp_path)
    (path,) = tmp_path.glob("*_paired.md")
    first, second = path.read_text().split("\n\n" + methods[1].label)
    assert first.startswith(methods[0].label)
    # Means over seeds, recommended: (1.5, 2.5, 3.5) and (8, 0.5, 1.5).
    ratio = math.sqrt(1.5 / 2.5 * 8.0 / 0.5)
    assert f"| {ratio:.3g} ± " in first.splitlines()[4]
    assert f"| {1 / ratio:.3g} ± " in second.splitlines()[4]


def test_bootstrap_error_is_that_of_the_mean():
    r"""For a mean of one problem it is the population standard error over the seeds."""
    from benchmarks.practical.summaries import bootstrap_error

    values = np.random.default_rng(0).standard_normal((1, 2, 20))
    error = bootstrap_error(lambda sample: sample.mean(axis=-1)[0], values)
    expected = values[0].std(axis=-1) / math.sqrt(20)
    # The standard deviation of 1000 resamples has a relative error of 1 / sqrt(2000).
    np.testing.assert_allclose(error, expected, rtol=4.0 / math.sqrt(2000))
    constant = np.ones((1, 2, 20))
    assert bootstrap_error(lambda sample: sample.mean(axis=-1)[0], constant).max() == 0.0
