r"""Tables of the report."""

import csv
from collections import defaultdict
from pathlib import Path
from statistics import mean

RATIOS = ("weights", "band", "further", "trace", "prequential")


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def ratios(path: Path) -> dict[tuple[str, int, int], dict[str, float]]:
    r"""Mean over seeds, by kernel, number of observations and of inducing points."""
    groups = defaultdict(list)
    for row in read(path):
        name = f"{row['kernel']}, length {row['lengthscale']}, d = {row['dimension']}"
        groups[name, int(row["observations"]), int(row["inducing"])].append(row)
    return {
        key: {
            name: mean(float(row[name]) for row in rows) for name in ("remainder", *RATIOS)
        }
        for key, rows in groups.items()
    }


def width_table(path: Path) -> str:
    lines = [
        "| kernel | observations | inducing points | largest eigenvalue of the remainder "
        "| same radius | own radius | own radius, further points | own radius, trace "
        "| prequential radius |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for (kernel, count, inducing), values in ratios(path).items():
        cells = " | ".join(f"{values[name]:.3f}" for name in RATIOS)
        lines.append(
            f"| {kernel} | {count} | {inducing} | {values['remainder']:.2g} | {cells} |"
        )
    return "\n".join(lines) + "\n"


def large_table(
    path: Path,
    observations: int,
    candidates: int,
    inducing: int,
    further: int | None,
    threads: int,
) -> str:
    rest = "a pass over all pairs" if further is None else f"{further:,} further points"
    lines = [
        f"{observations:,} observations, {candidates:,} candidates, at most {inducing} "
        f"inducing points, {rest} for the remainder, {threads} threads.\n",
        "| step | wall seconds | processor seconds | peak memory so far, GiB | |",
        "|---|---|---|---|---|",
    ]
    for row in read(path):
        lines.append("| " + " | ".join(row.values()) + " |")
    return "\n".join(lines) + "\n"
