r"""The benchmark of the mixture of filters, in small."""

import csv
from dataclasses import replace

import pytest

pytest.importorskip("joblib", reason="needs the extra `bench`")

from benchmarks.filters import __main__ as command
from benchmarks.filters import calibrated, weights, width
from benchmarks.filters.configuration import Setting, Task

pytestmark = pytest.mark.slow

PROTOCOL = replace(command.CONFIGURATION.protocol, queries=20)
SETTING = Setting("matern52", 2, 12, 0.1)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    whole = command.CONFIGURATION
    settings = (SETTING, replace(SETTING, kernel="rbf", observations=13))
    grid = replace(
        whole.width, kernels=("rbf",), dimensions=(1,), observations=(5, 6), functions=1
    )
    small = replace(
        whole,
        protocol=PROTOCOL,
        width=grid,
        lengths=replace(whole.lengths, length_factors=(0.2, 0.4), **vars(grid)),
        calibrated=replace(
            whole.calibrated, settings=settings, functions=1, simulations=2000
        ),
        weights=replace(whole.weights, settings=settings, functions=1, steps=3, points=2),
    )
    monkeypatch.setattr(command, "CONFIGURATION", small)


@pytest.mark.parametrize(
    ("name", "count"), [("width", 6), ("lengths", 2), ("calibrated", 4), ("weights", 2)]
)
def test_commands_write_their_tables_and_keep_their_runs(
    tmp_path, monkeypatch, name, count
):
    arguments = [name, "--output", str(tmp_path)]
    command.BENCHMARK.main(arguments)
    path = tmp_path / "results" / f"{name}.csv"
    with path.open(newline="") as file:
        assert len(list(csv.DictReader(file))) == count
    before = path.with_suffix(".md").read_text()
    played = {"lengths": width}.get(name) or getattr(command, name)
    monkeypatch.setattr(played, "play", None)  # all runs are kept
    command.BENCHMARK.main(arguments)
    assert path.with_suffix(".md").read_text() == before


def test_both_bands_are_of_the_same_data():
    task = Task(PROTOCOL, SETTING, 0)
    run = width.play(task)
    assert run == width.play(task)
    assert len(run.domain) == len(run.data) == len(run.missed) == 2


def test_a_calibrated_radius_is_below_the_anytime_one():
    run = calibrated.play(calibrated.Task(PROTOCOL, SETTING, 0, 2000))
    assert run.quantile < run.squared_radius
    assert run.forms[:2] == ["chosen", "identity"]
    filters, chosen = run.bands[0], run.calibrated[0]
    assert all(ours > theirs for ours, theirs in zip(filters, chosen, strict=True))


def test_descent_does_not_end_above_where_it_started():
    few, many = (
        weights.play(weights.Task(PROTOCOL, SETTING, 0, steps, 3)).domain[1]
        for steps in (1, 30)
    )
    # Half-widths at a grid of regularisers are descended, widths of the band compared.
    assert many <= few * 1.01
