r"""Pictures: regret on every problem, and ranks against the budget."""

from pathlib import Path

import numpy as np

from benchmarks.practical.problems import PROBLEMS
from benchmarks.practical.results import MEASURES, Results, label, mean_ranks
from benchmarks.runner import draw_spread, legend_below, picture
from kernelucb.plotting import BLACK

# Okabe & Ito's palette, then Tol's muted one, and a dash pattern each; what is not named
# here is of our own, black and wide.
STYLES = {
    "ucb_02": {"color": "#56B4E9", "linestyle": (0, (3, 1.5))},
    "ucb_2": {"color": "#0072B2", "linestyle": "-"},
    "ucb_4": {"color": "#009E73", "linestyle": (0, (6, 2, 1.2, 2))},
    "log_ei": {"color": "#E69F00", "linestyle": (0, (6, 2))},
    "q_log_nei": {"color": "#D55E00", "linestyle": (0, (1.2, 1.6))},
    "thompson": {"color": "#CC79A7", "linestyle": (0, (8, 3, 1, 3, 1, 3))},
    "irgp_ucb": {"color": "#882255", "linestyle": (0, (4, 1, 1, 1))},
    "random": {"color": "#6E6E6E", "linestyle": (0, (1, 2.5))},
}
_OWN_DASHES = ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (5, 2, 1, 2)))
_POINTS = {"simple": "best evaluated", "recommended": "recommended"}
_SHARES = np.linspace(0.0, 1.0, 26)


def draw_regret(results: Results, path: Path) -> None:
    r"""Mean regret of the recommended point against the evaluations."""
    problems, styles = results.problems, _styles(results)
    columns = min(4, len(problems))
    shape = -(-len(problems) // columns), columns
    size = (3.1 * columns, 2.7 * shape[0] + 0.6)
    with picture(path, *shape, figsize=size, squeeze=False, dpi=110) as (figure, grid):
        for axes, problem in zip(grid.flat, problems, strict=False):
            for method in results.methods:
                curve = results.curves("recommended", problem, method).mean(axis=0)
                rounds = np.arange(results.rounds[problem] + 1)
                # A mean of zero has no place on a logarithmic scale; the line ends there.
                shown = np.where(curve > 0.0, curve, np.nan)
                axes.plot(rounds, shown, label=label(method), **styles[method])
            limits = {"xlim": (0, results.rounds[problem])}
            axes.set(title=PROBLEMS[problem][0], yscale="log", **limits)
            axes.set_xlabel("points chosen")
        for axes in grid.flat[len(problems) :]:
            axes.set_axis_off()
        figure.supylabel(f"mean regret, recommended; {results.seeds} seeds")
        legend_below(figure, grid.flat[0], 4)


def draw_ranks(results: Results, path: Path) -> None:
    r"""Mean rank ± standard error against the share of the budget."""
    styles, methods = _styles(results), results.methods
    shape = {"figsize": (9.0, 4.2), "sharey": True, "dpi": 120}
    with picture(path, 1, 2, **shape) as (figure, both):
        for axes, measure in zip(both, MEASURES, strict=True):
            ranks = [mean_ranks(results.values(measure, share)) for share in _SHARES]
            for method, moments in zip(methods, zip(*ranks, strict=True), strict=True):
                mean = np.array([m.mean for m in moments])
                error = np.array([m.standard_error for m in moments])
                line = styles[method], label(method)
                draw_spread(axes, _SHARES, mean, error, *line, alpha=0.1, lw=0)
            axes.set(
                title=f"{_POINTS[measure]} point", xlabel="share of the budget", xlim=(0, 1)
            )
        both[0].set_ylabel(f"mean rank, {len(results.problems)} problems")
        legend_below(figure, both[0], 4)


def _styles(results: Results) -> dict[str, dict]:
    own = [name for name in results.methods if name not in STYLES]
    dashes = (_OWN_DASHES[number % len(_OWN_DASHES)] for number in range(len(own)))
    drawn = {
        name: {"color": BLACK, "linestyle": dash, "linewidth": 2.2}
        for name, dash in zip(own, dashes, strict=True)
    }
    return STYLES | drawn
