r"""Command line: ``python -m benchmarks.confirm calls``."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from benchmarks.runner import stream
from benchmarks.runner.study import Settings, Study, Summary, grid
from kernelucb import SequentialComparison
from kernelucb.pairs import confirm

STUDY = Study("benchmarks.confirm", "Is an improvement real: false calls and power.")
PROTOCOL = {"runs": 2000, "delta": 0.05}
PAIRS = [5, 10, 20, 50, 100]
Array = np.ndarray[Any, Any]


def _accuracy(rng: np.random.Generator, shape: tuple[int, int], effect: float) -> Array:
    r"""Shares of 20 right answers; the effect is in deviations of a difference."""
    deviation = np.sqrt(2.0 * 0.7 * 0.3 / 20)
    return rng.binomial(20, 0.7 + effect * deviation, shape) / 20


# Outcomes with a standard deviation of the difference of 1, but those of a range.
LAWS: dict[str, Callable[[np.random.Generator, tuple[int, int], float], Array]] = {
    "Gaussian": lambda rng, shape, effect: rng.normal(effect, np.sqrt(0.5), shape),
    "exponential": lambda rng, shape, effect: effect + rng.exponential(np.sqrt(0.5), shape),
    "accuracy of 20": _accuracy,
    "skewed": lambda rng, shape, effect: effect + rng.exponential(1.0, shape),
}
RULES: dict[str, dict[str, Any]] = {
    "confirm": {},
    "confirm, known scale": {"noise_std": float(np.sqrt(0.5))},
    "confirm, range": {"range": (0.0, 1.0)},
}
TESTS = ("t-test after every pair", "t-test at this look alone")
FAIR = [
    {"law": law, "rule": rule}
    for law in LAWS
    for rule in [*RULES, *TESTS]
    if (law == "Gaussian" or rule != "confirm, known scale")
    and (law == "accuracy of 20" or rule != "confirm, range")
]


def _verdict(first: list[float], second: list[float], delta: float, rule: str) -> str:
    return confirm({"a": first, "b": second}, delta=delta, **RULES[rule]).parts[0].verdict


def _tested(differences: Array, delta: float, peeks: bool) -> tuple[Array, Array]:
    r"""Where the t-test says better and worse; the first call stands if it peeks."""
    counts = np.arange(1, PAIRS[-1] + 1)
    means = differences.cumsum(-1) / counts
    squares = (differences**2).cumsum(-1) - counts * means**2
    with np.errstate(divide="ignore", invalid="ignore"):
        t = means * np.sqrt(counts * (counts - 1) / squares)
        calls = np.sign(t) * (np.abs(t) > stats.t.ppf(1.0 - delta / 2.0, counts - 1))
    calls[:, 0] = 0.0
    if peeks:
        first = np.where((calls != 0.0).any(-1), (calls != 0.0).argmax(-1), PAIRS[-1])
        sign = calls[np.arange(len(calls)), np.minimum(first, PAIRS[-1] - 1)]
        calls = sign[:, None] * (first[:, None] < counts)
    at = calls[:, np.array(PAIRS) - 1]
    return at > 0.0, at < 0.0


def play(settings: Settings) -> dict[str, Any]:
    r"""Shares of runs that were called by each number of pairs, and called wrongly."""
    rng = stream(
        0, settings["law"], str(settings["effect"])
    )  # the same pairs for all rules
    shape = settings["runs"], PAIRS[-1]
    law = LAWS[settings["law"]]
    first, second = law(rng, shape, 0.0), law(rng, shape, settings["effect"])
    if settings["law"] == "skewed":  # against outcomes without noise, of the same mean
        first = np.ones(shape)
    rule, delta = settings["rule"], settings["delta"]
    if rule in RULES:
        verdicts = [
            [_verdict(a[:count], b[:count], delta, rule) for count in PAIRS]
            for a, b in zip(first.tolist(), second.tolist(), strict=True)
        ]
        better, worse = (np.array(verdicts) == word for word in ("better", "worse"))
    else:
        better, worse = _tested(second - first, delta, rule == TESTS[0])
    return {
        "called": (better | worse).mean(0).tolist(),
        "better": better.mean(0).tolist(),
    }


@STUDY.table("calls", grid(PROTOCOL, {"effect": [0.0, 0.5, 1.0, 2.0]}, FAIR), play)
def calls(runs: pd.DataFrame) -> Summary:
    r"""Shares of runs in which a difference was called, by the number of pairs."""
    lines = [
        "Share of 2000 runs in which a challenger was called better (of effect 0: better "
        "or worse, always falsely; standard error 0.005) after at most so many pairs, "
        "delta 0.05. Effect in standard deviations of a difference. Skewed: an exponential "
        "law against a constant of the same mean.",
        "",
        "| outcomes | effect | rule | " + " | ".join(map(str, PAIRS)) + " |",
        "|" + "---|" * (3 + len(PAIRS)),
    ]
    for row in runs.sort_values(["law", "effect"], kind="stable").itertuples():
        shares = row.called if row.effect == 0.0 else row.better
        cells = " | ".join(f"{share:.3f}" for share in shares)
        lines.append(f"| {row.law} | {row.effect:g} | {row.rule} | {cells} |")
    return Summary(None, lines)


MANY = {
    "streams": 100,
    "candidates": 50,
    "most": 40,
    "delta": 0.05,
    "seed": range(100, 110),
}
EFFECTS = (1.0, 1.5, 2.0)  # of the better ones, standard deviations of an outcome
PLANS = [15, 20, 30, 40]  # pairs of every candidate, fixed beforehand


def play_many(settings: Settings) -> dict[str, Any]:
    r"""Streams with a false verdict, better ones found and runs, in all streams."""
    rng = stream(settings["seed"], "many")
    count = settings["candidates"]
    names = [f"c{i}" for i in range(count)]
    means = np.zeros(count)
    means[: len(EFFECTS)] = EFFECTS
    told = {"most": settings["most"], "delta": settings["delta"]}
    if settings["rule"] == "rounds, known scale":
        told["noise_std"] = 1.0
    false, found, runs = 0, 0, 0
    for _ in range(settings["streams"]):
        outcomes = rng.normal(0.0, 1.0, (PLANS[-1], count + 1))
        outcomes[:, 1:] += means
        if isinstance(settings["rule"], int):
            pairs = settings["rule"]
            parts = outcomes[:pairs, 1:] - outcomes[:pairs, :1]
            t = parts.mean(0) / parts.std(0, ddof=1) * np.sqrt(pairs)
            limit = stats.t.ppf(1.0 - settings["delta"] / (2 * count), pairs - 1)
            better, worse = t > limit, t < -limit
            runs += pairs * (count + 1)
        else:
            comparison, rounds = SequentialComparison("old", count, **told), iter(outcomes)
            while running := comparison.running(names):
                values = dict(zip(["old", *names], next(rounds).tolist(), strict=True))
                comparison.add({name: values[name] for name in ["old", *running]})
                runs += 1 + len(running)
            state = comparison.state()
            better, worse = (np.isin(names, state[word]) for word in ("better", "worse"))
        null = means == 0.0
        false += bool((better & null).any() or worse.any())
        found += int(better[~null].sum())
    return {"false": false, "found": found, "runs": runs}


@STUDY.table(
    "many",
    grid(MANY, {"rule": ["rounds", "rounds, known scale", *PLANS]}),
    play_many,
)
def many(runs: pd.DataFrame) -> Summary:
    r"""Fifty candidates, three of them better: false verdicts, power, runs."""
    lines = [
        f"{MANY['candidates']} candidates against a baseline, three of them better by 1, "
        "1.5 and 2 standard deviations of an outcome. False: a verdict on an equal one, or "
        "worse on a better one, anywhere in the stream. Rounds: at most 40 pairs of a "
        "candidate; a plan: a t-test at a fiftieth of delta after so many pairs of all.",
        "",
        "| rule | streams | false | better ones found | runs in a stream |",
        "|---|---|---|---|---|",
    ]
    for rule, part in runs.groupby("rule", sort=False):
        count = int(part["streams"].sum())
        false, found, spent = (part[n].sum() for n in ("false", "found", "runs"))
        name = f"plan of {rule} pairs" if isinstance(rule, int) else rule
        share = f"{found / count / len(EFFECTS):.2f}"
        lines.append(f"| {name} | {count} | {false} | {share} | {spent / count:.0f} |")
    return Summary(None, lines)


if __name__ == "__main__":
    STUDY.main()
