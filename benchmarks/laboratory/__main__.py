r"""Command line: ``python -m benchmarks.laboratory widths``."""

import numpy as np
import pandas as pd

from benchmarks.laboratory.play import play_claims, play_coverage, play_width
from benchmarks.runner.study import Study, Summary, grid
from benchmarks.runner.tables import markdown_table

STUDY = Study("benchmarks.laboratory", "Bands, designs and claims on real tables.")
TABLES = ["crossed_barrel", "agnp", "direct_arylation"]


@STUDY.table(
    "widths",
    grid(
        {"table": TABLES[:2], "margin": 2.0, "kernel": ["matern52", "rbf"]},
        {"lengthscale": [0.2, 0.35, 0.5, 0.75, 1.0]},
    ),
    play_width,
)
def widths(runs: pd.DataFrame) -> Summary:
    r"""Mean widths with all runs of a table, over those of plain means with a union."""
    rows = runs[["table", "kernel", "lengthscale", "norm", "noise", "plain"]].copy()
    names = ["band", "replicates", "design", "both", "noise_measured", "all_measured"]
    for name in names:
        rows[name] = runs[name] / runs["plain"]
    return Summary(rows.round(4))


@STUDY.table(
    "coverage",
    grid(
        {"seed": range(20), "kernel": ["matern52", "family"]},
        [
            {"table": "crossed_barrel", "noise": "one"},
            {"table": "crossed_barrel", "noise": "groups"},
            {"table": "agnp", "noise": "one"},
            {"table": "direct_arylation", "noise": "one"},
        ],
    ),
    play_coverage,
)
def coverage(runs: pd.DataFrame) -> Summary:
    r"""Sequences in which a band at a multiple of the least norm misses a mean."""
    rows = _rows(runs, ["table", "noise", "kernel"])
    keys = ["table", "noise", "kernel", "kind", "count", "margin"]
    found = rows.groupby(keys, sort=False)[["missed", "share", "width"]].mean()
    size = rows.groupby(keys, sort=False).size()
    found = found.assign(sequences=size).reset_index().round(4)
    cells = found.assign(
        text=[
            f"{100 * m:.0f} % ({w:.2f})"
            for m, w in zip(found.missed, found.width, strict=True)
        ]
    )
    names = ["table", "noise", "kernel", "kind"]
    shown = cells.pivot(index=[*names, "count"], columns="margin", values="text")
    header = [*names, "runs", *(f"{margin:g}" for margin in shown.columns)]
    body = [
        [*map(str, index), *row]
        for index, row in zip(shown.index, shown.values, strict=True)
    ]
    return Summary(found, markdown_table(header, body))


@STUDY.table(
    "claims",
    grid(
        {"seed": range(8), "margin": [1.5, 2.0], "design": ["random", "qlognei"]},
        {"table": TABLES},
    ),
    play_claims,
)
def claims(runs: pd.DataFrame) -> Summary:
    r"""Claims at a margin after 50 and 100 runs, their sizes, and how many are false."""
    rows = _rows(runs, ["table", "design", "margin"])
    keys = ["table", "design", "margin", "count", "kind"]
    groups = rows.groupby(keys, sort=False)
    found = groups[["false", "size", "regret"]].agg(
        {"false": ["sum", "size"], "size": "median", "regret": "mean"}
    )
    found.columns = ["false", "runs", "size", "regret"]
    found = found.reset_index().round(4)
    pairs = zip(found["false"], found["runs"], found["size"], strict=True)
    cells = found.assign(text=[f"{f} of {n} ({size:.2f})" for f, n, size in pairs])
    shown = cells.pivot(index=keys[:-1], columns="kind", values="text")
    header = [*keys[:-1], *map(str, shown.columns)]
    body = [[*map(str, i), *row] for i, row in zip(shown.index, shown.values, strict=True)]
    return Summary(found, markdown_table(header, body))


def _rows(runs: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    r"""One row for each row of the runs' results, with the settings named."""
    listed = [
        {name: run[name] for name in names} | row
        for run in runs.to_dict("records")
        for row in run["rows"]
    ]
    frame = pd.DataFrame(listed)
    for name in frame.columns.intersection(["missed", "false"]):
        frame[name] = frame[name].astype(np.int64)
    return frame


if __name__ == "__main__":
    STUDY.main()
