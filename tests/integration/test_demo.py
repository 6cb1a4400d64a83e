r"""The demo in-process, with few rounds."""

import sys
from unittest.mock import Mock

import numpy as np
import pytest

from kernelucb import _demo
from kernelucb.__main__ import main
from kernelucb._demo import FUNCTIONS, Run, black_box, sobol
from kernelucb.exceptions import SolverError
from tolerances import EPS


@pytest.fixture(autouse=True)
def eighty_columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture
def demo(tmp_path, capsys):
    def run(*options, rounds=2, picture=tmp_path / "demo.png"):
        where = ["--output", str(picture)] if picture else ["--no-picture"]
        status = main(["demo", *options, *where, "--rounds", str(rounds)])
        printed = capsys.readouterr()
        return status, " ".join(printed.out.split()), printed.err

    return run


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("forrester", "hartmann3")]


@pytest.mark.parametrize("function", ["branin", *SLOW])
def test_table_and_picture(function, demo, tmp_path):
    status, text, _ = demo("--function", function)
    assert status == 0
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")
    assert text.startswith("certified: kernel, mean, noise and norm bound are fixed")
    table = text.partition("gap* ")[2].partition("* how much better")[0]
    assert {"1", "2"} <= {*table.split()}
    assert "missed the true function somewhere in 0 of 2 rounds" in text
    # The last line is about the smallest of the gaps, the one after all outcomes too.
    assert "(certified, with probability 0.95; the smallest gap of all" in text


@pytest.mark.parametrize("function", FUNCTIONS)
def test_default_run_is_certified_and_keeps_its_promise(function):
    demo = Run(function, rounds=3, seed=1)
    rows = list(demo.steps())
    assert demo.certified
    assert demo.band.norm_bound >= demo.function.norm
    assert all(row.covered for row in rows)
    assert all(each.certified for each in demo.certificates)
    assert all(each.gap >= demo.regret(each) for each in demo.certificates)
    # Every round is about the same settings, so the gaps can be compared.
    assert demo.best.gap == min(each.gap for each in demo.certificates)
    demo.messages.append("no function fits")  # then nothing holds at once
    assert demo.best is demo.certificates[-1]


@pytest.mark.slow
@pytest.mark.parametrize(("function", "share"), [("forrester", 0.02), ("rkhs", 0.15)])
def test_the_gap_comes_to_say_something(function, share):
    demo = Run(function, rounds=10)
    list(demo.steps())
    assert demo.best.gap < share * float(demo.truth.max() - demo.truth.min())


def matern(function, X):
    r"""The kernel between points and the centres, extended precision."""
    base = function.kernel.base_kernel
    lengths = base.lengthscale.numpy().astype(np.longdouble).ravel()
    inputs, centres = (each.numpy() / lengths for each in (X, function.centres))
    pairs = zip(inputs.T, centres.T, strict=True)
    squares = sum(np.subtract.outer(left, right) ** 2 for left, right in pairs)
    scaled = np.sqrt(2 * np.longdouble(base.nu) * squares)
    factor = {1.5: 1 + scaled, 2.5: 1 + scaled + scaled**2 / 3}[base.nu]
    return np.longdouble(function.kernel.outputscale) * factor * np.exp(-scaled)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_norm_and_values_are_those_of_the_expansion(name):
    function, _ = black_box(name)
    weights = function.weights.numpy().astype(np.longdouble)
    norm = np.sqrt(weights @ matern(function, function.centres) @ weights)
    assert norm <= function.norm <= norm * (1 + 2e-6)
    assert function.norm <= Run(name).band.norm_bound <= norm * (1 + 1.01e-3)
    # A kernel value carries the round-off of the squared distance in length scales.
    dimension = function.bounds.shape[-1]
    scaled = (function.bounds / function.kernel.base_kernel.lengthscale).abs().max()
    entry = 10 + 10 * dimension * (dimension + 4) * float(scaled) ** 2 + len(weights)
    scale = float(function.kernel.outputscale * function.weights.abs().sum())
    queries = sobol(function.bounds, 5, seed=6)
    values = function.mean + matern(function, queries) @ weights
    assert np.abs(function(queries).numpy() - values).max() <= entry * EPS * scale


def test_norm_estimate_is_said_and_never_called_certified(demo):
    _, text, _ = demo("--estimate", "--seed", "1", picture=None)
    assert text.startswith("heuristic: norm estimated: in every round, from the data.")
    assert "[estimated] the RKHS norm of f - mean" in text
    assert "(not certified; heuristic: norm estimated)." in text
    assert "certified:" not in text
    assert "smallest gap" not in text


def test_contradicted_norm_is_reported(demo):
    _, text, _ = demo("--function", "rkhs", "--norm-bound", "0.5")
    assert text.startswith("no guarantee: norm violated: the norm bound given, 0.5, is too")
    assert "Warning: No function of norm at most 0.5 fits the data" in text
    assert "no guarantee: norm violated, contradicted by the data)" in text


def test_interrupted_run_prints_the_table_and_writes_the_picture(
    demo, tmp_path, monkeypatch
):
    choose = Mock(side_effect=[sobol(black_box("rkhs")[0].bounds, 1, 0), KeyboardInterrupt])
    monkeypatch.setattr(Run, "_choose", choose)
    status, text, error = demo("--function", "rkhs", rounds=5)
    assert (status, error) == (130, "kernelucb: interrupted after 1 of 5 rounds\n")
    assert "What the band rests on" in text
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")


def test_what_ends_a_demo_is_said_in_a_line(demo, tmp_path, monkeypatch):
    (tmp_path / "folder.png").mkdir()
    status, text, error = demo("--function", "rkhs", picture=tmp_path / "folder.png")
    assert status == 1
    assert error.startswith("kernelucb: no picture: ")
    assert "Recommended after 2 rounds" in text
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    status, _, error = demo("--function", "rkhs")
    assert status == 0
    assert "pip install kernelucb[plot]" in error
    monkeypatch.setattr(Run, "_choose", Mock(side_effect=SolverError("no solution")))
    status, _, error = demo("--function", "rkhs")
    assert (status, error) == (1, "kernelucb: stopped after 0 of 2 rounds: no solution\n")
    monkeypatch.setattr(_demo, "Run", Mock(side_effect=KeyboardInterrupt))
    assert demo()[::2] == (130, "kernelucb: interrupted\n")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--function", "brannin"], "must be one of branin, "),
        (["--delta", "1"], "delta must lie strictly between 0 and 1"),
        (["--estimate", "--norm-bound", "5"], "not allowed with --estimate"),
    ],
)
def test_wrong_name_or_value_is_one_line_and_status_2(options, message, demo):
    status, text, error = demo(*options)
    assert (status, text, error.count("\n")) == (2, "", 1)
    assert message in error
