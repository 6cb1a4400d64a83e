r"""``confirm``: intervals by other means, false calls and power, the command."""

import math
import re
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import integrate, stats

from kernelucb import confirm, pairs
from kernelucb.__main__ import main
from kernelucb.pairs import NARROWEST, read_outcomes

A = [0.1034, -0.3127, 0.2191, 0.4018, -0.1263, 0.0042]
B = [1.2119, 0.9034, 1.4241, 1.1317, 0.6072, 1.3036]


def only(first, second, **options):
    (part,) = confirm({"a": first, "b": second}, **options).parts
    return part


@pytest.mark.slow
def test_the_limits_of_an_unknown_scale_are_where_the_mixture_reaches_the_level():
    r"""Likelihood ratio of t by quadrature over a noncentral t, at the lower limit."""
    found = only(A, B, delta=0.1, expected_runs=4)
    differences, rho = np.subtract(B, A), NARROWEST / 4
    ratios = []
    for n in range(2, 7):
        part = differences[:n]
        t = math.sqrt(n) * (part.mean() - found.lower) / part.std(ddof=1)

        def weighted(effect, t=t, n=n):
            law = stats.nct(n - 1, math.sqrt(n) * effect)
            return law.pdf(t) * stats.norm.pdf(effect, scale=math.sqrt(rho))

        top, _ = integrate.quad(weighted, -15.0, 15.0, limit=200)
        ratios.append(top / stats.t.pdf(t, n - 1))
    assert max(ratios) == pytest.approx(1.0 / 0.1, rel=1e-4)


def test_the_limits_of_a_known_scale_are_those_of_robbins():
    found = only(A, B, noise_std=0.5, expected_runs=4)
    differences, rho = np.subtract(B, A), NARROWEST / 4
    lower = max(
        differences[:n].mean()
        - math.sqrt(0.5)
        * math.sqrt((math.log1p(rho * n) + 2 * math.log(20)) * (1 + 1 / (rho * n)) / n)
        for n in range(1, 7)
    )
    assert found.lower == pytest.approx(lower)


def test_bets_lose_a_mean_outside_the_interval_and_keep_one_inside():
    r"""The hedged capital of Waudby-Smith and Ramdas, written anew, on both sides."""
    rng = np.random.default_rng(1)
    first, second = rng.random(40), 0.6 + 0.4 * rng.random(40)
    found = only(first, second, range=(0.0, 1.0))
    values = (second - first + 1.0) / 2.0

    def most(mean):
        up = down = best = 0.5
        for t in range(1, len(values) + 1):
            means = [(0.5 + values[:s].sum()) / (s + 1) for s in range(1, t)]
            squares = sum((x - m) ** 2 for x, m in zip(values, means, strict=False))
            variance = (0.25 + squares) / t
            bet = math.sqrt(2 * math.log(40.0) / (variance * t * math.log(t + 1)))
            step = values[t - 1] - mean
            up *= 1 + min(bet, 0.75 / mean) * step
            down *= 1 - min(bet, 0.75 / (1 - mean)) * step
            best = max(best, up, down)
        return best

    for limit, inside in ((found.lower, 1e-4), (found.upper, -1e-4)):
        assert most((limit + inside + 1.0) / 2.0) < 20.0
        assert most((limit - inside + 1.0) / 2.0) >= 20.0


RULES = {
    "unknown scale": ({}, lambda rng, n: rng.normal(0.0, 3.0, n)),
    "known scale": ({"noise_std": 1.0}, lambda rng, n: rng.normal(0.0, 1.0, n)),
    "range": ({"range": (0.0, 1.0)}, lambda rng, n: rng.beta(0.3, 0.6, n)),
}


# With the false alarm and power of its docstring: a second.
@pytest.mark.representatives("unknown scale")
@pytest.mark.parametrize("rule", RULES)
def test_a_null_is_called_seldom_with_a_look_after_every_pair(rule):
    r"""400 nulls of 30 pairs at delta 0.2: more than 108 calls have chance 1e-4 at 0.2."""
    options, draw = RULES[rule]
    rng = np.random.default_rng(2)
    verdicts = [
        only(draw(rng, 30), draw(rng, 30), delta=0.2, **options).verdict for _ in range(400)
    ]
    calls = sum(verdict != "not decided" for verdict in verdicts)
    assert 0 < calls <= 108  # limits so far are intersected: a call once is a call


@pytest.mark.parametrize("rule", RULES)
def test_a_difference_of_two_deviations_is_found_in_thirty_pairs(rule):
    options, draw = RULES[rule]
    rng = np.random.default_rng(3)
    found = 0
    for _ in range(50):
        first = draw(rng, 30)
        second = first[rng.permutation(30)] + (6.0 if rule == "unknown scale" else 2.0)
        if rule == "range":
            first, second = 0.3 * first, 0.7 + 0.3 * draw(rng, 30)
        found += only(first, second, **options).verdict == "better"
    assert found == 50


def rounded_limits(noise, step, mean, count, rng, runs, **options):
    r"""Of pairs rounded to a step, the share of limits without the true difference.

    Of the outcomes as they are before rounding, and of the rounded ones; and the share of
    runs that are decided.
    """
    lattice = step * np.arange(-60, 61)
    ends = lattice[:, None] + step * np.array([-0.5, 0.5])
    means = [
        float(lattice @ np.diff(stats.norm.cdf(ends, each, noise), axis=1)[:, 0])
        for each in (mean, 0.3 * step)
    ]
    truths = np.array([mean - 0.3 * step, means[0] - means[1]])
    missed, decided = np.zeros(2), 0
    for _ in range(runs):
        sides = np.array([[0.3 * step], [mean]]) + noise * rng.normal(size=(2, count))
        found = only(*(step * np.round(sides / step)), **options)
        missed += (truths < found.lower) | (truths > found.upper)
        decided += found.verdict in ("better", "worse")
    return [*missed / runs, decided / runs]


ROUNDED = [(0.02, 1.0), (0.2, 1.0), (0.35, 1.0), (0.7, 1.0), (1.0, 1.0), (0.3, 0.05)]


@pytest.mark.representatives("0.35-1.0")
@pytest.mark.parametrize(("noise", "step"), [(0.1, 1.0), (0.35, 1.0), (0.7, 1.0)])
def test_rounding_does_not_narrow_limits(noise, step):
    r"""40 runs of 12 pairs at delta 0.2: 22 misses have chance below 1e-5 at 0.2."""
    rng = np.random.default_rng(6)
    found = rounded_limits(noise, step, 0.55 * step, 12, rng, 40, delta=0.2)
    assert max(found[:2]) < 22 / 40
    assert found[2] < 1.0


@pytest.mark.slow
@pytest.mark.parametrize(("noise", "step"), ROUNDED)
@pytest.mark.parametrize("place", [0.3, 0.45, 0.55, 0.8])
def test_rounded_outcomes_are_called_seldom(noise, step, place):
    r"""300 runs of 60 pairs at delta 0.2: more than 90 misses have chance 3e-5 at 0.2."""
    rng = np.random.default_rng(7)
    options = {"delta": 0.2, "expected_runs": 4}
    found = rounded_limits(noise, step, place * step, 60, rng, 300, **options)
    assert max(found[:2]) <= 90 / 300


@pytest.mark.slow
@pytest.mark.parametrize(("noise", "step"), ROUNDED[1:])
def test_a_rounded_difference_of_three_steps_and_two_deviations_is_found(noise, step):
    r"""In 95 of 100 runs of 40 pairs: rounding costs at most a step of each limit.

    Not where each setting has one outcome only: their difference may then be the step.
    """
    rng = np.random.default_rng(8)
    mean = 0.3 * step + 3.0 * step + 2.0 * noise
    assert rounded_limits(noise, step, mean, 40, rng, 100)[2] >= 0.95


def test_equal_differences_show_no_scale():
    for first, second in (([12.0] * 5, [13.0] * 5), ([7.1, 7.4, 7.2, 7.1] * 9, None)):
        second = second or [x + 0.1 for x in first]
        found = only(first, second)
        step = second[0] - first[0]
        assert found.lower < 0.0  # nor a sign, as a step could be rounding
        assert found.upper > 2.0 * step
        assert found.rounding == pytest.approx(step)
        assert "rounding to steps of" in str(found)
    equal = only([3.5] * 30, [3.5] * 30)
    assert equal.lower == -math.inf
    assert "no limits yet" in str(equal)
    # A scatter beyond the step needs no allowance.
    assert only(A, B).rounding == 0.0


def test_limits_of_rounded_outcomes_are_those_of_the_worst_rounding_errors():
    r"""Among errors of at most a step that a search finds, none leads further."""
    first, second = [1.0, 1, 2, 1, 1, 1, 2, 1], [3.0, 3, 3, 4, 3, 3, 3, 3]
    rng, found = np.random.default_rng(9), only(first, second)
    rule = pairs._UnknownScale(0.05, NARROWEST / 10)
    differences = np.subtract(second, first)
    for n in range(5, 9):
        for errors in rng.uniform(-1.0, 1.0, (200, n)):
            moved = differences[:n] - errors
            squares = float(((moved - moved.mean()) ** 2).sum())
            half = rule.half_width(n, squares, 0.0)
            most = rule.half_width(n, float(differences[:n].var() * n), found.rounding)
            assert abs(moved.mean() - differences[:n].mean()) + half <= most + 1e-12


def test_steps_are_found_under_round_off():
    rng = np.random.default_rng(10)
    whole = rng.integers(-40, 40, 30)
    for step, offset in ((0.1, 0.0), (0.05, 3.0), (5.0 / 9.0, -160.0 / 9.0), (2.5, 1e6)):
        values = (step * whole + offset).tolist()
        assert pairs._step(values) == pytest.approx(step, rel=1e-6)
    assert pairs._step(rng.normal(size=30).tolist()) < 1e-7


def test_several_challengers_share_delta_and_small_may_be_better():
    shared = confirm({"a": A, "b": B, "c": A}, delta=0.1)
    assert shared.parts[0].lower == only(A, B, delta=0.05).lower
    assert only(A, B, minimize=True).verdict == "worse"
    assert only(B, A, minimize=True).verdict == "better"
    assert confirm({"a": A, "b": B}, "b").parts[0].verdict == "worse"
    assert only(A, B[:3]).pairs == 3
    assert "no limits yet" in str(only(A[:1], B[:1]))


def test_a_difference_that_moved_is_no_improvement():
    late = [10.0, 9.9, 10.1, 9.8, 10.2] * 8
    found = only([0.0] * 80, late + [-each for each in late], noise_std=0.5)
    assert found.lower > found.upper
    assert found.verdict == "contradicted"
    assert "contradicted (mean difference" in str(found)
    assert "by different looks above" in str(found)


def test_an_outlook_is_near_the_number_of_pairs_that_decides():
    rng = np.random.default_rng(4)
    noise = rng.normal(0.0, 1.0, 400)
    found = only(np.zeros(20), 0.5 + noise[:20] - noise[:20].mean())
    assert found.verdict == "not decided"
    repeated = [*(0.5 + noise[:20] - noise[:20].mean())] * 20
    needed = next(n for n in range(20, 400) if only([0] * n, repeated[:n]).lower > 0)
    assert abs(found.outlook - needed) <= 20


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        ("1 2\n3 4\n", {"columns": ["a", "b"]}, {"a": [1, 3], "b": [2, 4]}),
        ("18;20\n6;7\n", {"columns": ["18", "20"]}, {"18": [6], "20": [7]}),
        ("x,a,b\nu,3,4\n", {"columns": ["b", "a"]}, {"b": [4], "a": [3]}),
        ("a;b\n1.012;985\n", {"decimal": ","}, {"a": [1012], "b": [985]}),
        ("a;b\n1,5 %;2 %\n", {}, {"a": [1.5], "b": [2]}),
        ("old;new\n0,5;0,75\n1;2\n", {}, {"old": [0.5, 1.0], "new": [0.75, 2.0]}),
        ("old,new\n0.5,0.75\n", {}, {"old": [0.5], "new": [0.75]}),
        (
            "who,y,z\nb,1,0\na,2,0\nb,3,0\n",
            {"setting": "who", "outcome": "y"},
            {"b": [1, 3], "a": [2]},
        ),
        ("t,y\n180,1\n200,2\n", {"setting": "t", "outcome": "y"}, {"180": [1], "200": [2]}),
    ],
)
def test_tables_are_read(tmp_path, text, options, expected):
    table = tmp_path / "runs.csv"
    table.write_text(text)
    assert read_outcomes(table, **options) == expected


@pytest.mark.parametrize(
    ("text", "options", "reason"),
    [
        ("", [], "empty"),
        ("a\n2\n", [], "two outcomes"),
        ("180,200\n6,7\n", [], "names of the settings, --columns A,B"),
        ("trial,a,b\n0,6,7\n1,5,8\n", [], "'trial' counts the rows"),
        (",a,b\n0,6,7\n1,5,8\n", [], "'column_1' counts the rows"),
        ("day,a,b\nMo,6,7\n", [], "'day' has 'Mo' in row 2: .*, or name the columns"),
        ("a,b,b \n1,2,3\n", [], "not one column 'b'"),
        ("a;b\n1.012;985\n", [], "'1.012' in row 2: say which is the decimal mark"),
        ("a\tb\n1.012\t985\n", [], "'1.012' in row 2: say which is the decimal mark"),
        ("a;b\n5 %;6\n", [], "Units of columns must be the same"),
        ("a,b\n\n1,2\n3,<4\n", [], "'<4' in row 4: .* lost because of its outcome"),
        ("t,y\n,3\n", ["--setting", "t", "--outcome", "y"], "'t' is blank in row 2"),
        ("t,y\n1,3\n1.0,4\n", ["--setting", "t", "--outcome", "y"], "is 1 and 1.0, one"),
        ("a,b\n1,x\n", [], "'x' is not a number"),
        ("a,b\n1,2\n", ["--setting", "a"], "both --setting"),
        ("a,b\n1,2\n", ["--setting", "a", "--outcome", "q"], "not one column 'q'"),
        ("a,b\n1,2\n", ["--against", "c"], "one of a, b"),
        ("a,b\n1,2\n", ["--range", "0:1"], "outside the range"),
        ("a,b\n1,2\n", ["--range", "0:1", "--noise-std", "1"], "not both"),
        ("a,b\n1,inf\n", [], "finite"),
        ("a,b\n1,2\n", ["--delta", "2"], "between 0 and 1"),
    ],
)
def test_the_command_refuses_in_one_line(tmp_path, capsys, text, options, reason):
    table = tmp_path / "runs.csv"
    table.write_text(text)
    assert main(["confirm", str(table), *options]) == 2
    error = capsys.readouterr().err
    assert re.search(reason, error)
    assert error.count("\n") == 1


def test_an_empty_cell_takes_its_partner_and_shifts_no_pair(tmp_path):
    table, expected = tmp_path / "runs.csv", only([1.5, 4.25, 2.0], [2.5, 5.5, 3.75])
    for text, options in (
        ("a,b\n1.5,2.5\n,7\n4.25,5.5\n2,3.75\n9\n", {}),
        ("s,y\na,1.5\nb,2.5\na,\nb,7\na,4.25\nb,5.5\na,2\nb,3.75\na,9\n", {"setting": "s"}),
    ):
        table.write_text(text)
        read = read_outcomes(table, **options, outcome="y" if options else None)
        (found,) = confirm(read).parts
        assert replace(found, unpaired=0) == expected
        assert found.unpaired == 2
        assert "not used: 2 without a partner" in str(found)


@pytest.mark.parametrize(
    "column",
    [
        [1.5, None, 4.25, math.nan, 2.0],
        pd.array([1.5, None, 4.25, None, 2.0], dtype="Float64"),
        pd.Categorical([1.5, None, 4.25, None, 2.0]),
        ["1.5", "", "4.25", "NA", "2"],
        np.array([1.5, np.nan, 4.25, np.nan, 2.0]),
    ],
)
def test_what_is_missing_in_python_takes_its_partner(column):
    frame = pd.DataFrame({"a": column, "b": [2.5, 7.0, 5.5, 8.0, 3.75]})
    expected = only([1.5, 4.25, 2.0], [2.5, 5.5, 3.75], minimize=True)
    for given in (frame, {"a": column, "b": frame["b"]}):
        (found,) = confirm(given, minimize=True).parts
        assert replace(found, unpaired=0) == expected


def test_an_index_of_a_frame_is_no_setting():
    frame = pd.DataFrame({"Unnamed: 0": [0, 1, 2], "a": [3, 4.5, 4], "b": [6, 5, 7.5]})
    with pytest.raises(ValueError, match="'Unnamed: 0' counts the rows"):
        confirm(frame)
    twice = pd.DataFrame([[1.0, 2.0, 3.0]], columns=["a", "b", "b"])
    with pytest.raises(ValueError, match="not one column 'b'"):
        confirm(twice)
    assert confirm({180: [1, 2], 200: [2, 4]}, against=200).parts[0].challenger == "180"


def test_the_command_answers_without_torch():
    code = (
        "import sys; from kernelucb.__main__ import main; main(['confirm']);"
        "assert 'torch' not in sys.modules and 'numpy' not in sys.modules"
    )
    lines = "old new\n" + "\n".join(f"{a} {b}" for a, b in zip(A, B, strict=True))
    done = subprocess.run(
        [sys.executable, "-c", code], input=lines, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "new against old: better" in done.stdout
    assert "probability 0.95" in done.stdout
