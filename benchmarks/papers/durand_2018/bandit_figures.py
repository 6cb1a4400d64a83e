r"""Figures 7 and 8: regret curves."""

from collections.abc import Sequence
from pathlib import Path

from benchmarks.papers.durand_2018.configuration import Method
from benchmarks.papers.durand_2018.summaries import Bandits
from benchmarks.runner import draw_spread, picture, spaced
from kernelucb.plotting.style import BLUE, OUTLINES

_OURS = {"color": BLUE, "linestyle": "-", "linewidth": 2.0}
_STYLES = {
    "oracle": _OURS,
    "fixed": OUTLINES[0],
    "adaptive": OUTLINES[1],
    "joint": _OURS,
    "exact": OUTLINES[0],
    "exact_one": OUTLINES[4],
    "theorem1": OUTLINES[1],
    "corollary1": OUTLINES[2],
    "wang": OUTLINES[0],
    "rescaled": OUTLINES[2],
}
# Points of a curve: more would not show.
_POINTS = 500


def draw(bandits: Bandits, path: Path) -> Path:
    r"""Mean ± standard deviation of the regret, one panel for each policy.

    Regrets that differ by powers of ten, as those of ``joint``, are drawn on logarithmic
    axes.
    """
    experiment = bandits.experiment
    policies = list(dict.fromkeys(method.policy for method in experiment.methods))
    shape = {"figsize": (4.6 * len(policies) + 1.4, 4.0), "squeeze": False, "dpi": 130}
    with picture(path, 1, len(policies), **shape) as (figure, grid):
        for axes, policy in zip(grid[0], policies, strict=True):
            methods = [each for each in experiment.methods if each.policy == policy]
            _draw_panel(axes, bandits, methods)
            axes.set_xlabel("round $t$")
            if experiment.name == "joint":
                axes.set(xscale="log", yscale="log")
            else:
                axes.set_ylim(bottom=0)
            axes.legend(loc="best")
        grid[0][0].set_ylabel("cumulative regret")
        figure.suptitle(f"mean ± standard deviation, n = {experiment.repetitions}", size=11)
    return path


def _draw_panel(axes, bandits: Bandits, methods: Sequence[Method]) -> None:
    shown = spaced(bandits.experiment.rounds, _POINTS)
    for method in methods:
        curves = bandits.curves[method.name][:, shown - 1]
        style = _STYLES[method.name.removeprefix(f"{method.policy}_")]
        mean, std = curves.mean(axis=0), curves.std(axis=0)
        draw_spread(axes, shown, mean, std, style, method.label, alpha=0.15, lw=0)
    axes.margins(x=0)
