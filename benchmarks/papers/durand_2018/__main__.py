r"""Command line: ``python -m benchmarks.papers.durand_2018 noise``."""

from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks import runner
from benchmarks.papers.durand_2018 import stream_tables
from benchmarks.papers.durand_2018.play import play, watch
from benchmarks.papers.durand_2018.stream_tables import TARGETS, digits, estimate, verdict
from benchmarks.runner.study import Study, Summary, grid
from kernelucb.plotting import BLUE, OUTLINES

STUDY = Study(
    "benchmarks.papers.durand_2018", "Experiments of Durand, Maillard & Pineau (2018)."
)
PROTOCOL = {
    "seed": 2018,
    "norm": 2.06,  # of the function, exactly
    "lengthscale": 0.3,
    "centres": 20,  # of the function, uniform on [0, 1]
    "noise_std": 0.1,
    "norm_bound": 5.0,
    "noise_lower": 0.01,  # known to everybody
    "noise_upper": 1.0,  # known to everybody, where nothing else is said
    "delta": 0.1,
}
STREAM = {
    "rounds": 1000,
    "rounds_per_decade": 12,  # at which intervals and bands are computed
    "table_rounds": [20, 50, 200, 1000],  # these too
    "noise_guesses": [1.0, 5.0, 50.0],  # initial upper bounds; besides these, none
    "queries": 201,  # uniform grid on which bands are compared with the truth
}
STREAMS = grid([PROTOCOL | STREAM], {"repetition": range(20)})


# A bandit: label, bound, and the covariance scale of the exact one.
METHODS = {
    "joint": ("joint set (ours; noise unknown)", "joint", 1.0),
    "exact": ("exact, mixture of scales (noise known)", "exact", "mixture"),
    "exact_one": ("exact, scale 1 (noise known)", "exact", 1.0),
    "theorem1": ("Theorem 1 (noise known)", "theorem1", 1.0),
    "corollary1": ("Corollary 1 (noise unknown)", "corollary1", 1.0),
}
RULES = [
    {"method": name, "bound": bound, "covariance_scale": scale}
    for name, (_, bound, scale) in METHODS.items()
]
# Every method plays a repetition before the next begins.
BANDITS = grid(PROTOCOL | {"arms": 100, "rounds": 500}, {"repetition": range(20)}, RULES)
_TABLE_POINTS, _PICTURE_POINTS = 41, 500  # of a curve


@STUDY.table("joint", BANDITS, play)
def joint(runs: pd.DataFrame) -> Summary:
    r"""What not knowing the noise costs, and what the joint set saves."""
    regrets = _curves(runs)
    own, exact, theorem1 = (regrets[n][:, -1] for n in ("joint", "exact", "theorem1"))
    ratio = runner.ratio_of_means(own, exact)
    difference = runner.paired_difference(own, theorem1)
    targets = [
        (
            "the joint set's regret is below that of Theorem 1 with known noise",
            f"paired difference {estimate(difference)}",
            verdict(-difference.mean > 2.0 * difference.standard_error),
        ),
        (
            "and at most 1.25 times that of the exact bound with known noise",
            f"ratio {estimate(ratio)}",
            verdict(ratio.mean <= 1.25),
        ),
    ]
    lines = [*_totals(runs, "joint"), "", *runner.markdown_table(TARGETS, targets)]
    labels = {(name,): curve for name, curve in regrets.items()}
    rounds = runner.spaced(runs["rounds"][0], _TABLE_POINTS, np.linspace)
    rows = runner.moments_table(labels, ["method"], rounds, digits=3)
    return Summary(rows, lines, partial(_draw_regret, regrets))


def _curves(runs: pd.DataFrame) -> dict[str, np.ndarray]:
    r"""Cumulative regret by method, ``repetitions x rounds``."""
    found = {}
    for method, part in runs.groupby("method", sort=False):
        means = np.array(part["means"].tolist())
        chosen = np.take_along_axis(means, np.array(part["played"].tolist()), axis=1)
        found[str(method)] = np.cumsum(means.max(1, keepdims=True) - chosen, axis=1)
    return found


def _totals(runs: pd.DataFrame, reference: str) -> list[str]:
    r"""Regret after the last round, and paired differences to a reference."""
    first = METHODS[reference][0]
    text = (
        f"Cumulative regret after {runs['rounds'][0]} rounds, mean ± population standard "
        f"deviation over n = {runs['repetition'].nunique()} functions. Differences from "
        f"and ratios to “{first}” are paired, ± standard error."
    )
    totals = {name: curves[:, -1] for name, curves in _curves(runs).items()}
    rows = []
    for name, total in totals.items():
        moments = runner.Moments.of(total)
        row = [METHODS[name][0], f"{digits(moments.mean)} ± {digits(moments.std)}"]
        pair = total, totals[reference]
        compared = runner.paired_difference(*pair), runner.ratio_of_means(*pair)
        own = name == reference
        rows.append([*row, *("-" if own else estimate(each) for each in compared)])
    return runner.captioned(
        text, ["method", "regret", "difference", "ratio of means"], rows
    )


_STYLES = {
    "joint": {"color": BLUE, "linestyle": "-", "linewidth": 2.0},
    "exact": OUTLINES[0],
    "exact_one": OUTLINES[4],
    "theorem1": OUTLINES[1],
    "corollary1": OUTLINES[2],
}


def _draw_regret(curves: dict[str, np.ndarray], path: Path) -> None:
    r"""Mean ± standard deviation; regrets differ by powers of ten."""
    with runner.picture(path, figsize=(6.0, 4.0), dpi=130) as (figure, axes):
        for name, curve in curves.items():
            shown = runner.spaced(curve.shape[1], _PICTURE_POINTS)
            mean, std = curve.mean(0)[shown - 1], curve.std(0)[shown - 1]
            label = METHODS[name][0]
            runner.draw_spread(
                axes, shown, mean, std, _STYLES[name], label, alpha=0.15, lw=0
            )
        axes.margins(x=0)
        axes.set(xscale="log", yscale="log", xlabel="round $t$")
        axes.set_ylabel("cumulative regret")
        axes.legend(loc="best")
        repetitions = len(next(iter(curves.values())))
        figure.suptitle(f"mean ± standard deviation, n = {repetitions}", size=11)


STUDY.table("noise", STREAMS, watch)(stream_tables.noise)
STUDY.table("band", STREAMS, watch)(stream_tables.band)


if __name__ == "__main__":
    STUDY.main()
