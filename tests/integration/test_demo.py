r"""The demo in-process, with few rounds."""

from dataclasses import replace
from unittest.mock import Mock

import numpy as np
import pytest

from kernelucb.__main__ import FUNCTIONS, main
from kernelucb._demo import show
from kernelucb._demo.problems import make_problem, sobol
from kernelucb._demo.run import Run
from kernelucb.exceptions import SolverError
from tolerances import EPS

PNG_MAGIC = b"\x89PNG"


@pytest.fixture(autouse=True)
def no_display(monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.setenv("COLUMNS", "80")


def run(*arguments, rounds=2):
    return main(["demo", *arguments, "--rounds", str(rounds)])


def words(text):
    return " ".join(text.split())


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("forrester", "hartmann3")]


@pytest.mark.parametrize("function", ["branin", *SLOW])
def test_table_and_picture(function, capsys, tmp_path):
    path = tmp_path / "demo.png"
    assert run("--function", function, "--output", str(path)) == 0
    assert path.read_bytes().startswith(PNG_MAGIC)
    output = capsys.readouterr().out
    assert output.startswith("certified: kernel, mean, noise and norm bound are fixed")
    table = output[output.index(" round  ") : output.index("* how much better")]
    rows = [line.split() for line in table.splitlines() if line.split()]
    assert [row[0] for row in rows if row[0] in ("1", "2")] == ["1", "2"]
    assert "missed the true function somewhere in 0 of 2 rounds" in words(output)
    # The last line is about the smallest of the gaps, the one after all outcomes too.
    assert "(certified, with probability 0.95; the smallest gap of all" in words(output)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_default_run_is_certified_and_keeps_its_promise(function):
    demo = Run(make_problem(function), rounds=3, seed=1)
    rows = list(demo.steps())
    assert demo.certified
    assert demo.band.norm_bound >= demo.problem.function.norm
    assert all(row.covered and row.certificate.certified for row in rows)
    assert all(row.certificate.gap >= demo.regret(row.certificate) for row in rows)
    # Every round is about the same settings, so the gaps can be compared.
    assert demo.best.gap >= demo.regret(demo.best)


@pytest.mark.slow
@pytest.mark.parametrize(("function", "share"), [("forrester", 0.02), ("rkhs", 0.15)])
def test_the_gap_comes_to_say_something(function, share):
    demo = Run(make_problem(function), rounds=10)
    list(demo.steps())
    assert demo.best.gap < share * float(demo.truth.max() - demo.truth.min())


def test_the_smallest_gap_of_all_rounds_is_the_last_word_where_they_hold_at_once():
    demo = Run(make_problem("rkhs"), rounds=3)
    list(demo.steps())
    smallest = demo.best
    assert smallest.gap == min(each.gap for each in demo.certificates)
    later = replace(demo.certificate, gap=10 * smallest.gap)
    demo.certificate, kept = later, demo.played
    demo.played = [replace(kept[0], certificate=smallest)]
    assert demo.best is smallest
    demo.messages.append("no function fits")  # then nothing holds at once
    assert demo.best is later


def matern(function, X):
    r"""The kernel between points and the centres, extended precision."""
    base = function.kernel.base_kernel
    lengths = base.lengthscale.numpy().astype(np.longdouble).ravel()
    inputs, centres = (each.numpy() / lengths for each in (X, function.centres))
    squares = sum(
        np.subtract.outer(left, right) ** 2
        for left, right in zip(inputs.T, centres.T, strict=True)
    )
    scaled = np.sqrt(2 * np.longdouble(base.nu) * squares)
    factor = {1.5: 1 + scaled, 2.5: 1 + scaled + scaled**2 / 3}[base.nu]
    return np.longdouble(function.kernel.outputscale) * factor * np.exp(-scaled)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_norm_and_values_are_those_of_the_expansion(function):
    problem = make_problem(function)
    black_box = problem.function
    weights = black_box.weights.numpy().astype(np.longdouble)
    norm = np.sqrt(weights @ matern(black_box, black_box.centres) @ weights)
    # Four digits, rounded up.
    assert norm <= black_box.norm <= problem.norm_bound <= norm * (1 + 1.01e-3)
    # The round-off of a kernel value is derived in `Expansion.norm`.
    dimension = problem.bounds.shape[-1]
    scaled = (problem.bounds / black_box.kernel.base_kernel.lengthscale).abs().max()
    entry = 10 + 10 * dimension * (dimension + 4) * float(scaled) ** 2 + len(weights)
    scale = float(black_box.kernel.outputscale * black_box.weights.abs().sum())
    queries = sobol(problem.bounds, 5, seed=6)
    values = black_box.mean + matern(black_box, queries) @ weights
    assert np.abs(black_box(queries).numpy() - values).max() <= entry * EPS * scale


def test_norm_estimate_is_said_and_never_called_certified(capsys):
    arguments = ("--function", "branin", "--estimate", "--seed", "1", "--no-picture")
    assert run(*arguments) == 0
    output = capsys.readouterr().out
    output = words(output)
    assert output.startswith("heuristic: norm estimated: in every round, from the data.")
    assert "[estimated] the RKHS norm of f - mean" in output
    assert "(not certified; heuristic: norm estimated)." in output
    assert "certified:" not in output
    assert "smallest gap" not in output


def test_contradicted_norm_is_reported(capsys, tmp_path):
    path = str(tmp_path / "demo.png")
    assert run("--function", "rkhs", "--norm-bound", "0.5", "--output", path) == 0
    output = capsys.readouterr().out
    output = words(output)
    assert "Warning: No function of norm at most 0.5 fits the data" in output
    assert "no guarantee: norm violated, contradicted by the data)" in output


def test_interrupted_run_prints_the_table_and_writes_the_picture(
    tmp_path, capsys, monkeypatch
):
    path = tmp_path / "demo.png"
    original = Run._choose

    def interrupt_in_round_two(self, number):
        if number == 2:
            raise KeyboardInterrupt
        return original(self, number)

    monkeypatch.setattr(Run, "_choose", interrupt_in_round_two)
    assert run("--function", "rkhs", "--output", str(path), rounds=5) == 130
    captured = capsys.readouterr()
    assert "interrupted after 1 of 5 rounds" in captured.err
    assert "What the band rests on" in captured.out
    assert path.read_bytes().startswith(PNG_MAGIC)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--function", "brannin"], "invalid choice: 'brannin'"),
        (["--delta", "1"], "between 0 and 1, got '1'"),
        (["--estimate", "--norm-bound", "5"], "not allowed with argument --estimate"),
        (["--output", "no/such/folder/picture.png"], "no such folder"),
    ],
)
def test_wrong_name_or_value_is_one_line_and_status_2(arguments, message, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["demo", *arguments])
    assert stop.value.code == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_a_picture_that_cannot_be_written_and_numbers_that_are_none(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(show, "draw", Mock(side_effect=OSError("disk full")))
    path = str(tmp_path / "demo.png")
    assert run("--function", "rkhs", "--output", path) == 1
    assert "no picture: disk full" in capsys.readouterr().err
    monkeypatch.setattr(show, "find_spec", lambda name: None)
    assert run("--function", "rkhs", "--output", path) == 0
    assert "pip install kernelucb[plot]" in words(capsys.readouterr().out)
    monkeypatch.setattr(Run, "_choose", Mock(side_effect=SolverError("no solution")))
    assert run("--function", "rkhs", "--no-picture") == 1
    assert "stopped after 0 of 2 rounds: no solution" in capsys.readouterr().err
    monkeypatch.setattr(show, "run_demo", Mock(side_effect=KeyboardInterrupt))
    assert run() == 130
    assert "interrupted" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        run(rounds="many")
    assert "got 'many'" in capsys.readouterr().err
