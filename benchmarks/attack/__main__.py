r"""Command line: ``python -m benchmarks.attack attack --jobs 2``.

Random hostile problems, where no chance is involved: what is silently wrong, and what fails
without a typed error?
"""

import time
from typing import Any

import pandas as pd

from benchmarks.attack import numerics
from benchmarks.attack.verdicts import KINDS
from benchmarks.runner import markdown_table
from benchmarks.runner.study import Settings, Study, Summary, grid

STUDY = Study("benchmarks.attack", "What is silently wrong, and what fails untyped?")
CASES, STEP = 13_500, 250  # problems in all, and in a run


def play_cases(task: Settings) -> dict[str, Any]:
    r"""Counts by kind, seed and verdict of each failure, and processor time."""
    start = time.process_time()
    counts, failures = dict.fromkeys(KINDS, 0), []
    for seed in range(task["first"], task["first"] + task["cases"]):
        verdict = numerics.play(seed)
        counts[verdict.kind] += 1
        if verdict.kind in ("untyped", "wrong"):
            failures.append([seed, *verdict])
    return counts | {"failures": failures, "seconds": time.process_time() - start}


@STUDY.table("attack", grid({"first": range(0, CASES, STEP), "cases": STEP}), play_cases)
def attack(runs: pd.DataFrame) -> Summary:
    r"""How the cases end; failures with their seeds are printed."""
    for failure in runs["failures"].sum():
        print(*failure)
    row = {name: int(runs[name].sum()) for name in ("cases", *KINDS)}
    row["seconds"] = round(runs["seconds"].sum())
    header = ["problems", "refused", "raw errors", "silently wrong", "minutes"]
    cells = [f"{row[key]:,}" for key in ("cases", "typed", "untyped", "wrong")]
    table = markdown_table(header, [[*cells, f"{row['seconds'] / 60:.1f}"]])
    return Summary(pd.DataFrame([row]), table)


if __name__ == "__main__":
    STUDY.main()
