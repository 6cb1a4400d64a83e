r"""The Wang et al. benchmark in a tiny size: the paper's protocol, resumable, honest."""

import csv
import json
import math
import os
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]
pytest.importorskip("joblib", reason="the benchmark needs kernelucb[bench]")
DATA = Path(os.environ.get("KERNELUCB_DATA") or ROOT.parent / "shared" / "data")
needs_data = pytest.mark.skipif(
    not (DATA / "metabo_ag.npz").is_file(),
    reason="metabo_ag.npz is absent: set KERNELUCB_DATA to the folder that holds it",
)


@pytest.fixture(autouse=True)
def repository_importable(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))


def experiments():
    from benchmarks.papers.wang_2018.configuration import Configuration
    from benchmarks.runner import load_configuration

    return load_configuration(Configuration).experiments


def run(output, *arguments):
    from benchmarks.papers.wang_2018.__main__ import BENCHMARK

    BENCHMARK.main([*arguments, "--output", str(output)])


def rows(output, experiment):
    with (output / "results" / f"{experiment}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def runs(output):
    return {
        path.relative_to(output): json.loads(path.read_text())
        for path in sorted((output / "runs").rglob("*.json"))
    }


@needs_data
def test_grasp_domain(tmp_path):
    arguments = ("grasp", "--problems", "3", "--evaluations", "3")
    run(tmp_path, *arguments)
    table = rows(tmp_path, "grasp")
    assert {row["method"] for row in table} >= {"pem_ucb", "pem_pi", "plain", "tlsm"}
    assert all(math.isfinite(float(row["mean"])) for row in table)
    finished = runs(tmp_path)
    assert len(finished) == 6 * 3
    run(tmp_path, *arguments)
    assert runs(tmp_path) == finished
    assert (tmp_path / "images" / "wang_2018_grasp.png").stat().st_size > 10_000


@needs_data
def test_the_arms_are_those_of_the_released_protocol():
    r"""Against Eqs. 3, 4 and 12 written out: leave one out, no repeats, N = 1799."""
    from benchmarks.papers.wang_2018.play import play
    from benchmarks.papers.wang_2018.problems import grasp_data

    task = experiments()["grasp"].tasks()[0]
    assert (task.method.name, task.problem) == ("pem_ucb", 0)
    rewards, _ = grasp_data()
    others, truth = rewards[1:], rewards[0]
    mean, k, count = others.mean(0), torch.cov(others.mT), 1799
    played, values = [], play(task).values
    for t in range(6):
        gain = k[:, played] @ torch.linalg.pinv(k[played][:, played], hermitian=True)
        left = (k - gain @ k[played]).diagonal().clamp_min(0.0) * (count - 1)
        log, n = math.log(600.0), t + 1
        zeta = math.sqrt(2.0 * math.log(300.0)) + math.sqrt(
            6.0
            * (count - 3 + n + 2.0 * math.sqrt(n * log) + 2.0 * log)
            / (0.01 * count * (count - n - 1))
        )
        zeta /= math.sqrt(1.0 - 2.0 * math.sqrt(log / (count - n)))
        deviation = (left / (count - t - 1)).sqrt()
        score = mean + gain @ (truth[played] - mean[played]) + zeta * deviation
        score[played] = -torch.inf
        played.append(int(score.argmax()))
        assert values[t] == float(truth[played[-1]])


@needs_data
def test_too_few_tasks_are_reported_and_not_papered_over(tmp_path):
    run(tmp_path, "grasp_curve", "--problems", "1", "--evaluations", "2")
    refused = [r for r in runs(tmp_path).values() if r["refused"]]
    assert {
        (r["task"]["method"]["name"], r["task"]["setting"]["share"]) for r in refused
    } == {("pem_ucb", 0.01)}
    text = (tmp_path / "results" / "grasp_curve.md").read_text()
    assert text.count("not defined") == 2


@pytest.fixture
def tiny(monkeypatch):
    r"""The synthetic domain with few tasks and points, so that training takes a moment."""
    from dataclasses import replace

    from benchmarks.papers.wang_2018 import __main__

    small = {
        name: replace(e, domain=replace(e.domain, points=120, num_features=8, tasks=40))
        for name, e in experiments().items()
    }
    monkeypatch.setattr(__main__, "EXPERIMENTS", small)


@pytest.mark.usefixtures("tiny")
def test_synthetic_functions(tmp_path):
    methods = ["pem_ucb", "mixture", "known", "tlsm"]
    arguments = [
        "synthetic",
        "--problems",
        "1",
        "--evaluations",
        "3",
        "--methods",
        *methods,
    ]
    run(tmp_path, *arguments)
    finished = runs(tmp_path)
    assert len(finished) == len(methods)
    assert all(len(r["values"]) == 3 for r in finished.values())
    assert {row["method"] for row in rows(tmp_path, "synthetic")} == set(methods)


def test_a_part_does_not_replace_the_whole(tmp_path):
    from benchmarks.papers.wang_2018.__main__ import BENCHMARK

    with pytest.raises(SystemExit, match="needs --output"):
        BENCHMARK.main(["grasp", "--problems", "1"])


def test_synthetic_functions_have_the_kernel_that_they_say():
    r"""Covariance of 400 functions at two points, within 6 standard errors."""
    from benchmarks.papers.wang_2018.problems import synthetic_function

    domain = experiments()["synthetic"].domain
    X = torch.tensor([[0.0, 0.0], [3.0, 1.0]], dtype=torch.float64)
    values = torch.stack([synthetic_function(0, domain, "test", i)(X) for i in range(400)])
    expected = math.exp(-0.5 * 10.0 / domain.lengthscale**2)
    error = 6.0 * math.sqrt((1.0 + expected**2) / 400)
    covariance = torch.cov(values.mT)
    assert abs(float(covariance[0, 1]) - expected) < error
    assert abs(float(covariance[0, 0]) - 1.0) < 6.0 * math.sqrt(2.0 / 400)
    assert float(values.mean(0).abs().max()) < 6.0 / math.sqrt(400)
