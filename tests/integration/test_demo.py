r"""The demo in-process, with few rounds."""

import sys
from unittest.mock import Mock

import numpy as np
import pytest

from kernelucb.__main__ import main
from kernelucb._demo import FUNCTIONS, Run, black_box, conclusion, sobol
from kernelucb.exceptions import SolverError


@pytest.fixture
def demo(tmp_path, capsys):
    def run(*options, rounds=2, picture=tmp_path / "demo.png"):
        where = ["--output", str(picture)] if picture else ["--no-picture"]
        status = main(["demo", *options, *where, "--rounds", str(rounds)])
        printed = capsys.readouterr()
        return status, " ".join(printed.out.split()), printed.err

    return run


@pytest.mark.slow
def test_rounds_and_picture(demo, tmp_path):
    status, text, _ = demo()
    assert status == 0
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")
    assert "certified, if what was given is true" in text
    table = text.partition("gap* x")[2].partition("Picture")[0]
    assert {"1", "2"} <= {*table.split()}
    assert "missed the true function somewhere in 0 of 2 rounds" in text
    assert " certified: at most " in text


# Three rounds with their searches and certificates: a second.
@pytest.mark.representatives("branin")
@pytest.mark.parametrize("function", FUNCTIONS)
def test_default_run_is_certified_and_keeps_its_promise(function):
    demo = Run(function, rounds=3, seed=1, delta=0.05, estimate=False)
    list(demo.steps())
    assert demo.acqf.band.norm_bounds[0] >= demo.function.norm
    assert demo.missed == 0
    assert all(each.certified for each in demo.certificates)
    assert all(each.gap >= demo.regret(each) for each in demo.certificates)
    # Every round is about the same settings, so the gaps can be compared.
    assert demo.best.gap == min(each.gap for each in demo.certificates)
    demo.contradicted = True  # then nothing holds at once
    assert demo.best is demo.certificates[-1]
    assert "\nno guarantee: " in conclusion(demo)


def matern(function, X):
    r"""The kernel between points and the centres, extended precision."""
    base = function.kernel.base_kernel
    lengths = base.lengthscale.numpy().astype(np.longdouble).ravel()
    inputs, centres = (each.numpy() / lengths for each in (X, function.centres))
    pairs = zip(inputs.T, centres.T, strict=True)
    squares = sum(np.subtract.outer(left, right) ** 2 for left, right in pairs)
    scaled = np.sqrt(5 * squares)
    factor = 1 + scaled + scaled**2 / 3
    return np.longdouble(function.kernel.outputscale) * factor * np.exp(-scaled)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_norm_is_that_of_the_expansion(name):
    function = black_box(name)
    weights = function.weights.numpy().astype(np.longdouble)
    norm = np.sqrt(weights @ matern(function, function.centres) @ weights)
    assert norm <= function.norm <= norm * (1 + 2e-6)


def test_norm_estimate_is_said_and_never_called_certified(demo):
    _, text, _ = demo("--estimate", "--seed", "1", picture=None)
    assert "heuristic: norm estimated: " in text
    assert "[estimated] the RKHS norm of f - mean" in text
    assert "certified" not in text


@pytest.mark.slow
def test_interrupted_run_prints_and_draws_what_there_is(demo, tmp_path, monkeypatch):
    point = sobol(black_box("branin").bounds, 1, 0)
    monkeypatch.setattr(Run, "_choose", Mock(side_effect=[point, KeyboardInterrupt]))
    status, text, error = demo(rounds=5)
    assert (status, error) == (130, "kernelucb: interrupted after 1 of 5 rounds\n")
    assert "Recommended: x = " in text
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")


def test_what_ends_a_demo_is_said_in_a_line(demo, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    status, text, error = demo(rounds=1)
    assert status == 1
    assert "pip install kernelucb[plot]" in error
    assert "Recommended: x = " in text
    monkeypatch.setattr(Run, "_choose", Mock(side_effect=SolverError("no solution")))
    status, _, error = demo()
    assert (status, error) == (1, "kernelucb: stopped after 0 of 2 rounds: no solution\n")


def test_a_wrong_name_is_one_line_and_status_2(demo):
    status, text, error = demo("--function", "brannin")
    assert (status, text, error.count("\n")) == (2, "", 1)
    assert "must be one of branin, " in error
