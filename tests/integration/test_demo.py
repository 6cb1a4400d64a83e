r"""The demo in-process, with few rounds."""

import sys

import pytest

from kernelucb.__main__ import main
from kernelucb._demo import loop, picture
from kernelucb._demo.problems import PROBLEMS, make_problem

PNG_MAGIC = b"\x89PNG"


@pytest.fixture(autouse=True)
def no_display(monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.setenv("COLUMNS", "100")


def run(*arguments, rounds=2):
    return main([*arguments, "--rounds", str(rounds)])


def words(text):
    return " ".join(text.split())


@pytest.mark.parametrize("function", sorted(PROBLEMS))
def test_table_and_picture(function, tmp_path, capsys):
    path = tmp_path / "demo.png"
    assert run("--function", function, "--output", str(path)) == 0
    output = capsys.readouterr().out
    for heading in ("round", "best y", "width at x", "gap*", "truth in"):
        assert heading in output
    table = output[output.index(" round ") : output.index("* largest regret")]
    rows = [line.split() for line in table.splitlines() if line.split()]
    rows = [row for row in rows if row[0] in ("1", "2")]
    assert [row[0] for row in rows] == ["1", "2"]
    assert path.read_bytes().startswith(PNG_MAGIC)
    assert f"Picture: {path}" in output


def test_norm_estimate_is_said_and_never_called_certified(capsys):
    assert run("--function", "rkhs", "--no-picture") == 0
    output = words(capsys.readouterr().out)
    assert "each round uses an ESTIMATE from the data" in output
    assert "[estimated] the RKHS norm of f - mean" in output
    assert "not certified, norm estimated" in output
    assert "certified gap" not in output


def test_true_norm_gives_a_certified_gap_above_the_regret():
    settings = loop.Settings(rounds=3, norm_bound=10.0)
    demo = loop.Run(make_problem("rkhs"), settings)
    rows = list(demo.steps())
    assert demo.assumptions.certified
    assert all(row.covered == 1.0 for row in rows)
    assert all(row.gap >= row.regret >= 0.0 for row in rows)
    # The ridge of the computation is 1e-9 of the variance.
    assert demo.norm_of_truth() <= 10.0 * (1 + 1e-6)
    assert demo.norm_of_truth() > 9.9


def test_contradicted_norm_is_reported(capsys):
    assert run("--function", "rkhs", "--norm-bound", "0.5", "--no-picture") == 0
    output = words(capsys.readouterr().out)
    assert "Warning: No function of norm at most 0.5 fits the data" in output
    assert "not certified, norm given and contradicted" in output
    assert "certified gap" not in output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--function", "brannin"], "invalid choice: 'brannin'"),
        (["--rounds", "0"], "whole number above 0, got '0'"),
        (["--rounds", "many"], "whole number above 0, got 'many'"),
        (["--initial", "-1"], "whole number above 0"),
        (["--seed", "-1"], "whole number, 0 or more"),
        (["--noise-std", "0"], "a number above 0, got '0'"),
        (["--norm-bound", "inf"], "a number above 0, got 'inf'"),
        (["--covariance-scale", "nan"], "a number above 0, got 'nan'"),
        (["--delta", "1"], "between 0 and 1, got '1'"),
        (["--form", "exact"], "invalid choice: 'exact'"),
        (["--output", "picture.xyz"], "must end in .png, .pdf, .svg"),
        (["--output", "no/such/folder/picture.png"], "no such folder"),
        (["--colour"], "unrecognized arguments: --colour"),
    ],
)
def test_wrong_name_or_value_is_one_line_and_status_2(arguments, message, capsys):
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_help_explains_every_option(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["--help"])
    assert stop.value.code == 0
    output = capsys.readouterr().out
    for option in loop.Settings.__dataclass_fields__:
        assert f"--{option.replace('_', '-')}" in output
    for name in PROBLEMS:
        assert name in output


def test_interrupted_run_prints_the_table_and_writes_the_picture(
    tmp_path, capsys, monkeypatch
):
    path = tmp_path / "demo.png"
    original = loop.Run._choose

    def interrupt_in_round_two(self, number):
        if number == 2:
            raise KeyboardInterrupt
        return original(self, number)

    monkeypatch.setattr(loop.Run, "_choose", interrupt_in_round_two)
    assert run("--function", "rkhs", "--output", str(path), rounds=5) == 130
    captured = capsys.readouterr()
    assert "interrupted after 1 of 5 rounds" in captured.err
    assert "What the band rests on" in captured.out
    assert path.read_bytes().startswith(PNG_MAGIC)


def test_interrupt_before_the_first_round_ends_cleanly(capsys, monkeypatch):
    def interrupt(self):
        raise KeyboardInterrupt

    monkeypatch.setattr(loop.Run, "_update", interrupt)
    assert run("--function", "rkhs") == 130
    assert capsys.readouterr().err == "kernelucb: interrupted\n"


def test_without_matplotlib_the_table_is_still_printed(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("kernelucb.__main__.find_spec", lambda name: None)
    path = tmp_path / "demo.png"
    assert run("--function", "rkhs", "--output", str(path)) == 0
    assert "pip install kernelucb[plot]" in capsys.readouterr().out
    assert not path.exists()


def test_same_seed_same_run():
    def outcomes():
        settings = loop.Settings(rounds=2, seed=3)
        return [row.y for row in loop.Run(make_problem("branin"), settings).steps()]

    assert outcomes() == outcomes()


@pytest.mark.parametrize("form", ["analytic", "convex"])
def test_other_forms(form, capsys):
    assert run("--function", "rkhs", "--form", form, "--no-picture", rounds=1) == 0
    assert "Recommended" in capsys.readouterr().out


@pytest.mark.parametrize("function", sorted(PROBLEMS))
def test_no_value_lies_below_the_stated_minimum(function):
    problem = make_problem(function)
    demo = loop.Run(problem, loop.Settings(rounds=1))
    # Minima are published to about five digits.
    assert float(demo.truth.min()) >= problem.minimum - 1e-4 * max(1, abs(problem.minimum))


def test_interesting_coordinates_are_two_and_ordered():
    demo = loop.Run(make_problem("hartmann6"), loop.Settings(rounds=1))
    first, second = picture.interesting_coordinates(demo, demo.X[0])
    assert 0 <= first < second < 6


def test_module_is_the_entry_point():
    assert sys.modules["kernelucb.__main__"].main is main
