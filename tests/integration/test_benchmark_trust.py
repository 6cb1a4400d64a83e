r"""The benchmark of broken promises, with few seeds and rounds."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch

from benchmarks.runner import fixed_kernel, read_table
from benchmarks.runner.events import event_row, event_table
from benchmarks.trust import demo, edges, functions, lost, stops, unsafe
from benchmarks.trust.__main__ import STUDY
from kernelucb import optimum_report
from kernelucb.exceptions import InconsistentConfidenceSetWarning
from tolerances import REARRANGED

pytestmark = pytest.mark.slow

STOP = {"kernel": "rbf", "function": "spike", "norm_bound": "given"}
STOP |= {"allow_estimated": False, "rounds": 20, "seed": 0}
EDGE = {"model": "known", "norm": 10.0, "norm_bound": "given"}
EDGE |= {"allow_estimated": False, "rounds": 4, "seed": 3}


def test_functions_have_the_norm_that_is_promised():
    kernel = fixed_kernel("matern52", 0.1)
    gram = kernel(functions.line()).to_dense()
    gram.diagonal().add_(1e-10)
    for kind in ("random", "spike"):
        values = functions.drawn_values(kind, kernel, 10.0, seed=1)
        interpolant = (values @ torch.linalg.solve(gram, values)).sqrt()
        # At most the norm of the function itself, and 20 points to a length scale, with a
        # jitter of 1e-10, leave less than a thousandth of it out.
        assert 9.99 < interpolant < 10.0


def test_the_spike_is_the_higher_and_narrower_hill():
    kernel = fixed_kernel("rbf", 0.1)
    values = functions.drawn_values("spike", kernel, 10.0, seed=0)
    halves = values[:100], values[100:]
    wide, narrow = sorted(halves, key=lambda half: float(half.max()))
    assert narrow.max() > 3.5 * wide.max()
    assert int((wide > wide.max() / 2).sum()) > int((narrow > narrow.max() / 2).sum())


@pytest.mark.parametrize("name", functions.TEST_FUNCTIONS)
def test_test_functions_are_standardised(name):
    candidates, values = functions.test_function(name)
    assert candidates.shape == (len(values), functions.TEST_FUNCTIONS[name][0])
    assert float(values.std()) == pytest.approx(1.0, rel=REARRANGED)


def test_an_estimate_stops_on_the_wide_hill_and_a_norm_given_does_not():
    given = stops.play_stop(STOP)
    assert given["stopped"] > 0
    assert given["regret"] <= 1.0
    estimate = STOP | {"norm_bound": "none", "allow_estimated": True}
    assert stops.play_stop(estimate)["regret"] > 1.0
    assert stops.play_stop(estimate) == stops.play_stop(estimate)


def test_estimates_are_refused_by_default():
    fitted = {"kernel": stops.FITTED, "function": "Forrester"}
    for change in ({"norm_bound": "none"}, fitted):
        assert stops.play_stop(STOP | change)["refused"]
    for change in ({"norm_bound": "none"}, {"model": "fitted"}):
        refused = {"refused": True, "contradicted": False, "unsafe": 0}
        assert unsafe.play_safe(EDGE | change) == refused
    assert not any(unsafe.play_safe(EDGE).values())


def test_statements_are_compared_with_the_function():
    game = edges._Game.of(0, fixed_kernel("matern52", edges.LENGTHSCALE))
    assert game.covered(game.band()) == edges.Run("certified")
    with pytest.warns(InconsistentConfidenceSetWarning):
        assert not game.covered(game.band(norm_bound=0.1)).true
    report = optimum_report(game.band(), bounds=edges._UNIT)
    assert game.optimum(report) == edges.Run("certified")
    higher = replace(report, lower=report.upper, upper=report.upper + 1.0)
    assert game.optimum(higher) == edges.Run("certified", true=False)


def test_rates_come_with_exact_intervals():
    def row(events, promise=0.05):
        return event_row(len(events), pd.Series(events), {"what": "x"}, promise)

    found = row([False] * 200)
    assert found["upper"] == pytest.approx(1.0 - 0.025 ** (1 / 200))
    assert (found["events"], found["rate"], found["lower"]) == (0, 0.0, 0.0)
    assert found["kept"] == "yes"
    assert row([False] * 20)["kept"] == "undecided"
    assert row([True] * 20 + [False] * 20)["kept"] == "no"
    nothing = event_table([row([True], promise=None)], "events")
    assert nothing.lines[-1].endswith("| nothing | - |")


def test_losses_depend_on_the_noise_or_not():
    task = {"outcomes": 50, "seed": 0}
    noise = {
        name: lost._reported(SimpleNamespace(**task, losses=name))
        for name in ("0", "none", "random")
    }
    assert (noise["0"] >= 0.0).all()
    assert min(noise["none"].min(), noise["random"].min()) < 0.0
    assert not np.array_equal(noise["none"], noise["random"])


@pytest.mark.parametrize(
    ("name", "only", "change", "rows"),
    [
        ("stops", ["seed=0", "function=spike,Forrester"], ["rounds=2"], 8),
        ("unsafe", ["seed=0", "norm=2.0"], ["rounds=2"], 8),
        ("lost", ["seed=0"], ["outcomes=3"], 5),
        ("demo", ["seed=0", "function=rkhs", "estimate=False"], ["rounds=1"], 4),
        ("edges", ["seed=0", "edge=recommended point outside the context"], [], 2),
    ],
)
def test_commands_write_their_table(name, only, change, rows, tmp_path):
    options = ["--only", *only, "--output", str(tmp_path)]
    STUDY.main([name, *options, *(["--change", *change] if change else [])])
    assert len(read_table(tmp_path / "results" / f"{name}.csv")) == rows
    text = (tmp_path / "results" / f"{name}.md").read_text()
    assert text.count("\n") == 2 + rows
    assert "at most" in text


def test_the_demo_is_counted():
    settings = {"function": "rkhs", "estimate": False, "rounds": 1, "seed": 0}
    run = demo.play_demo(settings)
    assert run["missed"] == 0
    assert run["final_gap"] >= run["final_regret"]
    assert run["norm_bound"] >= run["norm"]
