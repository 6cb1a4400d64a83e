r"""Pictures: best value against evaluations, and against the share of the data."""

from pathlib import Path

import numpy as np

from benchmarks.papers.wang_2018.configuration import Experiment
from benchmarks.papers.wang_2018.play import Run
from benchmarks.papers.wang_2018.tables import best_values
from benchmarks.runner import Moments, RunStore, draw_spread, picture

# Okabe & Ito's palette, and a dash pattern each, so that grey print tells them apart.
STYLES = {
    "pem_ucb": {"color": "#0072B2", "linestyle": "-", "linewidth": 2.0},
    "pem_pi": {"color": "#56B4E9", "linestyle": (0, (6, 2))},
    "pem_pi_oracle": {"color": "#56B4E9", "linestyle": (0, (1.2, 1.6))},
    "mixture": {"color": "#009E73", "linestyle": (0, (6, 2, 1.2, 2))},
    "known": {"color": "#222222", "linestyle": (0, (6, 2))},
    "plain": {"color": "#E69F00", "linestyle": (0, (3, 1.5))},
    "tlsm": {"color": "#D55E00", "linestyle": (0, (8, 3, 1, 3, 1, 3))},
    "random": {"color": "#6E6E6E", "linestyle": (0, (1, 4))},
}


def draw(store: RunStore[Run], experiment: Experiment, path: Path) -> Path:
    r"""One line per method; several settings make the share the horizontal axis."""
    with picture(path, figsize=(7.6, 3.6)) as (_, axes):
        if len(experiment.settings) == 1:
            _against_evaluations(axes, store, experiment)
        else:
            _against_settings(axes, store, experiment)
        axes.set_ylabel("best value found")
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return path


def _against_evaluations(axes, store: RunStore[Run], experiment: Experiment) -> None:
    rounds = np.arange(1, experiment.evaluations + 1)
    for method in experiment.methods:
        best = best_values(store, experiment, experiment.settings[0], method)
        if best is None:
            continue
        moments = [Moments.of(column) for column in best.T]
        mean = np.array([m.mean for m in moments])
        error = 1.96 * np.array([m.standard_error for m in moments])
        style = STYLES[method.name]
        draw_spread(axes, rounds, mean, error, style, method.label, alpha=0.12)
    axes.set_xlabel("evaluations")
    axes.set_title(f"mean ± 1.96 standard errors over {experiment.problems} problems")


def _against_settings(axes, store: RunStore[Run], experiment: Experiment) -> None:
    missing = any(setting.held_out > 1 for setting in experiment.settings)
    for number, method in enumerate(experiment.methods):
        shares, moments = [], []
        for setting in experiment.settings:
            best = best_values(store, experiment, setting, method)
            if best is not None:
                share = 100.0 * (setting.missing if missing else setting.share)
                # Beside each other, not over each other.
                shares.append(share + number if missing else share * 1.04**number)
                moments.append(Moments.of(best[:, -1]))
        errors = [1.96 * m.standard_error for m in moments]
        means = [m.mean for m in moments]
        style = STYLES[method.name]
        axes.errorbar(
            shares, means, errors, label=method.label, marker="o", capsize=3, **style
        )
    if not missing:
        axes.set_xscale("log")
        ticks = [100.0 * setting.share for setting in experiment.settings]
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.minorticks_off()
    what = "training values missing" if missing else "training data"
    axes.set_xlabel(f"{what}, %")
    axes.set_title(
        f"after {experiment.evaluations} evaluations, mean ± 1.96 standard errors over "
        f"{experiment.problems} problems"
    )
