r"""The Durand benchmark: pooled histories, resumable commands, and its summaries."""

import csv
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from kernelucb import (
    AbbasiYadkoriUCB,
    Filters,
    KernelRegression,
    KernelThompsonSampling,
    MartingaleMixtureUCB,
    StreamingKernelUCB,
    UnknownNoise,
    WangDeFreitasUCB,
)
from tolerances import PERMUTATION, REARRANGED

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
pytest.importorskip("joblib", reason="the benchmark needs kernelucb[bench]")
pytest.importorskip("matplotlib", reason="the benchmark needs kernelucb[bench]")


@pytest.fixture(autouse=True)
def repository_importable(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))


def configuration():
    from benchmarks.papers.durand_2018.configuration import Configuration
    from benchmarks.runner import load_configuration

    return load_configuration(Configuration)


def run(*arguments: str) -> None:
    from benchmarks.papers.durand_2018.__main__ import BENCHMARK

    BENCHMARK.main(arguments)


REPETITIONS = 3


def tiny(experiment: str, output: Path, rounds: int) -> list[str]:
    sizes = ["--rounds", str(rounds), "--repetitions", str(REPETITIONS)]
    return [experiment, *sizes, "--output", str(output)]


def method_named(name: str):
    experiments = configuration().experiments.values()
    return next(m for each in experiments for m in each.methods if m.name == name)


def pooled_and_raw(rounds: int = 80, arms_played: int = 30):
    r"""One history as the bandits keep it, and the state of all of its rows."""
    from benchmarks.papers.durand_2018.pooled import ArmPrior, History
    from benchmarks.papers.durand_2018.problems import arm_grid, covar_module

    protocol = configuration().protocol
    arms, kernel = torch.from_numpy(arm_grid(protocol)), covar_module(protocol)
    history = History(ArmPrior(kernel, arms))
    indices = torch.randint(arms_played, (rounds,))
    outcomes = arms[indices, 0].sin() + 0.1 * torch.randn(rounds, dtype=torch.float64)
    for index, outcome in zip(indices.tolist(), outcomes.tolist(), strict=True):
        history.observe(index, outcome)
    return history, KernelRegression(arms[indices], outcomes, kernel, 1.0), arms


NORM = 5.0
KNOWN = {"norm_bound": NORM, "noise_std": 0.1, "delta": 0.1}
BOUNDS = {
    "theorem1": lambda state: AbbasiYadkoriUCB(state, alpha=0.01 / NORM**2, **KNOWN),
    "exact": lambda state: MartingaleMixtureUCB(state, fit=Filters("mixture"), **KNOWN),
    "corollary1": lambda state: StreamingKernelUCB(
        state, norm_bound=NORM, noise_std=UnknownNoise(0.01, 1.0), delta=0.1
    ),
    "joint": lambda state: MartingaleMixtureUCB(
        state, norm_bound=NORM, noise_std=UnknownNoise(0.01, 1.0), delta=0.1
    ),
}


@pytest.mark.parametrize("rounds", [1, 80], ids=["one observation", "repeated arms"])
@pytest.mark.parametrize("name", BOUNDS)
def test_a_pooled_history_gives_the_bounds_of_its_rows(name, rounds):
    history, raw, arms = pooled_and_raw(rounds)
    pooled = history.regression()
    assert pooled.num_observations == raw.num_observations == rounds
    ours, theirs = BOUNDS[name](pooled), BOUNDS[name](raw)
    for left, right in zip(ours.bounds(history.arms), theirs.bounds(arms), strict=True):
        torch.testing.assert_close(left, right, atol=NORM * PERMUTATION, rtol=0.0)
    if name == "corollary1":
        assert ours.noise_interval == pytest.approx(theirs.noise_interval, rel=REARRANGED)
    if name == "joint":
        assert ours.noise_interval == pytest.approx(theirs.noise_interval, rel=PERMUTATION)


def test_scatter_of_repeated_outcomes_counts():
    r"""Guards the test above: without the scatter the noise bounds are others."""
    history, raw, _ = pooled_and_raw()
    history.scatter = 0.0
    ours, theirs = BOUNDS["joint"](history.regression()), BOUNDS["joint"](raw)
    assert ours.noise_interval[1] < 0.9 * theirs.noise_interval[1]


def learner(name: str, history):
    from benchmarks.papers.durand_2018.configuration import BanditTask
    from benchmarks.papers.durand_2018.learners import Learner

    task = BanditTask(configuration().protocol, method_named(name), 0, 10)
    return Learner(task, history.arms)


def test_thompson_sampling_with_lemma_3_has_its_mean_and_covariance():
    r"""``N(f_lambda, l^2 k_lambda)`` at ``lambda = noise_std^2``, by plain solves."""
    history, raw, arms = pooled_and_raw()
    state, l_width = raw, WangDeFreitasUCB(raw, **KNOWN).confidence_set.width
    X, y = state.train_inputs, state.train_targets
    kernel = configuration_kernel()
    K, k = kernel(X).to_dense(), kernel(arms, X).to_dense()
    weights = torch.linalg.solve(K + 0.01 * torch.eye(len(X)).double(), k.mT).mT
    mean = weights @ y
    covariance = l_width**2 * (kernel(arms).to_dense() - weights @ k.mT)
    wang, pooled = learner("ts_wang", history), history.regression()
    draws = torch.stack([wang._values(pooled) for _ in range(400)])
    # Means of 400 standard normals: five deviations are 0.25, missed once in 1e4 tests of
    # 100 arms at most; the sample variance of 400 deviates by sqrt(2 / 400) = 7 %.
    sd = covariance.diagonal().sqrt()
    assert float(((draws.mean(0) - mean) / sd).abs().max()) < 0.25
    assert float((draws.std(0) / sd - 1.0).abs().max()) < 0.2


def configuration_kernel():
    from benchmarks.papers.durand_2018.problems import covar_module

    return covar_module(configuration().protocol)


def test_thompson_sampling_with_theorem_1_is_the_library_s():
    history, _, _ = pooled_and_raw()
    theorem = learner("ts_theorem1", history)
    state = history.regression()
    torch.manual_seed(3)
    ours = theorem._values(state)
    torch.manual_seed(3)
    theirs = KernelThompsonSampling(state, **KNOWN).sample_values(history.arms)[0]
    assert torch.equal(ours, theirs)


@pytest.mark.parametrize("share", [4, 12])
def test_each_event_of_corollary_1_has_its_share_of_delta(share):
    name = {4: "ucb_adaptive", 12: "ts_adaptive"}[share]
    history, _, _ = pooled_and_raw()
    adaptive = learner(name, history)
    assert adaptive.level == pytest.approx(0.1 / share, rel=REARRANGED)
    assert adaptive._tracker.delta == pytest.approx(3.0 * adaptive.level, rel=REARRANGED)
    adaptive.select(history.regression())
    lower, upper = adaptive.noise_interval
    assert 0.01 <= lower < 0.1 < upper <= 1.0


def test_the_function_has_the_paper_s_norm():
    from benchmarks.papers.durand_2018.problems import true_function

    function = true_function(configuration().protocol, 0)
    K = function.kernel(function.centres, function.centres)
    norm = math.sqrt(function.weights @ K @ function.weights)
    assert norm == pytest.approx(2.06, rel=REARRANGED)


def test_fewer_rounds_are_the_first_of_more():
    from benchmarks.papers.durand_2018.play import play

    for name in ("joint", "ts_adaptive"):
        task = replace(configuration().experiments["joint"].tasks()[0], rounds=8)
        task = replace(task, method=method_named(name))
        assert play(replace(task, rounds=4)).arms == play(task).arms[:4]


def test_a_stream_s_intervals_are_the_tracker_s_and_shrink():
    from benchmarks.papers.durand_2018.streams import kept_rounds, watch

    task = configuration().stream_tasks(rounds=60)[0]
    run = watch(task)
    assert run.rounds == kept_rounds(task.stream)
    assert {20, 50, 60} <= set(run.rounds)
    for name, intervals in run.intervals.items():
        if name == "joint":  # nothing is carried along
            continue
        bounds = np.array(intervals)
        assert (np.diff(bounds[:, 0]) >= 0.0).all()
        assert (bounds[1:, 1] <= bounds[:-1, 1]).all()
    # At the first step both regularisers come from the same guess.
    assert run.intervals["fixed 1"][0] == run.intervals["adaptive 1"][0]
    joint, exact = np.array(run.widths["joint"]), np.array(run.widths["exact"])
    assert exact[-1] < joint[-1] < 0.2 * run.widths["adaptive"][-1]


@pytest.mark.parametrize("experiment", ["regret", "rate", "joint", "concentration"])
def test_bandit_commands_finish_once_and_write_everything(
    experiment, tmp_path, monkeypatch
):
    from benchmarks.papers.durand_2018 import __main__ as command

    run(*tiny(experiment, tmp_path, rounds=16))
    files = sorted((tmp_path / "runs").rglob("*.json"))
    methods = configuration().experiments[experiment].methods
    assert len(files) == REPETITIONS * len(methods)
    stem = f"{experiment}_16_rounds_{REPETITIONS}_repetitions"
    with (tmp_path / "results" / f"{stem}.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["method"] for row in rows} == {method.name for method in methods}
    last = [row for row in rows if row["method"] == methods[0].name][-1]
    contents = [json.loads(f.read_text()) for f in files if f.parent.name == last["method"]]
    regrets = [
        sum(max(c["means"]) - c["means"][arm] for arm in c["arms"]) for c in contents
    ]
    assert float(last["mean"]) == pytest.approx(np.mean(regrets), abs=5e-4)
    assert (tmp_path / "results" / f"{stem}.md").read_text().startswith(("Cumul", "Rates"))
    assert (tmp_path / "images" / f"durand_2018_{stem}.png").stat().st_size > 0

    def refuse(task):
        raise AssertionError(f"{task} is finished")

    monkeypatch.setattr(command, "play", refuse)
    run(*tiny(experiment, tmp_path, rounds=16))


def test_noise_and_band_share_their_streams(tmp_path, monkeypatch):
    from benchmarks.papers.durand_2018 import __main__ as command

    run(*tiny("noise", tmp_path, rounds=60))
    assert len(list((tmp_path / "runs" / "stream").iterdir())) == REPETITIONS

    def refuse(task):
        raise AssertionError(f"{task} is finished")

    monkeypatch.setattr(command, "watch", refuse)
    run(*tiny("band", tmp_path, rounds=60))
    for name in ("noise", "band"):
        stem = f"{name}_60_rounds_{REPETITIONS}_repetitions"
        assert "| t = 50 |" in (tmp_path / "results" / f"{stem}.md").read_text()
        assert (tmp_path / "images" / f"durand_2018_{stem}.png").stat().st_size > 0


def test_a_ratio_of_means_has_the_error_of_the_delta_method():
    from benchmarks.papers.durand_2018.summaries import ratio_of_means

    generator = np.random.default_rng(0)
    below = 10.0 + generator.standard_normal(4000)
    above = 1.5 * below + generator.standard_normal(4000)
    ratio = ratio_of_means(above, below)
    assert ratio.mean == pytest.approx(1.5, abs=0.01)
    assert ratio.standard_error == pytest.approx(0.1 / math.sqrt(4000), rel=0.1)
