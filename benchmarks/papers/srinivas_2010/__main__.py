r"""Command line: ``python -m benchmarks.papers.srinivas_2010 synthetic``.

Section 6 of Srinivas, Krause, Kakade & Seeger (2010).
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks import runner
from benchmarks.papers.srinivas_2010.learners import METHODS, play
from benchmarks.papers.srinivas_2010.priors import prior_of, rows_of
from benchmarks.runner.study import Settings, Study, Summary, grid

STUDY = Study("benchmarks.papers.srinivas_2010", "Experiments of Srinivas et al. (2010).")
BASELINE = "gp_ucb"
# Experiment -> title, and the number of consecutive functions that count as one in
# standard errors: rows of sensors are nearly the same function for hours.
TITLES = {
    "synthetic": ("Samples of a squared-exponential prior", 1),
    "temperature": ("Temperature, 50 sensors", 12),
    "light": ("Light, 41 sensors", 24),
    # Why is the order of the methods on the rows not that of the synthetic functions: too
    # few rounds, or rows that are no samples of the prior?
    "light_long": ("Light, 41 sensors, 200 rounds", 24),
    "temperature_samples": ("Samples of the prior of the temperature sensors", 1),
    "light_samples": ("Samples of the prior of the light sensors", 1),
}
UNITS = {"intel_temperature": " in °C", "cmu_iw_light": " in lux"}
# Okabe & Ito's palette, and a dash pattern each; variants without a style are in the
# tables only.
STYLES = {
    "gp_ucb": {"color": "#0072B2", "linestyle": "-", "linewidth": 2.0},
    "mixture": {"color": "#56B4E9", "linestyle": (0, (3, 1.5))},
    "ei": {"color": "#E69F00", "linestyle": (0, (6, 2))},
    "mpi": {"color": "#D55E00", "linestyle": (0, (1.2, 1.6))},
    "mpi_margin": {"color": "#009E73", "linestyle": (0, (6, 2, 1.2, 2))},
    "mean": {"color": "#CC79A7", "linestyle": (0, (8, 3, 1, 3, 1, 3))},
    "variance": {"color": "#6E6E6E", "linestyle": (0, (1, 2.5))},
}


def _runs(
    source: str, functions: str, rounds: int, trials: int, *without: str, **synthetic: int
) -> list[Settings]:
    r"""A function is played by every method before the next begins.

    Args:
        source: Of the prior.
        functions: ``"samples"`` of the prior, or ``"rows"`` of readings that it was not
            made of.
        without: Methods that do not play.
    """
    protocol = {"delta": 0.1, "seed": 2010, "source": source, "functions": functions}
    share = 0.025 if source == "squared_exponential" else 0.05  # noise over signal
    methods = [
        {"method": name, "options": [*rule[1:]]}  # all but the label: runs depend on them
        for name, rule in METHODS.items()
        if name not in without
    ]
    shared = protocol | synthetic | {"noise_share": share, "rounds": rounds}
    return grid(shared, {"trial": range(trials)}, methods)


# The norm bound that ``mixture`` needs is known for samples of the prior only.
SENSORS = ("mixture",)
FEW = ("mixture", "ei_observed", "mpi_margin", "mpi_observed", "gp_ucb_theorem", "variance")
RUNS = {
    "synthetic": _runs("squared_exponential", "samples", 1000, 30, points=1000),
    "temperature": _runs("intel_temperature", "rows", 50, 192, *SENSORS),
    "light": _runs("cmu_iw_light", "rows", 41, 192, *SENSORS),
    "light_long": _runs("cmu_iw_light", "rows", 200, 192, *FEW, "gp_ucb_twentieth"),
    "temperature_samples": _runs("intel_temperature", "samples", 50, 100),
    "light_samples": _runs("cmu_iw_light", "samples", 41, 400, *FEW),
}


def regret(name: str, runs: pd.DataFrame) -> Summary:
    r"""Mean average regret at some rounds, and after the last."""
    title, block = TITLES[name]
    task, trials = runs.iloc[0], runs["trial"].nunique()
    curves = {
        str(method): average_regret(part, block)
        for method, part in runs.groupby("method", sort=False)
    }
    lines = _final_table(title, curves, trials)
    if task["functions"] == "rows":
        lines += ["", _about_the_readings(task)]
    last = task["rounds"]
    labels, shown = (
        {(method,): curve for method, curve in curves.items()},
        runner.spaced(last, 21),
    )
    paired = {key: curve - curves[BASELINE] for key, curve in labels.items()}
    rows, difference = (
        runner.moments_table(e, ["method"], shown) for e in (labels, paired)
    )
    rows = rows.rename(columns={"n": "blocks"}).assign(trials=trials)
    rows["difference"] = difference["mean"]
    rows["difference_standard_error"] = difference["standard_error"]
    columns = ["mean", "standard_error", "difference", "difference_standard_error"]
    rows = runner.as_texts(rows, dict(zip(columns, (".5g", ".3g") * 2, strict=True)))
    rows = rows[["method", "round", *columns, "trials", "blocks"]]
    heading = f"{title}; {trials} trials, ± standard error"
    unit = UNITS.get(task["source"], "")
    return Summary(rows, lines, partial(_draw_regret, curves, heading, unit))


for _name, _all in RUNS.items():
    STUDY.table(_name, _all, play)(partial(regret, _name))


def average_regret(runs: pd.DataFrame, block: int) -> np.ndarray:
    r"""Average regret ``R_t / t`` of a method, ``blocks x rounds``.

    Trials with the same row of a sensor network belong to the same block.
    """
    task, trials = runs.iloc[0], runs["trial"].to_numpy()
    samples = task["functions"] == "samples"
    functions = len(trials) if samples else len(rows_of(task["source"]))
    curves = np.cumsum(runs["regret"].tolist(), axis=1) / np.arange(1, task["rounds"] + 1)
    blocks = trials % functions // block
    return np.array([curves[blocks == each].mean(axis=0) for each in np.unique(blocks)])


def _final_table(title: str, curves: Mapping[str, np.ndarray], trials: int) -> list[str]:
    blocks, last = curves[BASELINE].shape
    early, rows = max(last // 10, 1), []
    for method, curve in curves.items():
        cells = [_text(runner.Moments.of(curve[:, number - 1])) for number in (early, last)]
        difference = runner.Moments.of(curve[:, -1] - curves[BASELINE][:, -1])
        ratio = "-"
        if method != BASELINE and difference.standard_error > 0:
            ratio = f"{difference.mean / difference.standard_error:+.1f}"
        rows.append([METHODS[method].label, *cells, _text(difference, sign="+"), ratio])
    errors = "" if blocks == trials else f"; standard errors from {blocks} blocks"
    minus = f"minus GP-UCB (beta / 5), t = {last}"
    header = ["method", f"t = {early}", f"t = {last}", minus, "in standard errors"]
    text = (
        f"{title}: mean average regret `R_t / t` ± standard error, "
        f"{trials} trials{errors}. Differences are paired."
    )
    return runner.captioned(text, header, rows)


def _about_the_readings(task: pd.Series) -> str:
    r"""How far the rows are from samples of the prior that all methods assume."""
    prior, rows = prior_of(task["source"], task["noise_share"]), rows_of(task["source"])
    norms = np.array([prior.norm(row) for row in rows])
    best = np.bincount(rows.argmax(1).numpy())
    return (
        f"Noise variance {prior.noise_variance:.3g}. RKHS norm of the "
        f"{len(norms)} rows: median {np.median(norms):.1f}, largest {norms.max():.1f}; of "
        f"samples of the prior 95 % would be below {prior.norm_quantile(0.95):.1f}. "
        f"{np.count_nonzero(best)} sensors are the best of some row, one of them of "
        f"{best.max()} rows."
    )


def _text(moments: runner.Moments, sign: str = "") -> str:
    return f"{moments.mean:{sign}.3g} ± {moments.standard_error:.2g}"


def _draw_regret(
    curves: Mapping[str, np.ndarray], title: str, unit: str, path: Path
) -> None:
    r"""Mean average regret ± standard error against the round."""
    from matplotlib.ticker import LogLocator, NullFormatter

    rounds = np.arange(1, curves[BASELINE].shape[1] + 1)
    with runner.picture(path, figsize=(6.4, 4.6), dpi=130) as (figure, axes):
        for method, style in STYLES.items():
            if method in curves:
                curve, label = curves[method], METHODS[method].label
                mean = curve.mean(axis=0)
                error = curve.std(axis=0) / np.sqrt(max(len(curve) - 1, 1))
                runner.draw_spread(axes, rounds, mean, error, style, label, alpha=0.1, lw=0)
        axes.set(yscale="log", xscale="log", xlim=(1, len(rounds)), xlabel="round $t$")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            axis.set_major_formatter("{x:g}")
            axis.set_minor_formatter(NullFormatter())
        axes.set_ylabel(f"mean average regret $R_t / t${unit}")
        axes.set_title(title)
        runner.legend_below(figure, axes, 3)


if __name__ == "__main__":
    STUDY.main()
