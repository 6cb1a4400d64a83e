r"""Command line: ``python -m benchmarks.attack attack --jobs 2``.

Random hostile problems, where no chance is involved, and small problems in 50 digits: what
is silently wrong, and what fails without a typed error?
"""

import time
from typing import Any

import pandas as pd

from benchmarks.attack import numerics, precision
from benchmarks.attack.verdicts import KINDS
from benchmarks.runner import markdown_table
from benchmarks.runner.study import Settings, Study, Summary

STUDY = Study("benchmarks.attack", "What is silently wrong, and what fails untyped?")
FAMILIES = {
    # What plays the case of a seed, the number of cases, and cases in a run.
    "numerics": (numerics.play, 13_500, 250),
    "precision": (precision.play, 400, 50),
}
WORDS = {
    "numerics": "random problems: the truth must be inside",
    "precision": "against 50-digit arithmetic",
}
RUNS: list[Settings] = [
    {"family": name, "first": first, "cases": step}
    for name, (_, count, step) in FAMILIES.items()
    for first in range(0, count, step)
]


def play_cases(task: Settings) -> dict[str, Any]:
    r"""Counts by kind, seed and verdict of each failure, and processor time."""
    play, start = FAMILIES[task["family"]][0], time.process_time()
    counts, failures = dict.fromkeys(KINDS, 0), []
    for seed in range(task["first"], task["first"] + task["cases"]):
        verdict = play(seed)
        counts[verdict.kind] += 1
        if verdict.kind in ("untyped", "wrong"):
            failures.append([seed, *verdict])
    return counts | {"failures": failures, "seconds": time.process_time() - start}


@STUDY.table("attack", RUNS, play_cases)
def attack(runs: pd.DataFrame) -> Summary:
    r"""How the cases of each family end; failures with their seeds are printed."""
    for failure in runs["failures"].sum():
        print(*failure)
    columns = ["cases", *KINDS, "seconds"]
    rows = runs.groupby("family", sort=False)[columns].sum().reset_index()
    rows["seconds"] = rows["seconds"].round().astype(int)
    header = ["family", "what", "cases", "refused", "raw errors", "silently wrong"]
    cells = []
    for row in rows.to_dict("records"):
        numbers = [f"{row[key]:,}" for key in ("cases", "typed", "untyped", "wrong")]
        minutes = f"{row['seconds'] / 60:.1f}"
        cells.append([row["family"], WORDS[row["family"]], *numbers, minutes])
    return Summary(rows, markdown_table([*header, "minutes"], cells))


if __name__ == "__main__":
    STUDY.main()
