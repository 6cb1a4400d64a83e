r"""Pictures of the mean average regret (Figure 4) and the information gain (Figure 3)."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.papers.srinivas_2010.configuration import Experiment
from benchmarks.papers.srinivas_2010.play import Run
from benchmarks.papers.srinivas_2010.summaries import average_regret
from benchmarks.runner import RunStore, draw_spread, legend_below, picture

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
KERNEL_STYLES = {
    "independent": {"color": "#6E6E6E", "marker": "s"},
    "linear": {"color": "#0072B2", "marker": "o"},
    "squared exponential": {"color": "#E69F00", "marker": "^"},
    "Matérn 5/2": {"color": "#009E73", "marker": "D"},
}
UNITS = {"intel_temperature": " in °C", "cmu_iw_light": " in lux"}


def draw_regret(store: RunStore[Run], experiment: Experiment, path: Path) -> Path:
    r"""Mean average regret ± standard error against the round."""
    from matplotlib.ticker import LogLocator, NullFormatter

    setting = experiment.setting
    rounds = np.arange(1, setting.rounds + 1)
    with picture(path, figsize=(6.4, 4.6), dpi=130) as (figure, axes):
        for method in experiment.methods:
            if method.name not in STYLES:
                continue
            curves = average_regret(store, experiment, method)
            mean = curves.mean(axis=0)
            error = curves.std(axis=0) / np.sqrt(max(len(curves) - 1, 1))
            style = STYLES[method.name]
            draw_spread(axes, rounds, mean, error, style, method.label, alpha=0.1, lw=0)
        axes.set(yscale="log", xscale="log", xlim=(1, setting.rounds), xlabel="round $t$")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            axis.set_major_formatter("{x:g}")
            axis.set_minor_formatter(NullFormatter())
        axes.set_ylabel(f"mean average regret $R_t / t${UNITS.get(setting.source, '')}")
        axes.set_title(f"{setting.title}; {setting.trials} trials, ± standard error")
        legend_below(figure, axes, 3)
    return path


def draw_gain(
    spectra: Mapping[str, Sequence[float]], rows: pd.DataFrame, path: Path
) -> Path:
    r"""Largest eigenvalues, and the bounds on the maximum information gain."""
    with picture(path, 1, 2, figsize=(9.0, 4.0), dpi=130) as (figure, (left, right)):
        for kernel, spectrum in spectra.items():
            style = {**KERNEL_STYLES[kernel], "markersize": 3.5}
            left.plot(np.arange(1, len(spectrum) + 1), spectrum, label=kernel, **style)
            own = rows[rows["kernel"] == kernel]
            right.plot(own["samples"], own["upper_bound"].astype(float), **style)
            for method, dashes in (("greedy", "--"), ("spectral", ":")):
                style = {"color": style["color"], "linestyle": dashes}
                right.plot(own["samples"], own[method].astype(float), **style)
        left.set(xlabel="rank", ylabel="eigenvalue of $K_D$", yscale="log")
        right.set(xlabel="samples $T$", ylabel=r"bound on $\gamma_T$ in nats")
        right.set_title("solid: upper_bound\ndashed: greedy, dotted: spectral")
        left.set_title("spectrum, equal trace")
        legend_below(figure, left, 4)
    return path
