r"""The Flynn & Reeb benchmark: resumable, and the same on every engine."""

import csv
import json
from pathlib import Path

import pytest

from kernelucb import Grid, MartingaleMixture

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
pytest.importorskip("joblib", reason="the benchmark needs kernelucb[bench]")

SETTING = "matern52_0.5_d3"
METHODS = ["filters", "exact", "dmm", "random"]
REPETITIONS, ROUNDS = 2, 8


@pytest.fixture(autouse=True)
def repository_importable(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))


def command(output: Path, *extra: str) -> list[str]:
    return [
        "table1",
        *("--settings", SETTING),
        *("--methods", *METHODS),
        *("--repetitions", str(REPETITIONS)),
        *("--rounds", str(ROUNDS)),
        *("--output", str(output)),
        *extra,
    ]


def run(output: Path, *extra: str) -> None:
    from benchmarks.papers.flynn_reeb_2024.__main__ import BENCHMARK

    BENCHMARK.main(command(output, *extra))


def run_files(output: Path) -> dict[str, bytes]:
    folder = output / "runs"
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*.json"))
    }


def decisions(output: Path) -> dict[str, tuple[list[int], list[float]]]:
    r"""Arms and regret of every run, without the time that it took."""
    contents = {name: json.loads(text) for name, text in run_files(output).items()}
    return {name: (c["arms"], c["regret"]) for name, c in contents.items()}


def table(output: Path) -> list[dict[str, str]]:
    path = output / "results" / f"table1_{ROUNDS}_rounds.csv"
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def selected_tasks():
    from benchmarks.papers.flynn_reeb_2024.configuration import Configuration
    from benchmarks.papers.flynn_reeb_2024.summaries import Selection
    from benchmarks.runner import load_configuration

    configuration = load_configuration(Configuration)
    experiment = configuration.experiments["table1"]
    settings = [setting for setting in experiment.settings if setting.name == SETTING]
    methods = [configuration.methods[name] for name in METHODS]
    return Selection(configuration, settings, methods, REPETITIONS, ROUNDS).tasks()


class InterruptedRunError(Exception):
    r"""Stands for a killed process."""


class CountingPlayer:
    r"""Plays like the benchmark, counts, and fails after a number of runs."""

    def __init__(self, limit: int) -> None:
        self.limit, self.count = limit, 0

    def __call__(self, task):
        from benchmarks.papers.flynn_reeb_2024.play import play

        if self.count == self.limit:
            raise InterruptedRunError
        self.count += 1
        return play(task)


def run_store(folder: Path):
    from benchmarks.papers.flynn_reeb_2024.play import Run
    from benchmarks.runner import RunStore

    return RunStore(folder, Run)


def test_an_interrupted_run_continues_and_overwrites_nothing(tmp_path):
    from benchmarks.runner import run_tasks

    tasks, store = selected_tasks(), run_store(tmp_path / "runs")
    first = CountingPlayer(limit=3)
    with pytest.raises(InterruptedRunError):
        run_tasks(tasks, store, first)
    saved = run_files(tmp_path)
    assert len(saved) == 3

    second = CountingPlayer(limit=len(tasks))
    assert run_tasks(tasks, store, second) == len(tasks) - 3 == second.count
    finished = run_files(tmp_path)
    assert len(finished) == len(tasks) == len(METHODS) * REPETITIONS
    assert {name: finished[name] for name in saved} == saved

    assert run_tasks(tasks, store, CountingPlayer(limit=0)) == 0
    assert run_files(tmp_path) == finished


def test_a_finished_run_is_not_replaced(tmp_path):
    from benchmarks.papers.flynn_reeb_2024.play import Run

    task, store = selected_tasks()[0], run_store(tmp_path)
    store.save(task, Run([1], [0.5], 0.0))
    store.save(task, Run([2], [0.7], 0.0))
    assert store.load(task) == Run([1], [0.5], 0.0)


def test_a_write_that_fails_leaves_nothing(tmp_path, monkeypatch):
    from benchmarks.runner import store

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(store.os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        store.write_atomically(tmp_path / "run.json", "{}")
    assert not list(tmp_path.iterdir())


def test_runs_made_with_other_settings_are_refused(tmp_path):
    from dataclasses import replace

    from benchmarks.papers.flynn_reeb_2024.play import Run

    task, store = selected_tasks()[0], run_store(tmp_path)
    store.save(task, Run([1], [0.5], 0.0))
    other = replace(task, protocol=replace(task.protocol, noise_std=0.3))
    with pytest.raises(ValueError, match="other settings"):
        store.finished(other)


def test_a_smaller_summary_does_not_replace_a_larger_one(tmp_path):
    run(tmp_path)
    before = table(tmp_path)
    from benchmarks.papers.flynn_reeb_2024.__main__ import BENCHMARK

    smaller = command(tmp_path)
    smaller[smaller.index("--repetitions") + 1] = "1"
    BENCHMARK.main(smaller)
    assert table(tmp_path) == before
    assert {int(row["n"]) for row in before} == {REPETITIONS}


def test_fewer_rounds_are_the_first_of_more():
    from dataclasses import replace

    from benchmarks.papers.flynn_reeb_2024.play import play

    task = selected_tasks()[0]
    assert play(replace(task, rounds=3)).arms == play(task).arms[:3]


def test_joblib_processes_agree_with_one_process(tmp_path):
    run(tmp_path / "one")
    run(tmp_path / "two", "--jobs", "2")
    assert decisions(tmp_path / "two") == decisions(tmp_path / "one")


# Ray's own start-up: it leaves sockets and subprocess handles to the collector, and warns
# about its future defaults.
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore::FutureWarning:ray")
@pytest.mark.filterwarnings("ignore::DeprecationWarning:ray")
def test_a_ray_cluster_of_two_workers_agrees_with_one_process(tmp_path, monkeypatch):
    pytest.importorskip("ray", reason="needs Ray: pip install kernelucb[ray]")
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    try:
        cluster.add_node(num_cpus=1)
        monkeypatch.setenv("RAY_ADDRESS", cluster.address)
        run(tmp_path / "ray", "--engine", "ray")
    finally:
        cluster.shutdown()
    run(tmp_path / "one")
    assert decisions(tmp_path / "ray") == decisions(tmp_path / "one")


def test_published_numbers_are_complete():
    from benchmarks.papers.flynn_reeb_2024.configuration import Configuration
    from benchmarks.papers.flynn_reeb_2024.summaries import published
    from benchmarks.runner import load_configuration

    paper, configuration = published(), load_configuration(Configuration)
    settings = {setting.name for setting in configuration.experiments["table1"].settings}
    methods = set(configuration.methods) - {"filters", "exact", "mixture"}
    assert set(paper) == {(m, s) for m in methods for s in settings}
    assert paper["dmm", "rbf_0.5_d3"].mean == 32.2
    assert all(cell.n == 10 and 0 < cell.std < cell.mean for cell in paper.values())


@pytest.mark.parametrize("name", ["rbf", "matern52", "matern32"])
def test_problem_kernel_is_the_learners_kernel(name):
    import numpy as np
    import torch

    from benchmarks.papers.flynn_reeb_2024.configuration import Setting
    from benchmarks.papers.flynn_reeb_2024.learners import covar_module
    from benchmarks.papers.flynn_reeb_2024.problems import kernel_function

    points = np.random.default_rng(0).random((30, 3))
    ours = kernel_function(name, 0.2)(points, points)
    theirs = covar_module(Setting(name, 0.2, 3))(torch.from_numpy(points)).to_dense()
    np.testing.assert_allclose(ours, theirs.numpy(), atol=1e-7)


@pytest.mark.parametrize("name", ["dmm", "amm"])
def test_yardsticks_compute_the_library_s_bound(name):
    r"""What the times are measured against computes the same numbers."""
    import numpy as np
    import torch

    from benchmarks.papers.flynn_reeb_2024.learners import covar_module
    from benchmarks.papers.flynn_reeb_2024.timing import NUMPY_GRIDS, numpy_learner
    from kernelucb import KernelRegression, MartingaleMixtureUCB

    task = selected_tasks()[0]
    generator = np.random.default_rng(1)
    inputs, outcomes = generator.random((40, 3)), generator.standard_normal(40)
    plain = numpy_learner(task, NUMPY_GRIDS[f"numpy_{name}"])
    for arm, outcome in zip(inputs, outcomes, strict=True):
        plain.observe(arm, outcome)
    state = KernelRegression(
        torch.from_numpy(inputs),
        torch.from_numpy(outcomes),
        covar_module(task.setting),
        task.protocol.noise_std,
    )
    options = {"form": Grid()} if name == "dmm" else {"form": "analytic"}
    bound = MartingaleMixtureUCB(
        state,
        norm_bound=task.protocol.norm,
        delta=task.protocol.delta,
        fit=MartingaleMixture(task.setting.covariance_scale(task.protocol.rounds)),
        **options,
    )
    arms = generator.random((20, 3))
    _, upper = bound.bounds(torch.from_numpy(arms))
    np.testing.assert_allclose(plain.upper(arms), upper.numpy(), rtol=1e-7)
