r"""Command line: ``python -m benchmarks.unknown_kernel regret``."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.runner import Moments, as_texts, captioned, most_events, ratio_of_means
from benchmarks.runner.study import Settings, Study, Summary, grid
from benchmarks.unknown_kernel.play import EVENTS, play, sequences
from benchmarks.unknown_kernel.problems import covering, lengthscales

STUDY = Study("benchmarks.unknown_kernel", "Bandits whose length scale is not known.")
TOLERANCE = 0.05  # simple regret above which a run did not converge
FALSE_ALARM = 0.001  # of the limit on violations, at rate delta
PROTOCOL = {
    "seed": 2026,
    "norm_factor": 1.25,  # norm bound over norm
    "noise_std": 0.1,
    "delta": 0.05,
    "centres": 20,  # uniform on [0, 1]^d, normal weights
    "arms": 500,  # uniform on [0, 1]^d
    "starts": 4,  # random arms that every learner plays first
    "rounds": 100,  # arms that it chooses after them
    "check_every": 10,  # rounds between two looks at the whole band of a family
}
# Name -> label, class in play.py or rule of ``learners.Refitted``, and its options.
METHODS: dict[str, tuple[str, str, Settings]] = {
    "oracle": ("oracle", "Oracle", {}),
    "alternate": ("family, alternate", "Family", {"select": "alternate"}),
    "simplest": ("family, simplest", "Family", {"select": "simplest"}),
    "widest": ("family, widest", "Family", {"select": "widest"}),
    "balancing": ("LB-GP-UCB", "LengthscaleBalancing", {}),
    # The best exponent of 1/4, 1/2 and 3/4 in four trials that are not reported.
    "shrinking": ("A-GP-UCB", "ShrinkingLengthscale", {"exponent": 0.25}),
    "fitted": ("refits, martingale mixture", "FittedMixture", {}),
    "ucb_2": ("refits, UCB beta 2", "UpperConfidenceBound", {"option": 2.0}),
    "q_log_nei": ("refits, qLogNEI", "LogNoisyExpectedImprovement", {"option": 32}),
}


def _setting(
    name: str, dimension: int, lengthscale: float, place: str, norm: float = 4.0
) -> Settings:
    r"""A kind of function, and a family of seven members that learners believe in.

    Length scales that double with the dimension keep the problems alike. A *spike* is a
    narrow hill of this length scale and height 2 beside a wide one of the family's longest
    and height 1, scaled to about 3 and 1.5 by the norm.
    """
    shortest = {1: 0.05, 2: 0.1, 4: 0.2}[dimension]
    return {
        "setting": name,
        "function": "spike" if name.startswith("spike") else "random",
        "kernel": "rbf" if "rbf" in name else "matern52",
        "dimension": dimension,
        "lengthscale": lengthscale,
        "place": place,
        "norm": norm,
        "shortest": shortest,
        "longest": 8 * shortest,
        "ratio": 1.4143,
    }


SETTINGS = [
    _setting("rbf_d1_longest", 1, 0.4, "longest"),
    _setting("rbf_d1_between", 1, 0.12, "between"),
    _setting("rbf_d1_shortest", 1, 0.05, "shortest"),
    _setting("matern_d1_between", 1, 0.085, "between"),
    _setting("rbf_d2_longest", 2, 0.8, "longest"),
    _setting("rbf_d2_between", 2, 0.24, "between"),
    _setting("rbf_d2_shortest", 2, 0.1, "shortest"),
    _setting("matern_d2_member", 2, 0.4, "member"),
    _setting("matern_d2_between", 2, 0.17, "between"),
    _setting("rbf_d4_longest", 4, 1.6, "longest"),
    _setting("rbf_d4_between", 4, 0.48, "between"),
    _setting("matern_d4_member", 4, 0.8, "member"),
    _setting("spike_rbf_d1", 1, 0.05, "shortest", norm=5.0),
    _setting("spike_rbf_d2", 2, 0.1, "shortest", norm=9.0),
    _setting("spike_matern_d2", 2, 0.1, "shortest", norm=16.0),
]
# The settings of the methods that cost more.
FURTHER = ("rbf_d2_between", "matern_d2_between", "spike_rbf_d2")


def _runs(trials: range, methods: str, further: str = "") -> list[Settings]:
    r"""A trial is finished in every setting before the next begins."""
    chosen = [
        setting | {"method": name, "rule": METHODS[name][1]} | METHODS[name][2]
        for setting in SETTINGS
        for name in f"{methods} {further if setting['setting'] in FURTHER else ''}".split()
    ]
    return grid(PROTOCOL, {"trial": trials}, chosen)


EVERYWHERE = "oracle alternate simplest balancing shrinking"
SOMEWHERE = "widest fitted ucb_2 q_log_nei"


@STUDY.table("regret", _runs(range(20), EVERYWHERE, SOMEWHERE), play)
def regret(runs: pd.DataFrame) -> dict[str, Summary]:
    r"""Regret, convergence and bands of every learner on finitely many arms."""
    runs = runs.assign(cumulative=runs["regret"].map(sum))
    rows = pd.concat([part for _, part in runs.groupby(["setting", "method"], sort=False)])
    eliminated = [" ".join(map(str, each)) for each in rows["eliminated"]]
    rows = rows.assign(seed=rows["trial"], eliminated=eliminated)
    names = ["cumulative", "recommended", "misses", "eliminated", "width", "oracle_width"]
    numbers = [name for name in names if name not in ("misses", "eliminated")]
    rows = as_texts(
        rows[["setting", "method", "seed", *names]], dict.fromkeys(numbers, ".5g")
    )
    return {
        "runs": Summary(rows, None),
        "": Summary(lines=_regret(runs)),
        "convergence": Summary(lines=_convergence(runs)),
        "bands": Summary(lines=_bands(runs)),
        "eliminations": Summary(lines=_eliminations(runs)),
    }


def title(task: Any) -> str:
    r"""Of a setting, in a table."""
    kernel = {"rbf": "RBF", "matern52": "Matérn 5/2"}[task.kernel]
    spike = "spike, " if task.function == "spike" else ""
    length = f"{task.lengthscale:g} ({task.place})"
    return f"{spike}{kernel}, d = {task.dimension}, length {length}"


def _settings(runs: pd.DataFrame) -> list[tuple[str, dict[str, pd.DataFrame]]]:
    r"""Title of each setting, and its runs by method."""
    return [
        (title(part.iloc[0]), {str(m): own for m, own in part.groupby("method")})
        for _, part in runs.groupby("setting", sort=False)
    ]


def _regret(runs: pd.DataFrame) -> list[str]:
    r"""Cumulative regret of the oracle, and of the others over it."""
    methods = [name for name in runs["method"].unique() if name != "oracle"]
    totals: dict[str, list[tuple[float, float]]] = {name: [] for name in methods}
    rows = []
    for words, parts in _settings(runs):
        oracle = parts["oracle"]["cumulative"].to_numpy()
        moments, cells = Moments.of(oracle), dict.fromkeys(methods, "")
        for name in parts.keys() & {*methods}:
            own = parts[name]["cumulative"].to_numpy()
            ratio = ratio_of_means(own, oracle)
            totals[name].append((float(own.sum()), float(oracle.sum())))
            cells[name] = f"{ratio.mean:.2f} ± {ratio.standard_error:.2f}"
        first = f"{moments.mean:.1f} ± {moments.standard_error:.1f}"
        rows.append([words, first, *cells.values()])
    ratios = {name: [own / oracle for own, oracle in totals[name]] for name in methods}
    means = [f"{np.mean(ratios[name]):.2f}" for name in methods]
    geometric = [f"{_geometric_mean(ratios[name]):.2f}" for name in methods]
    whole = [f"{np.divide(*np.sum(totals[name], axis=0)):.2f}" for name in methods]
    rows.append(["mean of the ratios", "", *means])
    rows.append(["geometric mean of the ratios", "", *geometric])
    rows.append(["ratio of the mean regrets", "", *whole])
    text = (
        f"Cumulative regret of {runs['rounds'][0]} rounds: the oracle's, and that of the "
        f"others over it, each over the same {runs['trial'].nunique()} seeds, ± "
        "standard error."
    )
    return captioned(text, ["setting", "oracle", *_labels(methods)], rows)


def _convergence(runs: pd.DataFrame) -> list[str]:
    methods = runs["method"].unique()
    failed = runs["recommended"] > TOLERANCE
    rows = [
        [words, *(f"{failed[parts[m].index].sum()}" if m in parts else "" for m in methods)]
        for words, parts in _settings(runs)
    ]
    rows.append(["all", *(f"{failed[runs['method'] == m].sum()}" for m in methods)])
    text = (
        f"Runs of {runs['trial'].nunique()} in which the recommended arm is more "
        f"than {TOLERANCE:g} below the best one."
    )
    return captioned(text, ["setting", *_labels(methods)], rows)


def _bands(runs: pd.DataFrame) -> list[str]:
    r"""Widths over the oracle's, and what must not happen."""
    families = runs[runs["rule"] == "Family"]
    methods, rows = families["method"].unique(), []
    found: dict[str, list[list[float]]] = {name: [] for name in methods}
    for words, parts in _settings(runs):
        cells, alone = dict.fromkeys(methods, ""), parts["oracle"]["width"].to_numpy()
        for name in parts.keys() & {*methods}:
            own = parts[name]
            beside = _geometric_mean(own["width"] / own["oracle_width"])
            apart = _geometric_mean(own["width"].to_numpy() / alone)
            found[name].append([beside, apart])
            cells[name] = f"{beside:.2f} / {apart:.2f}"
        rows.append([words, *cells.values()])
    means = [[_geometric_mean(c) for c in zip(*found[m], strict=True)] for m in methods]
    rows.append(["geometric mean", *(f"{a:.2f} / {b:.2f}" for a, b in means)])
    missed = (families["misses"] > 0).sum()
    lost = sum(run.eliminated[covering(run)] > 0 for run in families.itertuples())
    text = (
        f"Mean width of the union's band after {runs['rounds'][0]} rounds over the "
        "oracle's: from the same data / from the oracle's own data; geometric means over "
        "seeds."
    )
    return [
        *captioned(text, ["setting", *_labels(methods)], rows),
        "",
        f"Of {len(families)} runs {missed} had the function outside the union's band at "
        f"some arm (a look every {runs['check_every'][0]} rounds), {lost} lost the "
        f"covering member; delta is {runs['delta'][0]:g}.",
    ]


def _eliminations(runs: pd.DataFrame) -> list[str]:
    r"""When the members longer than the covering one were contradicted."""
    families = runs[runs["rule"] == "Family"]
    longer = [
        (run.method, length / run.lengthscale, count or math.inf)
        for run in families.itertuples()
        for length, count in zip(
            lengthscales(run)[: covering(run)], run.eliminated, strict=False
        )
    ]
    counts, rows = pd.DataFrame(longer, columns=["method", "factor", "count"]), []
    methods = families["method"].unique()
    for low, high in pairwise((1.0, 1.5, 2.2, 3.2, 4.5, 6.5, math.inf)):
        between = (counts["factor"] >= low) & (counts["factor"] < high)
        cells = []
        for name in methods:
            own = counts[between & (counts["method"] == name)]["count"]
            median = float(np.median(own)) if len(own) else math.inf
            when = f"{median:.0f}" if math.isfinite(median) else "-"
            share = f"{np.isfinite(own).mean():.0%}" if len(own) else "-"
            cells.append(f"{share}, {when}")
        upper = f"to {high:g}" if math.isfinite(high) else "and more"
        rows.append([f"{low:g} {upper}", *cells])
    text = (
        "Members longer than the one that covers the function: share in which they were "
        "contradicted, over settings, members and seeds, and the median number of "
        "observations that it took (- where most were kept)."
    )
    return captioned(text, ["length over the function's", *_labels(methods)], rows)


def _labels(methods: Sequence[str]) -> list[str]:
    return [METHODS[name][0] for name in methods]


def _geometric_mean(values: Any) -> float:
    return float(np.exp(np.mean(np.log(values)))) if len(values) else math.nan


def _coverage() -> list[Settings]:
    r"""Norm bounds are the norms themselves: nothing is left over."""
    few = {"seed": 2027, "norm_factor": 1.0, "arms": 60, "starts": 1, "rounds": 24}
    fixed = PROTOCOL | few | {"function": "random", "kernel": "rbf", "dimension": 1}
    fixed |= {"norm": 4.0, "ratio": 2.0, "size": 50}
    # Length scales in turn: the longest, two between, the shortest.
    family = {"lengthscales": [0.4, 0.3, 0.15, 0.1], "shortest": 0.1, "longest": 0.4}
    rules = [
        {"label": s, "select": s} | family for s in ("alternate", "simplest", "widest")
    ]
    wrong = {"lengthscales": [0.1], "shortest": 0.4, "longest": 0.8}
    wrong |= {"label": "alternate, too long", "select": "alternate"}
    true = grid(fixed, rules, {"block": range(20)})
    return true + grid(fixed, [wrong], {"block": range(4)})


@STUDY.table("coverage", _coverage(), sequences)
def coverage(runs: pd.DataFrame) -> Summary:
    r"""Violations in any round over many short sequences, for every rule."""
    rows = []
    for label, part in runs.groupby("label", sort=False):
        rounds = part[[*EVENTS]].explode([*EVENTS]).astype(bool)
        row = {"rule": label, "sequences": len(rounds)}
        row |= {name: rounds[name].sum() for name in EVENTS}
        either = rounds["missed"] | rounds["emptied"]
        rows.append(row | {"missed_or_emptied": either.sum()})
    task, wrong = runs.iloc[0], rows[-1]
    count = rows[0]["sequences"]
    header = ["family and rule", "sequences", "outside the union's band", "lost", "emptied"]
    cells = [[str(value) for value in row.values()][:-1] for row in rows]
    text = (
        f"Sequences of {task['starts'] + task['rounds']} rounds on {task['arms']} arms, "
        f"delta {task['delta']:g}: with the function outside the union's band at any arm "
        "in any round, with the covering member contradicted, with all members "
        "contradicted. At rate delta more than "
        f"{most_events(count, task['delta'], FALSE_ALARM)} of {count} would come with "
        f"probability {FALSE_ALARM:g} at most."
    )
    lines = [
        *captioned(text, header, cells),
        "",
        f"The family that does not hold the function missed or was emptied in "
        f"{wrong['missed_or_emptied']} of {wrong['sequences']} sequences.",
    ]
    return Summary(pd.DataFrame(rows), lines)


if __name__ == "__main__":
    STUDY.main()
