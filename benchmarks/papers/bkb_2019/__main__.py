r"""Command line: ``python -m benchmarks.papers.bkb_2019 regret``."""

from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.papers.bkb_2019.play import CHECKED, play, play_sequence
from benchmarks.papers.bkb_2019.problems import oversampling
from benchmarks.papers.bkb_2019.timing import play_rounds
from benchmarks.runner import (
    Moments,
    as_texts,
    captioned,
    markdown_table,
    moments_table,
    picture,
    spaced,
)
from benchmarks.runner.study import Study, Summary, grid
from kernelucb.papers.bkb import accuracy_factor

STUDY = Study("benchmarks.papers.bkb_2019", "Experiments of Calandriello et al. (2019).")
PROTOCOL = {
    "seed": 2019,
    "delta": 0.1,
    "noise_std": 0.1,  # also the root of the regulariser
    "lengthscale": 3.0,  # squared-exponential kernel on standardised features
    "norm_bound": 1.0,  # not known for these data; the authors' choice of scale
    "epsilon": 0.5,
}


# Label; rule: one arm a round, batches, widths of exact bounds, uniform; radius;
# oversampling: a number, that of Theorem 1, or all: every observed arm is inducing, and the
# posterior exact; regulariser, by default the square of the noise scale; growth of batches.
_METHODS = {
    "exact": ("Exact GP-UCB, BKB's practical radius", "bkb", "practical", "all"),
    "bkb": ("BKB, practical radius", "bkb", "practical", 2.0),
    "bbkb": ("BBKB, practical radius", "bbkb", "practical", 2.0),
    "bbkb_double": ("BBKB, practical radius, C = 2", "bbkb", "practical", 2.0, None, 2.0),
    "exact_unit": (
        *("Exact, practical radius, regulariser 1", "bkb", "practical", "all", 1.0),
    ),
    "bkb_unit": ("BKB, practical radius, regulariser 1", "bkb", "practical", 2.0, 1.0),
    "bbkb_unit": ("BBKB, practical radius, regulariser 1", "bbkb", "practical", 2.0, 1.0),
    "exact_mixture": ("Exact, analytic martingale mixture", "mixture", "certified", "all"),
    "bkb_certified": ("BKB, certified radius", "bkb", "certified", 2.0),
    "bkb_certified_unit": (
        *("BKB, certified radius, regulariser 1", "bkb", "certified", 2.0, 1.0),
    ),
    "bkb_theorem2": ("BKB, Theorem 2's radius, its qbar", "bkb", "theorem2", "theorem"),
    "exact_igp": ("Exact, IGP-UCB", "igp", "certified", "all"),
    "uniform": ("Uniform", "uniform", "practical", "all"),
}


def _method(label, rule, radius, qbar, regularizer=None, batch_growth=1.1) -> tuple:
    own = {"rule": rule, "radius": radius, "qbar": qbar, "regularizer": regularizer}
    return label, own | {"batch_growth": batch_growth}


METHODS = {name: _method(*each) for name, each in _METHODS.items()}
PLAYS = {
    "bound": "chosen by the bound of Theorem 2, one a round",
    "random": "distinct arms in random order, in blocks of a tenth of those so far",
}
# With the ten colours of the cycle no two methods share both.
DASHES = ("-", (0, (5, 2)), (0, (1, 1)), (0, (5, 1.5, 1, 1.5)), (0, (9, 2)), (0, (3, 1)))
# Functions of known norm, so that coverage is checked too: arms chosen by the bound, and
# many more observations than dimensions.
ACCURACY = grid(
    PROTOCOL | {"data": "abalone", "play": "bound", "arms": 300, "rounds": 200},
    {"checks": [[1, 3, 10, 30, 100, 200]]},
    {"qbar": [0.5, 2.0, 10.0, "theorem"], "trial": range(100)},
) + grid(
    PROTOCOL | {"data": "abalone", "play": "random", "arms": 4000, "rounds": 4000},
    {"checks": [[100, 400, 1000, 4000]]},
    {"qbar": [0.5, 2.0, 10.0, "theorem"], "trial": range(20)},
)


@STUDY.table("theorem1", ACCURACY, play_sequence)
def theorem1(runs: pd.DataFrame) -> Summary:
    r"""Accuracy of the variances, number of inducing points, coverage."""
    rows, lines = [], []
    for _, of_play in runs.groupby("play", sort=False):
        table = []
        for _, part in of_play.groupby("qbar", sort=False):
            rows += _accuracy_rows(part)
            table.append(_accuracy_cells(part))
        task, trials = of_play.iloc[0], of_play["trial"].nunique()
        factor = accuracy_factor(task["epsilon"])
        header = ["qbar", "smallest ratio", "largest ratio", "sequences outside", "m"]
        header += ["distinct arms", "effective dimension", "bands that missed"]
        lines += [
            f"{task['arms']} arms of {task['data']}, {PLAYS[task['play']]}; functions of "
            f"norm {task['norm_bound']:g}, {task['rounds']} rounds, {trials} sequences. "
            f"Theorem 1 allows variance ratios from {1 / factor:.3g} to {factor:.3g} in "
            f"all but {task['delta']:.0%} of them. Checked at all arms in rounds "
            f"{', '.join(map(str, task['checks']))}.",
            "",
            *markdown_table(header, table),
            "",
            f"None of {trials} shows a rate of at most {1.0 - 0.05 ** (1.0 / trials):.1%} "
            f"at 95 % confidence (delta = {task['delta']:.1%}).",
            "",
        ]
    return Summary(pd.DataFrame(rows), lines[:-1])


def _accuracy_rows(part: pd.DataFrame) -> list[dict]:
    task, rows = part.iloc[0], []
    for at, check in enumerate(task["checks"]):
        found = {name: part[name].str[at] for name in CHECKED}
        row = {"play": task["play"], "qbar": task["qbar"]}
        row |= {"qbar_value": f"{oversampling(task):.6g}", "round": check}
        row |= {"smallest": f"{found['smallest'].min():.6g}"}
        row |= {"largest": f"{found['largest'].max():.6g}"}
        row |= {n: f"{found[n].mean():.4g}" for n in ("inducing", "distinct", "dimension")}
        missed = int((~found["covered"].astype(bool)).sum())
        rows.append(row | {"missed": missed, "trials": len(part)})
    return rows


def _accuracy_cells(part: pd.DataFrame) -> list[str]:
    task = part.iloc[0]
    number, factor = oversampling(task), accuracy_factor(task["epsilon"])
    smallest, largest = np.array([*part["smallest"]]), np.array([*part["largest"]])
    outside = ((smallest < 1 / factor) | (largest > factor)).any(1)
    return [
        f"{number:.0f} (theorem)" if task["qbar"] == "theorem" else f"{number:g}",
        f"{smallest.min():.4f}",
        f"{largest.max():.4f}",
        str(int(outside.sum())),
        *(f"{part[n].str[-1].mean():.1f}" for n in ("inducing", "distinct", "dimension")),
        str(sum(not all(covered) for covered in part["covered"])),
    ]


@STUDY.table(
    "regret",
    grid(
        PROTOCOL | {"data": ["cadata", "abalone"], "arms": 4000, "rounds": 1000},
        {"trial": range(10)},
        [{"method": name, **own} for name, (_, own) in METHODS.items()],
    ),
    play,
)
def regret(runs: pd.DataFrame) -> Summary:
    r"""Regret of all methods; ``exact`` and ``uniform`` are always needed."""
    lines, tables, curves = [], [], {}
    for data, part in runs.groupby("data", sort=False):
        of_method = dict(list(part.groupby("method", sort=False)))
        curves[data] = own = {
            str(name): np.cumsum([*each["regret"]], axis=1)
            for name, each in of_method.items()
        }
        rows = [_regret_cells(name, of_method[name], own) for name in own]
        trials, rounds = own["exact"].shape
        header = ["method", "regret", "over exact", "over uniform", "m", "updates"]
        text = (
            f"{data}: cumulative regret ± standard error after {rounds} rounds, "
            f"{trials} subsets of arms; ratios are paired, over the exact method with the "
            "same regulariser (IGP-UCB and uniform play: over the first)."
        )
        lines += [*captioned(text, [*header, "processor seconds"], rows), ""]
        named = {(data, name): curve for name, curve in own.items()}
        tables.append(moments_table(named, ["data", "method"], spaced(rounds, 16)))
    table = pd.concat(tables).rename(columns={"n": "trials"})
    table = as_texts(table, {"mean": ".5g", "standard_error": ".3g"})
    shown = table[["data", "method", "round", "mean", "standard_error", "trials"]]
    return Summary(shown, lines[:-1], partial(_draw_regret, curves))


def _regret_cells(name: str, runs: pd.DataFrame, curves: dict) -> list[str]:
    label, own = METHODS[name]
    exact = "exact_unit" if own["regularizer"] == 1.0 else "exact"
    final = curves[name][:, -1]
    moments, ratios = Moments.of(final), Moments.of(final / curves[exact][:, -1])
    return [
        label,
        f"{moments.mean:.1f} ± {moments.standard_error:.1f}",
        f"{ratios.mean:.3f} ± {ratios.standard_error:.3f}",
        f"{np.mean(final / curves['uniform'][:, -1]):.3f}",
        f"{runs['inducing'].mean():.0f}",
        f"{runs['updates'].mean():.0f}",
        f"{runs['seconds'].mean():.1f}",
    ]


def _draw_regret(curves: dict, path: Path) -> None:
    shape = {"figsize": (9.0, 4.2), "squeeze": False, "dpi": 130}
    with picture(path, 1, len(curves), **shape) as (figure, panels):
        for axes, (data, own) in zip(panels[0], curves.items(), strict=True):
            uniform = own["uniform"].mean(0)
            for number, name in enumerate(own):
                if name != "uniform":
                    axes.plot(
                        np.arange(1, len(uniform) + 1),
                        own[name].mean(0) / uniform,
                        linestyle=DASHES[number % len(DASHES)],
                        label=METHODS[name][0] if axes is panels[0][0] else None,
                    )
            axes.set(title=data, xlabel="round $t$", ylim=(0, None))
        panels[0][0].set_ylabel("regret over that of uniform play")
        figure.legend(loc="outside lower center", ncols=2, handlelength=4.0)


TIMED = PROTOCOL | {"data": "cadata", "qbar": 2.0}


@STUDY.table("time", grid(TIMED, {"shown": [[10, 25, 50, 100, 150, 200]]}), play_rounds)
def time(runs: pd.DataFrame) -> Summary:
    r"""Time of a round against the yardstick."""
    rows = pd.DataFrame(runs["rows"][0])
    header = ["round", "m", "ours, ms", "NumPy, ms", "ratio"]
    shown = rows.drop(columns="inducing_yardstick").astype(str)
    text = (
        "Processor time of one round of BKB, A = 20640, one thread each, both in one run:"
    )
    return Summary(rows, captioned(text, header, shown.to_numpy()))


if __name__ == "__main__":
    STUDY.main()
