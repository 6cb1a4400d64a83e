r"""Tables of the report."""

import pandas as pd

from benchmarks.runner import markdown_table

RATIOS = ("weights", "band", "further", "trace", "prequential", "energy")


def ratios(rows: pd.DataFrame) -> pd.DataFrame:
    r"""Mean over seeds, by kernel in words and numbers of points."""
    where = rows[["kernel", "lengthscale", "dimension"]].astype(str)
    named = rows.assign(
        kernel=where.agg(
            "{0[kernel]}, length {0[lengthscale]}, d = {0[dimension]}".format, 1
        )
    )
    groups = named.groupby(["kernel", "observations", "inducing"], sort=False)
    values = ["remainder", *RATIOS]
    return groups[values].agg(lambda texts: texts.astype(float).mean()).reset_index()


def width_table(means: pd.DataFrame) -> list[str]:
    header = [
        *("kernel", "observations", "inducing points"),
        *("largest eigenvalue of the remainder", "same radius", "own radius"),
        *("own radius, further points", "own radius, trace", "prequential radius"),
        "own radius, energy",
    ]
    rows = (
        [
            *map(str, (row["kernel"], row["observations"], row["inducing"])),
            f"{row['remainder']:.2g}",
            *(f"{row[name]:.3f}" for name in RATIOS),
        ]
        for row in means.to_dict("records")
    )
    return markdown_table(header, rows)


def large_table(
    rows: pd.DataFrame,
    observations: int,
    candidates: int,
    inducing: int,
    further: int | None,
    threads: int,
) -> list[str]:
    rest = "a pass over all pairs" if further is None else f"{further:,} further points"
    header = ["step", "wall seconds", "processor seconds", "peak memory so far, GiB", ""]
    return [
        f"{observations:,} observations, {candidates:,} candidates, at most {inducing} "
        f"inducing points, {rest} for the remainder, {threads} threads.",
        "",
        *markdown_table(header, rows.to_numpy()),
    ]
