r"""Figures 4 to 6: noise intervals and widths of bands, and their pictures."""

# ruff: noqa: RUF001  (the tables have Greek letters)

import math
from collections.abc import Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.papers.durand_2018.play import snapshots, true_function
from benchmarks.runner import (
    Moments,
    captioned,
    legend_below,
    line,
    markdown_table,
    picture,
)
from benchmarks.runner.study import Settings, Summary
from kernelucb.plotting import BLACK, BLUE, OUTLINES, plot_bands

TARGETS = ("claim or target", "measured", "met")


def digits(value: float, count: int = 3) -> str:
    r"""A number with some significant digits, never in powers of ten."""
    if not math.isfinite(value):
        return "∞"
    after = count - 1 - math.floor(math.log10(abs(value))) if value else count - 1
    return f"{value:.{max(after, 0)}f}"


def estimate(moments: Moments) -> str:
    r"""A mean with its standard error."""
    return f"{digits(moments.mean)} ± {digits(moments.standard_error, 2)}"


def verdict(met: bool) -> str:
    r"""How a table says whether a target was met."""
    return "yes" if met else "**no**"


def noise(runs: pd.DataFrame) -> Summary:
    r"""Figures 4 and 5: noise intervals against rounds."""
    task, kept = runs.iloc[0], runs["kept"][0]
    noise_std, shown = task["noise_std"], _table_rounds(runs)
    rows, cells = [], []
    for name in task["intervals"]:
        bounds = _intervals(runs, name)
        quartiles = np.quantile(bounds, (0.25, 0.5, 0.75), axis=0, method="nearest")
        for number, values in zip(kept, quartiles.round(5).swapaxes(0, 1), strict=True):
            names = product(("lower", "upper"), ("quartile1", "median", "quartile3"))
            found = dict(zip(map("_".join, names), values.T.flat, strict=True))
            rows.append({"bound": name, "round": number} | found | {"n": len(runs)})
        medians = np.median(bounds / noise_std, axis=0)
        texts = [f"[{digits(low)}, {digits(high)}]" for low, high in medians]
        missed = (bounds[..., 0] > noise_std) | (bounds[..., 1] < noise_std)
        cells.append([_bound(name), *(texts[kept.index(number)] for number in shown)])
        cells[-1].append(f"{missed.any(1).sum()} of {len(runs)}")
    text = (
        f"Interval for the noise scale as multiples of the true one, medians over "
        f"{len(runs)} functions; every interval starts from 0.01 below and fails "
        f"with probability at most {task['delta']:g}."
    )
    lines = captioned(text, ["bound", *(f"t = {n}" for n in shown), "missed σ"], cells)
    lines += ["", *markdown_table(TARGETS, _noise_targets(runs))]
    return Summary(pd.DataFrame(rows), lines, partial(_draw_noise, runs))


def _table_rounds(runs: pd.DataFrame) -> list[int]:
    return [number for number in runs["table_rounds"][0] if number in runs["kept"][0]]


def _intervals(runs: pd.DataFrame, name: str) -> np.ndarray:
    r"""Lower and upper noise bounds, ``repetitions x rounds x 2``."""
    return np.array([each[name] for each in runs["intervals"]])


def _bound(name: str) -> str:
    if name == "joint":
        return "joint set (ours), from σ ≤ 1"
    kind, guess = name.split()
    start = "from nothing above" if guess == "none" else f"from σ ≤ {guess}"
    return f"Theorem 3, {kind} λ, {start}"


def _noise_targets(runs: pd.DataFrame) -> list[tuple[str, str, str]]:
    last, noise_std = _table_rounds(runs)[-1], runs["noise_std"][0]
    guesses, index = (
        [f"{g:g}" for g in runs["noise_guesses"][0]],
        runs["kept"][0].index(last),
    )

    def ends(name: str) -> np.ndarray:
        return _intervals(runs, name)[:, index] / noise_std

    uppers = np.stack([ends(f"adaptive {start}")[:, 1] for start in (*guesses, "none")])
    spread = float((uppers.max(axis=0) / uppers.min(axis=0) - 1.0).max())
    upper = float(np.median(uppers[0]))
    fixed = [float(np.median(ends(f"fixed {guess}")[:, 1])) for guess in guesses]
    joint = ends("joint")
    lower, above = np.median(joint, axis=0)
    inside = int(((joint[:, 0] >= 0.75) & (joint[:, 1] <= 1.25)).sum())
    return [
        (
            "the adaptive upper bound converges to the same value whatever the start",
            f"largest difference at t = {last}: {100 * spread:.2g} %",
            verdict(spread < 0.01),
        ),
        (f"it is 2.5 to 3 σ at t = {last}", f"{upper:.2f} σ", verdict(2.5 <= upper <= 3.0)),
        (
            f"it is below the one at a fixed λ (t = {last})",
            f"fixed: {', '.join(map(digits, fixed))} σ",
            verdict(min(fixed) > upper),
        ),
        (
            f"the joint interval is within 25 % of σ on both sides at t = {last}",
            f"median [{lower:.3f}, {above:.3f}] σ; {inside} of {len(joint)} functions",
            verdict(lower >= 0.75 and above <= 1.25),
        ),
    ]


_INTERVALS = {
    "joint": {"color": BLUE, "linewidth": 2.0}
    | {"label": "joint set (ours), start [0.01, 1]"},
    "1": OUTLINES[0] | {"label": r"start $\sigma_+ = 1$"},
    "5": OUTLINES[1] | {"label": r"start $\sigma_+ = 5$"},
    "50": OUTLINES[2] | {"label": r"start $\sigma_+ = 50$"},
    "none": OUTLINES[4] | {"label": r"no start for $\sigma_+$"},
}
_PANELS = {
    r"fixed $\lambda$ (Theorem 3)": ("fixed 1", "fixed 5", "fixed 50"),
    r"adaptive $\lambda$ (Corollary 1)": [f"adaptive {g}" for g in (1, 5, 50, "none")],
    "joint set and Corollary 1": ("joint", "adaptive 1"),
}


def _draw_noise(runs: pd.DataFrame, path: Path) -> None:
    r"""Medians and quartiles of both noise bounds, three panels."""
    shape = {"figsize": (10.5, 3.9), "sharey": True, "dpi": 130}
    with picture(path, 1, len(_PANELS), **shape) as (figure, panels):
        for axes, (title, names) in zip(panels, _PANELS.items(), strict=True):
            for name in names:
                _draw_interval(axes, runs, name)
            axes.axhline(runs["noise_std"][0], color=BLACK, ls=":", lw=1.2)
            axes.set(xscale="log", yscale="log", title=title)
            axes.set_xlabel("observations $t$")
            axes.margins(x=0)
        panels[0].set_ylabel(r"bounds on the noise scale $\sigma$")
        entries = {
            label: handle
            for axes in panels
            for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
        }
        entries[r"true $\sigma$"] = panels[0].lines[-1]
        figure.legend(entries.values(), entries.keys(), loc="outside lower center", ncols=3)


def _draw_interval(axes: Any, runs: pd.DataFrame, name: str) -> None:
    style, bounds = _INTERVALS[name.split()[-1]], _intervals(runs, name)
    low, middle, high = np.quantile(bounds, (0.25, 0.5, 0.75), axis=0, method="nearest")
    for side in (0, 1):
        finite = np.isfinite(high[:, side])
        rounds = np.array(runs["kept"][0])[finite]
        line = {**style, "label": None} if side else style
        axes.plot(rounds, middle[finite, side], **line)
        edges = low[finite, side], high[finite, side]
        axes.fill_between(rounds, *edges, color=style["color"], alpha=0.2, lw=0)


# Label, and what the band knows.
BANDS = {
    "exact": ("exact, mixture of scales", "σ"),
    "exact_one": ("exact, scale 1", "σ, c"),
    "theorem1": ("Theorem 1, λ = σ²/C²", "σ"),
    "theorem1_noise": ("Theorem 1, λ = σ²", "σ"),
    "wang": ("Wang & de Freitas, λ = σ²", "σ; holds at each t alone"),
    "joint": ("joint set (ours)", "0.01 ≤ σ ≤ 1"),
    "adaptive": ("Corollary 1 (adaptive)", "0.01 ≤ σ ≤ 1"),
    "fixed": ("Theorem 1 (fixed)", "σ ≤ 1"),
}
RATIOS = (
    ("joint", "exact"),
    ("joint", "exact_one"),
    ("adaptive", "joint"),
    ("fixed", "adaptive"),
    ("theorem1_noise", "wang"),
    ("theorem1", "wang"),
)


def band(runs: pd.DataFrame) -> Summary:
    r"""Figure 6: mean widths of bands, their ratios and misses."""
    kept, shown = runs["kept"][0], _table_rounds(runs)
    rows, widths, means = [], [], {}
    for name, words in BANDS.items():
        found, misses = (
            np.array([e[name] for e in runs[which]]) for which in ("widths", "misses")
        )
        means[name] = dict(zip(kept, found.mean(axis=0).tolist(), strict=True))
        for index, (number, mean) in enumerate(means[name].items()):
            row = {"band": name, "round": number, "mean_width": round(mean, 5)}
            row |= {"std": round(float(found[:, index].std()), 5)}
            rows.append(row | {"functions_missed": misses[:, index].sum(), "n": len(runs)})
        widths.append([*words, *(digits(means[name][number]) for number in shown)])
        widths[-1].append(f"{misses.any(axis=1).sum()} of {len(runs)}")

    def ratios(above: str, below: str) -> dict[int, float]:
        return {number: means[above][number] / means[below][number] for number in shown}

    compared = [
        [f"{BANDS[a][0]} / {BANDS[b][0]}", *(f"{r:.2f}" for r in ratios(a, b).values())]
        for a, b in RATIOS
    ]
    close = {n: r for n, r in ratios("joint", "exact").items() if n >= 200}
    gains = {n: r for n, r in ratios("adaptive", "joint").items() if n in (50, 200)}
    wider = ratios("fixed", "adaptive")
    targets = [
        (
            "joint at most 1.15 times the band that knows the noise, from t = 200 on",
            _values(close),
            verdict(all(ratio <= 1.15 for ratio in close.values())),
        ),
        (
            "joint at least 5 times narrower than Corollary 1 at t = 50 and 200",
            _values(gains),
            verdict(all(ratio >= 5.0 for ratio in gains.values())),
        ),
        (
            "the adaptive band improves on the fixed one (at the last round)",
            "fixed / adaptive: " + _values(wider),
            verdict(wider[shown[-1]] > 1.0),
        ),
    ]
    columns = [f"t = {number}" for number in shown]
    text = (
        f"Mean width over [0, 1], outcome units, mean over {len(runs)} functions; "
        f"every band fails with probability at most {runs['delta'][0]:g}."
    )
    lines = [
        *captioned(text, ["band", "knows", *columns, "functions missed"], widths),
        "",
        *markdown_table(["ratio of mean widths", *columns], compared),
        "",
        *markdown_table(TARGETS, targets),
    ]
    task = runs.iloc[0].to_dict()
    return Summary(pd.DataFrame(rows), lines, partial(_draw_bands, task, shown))


def _values(ratios: dict[int, float]) -> str:
    return ", ".join(f"{ratio:.2f} (t = {number})" for number, ratio in ratios.items())


def _draw_bands(task: Settings, rounds: Sequence[int], path: Path) -> None:
    r"""Bands around the first function at the rounds of the table."""
    shown = [s for s in snapshots(task) if s.regression.num_observations in rounds]
    shape = {"figsize": (2.9 * len(shown), 3.9), "squeeze": False, "dpi": 130}
    few = 60  # data, more would hide the narrow bands
    with picture(path, 1, len(shown), **shape) as (figure, panels):
        for axes, (data, _, bands) in zip(panels[0], shown, strict=True):
            plot_bands(
                {BANDS[name][0]: bands[name] for name in ("adaptive", "fixed", "joint")},
                line(task["queries"]),
                data=(data.train_inputs[:few], data.train_targets[:few]),
                true_function=true_function(task),
                show_mean=False,
                ax=axes,
                legend=False,
                x_label="input $x$",
                y_label="",
                data_name=f"data (the first {few})",
            )
            axes.set_title(f"t = {data.num_observations}")
        panels[0][0].set_ylabel("outcome $y$")
        legend_below(figure, panels[0][0], 5)
