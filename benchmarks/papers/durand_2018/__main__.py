r"""Command line: ``python -m benchmarks.papers.durand_2018 noise``."""

# ruff: noqa: RUF001  (the tables have Greek letters)

from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from benchmarks.papers.durand_2018 import stream_tables
from benchmarks.papers.durand_2018.bandits import play
from benchmarks.papers.durand_2018.streams import watch
from benchmarks.papers.durand_2018.words import TARGETS, digits, estimate, verdict
from benchmarks.runner import (
    Moments,
    draw_spread,
    markdown_table,
    moments_table,
    paired_difference,
    picture,
    ratio_of_means,
    spaced,
)
from benchmarks.runner.study import Settings, Study, Summary, grid
from kernelucb.plotting.style import BLUE, OUTLINES

STUDY = Study(
    "benchmarks.papers.durand_2018", "Experiments of Durand, Maillard & Pineau (2018)."
)
PROTOCOL = {
    "seed": 2018,
    "norm": 2.06,  # of the function, exactly
    "lengthscale": 0.3,
    "centres": 20,  # of the function, uniform on [0, 1]
    "noise_std": 0.1,
    "norm_bound": 5.0,
    "noise_lower": 0.01,  # known to everybody
    "noise_upper": 1.0,  # known to everybody, where nothing else is said
    "delta": 0.1,
}
STREAM = {
    "rounds": 1000,
    "rounds_per_decade": 12,  # at which intervals and bands are computed
    "table_rounds": [20, 50, 200, 1000],  # these too
    "noise_guesses": [1.0, 5.0, 50.0],  # initial upper bounds; besides these, none
    "queries": 201,  # uniform grid on which bands are compared with the truth
}
STREAMS = grid([PROTOCOL | STREAM], {"repetition": range(20)})


class Method(NamedTuple):
    r"""A bandit.

    Attributes:
        knows: ``"noise"``, its ``"limit"``, or its ``"interval"``.
        share: The bound fails with probability ``delta / share``; each of the four events
            of Corollary 1 does.
    """

    label: str
    policy: str
    bound: str
    knows: str = "noise"
    share: int = 1
    covariance_scale: float | str = 1.0


METHODS = {
    "ucb_oracle": Method("Kernel UCB, oracle", "ucb", "theorem1", share=4),
    "ucb_fixed": Method("Kernel UCB, fixed", "ucb", "theorem1", "limit", 4),
    "ucb_adaptive": Method("Kernel UCB, adaptive", "ucb", "corollary1", "interval", 4),
    "ts_oracle": Method("Kernel TS, oracle", "ts", "theorem1", share=12),
    "ts_fixed": Method("Kernel TS, fixed", "ts", "theorem1", "limit", 12),
    "ts_adaptive": Method("Kernel TS, adaptive", "ts", "corollary1", "interval", 12),
    "joint": Method("joint set (ours; noise unknown)", "ucb", "joint", "interval"),
    "exact": Method(
        "exact, mixture of scales (noise known)", "ucb", "exact", covariance_scale="mixture"
    ),
    "exact_one": Method("exact, scale 1 (noise known)", "ucb", "exact"),
    "theorem1": Method("Theorem 1 (noise known)", "ucb", "theorem1"),
    "corollary1": Method("Corollary 1 (noise unknown)", "ucb", "corollary1", "interval", 4),
}
POLICIES = {"ucb": "Kernel UCB", "ts": "Kernel TS"}
# Rates are compared over windows that double, and over the last of them as the target.
_WINDOWS, _RATE_TOLERANCE = 4, 0.15
_TABLE_POINTS, _PICTURE_POINTS = 41, 500  # of a curve


def _bandits(methods: str, rounds: int, repetitions: int) -> list[Settings]:
    r"""Every method plays a repetition before the next begins."""
    rules = [{"method": name} | METHODS[name]._asdict() for name in methods.split()]
    for rule in rules:
        del rule["label"]
    shared = PROTOCOL | {"arms": 100, "rounds": rounds}
    return grid(shared, {"repetition": range(repetitions)}, rules)


FIGURE_7 = "ucb_oracle ucb_fixed ucb_adaptive ts_oracle ts_fixed ts_adaptive"


@STUDY.table("regret", _bandits(FIGURE_7, 10_000, 5), play)
def regret(runs: pd.DataFrame) -> Summary:
    r"""Figure 7: totals, rates of growth, and who beats whom."""
    regrets, targets = _curves(runs), _rate_targets(runs)
    totals = {name: curves[:, -1] for name, curves in regrets.items()}
    for policy, words in POLICIES.items():
        pair = totals[f"{policy}_fixed"], totals[f"{policy}_adaptive"]
        targets.append(_above(f"{words}: fixed is clearly worse than adaptive", *pair))
    for kind in ("oracle", "fixed", "adaptive"):
        pair = totals[f"ts_{kind}"], totals[f"ucb_{kind}"]
        targets.append(_above(f"Kernel UCB beats Kernel TS, {kind}", *pair))
    lines = [*_totals(runs), "", *_rates(runs), "", *markdown_table(TARGETS, targets)]
    return _summary(runs, lines)


@STUDY.table("joint", _bandits("joint exact exact_one theorem1 corollary1", 500, 20), play)
def joint(runs: pd.DataFrame) -> Summary:
    r"""What not knowing the noise costs, and what the joint set saves."""
    regrets = _curves(runs)
    own, exact, theorem1 = (regrets[n][:, -1] for n in ("joint", "exact", "theorem1"))
    ratio = ratio_of_means(own, exact)
    claim = "the joint set's regret is below that of Theorem 1 with known noise"
    limit = "and at most 1.25 times that of the exact bound with known noise"
    targets = [
        _above(claim, own, theorem1, -1.0),
        (limit, f"ratio {estimate(ratio)}", verdict(ratio.mean <= 1.25)),
    ]
    lines = [*_totals(runs, "joint"), "", *markdown_table(TARGETS, targets)]
    return _summary(runs, lines, scale="log")


def _curves(runs: pd.DataFrame) -> dict[str, np.ndarray]:
    r"""Cumulative regret by method, ``repetitions x rounds``."""
    found = {}
    for method, part in runs.groupby("method", sort=False):
        means = np.array(part["means"].tolist())
        chosen = np.take_along_axis(means, np.array(part["played"].tolist()), axis=1)
        found[str(method)] = np.cumsum(means.max(1, keepdims=True) - chosen, axis=1)
    return found


def _summary(runs: pd.DataFrame, lines: list[str], scale: str = "linear") -> Summary:
    curves, last = _curves(runs), runs["rounds"][0]
    labels = {(name,): curve for name, curve in curves.items()}
    rounds = spaced(last, _TABLE_POINTS, np.linspace)
    rows = moments_table(labels, ["method"], rounds, digits=3)
    return Summary(rows, lines, partial(_draw_regret, curves, scale))


def _above(
    claim: str, values: np.ndarray, others: np.ndarray, sign: float = 1.0
) -> tuple[str, str, str]:
    r"""Whether a paired difference has this sign by two standard errors."""
    difference = paired_difference(values, others)
    met = sign * difference.mean > 2.0 * difference.standard_error
    return claim, f"paired difference {estimate(difference)}", verdict(met)


def _totals(runs: pd.DataFrame, reference: str | None = None) -> list[str]:
    r"""Regret after the last round; with a reference, paired differences to it."""
    text = (
        f"Cumulative regret after {runs['rounds'][0]} rounds, mean ± population standard "
        f"deviation over n = {runs['repetition'].nunique()} functions."
    )
    totals = {name: curves[:, -1] for name, curves in _curves(runs).items()}
    header, rows = ["method", "regret"], []
    if reference is not None:
        first = METHODS[reference].label
        text += f" Differences from and ratios to “{first}” are paired, ± standard error."
        header += ["difference", "ratio of means"]
    for name, total in totals.items():
        moments = Moments.of(total)
        row = [METHODS[name].label, f"{digits(moments.mean)} ± {digits(moments.std)}"]
        if name == reference:
            row += ["-", "-"]
        elif reference is not None:
            row.append(estimate(paired_difference(total, totals[reference])))
            row.append(estimate(ratio_of_means(total, totals[reference])))
        rows.append(row)
    return [text, "", *markdown_table(header, rows)]


def _windows(last: int) -> list[tuple[int, int]]:
    r"""Windows that double up to the horizon, the last half last."""
    ends = [last // 2**power for power in range(_WINDOWS, -1, -1)]
    return [(start, end) for start, end in pairwise(ends) if start > 0]


def _slopes(runs: pd.DataFrame, policy: str, window: tuple[int, int]) -> list[np.ndarray]:
    r"""Regret per round within a window, of the oracle and of the adaptive bandit."""
    (start, end), regrets = window, _curves(runs)
    curves = [regrets[f"{policy}_{kind}"] for kind in ("oracle", "adaptive")]
    return [(each[:, end - 1] - each[:, start - 1]) / (end - start) for each in curves]


def _rates(runs: pd.DataFrame) -> list[str]:
    r"""Regret per round of adaptive and oracle, window by window."""
    rows, task = [], runs.iloc[0]
    for policy, words in POLICIES.items():
        kept = runs[runs["method"] == f"{policy}_adaptive"]["noise_uppers"]
        for start, end in _windows(task["rounds"]):
            oracle, adaptive = _slopes(runs, policy, (start, end))
            uppers = [[b for number, b in run if number <= end][-1] for run in kept]
            per_thousand = [digits(1e3 * float(each.mean())) for each in (oracle, adaptive)]
            ratio = estimate(ratio_of_means(adaptive, oracle))
            upper = f"{np.mean(uppers) / task['noise_std']:.2f} σ"
            rows.append([words, f"{start + 1} to {end}", *per_thousand, ratio, upper])
    header = ["policy", "rounds", "oracle: regret per 1000 rounds", "adaptive"]
    header += ["adaptive / oracle", "adaptive σ+ at the end"]
    text = (
        f"Rates of growth, mean over n = {runs['repetition'].nunique()} functions; "
        "ratios of these means ± standard error (delta method, paired)."
    )
    return [text, "", *markdown_table(header, rows)]


def _rate_targets(runs: pd.DataFrame) -> list[tuple[str, str, str]]:
    targets = []
    for policy, words in POLICIES.items():
        oracle, adaptive = _slopes(runs, policy, _windows(runs["rounds"][0])[-1])
        ratio = ratio_of_means(adaptive, oracle)
        claim = (
            f"{words}: the adaptive regret grows at the oracle's rate (within "
            f"{100 * _RATE_TOLERANCE:.0f} % over the last half)"
        )
        met = abs(ratio.mean - 1.0) <= _RATE_TOLERANCE
        targets.append((claim, f"ratio {estimate(ratio)}", verdict(met)))
    return targets


_OURS = {"color": BLUE, "linestyle": "-", "linewidth": 2.0}
_STYLES = dict.fromkeys(("oracle", "joint"), _OURS)
_STYLES |= dict.fromkeys(("fixed", "exact"), OUTLINES[0])
_STYLES |= dict.fromkeys(("adaptive", "theorem1"), OUTLINES[1])
_STYLES |= {"corollary1": OUTLINES[2], "exact_one": OUTLINES[4]}


def _draw_regret(curves: dict[str, np.ndarray], scale: str, path: Path) -> None:
    r"""Mean ± standard deviation, one panel for each policy.

    Regrets that differ by powers of ten are drawn on logarithmic axes.
    """
    policies = [*dict.fromkeys(METHODS[name].policy for name in curves)]
    shape = {"figsize": (4.6 * len(policies) + 1.4, 4.0), "squeeze": False, "dpi": 130}
    with picture(path, 1, len(policies), **shape) as (figure, panels):
        for axes, policy in zip(panels[0], policies, strict=True):
            for name, curve in curves.items():
                if METHODS[name].policy == policy:
                    shown = spaced(curve.shape[1], _PICTURE_POINTS)
                    mean, std = curve.mean(0)[shown - 1], curve.std(0)[shown - 1]
                    style = _STYLES[name.removeprefix(f"{policy}_")]
                    label = METHODS[name].label
                    draw_spread(axes, shown, mean, std, style, label, alpha=0.15, lw=0)
            axes.margins(x=0)
            axes.set(xscale=scale, yscale=scale, xlabel="round $t$")
            if scale == "linear":
                axes.set_ylim(bottom=0)
            axes.legend(loc="best")
        panels[0][0].set_ylabel("cumulative regret")
        repetitions = len(next(iter(curves.values())))
        figure.suptitle(f"mean ± standard deviation, n = {repetitions}", size=11)


STUDY.table("noise", STREAMS, watch)(stream_tables.noise)
STUDY.table("band", STREAMS, watch)(stream_tables.band)


if __name__ == "__main__":
    STUDY.main()
