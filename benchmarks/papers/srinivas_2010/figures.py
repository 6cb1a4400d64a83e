r"""Pictures of the mean average regret (Figure 4) and the information gain (Figure 3)."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from benchmarks.papers.srinivas_2010.configuration import Experiment
from benchmarks.papers.srinivas_2010.play import Run
from benchmarks.papers.srinivas_2010.summaries import average_regret
from benchmarks.runner import RunStore
from kernelucb.plotting.style import RC, load_pyplot

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


def draw_regret(store: RunStore[Run], experiment: Experiment, path: Path) -> list[Path]:
    r"""Mean average regret ± standard error against the round."""
    plt = load_pyplot()
    from matplotlib.ticker import LogLocator, NullFormatter

    setting = experiment.setting
    rounds = np.arange(1, setting.rounds + 1)
    with plt.rc_context(RC):
        figure, axes = plt.subplots(figsize=(6.4, 4.6), layout="constrained")
        for method in experiment.methods:
            if method.name not in STYLES:
                continue
            style = STYLES[method.name]
            curves = average_regret(store, experiment, method)
            mean = curves.mean(axis=0)
            error = curves.std(axis=0) / np.sqrt(max(len(curves) - 1, 1))
            axes.plot(rounds, mean, label=method.label, **style)
            axes.fill_between(
                rounds, mean - error, mean + error, color=style["color"], alpha=0.1, lw=0
            )
        axes.set(yscale="log", xscale="log", xlim=(1, setting.rounds), xlabel="round $t$")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            axis.set_major_formatter("{x:g}")
            axis.set_minor_formatter(NullFormatter())
        axes.set_ylabel(f"mean average regret $R_t / t${UNITS.get(setting.source, '')}")
        axes.set_title(f"{setting.title}; {setting.trials} trials, ± standard error")
        figure.legend(loc="outside lower center", ncols=3)
        _save(figure, path)
        plt.close(figure)
    return [path]


def draw_gain(
    spectra: Mapping[str, Sequence[float]], rows: Sequence[dict], path: Path
) -> list[Path]:
    r"""Largest eigenvalues, and both bounds on the maximum information gain."""
    plt = load_pyplot()
    with plt.rc_context(RC):
        figure, (left, right) = plt.subplots(1, 2, figsize=(9.0, 4.0), layout="constrained")
        for kernel, spectrum in spectra.items():
            style = {**KERNEL_STYLES[kernel], "markersize": 3.5}
            left.plot(np.arange(1, len(spectrum) + 1), spectrum, label=kernel, **style)
            own = [row for row in rows if row["kernel"] == kernel]
            samples = [row["samples"] for row in own]
            right.plot(samples, [float(row["greedy"]) for row in own], **style)
            style = {"color": style["color"], "linestyle": "--"}
            right.plot(samples, [float(row["spectral"]) for row in own], **style)
        left.set(xlabel="rank", ylabel="eigenvalue of $K_D$", yscale="log")
        right.set(xlabel="samples $T$", ylabel=r"bound on $\gamma_T$ in nats")
        right.set_title("solid: greedy, dashed: spectral (Eq. 8)")
        left.set_title("spectrum, equal trace")
        figure.legend(loc="outside lower center", ncols=4)
        _save(figure, path)
        plt.close(figure)
    return [path]


def _save(figure, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
