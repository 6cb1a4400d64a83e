r"""Command line: ``python -m benchmarks.papers.flynn_reeb_2024 table1``."""

from collections.abc import Iterable, Mapping
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from benchmarks import runner
from benchmarks.papers.flynn_reeb_2024.play import play
from benchmarks.runner.study import Settings, Study, Summary, grid

STUDY = Study("benchmarks.papers.flynn_reeb_2024", "Experiments of Flynn & Reeb (2024).")
# Differences above this many standard errors of the difference count as disagreement.
AGREEMENT = 2.0
PROTOCOL = {
    "seed": 2024,
    "norm": 10.0,  # of the reward function, exactly
    "centres": 20,  # of the reward function, uniform
    "noise_std": 0.1,
    "delta": 0.01,
}
KERNELS = {"rbf": "RBF", "matern52": "Matérn 5/2", "matern32": "Matérn 3/2"}


class Method(NamedTuple):
    r"""A learner; ``bound``, ``fit`` and ``form`` are arguments of ``KernelBandit``.

    Attributes:
        scale: Of the covariance: the fit's ``"default"``, ``"mixture"``, or the
            ``"paper"``'s, 1 for the RBF kernel and ``horizon^(-d / (2 d + 2 nu))`` for
            Matern kernels.
    """

    label: str
    bound: str = "martingale_mixture"
    fit: str = "martingale"
    form: str | None = None
    scale: str = "paper"


# In the order of the tables.
METHODS = {
    "filters": Method("filters (ours)", fit="filters", scale="default"),
    "exact": Method("exact (CMM)"),
    "mixture": Method("exact, mixture of scales", scale="mixture"),
    "dmm": Method("DMM (grid of 5)", form="grid"),
    "amm": Method("AMM", form="analytic"),
    "ay": Method("AY-GP-UCB", "abbasi_yadkori"),
    "igp": Method("IGP-UCB", "igp_ucb"),
    "random": Method("Random", "none"),
}
# Okabe & Ito's palette, and a dash pattern each, so that grey print tells them apart.
STYLES = {
    "filters": {"color": "#000000", "linestyle": "-", "linewidth": 2.0},
    "exact": {"color": "#0072B2", "linestyle": "-", "linewidth": 2.0},
    "mixture": {"color": "#56B4E9", "linestyle": (0, (3, 1.5))},
    "dmm": {"color": "#E69F00", "linestyle": (0, (6, 2))},
    "amm": {"color": "#009E73", "linestyle": (0, (6, 2, 1.2, 2))},
    "ay": {"color": "#D55E00", "linestyle": (0, (1.2, 1.6))},
    "igp": {"color": "#CC79A7", "linestyle": (0, (8, 3, 1, 3, 1, 3))},
    "random": {"color": "#6E6E6E", "linestyle": (0, (1, 4))},
}


def _problems(
    dimension: int,
    kernels: Iterable[str] = KERNELS,
    lengthscales: Iterable[float] = (0.5, 0.2),
) -> list[Settings]:
    return [
        {"problem": f"{kernel}_{length:g}_d{dimension}", "kernel": kernel}
        | {"lengthscale": length, "dimension": dimension}
        for kernel in kernels
        for length in lengthscales
    ]


def _runs(
    problems: list[Settings],
    methods: Iterable[str],
    repetitions: int,
    factors: list[float] | float = 1.0,
) -> list[Settings]:
    r"""A repetition is finished in every setting before the next begins.

    Args:
        factors: What the learners believe of norm and noise, in multiples of the truth.
    """
    rules = [{"method": name} | METHODS[name]._asdict() for name in methods]
    for rule in rules:
        del rule["label"]
    # The horizon is that in the covariance scale and in IGP-UCB's eta.
    shared = PROTOCOL | {"arms": 100, "rounds": 1000, "horizon": 1000}
    beliefs = {"norm_factor": factors, "noise_factor": factors}
    return grid(shared, {"repetition": range(repetitions)}, problems, beliefs, rules)


PAIR = ("filters", "exact")
WITHOUT_FILTERS = [name for name in METHODS if name != "filters"]
BELIEFS = _problems(3, ["matern52"], [0.5])


@STUDY.table("table1", _runs(_problems(3), METHODS, 10), play)
def table1(runs: pd.DataFrame) -> Summary:
    r"""Regret beside the published one."""
    totals, task = _totals(_curves(runs)), runs.iloc[0]
    paper = published() if task["rounds"] == task["horizon"] else {}
    rows, cells, distances = [], [], []
    for (method, setting), ours in totals.items():
        rows.append(_row(method, setting, ours))
        cells.append([setting, METHODS[method].label, "-", _text(ours), "-", "-"])
        theirs = paper.get((method, setting))
        if theirs is not None:
            distances.append(ours.distance(theirs))
            agree = "yes" if abs(distances[-1]) <= AGREEMENT else "**no**"
            cells[-1][2:] = _text(theirs), _text(ours), f"{distances[-1]:+.2f}", agree
        published_as = ("", "") if theirs is None else (theirs.mean, theirs.std)
        rows[-1]["published_mean"], rows[-1]["published_std"] = published_as
    rows.sort(key=lambda row: [*METHODS].index(row["method"]))
    header = ["setting", "method", "published", "ours"]
    header += ["difference / standard error", "agree"]
    text = (
        f"Cumulative regret after {task['rounds']} rounds, mean ± population standard "
        f"deviation over {runs['repetition'].nunique()} repetitions."
    )
    lines = runner.captioned(text, header, cells)
    if distances:
        agreed = sum(abs(each) <= AGREEMENT for each in distances)
        lines += [
            "",
            f"{agreed} of {len(distances)} means "
            f"differ from the published one by at most {AGREEMENT:g} standard errors of "
            "the difference.",
        ]
    return Summary(pd.DataFrame(rows), lines, partial(_draw_regret, runs))


def published() -> dict[tuple[str, str], runner.Moments]:
    table = runner.read_table(Path(__file__).with_name("expected.csv"))
    return {
        (row.method, row.setting): runner.Moments(
            float(row.mean), float(row.std), int(row.n)
        )
        for row in table[["method", "setting", "mean", "std", "n"]].itertuples()
    }


@STUDY.table("paired_filters", _runs(_problems(3), PAIR, 10), play)
def paired_filters(runs: pd.DataFrame) -> Summary:
    r"""The filters against the exact bound, in pairs."""
    summary = paired(runs)
    return Summary(summary.rows, summary.lines, partial(_draw_regret, runs))


# The first ten repetitions are those of Table 1.
@STUDY.table("paired", _runs(_problems(3), ("exact", "dmm"), 20), play)
def paired(runs: pd.DataFrame) -> Summary:
    r"""The exact bound against the grid, in pairs."""
    first, second = runs["method"].unique()
    curves, rows, cells = _curves(runs), [], []
    for setting in runs["problem"].unique():
        ours, others = (curves[name, setting][:, -1] for name in (first, second))
        gap, ratio = runner.paired_difference(ours, others), ours.mean() / others.mean()
        row = {"method": first, "setting": setting, first: round(float(ours.mean()), 3)}
        row |= {second: round(float(others.mean()), 3), "ratio": round(float(ratio), 4)}
        row |= {"difference": round(gap.mean, 3)}
        rows.append(row | {"standard_error": round(gap.standard_error, 3), "n": gap.n})
        cells.append([setting, *(f"{row[name]:.1f}" for name in (first, second))])
        cells[-1].append(f"{row['ratio']:.3f}")
        cells[-1].append(f"{row['difference']:+.1f} ± {rows[-1]['standard_error']:.1f}")
        cells[-1].append(f"{gap.n}")
    frame = pd.DataFrame(rows)
    header = ["setting", METHODS[first].label, METHODS[second].label]
    header += ["ratio of means", "difference ± standard error", "n"]
    total, errors = frame["difference"].sum(), frame["standard_error"]
    error, ratio = np.sqrt((errors**2).sum()), np.exp(np.log(frame["ratio"]).mean())
    below = (frame["difference"] < 0).sum()
    clear = (frame["difference"] < -AGREEMENT * errors).sum()
    lines = [
        *runner.markdown_table(header, cells),
        "",
        f"All settings together: difference {total:+.1f} ± {error:.1f}, geometric mean of "
        f"the ratios {ratio:.3f}. The difference is below zero in {below} of {len(rows)} "
        f"settings, by {AGREEMENT:g} standard errors in {clear}.",
    ]
    return Summary(frame, lines)


@STUDY.table("figure5", _runs(_problems(2), WITHOUT_FILTERS, 1), play)
@STUDY.table("figure5_filters", _runs(_problems(2), PAIR, 5), play)
@STUDY.table("figure6", _runs(_problems(4), WITHOUT_FILTERS, 1), play)
@STUDY.table("figure6_filters", _runs(_problems(4), PAIR, 5), play)
def other_dimensions(runs: pd.DataFrame) -> Summary:
    r"""Regret for other dimensions."""
    curves, last = _curves(runs), runs["rounds"][0]
    totals, settings = _totals(curves), runs["problem"].unique()
    shown = runner.spaced(last, 21, np.linspace)
    rows = runner.moments_table(curves, ["method", "setting"], shown, digits=3)
    cells = [
        [METHODS[method].label, *(_text(totals[method, name]) for name in settings)]
        for method in runs["method"].unique()
    ]
    text = (
        f"Cumulative regret after {last} rounds, mean ± population standard "
        f"deviation, n = {runs['repetition'].nunique()}."
    )
    lines = runner.captioned(text, ["method", *settings], cells)
    return Summary(rows, lines, partial(_draw_regret, runs))


@STUDY.table("figure7", _runs(BELIEFS, METHODS, 10, factors=[1.0, 2.0]), play)
def figure7(runs: pd.DataFrame) -> Summary:
    r"""What loose beliefs about noise and norm cost."""
    totals, beliefs = _totals(_curves(runs)), _beliefs(runs)
    methods = runs["method"].unique()
    rows = [_row(m, name, totals[m, name]) for m in methods for name in beliefs]
    cells = []
    for method in methods:
        own = [totals[method, name] for name in beliefs]
        texts = [f"{_text(each)} ({each.mean / own[0].mean:.2f})" for each in own]
        cells.append([METHODS[method].label, *texts])
    header = [f"sigma {noise:g}, B {norm:g}" for noise, norm in beliefs.values()]
    text = (
        f"Cumulative regret after {runs['rounds'][0]} rounds, "
        f"n = {runs['repetition'].nunique()}; in brackets the multiple of the first column."
    )
    lines = runner.captioned(text, ["method", *header], cells)
    return Summary(pd.DataFrame(rows), lines, partial(_draw_beliefs, runs))


def _setting(task: Mapping[str, Any]) -> str:
    r"""Name of a problem and of beliefs that are not true."""
    noise, norm = task["noise_factor"], task["norm_factor"]
    beliefs = "" if noise == 1.0 else f"_noise{noise:g}x"
    beliefs += "" if norm == 1.0 else f"_norm{norm:g}x"
    return task["problem"] + beliefs


def _beliefs(runs: pd.DataFrame) -> dict[str, tuple[float, float]]:
    r"""Believed noise scale and norm of each setting."""
    return {
        _setting(r): (r["noise_factor"] * r["noise_std"], r["norm_factor"] * r["norm"])
        for _, r in runs.iterrows()
    }


def _curves(runs: pd.DataFrame) -> dict[tuple[str, str], np.ndarray]:
    r"""Cumulative regret, ``repetitions x rounds``, by method and setting."""
    keys = ["problem", "norm_factor", "noise_factor", "method"]
    return {
        (method, _setting(part.iloc[0])): np.cumsum(part["regret"].tolist(), axis=1)
        for (*_, method), part in runs.groupby(keys, sort=False)
    }


def _totals(curves: Mapping[tuple[str, str], np.ndarray]) -> dict:
    return {pair: runner.Moments.of(curve[:, -1]) for pair, curve in curves.items()}


def _row(method: str, setting: str, moments: runner.Moments) -> dict[str, Any]:
    row = {"method": method, "setting": setting, "mean": round(moments.mean, 3)}
    return row | {"std": round(moments.std, 3), "n": moments.n}


def _text(moments: runner.Moments) -> str:
    return f"{moments.mean:.1f} ± {moments.std:.1f}"


def _draw_regret(runs: pd.DataFrame, path: Path) -> None:
    r"""One panel per setting: mean ± standard deviation of the cumulative regret."""
    lengths, kernels = sorted(runs["lengthscale"].unique(), reverse=True), runs["kernel"]
    panels = [
        [
            (f"{KERNELS[kernel]}, length {length:g}", part[part["kernel"] == kernel])
            for kernel in kernels.unique()
        ]
        for length in lengths
        for part in [runs[runs["lengthscale"] == length]]
    ]
    title = f"{runs['dimension'][0]}-dimensional arms"
    size = (3.1 * len(panels[0]) + 0.6, 2.6 * len(panels) + 0.8)
    _draw(panels, title, path, figsize=size)


def _draw_beliefs(runs: pd.DataFrame, path: Path) -> None:
    r"""One panel for each pair of beliefs about noise and norm."""
    beliefs, settings = _beliefs(runs), runs.apply(_setting, axis=1)
    panels = [
        (f"believed $\\sigma$ = {noise:g}, $B$ = {norm:g}", runs[settings == name])
        for name, (noise, norm) in beliefs.items()
    ]
    title = f"True $\\sigma$ = {runs['noise_std'][0]:g}, $B$ = {runs['norm'][0]:g}"
    size = (2.7 * len(beliefs) + 0.4, 3.6)
    _draw([panels], title, path, figsize=size, sharey=True)


def _draw(panels: list[list[tuple]], title: str, path: Path, **options: Any) -> None:
    options |= {"squeeze": False, "dpi": 130}
    with runner.picture(path, len(panels), len(panels[0]), **options) as (figure, axes):
        for own, (name, runs) in zip(axes.flat, chain(*panels), strict=True):
            _draw_panel(own, runs, name)
            repetitions = runs["repetition"].nunique()
        for own in axes[-1]:
            own.set_xlabel("round")
        for own in axes[:, 0]:
            own.set_ylabel("cumulative regret")
        runner.legend_below(figure, axes[0, 0], 4)
        title += f"; mean ± standard deviation of {repetitions} repetitions"
        figure.suptitle(title, fontsize=11)


def _draw_panel(axes: Any, runs: pd.DataFrame, title: str) -> None:
    last, top = runs["rounds"].iloc[0], 0.0
    for (method, _), curves in _curves(runs).items():
        mean, std = curves.mean(axis=0), curves.std(axis=0)
        shape = np.arange(1, last + 1), mean, std, STYLES[method], METHODS[method].label
        runner.draw_spread(axes, *shape, alpha=0.15, lw=0)
        if method != "random":
            top = max(top, float((mean + std)[-1]))
    # Random leaves every panel early; the learners are what the picture compares.
    limits = {"xlim": (0, last), "ylim": (0, 1.05 * top if top else None)}
    axes.set(title=title, **limits)


if __name__ == "__main__":
    STUDY.main()
