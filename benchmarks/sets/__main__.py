r"""Command line: ``python -m benchmarks.sets sequences``."""

from typing import Any

import numpy as np
import pandas as pd

from benchmarks.runner import Moments, captioned
from benchmarks.runner.study import Study, Summary, grid
from benchmarks.sets.levels import WRONG, costs, levels
from benchmarks.sets.play import failures, front, front_seconds, sequences, together
from benchmarks.sets.problems import TABLES

STUDY = Study("benchmarks.sets", "Level sets, failure probabilities and fronts.")
_NOISE = {"noise_std": 0.1}


@STUDY.table(
    "sequences",
    grid(
        _NOISE | {"sequences": 50},
        [
            {"kind": kind, "rounds": rounds, "norm_factor": factor, "seed": seed}
            for kind, rounds, of_true, of_less in (
                ("level", 20, 20, 4),
                ("front", 10, 6, 2),
            )
            for factor in (1.0, 0.5, 0.25)
            for seed in range(of_true if factor == 1.0 else of_less)
        ],
    ),
    sequences,
)
def false_sets(runs: pd.DataFrame) -> Summary:
    r"""How often a set was false in any round, with points chosen by the rule."""
    rows = []
    for (kind, factor), part in runs.groupby(["kind", "norm_factor"], sort=False):
        count = int(part["sequences"].sum())
        shares = [part[name].sum() / count for name in ("false", "silent", "decided")]
        rows.append([kind, f"{factor:g}", str(count), *(f"{each:.3f}" for each in shares)])
    text = (
        "Shares of sequences in which a set was false in any round (delta 0.05), in which "
        "it was and the band did not say that data contradict its norm, and share of "
        "candidates decided in the end. Norm bound in parts of the true norm."
    )
    names = ["set", "norm bound", "sequences", "false", "false and untold", "decided"]
    return Summary(None, captioned(text, names, rows))


_FRONT = _NOISE | {"epsilon": 0.2, "delta": 0.05, "runs": 400, "model_error": 0.01}
_METHODS = ["ours", "VOPy, its theorem", "VOPy, practical", "qLogNEHVI"]


@STUDY.table(
    "fronts",
    grid(_FRONT, {"seed": range(3), "problem": TABLES, "method": _METHODS}),
    front,
)
def fronts(runs: pd.DataFrame) -> Summary:
    r"""Runs until a front is decided, whether it was right, and hypervolumes."""
    rows = []
    for (problem, method), part in runs.groupby(["problem", "method"], sort=False):
        done = part["used"].notna()
        used = part["used"].fillna(np.inf).median()
        row = [problem, method, "-", "-", "-"]
        if method != "qLogNEHVI":
            false = int((part["accurate"][done] == False).sum())  # noqa: E712  (of objects)
            used = f"{used:.0f}" if np.isfinite(used) else "above 400"
            row = [problem, method, f"{int(done.sum())} of {len(part)}", used, str(false)]
        columns = [name for name in part if name.startswith("volume")]
        volumes = [part[name].dropna() for name in columns]
        rows.append(row + [f"{v.mean():.3f}" if len(v) else "-" for v in volumes])
    text = (
        "Front to within 0.2 of a standard deviation, noise 0.1, runs in batches of five, "
        "kernels fitted to the whole table by VOPy, for all methods; our norm bounds are "
        "the least norms on the table, with plain means of each candidate beside them. "
        "Decided within 400 runs, median runs, how many of these were false; true "
        "hypervolume of what was run over that of the table, after so many runs."
    )
    names = ["table", "method", "decided", "runs", "false"]
    return Summary(None, captioned(text, [*names, "20", "50", "100"], rows))


_SECONDS = {"candidates": 500, "dimension": 3, "runs": 60, "noise_std": 0.05}


@STUDY.table(
    "front_seconds",
    grid(_SECONDS, {"objectives": [2, 3], "epsilon": [0.1, 0.4], "seed": range(3)}),
    front_seconds,
)
def seconds_of_fronts(runs: pd.DataFrame) -> Summary:
    r"""Seconds of a front of 500 candidates, and of a round of ParetoWidth."""
    rows = []
    for (objectives, epsilon), part in runs.groupby(["objectives", "epsilon"]):
        row = [str(objectives), f"{epsilon:g}", f"{part['undecided'].median():.0f}"]
        for name in ("pareto_set", "ParetoWidth"):
            ratio = (part[name] / part["bounds"]).median()
            row.append(f"{part[name].median():.2f} s, {ratio:.2g}")
        rows.append(row)
    text = (
        "Seconds of `pareto_set` and of a round of `ParetoWidth` over the undecided of "
        "500 candidates in three inputs, 60 runs; and how many times the seconds of the "
        "bands' bounds at the candidates, in the same run. Medians of three seeds, one "
        "thread, other work on the same machine: seconds differ between machines, ratios "
        "less."
    )
    names = ["objectives", "epsilon", "undecided", "pareto_set", "ParetoWidth"]
    return Summary(None, captioned(text, names, rows))


_FAILURES = {
    **{"share": 0.1, "sample": 2000, "noise_std": 0.05, "lengthscale": 0.5},
    **{"delta": 0.05, "sample_delta": 0.01, "model_error": 0.01, "shown": [[50, 100, 200]]},
}
_PROBLEMS = ["throw", "batch reaction", "beam"]


@STUDY.table(
    "failures",
    grid(
        _FAILURES, {"seed": range(5), "problem": _PROBLEMS, "method": ["ours", "posterior"]}
    ),
    failures,
)
def failing(runs: pd.DataFrame) -> Summary:
    r"""Width of limits on a failure probability of 0.1, and how often they were false."""
    rows, shown = [], runs["shown"].iloc[0]
    for (problem, method), part in runs.groupby(["problem", "method"], sort=False):
        row = [problem, "level_set's" if method == "ours" else "AK-MCS, 2 deviations"]
        for count in shown:
            low, high = np.array([*part[f"ends {count}"]]).T
            width = Moments.of(high - low)
            missed = int(((low > 0.1) | (high < 0.1)).sum())
            row.append(f"{width.mean:.3f} ± {width.standard_error:.3f}, {missed}")
        rows.append(row)
    text = (
        "Width of the interval for a failure probability of 0.1, and in how many of "
        f"{runs['seed'].nunique()} runs it missed, after so many runs; kernel Matern 5/2, "
        "noise 0.05 of the outcomes' deviation, least norm of the sample's values."
    )
    return Summary(None, captioned(text, ["simulator", "limits", *map(str, shown)], rows))


_TOGETHER = {"sample": 2000, "noise_std": 0.05, "norm_factor": 1.2, "share": [0.05, 0.9]}
_LENGTHS = zip((1, 2, 3), (0.15, 0.3, 0.45), strict=True)


@STUDY.table(
    "together",
    grid(
        [{"dimension": d, "lengthscale": length} for d, length in _LENGTHS],
        _TOGETHER,
        {"runs": [20, 60], "seed": range(3)},
    ),
    together,
)
def failing_together(runs: pd.DataFrame) -> Summary:
    r"""Shares of a sample that fail, by single points and counted together."""
    kinds = ["true", "alone at least", "together at least"]
    kinds += ["together at most", "alone at most"]
    inside = runs["together at least"] <= runs["true"]
    runs["false"] = ~(inside & (runs["true"] <= runs["together at most"]))
    groups = runs.groupby(["dimension", "share", "runs"], sort=False)
    means = groups[kinds].mean().round(4)
    rows = means.join(groups["false"].sum()).reset_index()
    cells = rows.astype(object)  # counts without a decimal point
    text = (
        "Share of a sample of 2000 that fails, and limits by single points and counted "
        "together, after runs that no rule chose; norm bound 1.2 times the norm; means of "
        "three seeds, and in how many a limit was false."
    )
    texts = [[str(cell) for cell in row] for row in cells.to_numpy()]
    return Summary(cells, captioned(text, [*cells], texts))


_LEVELS = {"candidates": 400, "rounds": 60, "since": 20, "shown": [[20, 40, 60]]}
_LEVELS |= {"delta": 0.1, "level": 0.75, "noise_std": 0.1}
_FIRSTS = {"candidates": 400, "rounds": 60, "delta": 0.1, "firsts": [[12, 20, 40, 60]]}
_HELD, _TEN = "held after the starts", "of ten other draws"
_AVERAGED, _CERTIFIED = "averaged over 16 draws", "certified band"
_FIFTH, _EVERY = "refitted in every fifth", "refitted in every round"
_TWO, _THREE, _UNKNOWN = "prior in 2 inputs", "prior in 3 inputs", "reaction"
_REPLAYED = [
    {"family": family, "policy": policy, "replays": replays}
    for family, policy, replays in (
        (_TWO, _HELD, 99),
        (_TWO, _FIFTH, 29),
        (_TWO, _EVERY, 9),
        (_TWO, _AVERAGED, 19),
        (_THREE, _HELD, 49),
        (_UNKNOWN, _HELD, 99),
        (_UNKNOWN, _TEN, 49),
    )
]


@STUDY.table(
    "margins",
    grid(_FIRSTS, _REPLAYED),
    costs,
)
def margins(runs: pd.DataFrame) -> Summary:
    r"""What replays ask for: posterior deviations of claims about a level set."""
    rows = []
    for _, run in runs.iterrows():
        for wrong in WRONG:
            numbers = [f"{each:.1f}" for each in run[f"margins {wrong:g}"]]
            replays = str(run["replays"])
            rows.append([run["family"], run["policy"], replays, f"{100 * wrong:g}"])
            rows[-1] += numbers
    text = (
        "A straddle search from 12 starts, replayed on draws of BoTorch's default prior, "
        "standardized, or on a reaction with unknown rates. Posterior deviations at which "
        "at most a share of 400 points (%) is claimed wrongly in any round up to 60 "
        "outcomes with probability 0.9, by the outcomes from which claims are made."
    )
    names = ["replays of", "parameters", "replays", "wrong", "12", "20", "40", "60"]
    return Summary(None, captioned(text, names, rows))


def _of(family: str, *policies: str, **others: Any) -> list[dict[str, Any]]:
    r"""Policies of a family, some of them not replayed: then nothing is calibrated."""
    known = [each for each in _REPLAYED if each["family"] == family]
    found = [each for each in known if each["policy"] in policies]
    missing = {*policies} - {each["policy"] for each in found}
    given = {"family": family, "replays": 0} | others
    return found + [given | {"policy": policy} for policy in sorted(missing)]


_BAND = {"lengthscale": 0.5, "model_error": 0.01}  # of the certified band
# As many as an hour allows
_FIVE, _FIFTY, _SOME, _FEW = (
    {"function": "fresh draw", "seed": range(count)} for count in (5, 50, 25, 10)
)
_IN_TWO = {"function": ["tube", "throw"]}
_IN_THREE = {"function": ["batch reaction", "stirred tank", "epidemic"]}
_PLAYED = [
    *grid(_FIVE | _IN_TWO, _of(_TWO, _HELD, _FIFTH, _AVERAGED)),
    *grid(_FIVE | _IN_THREE, _of(_THREE, _HELD, _FIFTH)),
    *grid(_FIVE | _IN_TWO, _of(_TWO, _CERTIFIED, **_BAND)),
    *grid(_FIVE | _IN_THREE, _of(_THREE, _CERTIFIED, **_BAND)),
    *grid(_FIVE | {"function": "batch reaction"}, _of(_UNKNOWN, _HELD, _TEN)),
    *grid(_FIFTY, _of(_TWO, _HELD) + _of(_THREE, _HELD) + _of(_UNKNOWN, _HELD)),
    *grid(_SOME, _of(_UNKNOWN, _TEN)),
    *grid(_FEW, _of(_TWO, _FIFTH) + _of(_THREE, _FIFTH) + _of(_UNKNOWN, _FIFTH)),
    *(
        run
        for family in (_TWO, _THREE, _UNKNOWN)
        for run in grid(_FEW, _of(family, _CERTIFIED, **_BAND))
    ),
]


@STUDY.table("calibrated", grid(_LEVELS, _PLAYED), levels)
def calibrated(runs: pd.DataFrame) -> dict[str, Summary]:
    r"""Shares of candidates open and wrong: calibrated, plain and certified."""
    fresh, known = runs["function"] == "fresh draw", runs["family"] == "reaction"
    named = runs["function"] + np.where(known, ", its draws' margins", "")
    every = runs[~fresh & ~known & (runs["policy"] != _AVERAGED)]
    real = pd.concat([runs[~fresh].assign(of=named), every.assign(of="all five")])
    groups = {"draws": (runs[fresh], "family"), "real": (real, "of")}
    text = (
        "Share of 400 candidates (%) that is open / claimed wrongly after so many runs, 12 "
        "of them starts, means; in how many runs never more than the stated share (%) was "
        "wrong, from 20 outcomes on, at delta 0.1. Real functions: threshold at the .75 "
        "quantile, noise 0.1 of their deviation; the reaction: 60 % yield, noise 2 %."
    )
    names = ["functions", "claims, parameters", "stated", "20", "40", "60", "kept"]
    return {
        key: Summary(None, captioned(text, names, _shares(*group)))
        for key, group in groups.items()
    }


def _shares(runs: pd.DataFrame, by: str) -> list[list[str]]:
    r"""A row for each way to claim."""
    rows = []
    for (functions, policy), part in runs.groupby([by, "policy"], sort=False):
        first, ways = part.iloc[0], [each.keys() for each in part["shares"]]
        for name in [way for way in ways[0] if all(way in each for each in ways)]:
            # Of every run, open and wrong from 20 outcomes on
            counts = first["rounds"] - first["since"] + 1
            found = np.array([each[name][-counts:] for each in part["shares"]])
            at = [n - first["since"] for n in first["shown"]]
            cells = [f"{o:.1f} / {w:.2f}" for o, w in 100.0 * found[:, at].mean(0)]
            stated = {"plain": WRONG, "certified": WRONG[:1]}.get(name)
            stated = [float(name)] if stated is None else stated
            worst = found[..., 1].max(1)
            kept = [str(int((worst <= share + 1e-9).sum())) for share in stated]
            label = {"plain": "1.96 deviations", "certified": ""}.get(name, "calibrated")
            shown = ", ".join(f"{100 * share:g}" for share in stated)
            label = ", ".join(filter(None, (label, policy)))
            of = f"{', '.join(kept)} of {len(part)}"
            rows.append([functions, label, shown, *cells, of])
    return rows


if __name__ == "__main__":
    STUDY.main()
