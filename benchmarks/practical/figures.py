r"""Pictures: regret on every problem, and ranks against the budget."""

from pathlib import Path

import numpy as np

from benchmarks.practical.configuration import Method
from benchmarks.practical.summaries import MEASURES, Results, mean_ranks
from benchmarks.runner import Moments
from kernelucb.plotting.style import BLACK, RC, load_pyplot

# Okabe & Ito's palette, and a dash pattern each; methods of our own are black and wide.
STYLES = {
    "ucb_02": {"color": "#56B4E9", "linestyle": (0, (3, 1.5))},
    "ucb_2": {"color": "#0072B2", "linestyle": "-"},
    "ucb_4": {"color": "#009E73", "linestyle": (0, (6, 2, 1.2, 2))},
    "log_ei": {"color": "#E69F00", "linestyle": (0, (6, 2))},
    "q_log_nei": {"color": "#D55E00", "linestyle": (0, (1.2, 1.6))},
    "thompson": {"color": "#CC79A7", "linestyle": (0, (8, 3, 1, 3, 1, 3))},
    "random": {"color": "#6E6E6E", "linestyle": (0, (1, 2.5))},
}
_OWN_DASHES = ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (5, 2, 1, 2)))
_POINTS = {"simple": "best evaluated", "recommended": "recommended"}
_SHARES = np.linspace(0.0, 1.0, 26)


def draw_regret(results: Results, path: Path) -> Path:
    r"""Mean regret of the recommended point against the evaluations."""
    plt = load_pyplot()
    problems, styles = results.experiment.problems, _styles(results)
    columns = min(4, len(problems))
    rows = -(-len(problems) // columns)
    with plt.rc_context(RC):
        size = (3.1 * columns, 2.7 * rows + 0.6)
        figure, grid = plt.subplots(
            rows, columns, figsize=size, layout="constrained", squeeze=False
        )
        for axes, problem in zip(grid.flat, problems, strict=False):
            for method in results.experiment.methods:
                curve = results.curves("recommended", problem, method).mean(axis=0)
                rounds = np.arange(problem.rounds + 1)
                # A mean of zero has no place on a logarithmic scale; the line ends there.
                shown = np.where(curve > 0.0, curve, np.nan)
                axes.plot(rounds, shown, label=method.label, **styles[method.name])
            axes.set(title=problem.title, yscale="log", xlim=(0, problem.rounds))
            axes.set_xlabel("round")
        for axes in grid.flat[len(problems) :]:
            axes.set_axis_off()
        figure.supylabel(f"mean regret, recommended; {len(results.experiment.seeds)} seeds")
        handles, labels = grid.flat[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=110)
        plt.close(figure)
    return path


def draw_ranks(results: Results, path: Path) -> Path:
    r"""Mean rank ± standard error against the share of the budget."""
    plt = load_pyplot()
    styles = _styles(results)
    with plt.rc_context(RC):
        figure, both = plt.subplots(
            1, 2, figsize=(9.0, 4.2), layout="constrained", sharey=True
        )
        for axes, measure in zip(both, MEASURES, strict=True):
            ranks = [mean_ranks(results.values(measure, share)) for share in _SHARES]
            for method, moments in zip(
                results.experiment.methods, zip(*ranks, strict=True), strict=True
            ):
                _draw_band(axes, moments, method, styles[method.name])
            axes.set(
                title=f"{_POINTS[measure]} point", xlabel="share of the rounds", xlim=(0, 1)
            )
        both[0].set_ylabel(f"mean rank, {len(results.experiment.problems)} problems")
        handles, labels = both[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=120)
        plt.close(figure)
    return path


def _draw_band(axes, moments: tuple[Moments, ...], method: Method, style: dict) -> None:
    mean = np.array([m.mean for m in moments])
    error = np.array([m.standard_error for m in moments])
    axes.plot(_SHARES, mean, label=method.label, **style)
    band = {"color": style["color"], "alpha": 0.1, "lw": 0}
    axes.fill_between(_SHARES, mean - error, mean + error, **band)


def _styles(results: Results) -> dict[str, dict]:
    own = [m.name for m in results.experiment.methods if m.name not in STYLES]
    dashes = (_OWN_DASHES[number % len(_OWN_DASHES)] for number in range(len(own)))
    drawn = {
        name: {"color": BLACK, "linestyle": dash, "linewidth": 2.2}
        for name, dash in zip(own, dashes, strict=True)
    }
    return STYLES | drawn
