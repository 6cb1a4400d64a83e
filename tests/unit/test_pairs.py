r"""``confirm``: intervals by other means, false calls and power, the command."""

import math
import subprocess
import sys

import numpy as np
import pytest
from scipy import integrate, stats

from kernelucb import confirm
from kernelucb.__main__ import main
from kernelucb.pairs import NARROWEST, read_outcomes

A, B = [0.1, -0.3, 0.2, 0.4, -0.1, 0.0], [1.2, 0.9, 1.4, 1.1, 0.6, 1.3]


def only(first, second, **options):
    (part,) = confirm({"a": first, "b": second}, **options).parts
    return part


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
        ("1 2\n3 4\n", {}, {"setting 1": [1, 3], "setting 2": [2, 4]}),
        ("old;new\n0,5;0,75\n1;2\n", {}, {"old": [0.5, 1.0], "new": [0.75, 2.0]}),
        ("old,new\n0.5,0.75\n", {}, {"old": [0.5], "new": [0.75]}),
        (
            "who,y,z\nb,1,0\na,2,0\nb,3,0\n",
            {"setting": "who", "outcome": "y"},
            {"b": [1, 3], "a": [2]},
        ),
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
        ("1\n2\n", [], "two outcomes"),
        ("a,b\n1,x\n", [], "'x' is not a number"),
        ("a,b\n1\n", [], "needs 2 numbers"),
        ("a,b\n1,2\n", ["--setting", "a"], "both --setting"),
        ("a,b\n1,2\n", ["--setting", "a", "--outcome", "q"], "No column 'q'"),
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
    assert reason in capsys.readouterr().err


def test_the_command_answers_without_torch():
    code = (
        "import sys; from kernelucb.__main__ import main; main(['confirm']);"
        "assert 'torch' not in sys.modules and 'numpy' not in sys.modules"
    )
    lines = "\n".join(f"{a} {b}" for a, b in zip(A, B, strict=True))
    done = subprocess.run(
        [sys.executable, "-c", code], input=lines, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "setting 2 against setting 1: better" in done.stdout
    assert "probability 0.95" in done.stdout
