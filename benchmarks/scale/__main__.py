r"""Command line: ``python -m benchmarks.scale width``."""

from functools import partial
from pathlib import Path

import pandas as pd

from benchmarks.runner import captioned, legend_below, markdown_table, picture
from benchmarks.runner.study import Study, Summary, grid
from benchmarks.scale.large import HEADER, play_large
from benchmarks.scale.width import BANDS, play_widths
from kernelucb.plotting.style import BLACK, BLUE, GREEN, GREY, ORANGE

STUDY = Study(
    "benchmarks.scale",
    "The certified band for very many observations: its width against the exact one, and "
    "one selection at full size.",
)
SETTINGS = [("rbf", 0.3, 2), ("matern52", 0.3, 2), ("matern52", 0.5, 4)]
NAMES = ("kernel", "lengthscale", "dimension")
STYLES = {
    "weights": ("the exact band's radius", BLUE, "-"),
    "band": ("own radius", BLACK, (0, (6, 2))),
    "energy": ("own radius, energy", ORANGE, (0, (6, 2, 1.2, 2))),
    "further": ("own radius, further points", GREEN, (0, (4, 1.5))),
    "trace": ("own radius, trace", GREY, (0, (1.2, 1.6))),
}


@STUDY.table(
    "width",
    grid(
        [dict(zip(NAMES, setting, strict=True)) for setting in SETTINGS],
        {"observations": [200, 500, 1000, 2000], "seed": range(3)},
        {"sizes": [[25, 50, 100, 200, 400]]},  # of the inducing points
    ),
    play_widths,
)
def width(runs: pd.DataFrame) -> Summary:
    r"""The width against the exact band's."""
    runs = runs.explode("rows", ignore_index=True)
    found = pd.DataFrame([*runs["rows"]])
    rows = runs[[*NAMES, "observations"]].join(found["inducing"]).assign(seed=runs["seed"])
    rows = rows.join(found.drop(columns="inducing"))
    words = [f"{k}, length {size}, d = {d}" for k, size, d in runs[[*NAMES]].values]
    groups = rows.assign(kernel=words).groupby(
        ["kernel", "observations", "inducing"], sort=False
    )
    values = ["remainder", *BANDS]
    means = groups[values].agg(lambda texts: texts.astype(float).mean()).reset_index()
    lines = [
        [
            *map(str, (row["kernel"], row["observations"], row["inducing"])),
            f"{row['remainder']:.2g}",
            *(f"{row[name]:.3f}" for name in BANDS),
        ]
        for row in means.to_dict("records")
    ]
    header = ["kernel", "observations", "inducing points"]
    header += ["largest eigenvalue of the remainder", "same radius", "own radius"]
    header += ["own radius, further points", "own radius, trace", "prequential radius"]
    header.append("own radius, energy")
    return Summary(rows, markdown_table(header, lines), partial(_draw, means))


def _draw(means: pd.DataFrame, path: Path) -> None:
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


LARGE = {"observations": 100_000, "candidates": 1_000_000, "inducing": 300}
LARGE |= {"seed": 0, "threads": 2}


@STUDY.table("large", [LARGE | {"further": 1_600}], play_large)
@STUDY.table("large_pairs", [LARGE | {"further": None}], play_large)
def large(runs: pd.DataFrame) -> Summary:
    r"""One selection among very many candidates."""
    task = runs.iloc[0]
    further = "a pass over all pairs"
    if not pd.isna(task["further"]):
        further = f"{task['further']:,} further points"
    text = (
        f"{task['observations']:,} observations, {task['candidates']:,} candidates, at "
        f"most {task['inducing']} inducing points, {further} for the remainder, "
        f"{task['threads']} threads."
    )
    header = ["step", "wall seconds", "processor seconds", "peak memory so far, GiB", ""]
    rows = pd.DataFrame(task["rows"], columns=HEADER)
    return Summary(rows, captioned(text, header, task["rows"]))


if __name__ == "__main__":
    STUDY.main()
