r"""The demo in-process, with few rounds."""

import json
import sys
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.trust.demo import FUNCTIONS, Task, play
from kernelucb.__main__ import main
from kernelucb._demo import loop, picture
from kernelucb._demo.expansion import sobol
from kernelucb._demo.problems import PROBLEMS, make_problem
from tolerances import EPS

PNG_MAGIC = b"\x89PNG"


@pytest.fixture(autouse=True)
def no_display(monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.setenv("COLUMNS", "80")


def run(*arguments, rounds=2):
    return main([*arguments, "--rounds", str(rounds)])


def words(text):
    return " ".join(text.split())


def has_certified_gap(output):
    r"""Whether a column is headed so: the heading is the one place that names it alone."""
    heading = output[: output.index(" round ")].splitlines()[-1]
    return "certified" in heading


@pytest.mark.parametrize("function", sorted(PROBLEMS))
def test_table(function, capsys):
    assert run("--function", function, "--no-picture") == 0
    output = capsys.readouterr().out
    assert max(len(line) for line in output.splitlines()) <= 80
    for heading in ("round", "best y", "width", "gap*", "truth"):
        assert heading in output
    assert has_certified_gap(output)
    table = output[output.index(" round ") : output.index("* largest regret")]
    rows = [line.split() for line in table.splitlines() if line.split()]
    rows = [row for row in rows if row[0] in ("1", "2", "end")]
    assert [row[0] for row in rows] == ["1", "2", "end"]
    assert {tuple(row[-2:]) for row in rows} == {("100", "%")}
    # The last line says what the last row says.
    gap = rows[-1][-3]
    assert f"is at most {gap} (certified, with probability" in words(output).split(". ")[-1]


@pytest.mark.parametrize("function", ["forrester", "branin", "hartmann6"])
def test_picture(function, tmp_path, capsys):
    path = tmp_path / "demo.png"
    assert run("--function", function, "--output", str(path), rounds=1) == 0
    assert path.read_bytes().startswith(PNG_MAGIC)
    assert f"Picture: {path}" in capsys.readouterr().out


def matern(problem, X):
    r"""The kernel between points of the box and the centres, extended precision."""
    base = problem.function.base
    low, high = problem.bounds.numpy().astype(np.longdouble)
    inputs = (X.numpy().astype(np.longdouble) - low) / (high - low)
    centres = problem.function.centres.numpy().astype(np.longdouble)
    squares = sum(
        np.subtract.outer(left, right) ** 2
        for left, right in zip(inputs.T, centres.T, strict=True)
    )
    scaled = np.sqrt(2 * np.longdouble(base.nu) * squares) / np.longdouble(base.lengthscale)
    factor = {1.5: 1 + scaled, 2.5: 1 + scaled + scaled**2 / 3}[base.nu]
    return np.longdouble(problem.function.kernel.outputscale) * factor * np.exp(-scaled)


@pytest.mark.parametrize("function", sorted(PROBLEMS))
def test_norm_and_values_are_those_of_the_expansion(function):
    problem = make_problem(function)
    black_box, (low, high) = problem.function, problem.bounds
    weights = black_box.weights.numpy().astype(np.longdouble)
    points = low + black_box.centres * (high - low)
    norm = np.sqrt(weights @ matern(problem, points) @ weights)
    # Four digits, rounded up.
    assert norm <= black_box.norm <= problem.norm_bound <= norm * (1 + 1.01e-3)
    # The round-off of a kernel value is derived in `Expansion.norm`.
    length = float(black_box.base.lengthscale)
    entry = 10 + 10 * problem.dimension * (problem.dimension + 4) / length**2 + len(weights)
    scale = float(black_box.kernel.outputscale * black_box.weights.abs().sum())
    queries = sobol(problem.bounds, 5, seed=6)
    exact = black_box.mean + matern(problem, queries) @ weights
    assert np.abs(black_box(queries).numpy() - exact).max() <= entry * EPS * scale


@pytest.mark.parametrize("function", sorted(PROBLEMS))
def test_default_run_is_certified_and_keeps_its_promise(function):
    demo = loop.Run(make_problem(function), loop.Settings(rounds=3, seed=1))
    rows = list(demo.steps())
    assert demo.certified
    assert demo.norm_status == "known"
    assert demo.acquisition.norm_bound >= demo.problem.function.norm
    assert all(row.covered == 1.0 for row in rows)
    assert all(row.gap >= row.regret >= 0.0 for row in rows)


@pytest.mark.parametrize("function", sorted(set(PROBLEMS) - {"rkhs"}))
def test_distance_from_the_named_function_is_said(function):
    problem = make_problem(function)
    original = problem.original
    assert 0.0 < original.typical < original.largest
    assert abs(problem.function.minimum - original.minimum) <= original.largest
    # The shape is kept; six inputs are the hardest, with 0.19.
    spread = float(problem.function.kernel.outputscale) ** 0.5
    assert original.typical < 0.2 * spread


def test_opening_says_where_the_numbers_come_from(capsys):
    assert run("--no-picture", rounds=1) == 0
    output = capsys.readouterr().out
    assert output.startswith("certified: kernel, mean and noise are known")
    opening = words(output[: output.index(" round ")])
    problem = make_problem("branin")
    assert f"differs by at most {problem.original.largest:.2g}" in opening
    assert f"follows from its weights: {problem.function.norm:.4g}." in opening
    assert "The norm bound is that, rounded up." in opening
    assert "no finite norm" not in opening


def test_kink_is_explained(capsys):
    assert run("--function", "ackley", "--no-picture", rounds=1) == 0
    output = words(capsys.readouterr().out)
    assert "Ackley itself has a kink and therefore no finite norm" in output
    assert "a wide band and a large gap" in output


def test_norm_estimate_is_said_and_never_called_certified(capsys):
    arguments = ("--function", "branin", "--estimate", "--seed", "1", "--no-picture")
    assert run(*arguments) == 0
    output = capsys.readouterr().out
    assert not has_certified_gap(output)
    output = words(output)
    assert output.startswith("heuristic: norm estimated: in every round, from the data.")
    assert "[estimated] the RKHS norm of f - mean" in output
    assert "not certified, norm estimated" in output
    assert "somewhere on the candidates in 2 of 2 rounds" in output
    assert "certified:" not in output


def test_sufficient_norm_bound_is_certified_and_said_to_be_given(capsys):
    assert run("--function", "rkhs", "--norm-bound", "12", "--no-picture") == 0
    output = capsys.readouterr().out
    assert has_certified_gap(output)
    assert output.startswith("certified:")
    assert "The norm bound, 12, was given." in words(output)


def test_too_small_norm_bound_is_said_before_the_data_show_it(capsys):
    assert run("--norm-bound", "8", "--no-picture") == 0
    output = capsys.readouterr().out
    assert not has_certified_gap(output)
    output = words(output)
    assert output.startswith(
        "no guarantee: norm violated: the norm bound given, 8, is too small for this "
        f"function, whose norm is {make_problem('branin').function.norm:.6g}. The band may "
        "miss it."
    )
    assert "Warning:" not in output
    assert "not certified, norm given, too small" in output


def test_contradicted_norm_is_reported(capsys):
    assert run("--function", "rkhs", "--norm-bound", "0.5", "--no-picture") == 0
    output = capsys.readouterr().out
    assert not has_certified_gap(output)
    output = words(output)
    assert "Warning: No function of norm at most 0.5 fits the data" in output
    assert "norm given, too small, contradicted by the data" in output


def test_contradicted_in_any_round_is_not_certified():
    demo = loop.Run(make_problem("rkhs"), loop.Settings(rounds=1))
    assert demo.certified
    demo.messages.append("the set was empty in an earlier round")
    assert not demo.certified
    assert demo.norm_status == "known, contradicted by the data"


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
        (
            ["--estimate", "--norm-bound", "5"],
            "argument --norm-bound: not allowed with argument --estimate",
        ),
        (["--output", "picture.xyz"], "must end in .png, .pdf, .svg"),
        (["--output", "no/such/folder/picture.png"], "no such folder"),
        (["--output", "/dev/null/picture.png"], "no such folder"),
        (["--bounds=0:1"], "--bounds is for --function module:name only"),
        (["--function", "module:", "--estimate"], "invalid choice: 'module:'"),
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
    for module in ("command", "options"):
        monkeypatch.setattr(f"kernelucb._demo.{module}.find_spec", lambda name: None)
    path = tmp_path / "demo.png"
    assert run("--function", "rkhs", "--output", str(path)) == 0
    assert "pip install kernelucb[plot]" in capsys.readouterr().out
    assert not path.exists()


def test_same_seed_same_run():
    def outcomes(seed):
        settings = loop.Settings(rounds=2, seed=seed)
        return [row.y for row in loop.Run(make_problem("branin"), settings).steps()]

    assert outcomes(3) == outcomes(3)


def test_noise_of_another_seed_is_another():
    def noise(seed):
        demo = loop.Run(make_problem("rkhs"), loop.Settings(seed=seed))
        return demo.Y.squeeze(-1) - demo.problem.function(demo.X)

    assert float((noise(0) - noise(1)).abs().min()) > 0.0
    assert float(noise(0).abs().min()) > 0.0


@pytest.mark.parametrize("form", ["analytic", "convex"])
def test_other_forms(form, capsys):
    assert run("--function", "rkhs", "--form", form, "--no-picture", rounds=1) == 0
    assert "Recommended" in capsys.readouterr().out


@pytest.mark.parametrize("function", sorted(PROBLEMS))
def test_no_value_lies_below_the_stated_minimum(function):
    problem = make_problem(function)
    others = problem.function(sobol(problem.bounds, 1024, seed=5))
    assert float(others.min()) >= problem.function.minimum


def test_interesting_coordinates_are_two_and_ordered():
    demo = loop.Run(make_problem("hartmann6"), loop.Settings(rounds=1))
    first, second = picture.interesting_coordinates(demo, demo.X[0])
    assert 0 <= first < second < 6


def test_picture_says_where_the_norm_is_from():
    problem = make_problem("rkhs")
    known = loop.Run(problem, loop.Settings(rounds=1))
    estimated = loop.Run(problem, loop.Settings(rounds=1, estimate=True))
    assert "bands of level 0.95 (norm known)" in picture._title(known)
    assert "bands not certified (norm estimated)" in picture._title(estimated)
    assert "exact band (norm known)" in picture.comparison(known)
    assert "exact band (norm estimated)" in picture.comparison(estimated)


def test_regret_of_zero_stays_in_the_picture():
    demo = loop.Run(make_problem("rkhs"), loop.Settings(rounds=1))
    demo.rounds = [replace(row, regret=0.0) for row in demo.steps()]
    axes = picture.load_pyplot().figure().subplots()
    picture._draw_gap(demo, axes)
    low, high = axes.get_ylim()
    assert low < 0.0 < demo.rounds[0].gap < high
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels == ["largest possible (certified gap)", "true"]


@pytest.mark.parametrize(("estimate", "missed"), [(False, 0), (True, 2)])
def test_counted_runs_are_the_demos(estimate, missed):
    counted = vars(play(Task("branin", estimate, rounds=2, seed=1)))
    settings = loop.Settings(rounds=2, seed=1, estimate=estimate)
    rows = list(loop.Run(make_problem("branin"), settings).steps())
    assert json.loads(json.dumps(counted)) == counted
    assert counted["missed_rounds"] == missed == sum(row.covered < 1.0 for row in rows)
    assert counted["gap_below_regret_rounds"] == 0
    assert (counted["final_gap"], counted["final_regret"]) == (
        rows[-1].gap,
        rows[-1].regret,
    )
    assert (counted["norm_bound"] >= counted["norm"]) is not estimate
    assert set(FUNCTIONS) == set(PROBLEMS)


def test_module_is_the_entry_point():
    assert sys.modules["kernelucb.__main__"].main is main
