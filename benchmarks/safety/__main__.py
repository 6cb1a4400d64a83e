r"""Command line: ``python -m benchmarks.safety coverage``."""

import pandas as pd

from benchmarks.runner import markdown_table
from benchmarks.runner.study import Study, Summary, grid
from benchmarks.safety.play import play_edge

STUDY = Study("benchmarks.safety", "How safe choices are, and what they cost.")
CLAIMS = {
    "norm bound 2 B": 2.0,
    "norm bound B": 1.0,
    "norm bound B / 2": 0.5,
    "norm bound B / 4": 0.25,
    "mean - 2 sd": None,
}
RULES = [{"rule": name, "claim": claim} for name, claim in CLAIMS.items()]


@STUDY.table("coverage", grid({"rounds": 10}, RULES, {"trial": range(200)}), play_edge)
def coverage(runs: pd.DataFrame) -> Summary:
    r"""How often a claimed norm bound lets unsafe points through."""
    rows, lines, rounds = [], [], runs["rounds"][0]
    for rule, part in runs.groupby("rule", sort=False):
        unsafe, count, found = part["unsafe"] > 0, len(part), f"{part['found'].mean():.3f}"
        numbers = unsafe.sum(), part["unsafe"].sum(), (unsafe & part["warned"]).sum()
        names = ("unsafe_runs", "unsafe_evaluations", "unsafe_runs_warned")
        row = {"rule": rule, "runs": count, "rounds": rounds}
        rows.append(row | dict(zip(names, numbers, strict=True)) | {"found": found})
        runs_of, evaluations = f"{numbers[0]} of {count}", f"{numbers[1]} of"
        evaluations = f"{evaluations} {count * rounds}"
        lines.append([str(rule), runs_of, evaluations, str(numbers[2]), found])
    header = ["rule", "runs that were unsafe", "unsafe evaluations", "of these runs warned"]
    table = markdown_table([*header, "share of safe arms found"], lines)
    return Summary(pd.DataFrame(rows), table)


if __name__ == "__main__":
    STUDY.main()
