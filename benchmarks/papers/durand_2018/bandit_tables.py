r"""Figures 7 and 8 in numbers, and our joint set beside the paper's bounds."""

# ruff: noqa: RUF001  (the tables have Greek letters)

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

from benchmarks.papers.durand_2018.summaries import (
    Bandits,
    digits,
    estimate,
    ratio_of_means,
    verdict,
)
from benchmarks.runner import (
    Moments,
    markdown_table,
    moments_table,
    paired_difference,
    spaced,
    write_summary,
)

TARGET_HEADER = ("claim or target", "measured", "met")
POLICIES = {"ucb": "Kernel UCB", "ts": "Kernel TS"}
# Rates are compared over windows that double, and over the last of them as the target.
_WINDOWS = 4
_RATE_TOLERANCE = 0.15
_CURVE_POINTS = 41


def regret(bandits: Bandits) -> list[str]:
    r"""Figure 7: totals, rates of growth, and who beats whom."""
    targets = markdown_table(TARGET_HEADER, _regret_targets(bandits))
    return [*_totals(bandits), "", *_rates(bandits), "", *targets]


def rate(bandits: Bandits) -> list[str]:
    r"""The rates of growth alone, for longer."""
    targets = [_rate_target(bandits, policy) for policy in POLICIES]
    return [*_rates(bandits), "", *markdown_table(TARGET_HEADER, targets)]


def joint(bandits: Bandits) -> list[str]:
    r"""What not knowing the noise costs, and what the joint set saves."""
    joint, exact = bandits.totals("joint"), bandits.totals("exact")
    ratio = ratio_of_means(joint, exact)
    targets = [
        _difference(
            "the joint set's regret is below that of Theorem 1 with known noise",
            joint,
            bandits.totals("theorem1"),
            -1.0,
        ),
        (
            "and at most 1.25 times that of the exact bound with known noise",
            f"ratio {estimate(ratio)}",
            verdict(ratio.mean <= 1.25),
        ),
    ]
    return [*_totals(bandits, "joint"), "", *markdown_table(TARGET_HEADER, targets)]


def concentration(bandits: Bandits) -> list[str]:
    r"""Figure 8: Thompson sampling with two bounds."""
    readings = {"ts_wang": "λ = σ², as Lemma 3 has it", "ts_rescaled": "λ = σ²/C²"}
    claim = "Theorem 1 improves Kernel TS compared with Wang & de Freitas"
    ours = bandits.totals("ts_theorem1")
    targets = [
        _difference(f"{claim} ({reading})", ours, bandits.totals(name), -1.0)
        for name, reading in readings.items()
    ]
    return [*_totals(bandits, "ts_theorem1"), "", *markdown_table(TARGET_HEADER, targets)]


def write(bandits: Bandits, folder: Path, lines: Sequence[str]) -> list[Path]:
    r"""The lines, and mean and spread of the regret curves at some rounds."""
    rounds = spaced(bandits.experiment.rounds, _CURVE_POINTS, np.linspace)
    curves = {(name,): curve for name, curve in bandits.curves.items()}
    rows = moments_table(curves, ["method"], rounds, digits=3)
    return write_summary(folder, bandits.stem, rows, lines)


def _difference(
    claim: str, ours: np.ndarray, others: np.ndarray, sign: float
) -> tuple[str, str, str]:
    r"""Whether a paired difference has this sign by two standard errors."""
    difference = paired_difference(ours, others)
    met = sign * difference.mean > 2.0 * difference.standard_error
    return claim, f"paired difference {estimate(difference)}", verdict(met)


def _totals(bandits: Bandits, reference: str | None = None) -> list[str]:
    r"""Regret after the last round; with a reference, paired differences to it."""
    experiment = bandits.experiment
    text = (
        f"Cumulative regret after {experiment.rounds} rounds, mean ± population standard "
        f"deviation over n = {experiment.repetitions} functions."
    )
    header, rows = ["method", "regret"], []
    if reference is not None:
        first = next(m.label for m in experiment.methods if m.name == reference)
        text += f" Differences from and ratios to “{first}” are paired, ± standard error."
        header += ["difference", "ratio of means"]
    for method in experiment.methods:
        totals = bandits.totals(method.name)
        moments = Moments.of(totals)
        row = [method.label, f"{digits(moments.mean)} ± {digits(moments.std)}"]
        if reference is not None:
            row += ["-", "-"]
            if method.name != reference:
                other = bandits.totals(reference)
                row[2] = estimate(paired_difference(totals, other))
                row[3] = estimate(ratio_of_means(totals, other))
        rows.append(row)
    return [text, "", *markdown_table(header, rows)]


def _windows(bandits: Bandits) -> list[tuple[int, int]]:
    r"""Windows that double up to the horizon, the last half last."""
    ends = [bandits.experiment.rounds // 2**power for power in range(_WINDOWS, -1, -1)]
    return [(start, end) for start, end in pairwise(ends) if start > 0]


def _rates(bandits: Bandits) -> list[str]:
    r"""Regret per round of adaptive and oracle, window by window."""
    noise_std = bandits.experiment.protocol.noise_std
    rows = []
    for policy in POLICIES:
        adaptive, oracle = f"{policy}_adaptive", f"{policy}_oracle"
        for start, end in _windows(bandits):
            slopes = [bandits.slopes(name, start, end) for name in (oracle, adaptive)]
            upper = bandits.noise_uppers(adaptive, end).mean() / noise_std
            rows.append(
                (
                    POLICIES[policy],
                    f"{start + 1} to {end}",
                    *(digits(1e3 * float(each.mean())) for each in slopes),
                    estimate(ratio_of_means(slopes[1], slopes[0])),
                    f"{upper:.2f} σ",
                )
            )
    header = (
        "policy",
        "rounds",
        "oracle: regret per 1000 rounds",
        "adaptive",
        "adaptive / oracle",
        "adaptive σ+ at the end",
    )
    text = (
        f"Rates of growth, mean over n = {bandits.experiment.repetitions} functions; "
        "ratios of these means ± standard error (delta method, paired)."
    )
    return [text, "", *markdown_table(header, rows)]


def _rate_target(bandits: Bandits, policy: str) -> tuple[str, str, str]:
    window = _windows(bandits)[-1]
    slopes = [
        bandits.slopes(f"{policy}_{kind}", *window) for kind in ("adaptive", "oracle")
    ]
    ratio = ratio_of_means(*slopes)
    return (
        f"{POLICIES[policy]}: the adaptive regret grows at the oracle's rate (within "
        f"{100 * _RATE_TOLERANCE:.0f} % over the last half)",
        f"ratio {estimate(ratio)}",
        verdict(abs(ratio.mean - 1.0) <= _RATE_TOLERANCE),
    )


def _regret_targets(bandits: Bandits) -> list[tuple[str, str, str]]:
    totals = bandits.totals
    targets = [_rate_target(bandits, policy) for policy in POLICIES]
    for policy, words in POLICIES.items():
        claim = f"{words}: fixed is clearly worse than adaptive"
        pair = totals(f"{policy}_fixed"), totals(f"{policy}_adaptive")
        targets.append(_difference(claim, *pair, 1.0))
    for kind in ("oracle", "fixed", "adaptive"):
        claim = f"Kernel UCB beats Kernel TS, {kind}"
        pair = totals(f"ts_{kind}"), totals(f"ucb_{kind}")
        targets.append(_difference(claim, *pair, 1.0))
    return targets
