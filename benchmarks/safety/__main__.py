r"""Command line: ``python -m benchmarks.safety coverage``."""

import pandas as pd
import torch

from benchmarks.runner import markdown_table
from benchmarks.runner.study import Study, Summary, grid
from benchmarks.safety.play import play_edge, play_expansion

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


@STUDY.table(
    "expansion",
    grid(
        {"rounds": 60, "problem": ["two hills", "random"]},
        {"rule": ["objective", "alternate"], "trial": range(30)},
    ),
    play_expansion,
)
def expansion(runs: pd.DataFrame) -> Summary:
    r"""Whether choices that widen the safe set pay."""
    rows, lines, rounds = [], [], int(runs["rounds"][0])
    for (problem, rule), part in runs.groupby(["problem", "rule"], sort=False):
        history = torch.tensor([*part["regret"]])
        final, count = history[:, -1], len(part)
        row = {
            "problem": problem,
            "rule": rule,
            "runs": count,
            "rounds": rounds,
            "regret_at_half": f"{float(history[:, rounds // 2].mean()):.3f}",
            "regret": f"{float(final.mean()):.3f}",
            "standard_error": f"{float(final.std() / count**0.5):.3f}",
            "unsafe_runs": part["unsafe"].sum(),
        }
        rows.append(row)
        regret = f"{row['regret']} ± {row['standard_error']}"
        unsafe = f"{row['unsafe_runs']} of {count}"
        lines.append([problem, rule, row["regret_at_half"], regret, unsafe])
    header = ["problem", "rule", f"regret after {rounds // 2}", f"after {rounds}"]
    table = markdown_table([*header, "unsafe runs"], lines)
    return Summary(pd.DataFrame(rows), table)


if __name__ == "__main__":
    STUDY.main()
