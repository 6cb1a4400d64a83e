r"""Command line: ``python -m benchmarks.guarded arms``.

Functions of a norm that is known, under a kernel and with noise that are known.
"""

from collections.abc import Callable

import numpy as np
import pandas as pd
from scipy.stats import binom

from benchmarks.guarded.play import play, play_sequences
from benchmarks.runner import Moments, captioned, markdown_table, most_events
from benchmarks.runner.study import Settings, Study, Summary, grid

STUDY = Study(
    "benchmarks.guarded", "Guarded search where kernel, norm and noise are known."
)

# Norm, noise, delta and functions are those of Flynn & Reeb (2024), section 7.
PROTOCOL = {
    "norm": 10.0,
    "noise_std": 0.1,
    "delta": 0.01,
    "centres": 20,  # uniform on [0, 1]^d, normal weights
    "starts": 1,  # random points that every rule plays first
    "rounds": 100,  # points that it chooses after them
    "samples": 64,  # of qLogNEI
    "restarts": 2,  # of optimize_acqf
    "raw_samples": 64,
    "iterations": 30,
    "stream": 2026,
}
# ``search`` is what the guard keeps (empty: the upper bound is played in every round);
# ``turns`` what is played where it is the band's turn: its upper bound, or the challenger
# of the regret certificate.
_RULE = {"search": "", "ucb_every": 0, "turns": "upper", "is_guarded": True}
RULES = [
    _RULE | {"rule": "ucb"},
    _RULE | {"rule": "nei", "search": "qLogNEI"},
    _RULE | {"rule": "nei_4", "search": "qLogNEI", "ucb_every": 4},
    _RULE | {"rule": "ei_4", "search": "LogEI", "ucb_every": 4},
    _RULE | {"rule": "ei_2", "search": "LogEI", "ucb_every": 2},
    _RULE
    | {"rule": "ei_4_challenger", "search": "LogEI", "ucb_every": 4, "turns": "challenger"},
    _RULE | {"rule": "random", "search": "random UCB", "is_guarded": False},
]
LABELS = {
    "ucb": "UCB",
    "nei": "guarded qLogNEI",
    "nei_4": "guarded qLogNEI, U every 4th",
    "ei_4": "guarded LogEI, U every 4th",
    "ei_2": "guarded LogEI, U every 2nd",
    "ei_4_challenger": "guarded LogEI, challenger every 4th",
    "random": "random UCB",
}
KERNELS = {"rbf": "RBF", "matern52": "Matérn 5/2", "matern32": "Matérn 3/2"}
_FALSE_ALARM = 0.001  # of the limit on misses, at rate delta
_LEAST_GAP = 0.01  # a tenth of the noise; 0 where one arm is left
_ROUND_OFF = 1e-6
Measure = Callable[[pd.Series], float]


def _setting(name: str, kernel: str, lengthscale: float, d: int, arms: int) -> Settings:
    r"""A kind of function; ``arms`` uniform points in the unit cube, 0 for all of it."""
    where = {"dimension": d, "arms": arms}
    return {"setting": name, "kernel": kernel, "lengthscale": lengthscale} | where


# Fixed arms instead of Flynn & Reeb's fresh ones: a certificate needs a domain.
ARMS = [
    _setting("matern32_2_d1", "matern32", 0.2, 1, 200),
    _setting("rbf_2_d2", "rbf", 0.2, 2, 200),
    _setting("matern52_5_d2", "matern52", 0.5, 2, 200),
    _setting("rbf_5_d3", "rbf", 0.5, 3, 200),
    _setting("matern52_5_d3", "matern52", 0.5, 3, 200),
]
BOXES = [
    _setting("box_matern52_2_d1", "matern52", 0.2, 1, 0),
    _setting("box_rbf_2_d2", "rbf", 0.2, 2, 0),
]


def _rules(*names: str) -> list[Settings]:
    return [rule for rule in RULES if rule["rule"] in names]


def _runs(settings: list[Settings], *names: str) -> list[Settings]:
    r"""A seed is finished in every setting before the next begins."""
    return grid(PROTOCOL, {"seed": [20, 21, 22]}, settings, _rules(*names))


def _sequences(norm_factor: float, noise_factor: float, blocks: int) -> list[Settings]:
    r"""Blocks of 50 sequences; functions whose norm is the norm bound: nothing is left."""
    short = PROTOCOL | {"delta": 0.05, "rounds": 12, "stream": 2027, "size": 50}
    belief = {"norm_factor": norm_factor, "noise_factor": noise_factor}
    few = [_setting("rbf_2_d1_few", "rbf", 0.2, 1, 50)]
    rules = [rule for name in ("ei_4", "nei_4", "random") for rule in _rules(name)]
    return grid(short | belief, few, rules, {"block": range(blocks)})


COVERAGE = _sequences(1.0, 1.0, 20) + _sequences(0.5, 1.0, 1) + _sequences(1.0, 0.5, 1)


@STUDY.table(
    "arms", _runs(ARMS, "ucb", "nei", "nei_4", "ei_4", "ei_2", "ei_4_challenger"), play
)
@STUDY.table("boxes", _runs(BOXES, "ucb", "nei_4", "ei_4", "ei_2"), play)
def compare(runs: pd.DataFrame) -> Summary:
    r"""Regret and certified gaps of guarded rules over those of the upper bound."""
    first = next(iter(runs["rule"]))
    looks = runs["looks"][0]
    pairs = [
        (gap, regret)
        for gaps, regrets in zip(runs["gaps"], runs["recommended"], strict=True)
        for gap, regret in zip(gaps, regrets, strict=True)
    ]
    false = sum(regret > gap + _ROUND_OFF for gap, regret in pairs)
    lines = [
        f"Cumulative regret of {looks[-1]} rounds: that of {LABELS[first]} ± standard "
        f"error over {runs['seed'].nunique()} seeds, and that of the others over it (ratio "
        "of the means).",
        "",
        *_by_setting(runs, _total, 1),
        "",
        f"Certified gap after {looks[-1]} rounds, in the same way.",
        "",
        *_by_setting(runs, _gap(-1), 3),
        "",
        f"Over {LABELS[first]}'s, geometric means over functions and seeds ± "
        "standard error over seeds; simple regret of the point that the last certificate "
        f"is for; gaps below {_LEAST_GAP:g} count as that. On arms, the share of the last "
        "half of the rounds that the most played one has. "
        f"{false} of {len(pairs)} certificates were wrong.",
        "",
        *_by_rule(runs, looks),
    ]
    rows = [
        {name: run[name] for name in ("setting", "rule", "seed")}
        | {
            "cumulative": f"{_total(run):.5g}",
            "best": f"{max(min(run['regret']), 0.0):.4g}",
            "recommended": f"{_recommended(run):.4g}",
            "most_played": f"{_most_played(run):.3g}",
            "rounds": " ".join(map(str, run["looks"])),
            "gaps": " ".join(f"{gap:.4g}" for gap in run["gaps"]),
            "seconds": f"{run['seconds']:.3g}",
        }
        for _, group in runs.groupby(["setting", "rule"], sort=False)
        for _, run in group.iterrows()
    ]
    return Summary(pd.DataFrame(rows), lines)


def _total(run: pd.Series) -> float:
    return sum(run["regret"])


def _recommended(run: pd.Series) -> float:
    return max(run["recommended"][-1], 0.0)


def _most_played(run: pd.Series) -> float:
    r"""Share of one point in the last half of the rounds, the one played most often.

    On arms, where points with the same value are one.
    """
    late = np.round(run["regret"][len(run["regret"]) // 2 :], 9)
    return float(np.unique(late, return_counts=True)[1].max() / len(late))


def _gap(look: int) -> Measure:
    r"""The gap of one of the certificates, by its index."""
    return lambda run: max(run["gaps"][look], _LEAST_GAP)


def _values(runs: pd.DataFrame, measure: Measure) -> pd.DataFrame:
    r"""A column for each rule; the index is setting and seed."""
    table = runs.assign(value=[measure(run) for _, run in runs.iterrows()])
    index = pd.MultiIndex.from_frame(table[["setting", "seed"]].drop_duplicates())
    values = table.pivot(index=["setting", "seed"], columns="rule", values="value")
    return values.loc[index, list(dict.fromkeys(runs["rule"]))]


def _by_setting(runs: pd.DataFrame, measure: Measure, digits: int) -> list[str]:
    cells = []
    for name, values in _values(runs, measure).groupby("setting", sort=False):
        of = runs[runs["setting"] == name].iloc[0]
        kernel, length = KERNELS[of["kernel"]], f"{of['lengthscale']:g}"
        sums, first = values.sum(), Moments.of(values.iloc[:, 0])
        mean = f"{first.mean:.{digits}f} ± {first.standard_error:.{digits}f}"
        ratios = (f"{ratio:.2f}" for ratio in (sums / sums.iloc[0]).iloc[1:])
        cells.append([f"{kernel}, length {length}, d = {of['dimension']}", mean, *ratios])
    return markdown_table(["function", *(LABELS[r] for r in runs["rule"].unique())], cells)


def _geometric(runs: pd.DataFrame, measure: Measure) -> pd.Series:
    r"""Geometric means of all paired ratios, ± standard errors over seeds."""
    logs = np.log(_values(runs, measure))
    paired = logs.sub(logs.iloc[:, 0], axis=0).groupby("seed").mean()
    moments = paired.apply(Moments.of)
    means = moments.map(lambda m: np.exp(m.mean))
    errors = moments.map(lambda m: m.standard_error) * means
    return pd.Series([f"{m:.2f} ± {e:.2f}" for m, e in zip(means, errors, strict=True)])


def _by_rule(runs: pd.DataFrame, looks: list[int]) -> list[str]:
    has_arms = runs["arms"][0] > 0
    columns = {
        "rule": [LABELS[rule] for rule in runs["rule"].unique()],
        "regret": _geometric(runs, _total),
    }
    columns |= {f"gap after {n}": _geometric(runs, _gap(i)) for i, n in enumerate(looks)}
    regret = _values(runs, _recommended).mean()
    columns["simple regret"] = [f"{value:.4f}" for value in regret]
    if has_arms:
        shares = _values(runs, _most_played).mean()
        columns["most played arm"] = [f"{share:.0%}" for share in shares]
    return markdown_table([*columns], zip(*columns.values(), strict=True))


@STUDY.table("coverage", COVERAGE, play_sequences)
def coverage(runs: pd.DataFrame) -> Summary:
    r"""Misses in any round over many short sequences, for every rule."""
    rows = []
    groups = runs.groupby(["norm_factor", "noise_factor", "rule"], sort=False)
    for (norm, noise, rule), part in groups:
        missed = np.concatenate(part["missed"].tolist()) > 0
        contradicted = np.concatenate(part["contradicted"].tolist()) > 0
        row = {"rule": LABELS[rule], "norm_factor": norm, "noise_factor": noise}
        row |= {"sequences": len(missed), "missed": missed.sum()}
        row |= {"contradicted": contradicted.sum(), "either": (missed | contradicted).sum()}
        rows.append(row)
    task, sequences = runs.iloc[0], rows[0]["sequences"]
    allowed = most_events(sequences, task["delta"], _FALSE_ALARM)
    power = binom.sf(allowed, sequences, 2.0 * task["delta"])
    header = ["points chosen by", "band believes", "sequences", "missed", "contradicted"]
    names = ("sequences", "missed", "contradicted", "either")
    cells = [[row["rule"], _belief(row), *(f"{row[n]}" for n in names)] for row in rows]
    text = (
        f"Sequences of {task['starts'] + task['rounds'] - 1} observations, a look at the "
        f"band on all {task['arms']} arms after each, delta {task['delta']:g}: those "
        "in which the function was outside the band at any arm after any of them, and "
        "those in which no function of the norm bound was left; a sequence ends there. At "
        f"rate delta more than {allowed} of {sequences} would come with probability "
        f"{_FALSE_ALARM:g} at most; at twice that rate they would with probability "
        f"{power:.4f}."
    )
    return Summary(pd.DataFrame(rows), captioned(text, [*header, "either"], cells))


def _belief(row: dict) -> str:
    if row["norm_factor"] != 1.0:
        return f"{row['norm_factor']:g} times the norm"
    if row["noise_factor"] != 1.0:
        return f"{row['noise_factor']:g} times the noise"
    return "the truth"


if __name__ == "__main__":
    STUDY.main()
