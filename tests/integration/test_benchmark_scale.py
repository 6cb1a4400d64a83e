r"""The benchmark of the sketched band in small."""

import csv

import pytest

pytest.importorskip("joblib", reason="needs the extra `bench`")

from benchmarks.scale import width
from benchmarks.scale.__main__ import BENCHMARK

pytestmark = pytest.mark.slow


def rows(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("pairs", [False, True])
def test_large(tmp_path, pairs):
    sizes = ["--observations", "300", "--candidates", "500", "--inducing", "40"]
    options = ["--pairs"] if pairs else ["--further", "100"]
    BENCHMARK.main(["large", *sizes, "--threads", "1", *options, "--output", str(tmp_path)])
    name = "large_pairs" if pairs else "large"
    table = (tmp_path / "results" / f"{name}.md").read_text()
    steps = {row["step"]: row for row in rows(tmp_path / "results" / f"{name}.csv")}
    assert {"state", "selection", "10 more observations"} <= steps.keys()
    assert all(step in table for step in steps)
    assert float(steps["selection"]["peak_GiB"]) > 0.0
    assert ("BKBUCB, selection" in steps) != pairs


def test_width(tmp_path, monkeypatch):
    monkeypatch.setattr(width, "SETTINGS", (("rbf", 0.3, 2),))
    monkeypatch.setattr(width, "OBSERVATIONS", (60,))
    monkeypatch.setattr(width, "INDUCING", (10, 40))
    monkeypatch.setattr(width, "SEEDS", 1)
    BENCHMARK.main(["width", "--threads", "1", "--output", str(tmp_path)])
    few, many = rows(tmp_path / "results" / "width.csv")
    for row in (few, many):
        assert 1.0 <= float(row["weights"]) <= float(row["band"]) <= float(row["trace"])
        assert float(row["further"]) <= float(row["trace"])
    assert float(many["band"]) < float(few["band"])
    assert (tmp_path / "images" / "scale_width.png").stat().st_size > 10_000
