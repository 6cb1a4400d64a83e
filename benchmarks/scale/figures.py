r"""Picture: width over that of the exact band, against the number of inducing points."""

from pathlib import Path

import pandas as pd

from benchmarks.runner import legend_below, picture
from kernelucb.plotting.style import BLACK, BLUE, GREEN, GREY, ORANGE

STYLES = {
    "weights": ("the exact band's radius", BLUE, "-"),
    "band": ("own radius", BLACK, (0, (6, 2))),
    "energy": ("own radius, energy", ORANGE, (0, (6, 2, 1.2, 2))),
    "further": ("own radius, further points", GREEN, (0, (4, 1.5))),
    "trace": ("own radius, trace", GREY, (0, (1.2, 1.6))),
}


def draw(means: pd.DataFrame, path: Path) -> Path:
    r"""One panel for each kernel, at the largest number of observations."""
    count = means["observations"].max()
    groups = dict(list(means[means["observations"] == count].groupby("kernel", sort=False)))
    shape = {"figsize": (9.6, 3.9), "sharey": True, "squeeze": False}
    with picture(path, 1, len(groups), **shape) as (figure, panels):
        for axes, (kernel, rows) in zip(panels[0], groups.items(), strict=True):
            points = rows["inducing"].tolist()
            for name, (label, colour, dashes) in STYLES.items():
                axes.plot(points, rows[name], color=colour, linestyle=dashes, label=label)
            axes.set(title=kernel, xlabel="inducing points", xscale="log", yscale="log")
            axes.set_xticks(points, list(map(str, points)))
            axes.set_yticks([1, 1.5, 2, 3, 5], ["1", "1.5", "2", "3", "5"])
            axes.minorticks_off()
        panels[0, 0].set_ylabel(f"width over the exact band's, t = {count}")
        legend_below(figure, panels[0, 0], 3)
    return path
