r"""Safe sets: `python -m benchmarks.safety {coverage,expansion,report}`."""

import argparse
from pathlib import Path

import torch
from rich.progress import track

from benchmarks.runner.report import update_report
from benchmarks.runner.store import write_atomically
from benchmarks.runner.tables import markdown_table, write_rows
from benchmarks.safety.play import along_the_edge, regrets
from benchmarks.safety.problems import random_problem, two_hills

RESULTS = Path(__file__).parent / "results"
REPORT = Path(__file__).parents[2] / "docs/results/safety.md"
CLAIMS = {
    "norm bound 2 B": 2.0,
    "norm bound B": 1.0,
    "norm bound B / 2": 0.5,
    "norm bound B / 4": 0.25,
    "mean - 2 sd": None,
}


def coverage(results: Path, runs: int, rounds: int) -> None:
    rows = []
    for name, claim in CLAIMS.items():
        played = [
            along_the_edge(random_problem(seed), claim, seed, rounds)
            for seed in track(range(runs), description=name)
        ]
        rows.append(
            {
                "rule": name,
                "runs": runs,
                "rounds": rounds,
                "unsafe_runs": sum(run.unsafe for run in played),
                "unsafe_evaluations": sum(run.unsafe_evaluations for run in played),
                "unsafe_runs_warned": sum(run.unsafe and run.warned for run in played),
                "found": f"{sum(run.found for run in played) / runs:.3f}",
            }
        )
    header = ["rule", "runs that were unsafe", "unsafe evaluations", "of these runs warned"]
    lines = markdown_table(
        [*header, "share of safe arms found"],
        [
            [
                row["rule"],
                f"{row['unsafe_runs']} of {runs}",
                f"{row['unsafe_evaluations']} of {runs * rounds}",
                str(row["unsafe_runs_warned"]),
                row["found"],
            ]
            for row in rows
        ],
    )
    _save(results, "coverage", rows, lines)


def expansion(results: Path, runs: int, rounds: int) -> None:
    rows = []
    problems = {
        "two hills": [two_hills()] * runs,
        "random": [random_problem(1000 + seed) for seed in range(runs)],
    }
    for name, instances in problems.items():
        for rule in ("objective", "alternate"):
            played = [
                regrets(problem, rule, seed, rounds)
                for seed, problem in enumerate(
                    track(instances, description=f"{name}, {rule}")
                )
            ]
            history = torch.tensor([run[0] for run in played])
            final = history[:, -1]
            rows.append(
                {
                    "problem": name,
                    "rule": rule,
                    "runs": runs,
                    "rounds": rounds,
                    "regret_at_half": f"{float(history[:, rounds // 2].mean()):.3f}",
                    "regret": f"{float(final.mean()):.3f}",
                    "standard_error": f"{float(final.std() / runs**0.5):.3f}",
                    "unsafe_runs": sum(run[1] for run in played),
                }
            )
    half = rounds // 2
    header = ["problem", "rule", f"regret after {half}", f"after {rounds}", "unsafe runs"]
    lines = markdown_table(
        header,
        [
            [
                row["problem"],
                row["rule"],
                row["regret_at_half"],
                f"{row['regret']} ± {row['standard_error']}",
                f"{row['unsafe_runs']} of {runs}",
            ]
            for row in rows
        ],
    )
    _save(results, "expansion", rows, lines)


def _save(results: Path, name: str, rows: list[dict], lines: list[str]) -> None:
    results.mkdir(parents=True, exist_ok=True)
    write_rows(results / f"{name}.csv", rows)
    write_atomically(results / f"{name}.md", "\n".join(lines) + "\n")
    print("\n".join(lines))


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=["coverage", "expansion", "report"])
    parser.add_argument("--runs", type=int, help="200 for coverage, 30 for expansion")
    parser.add_argument("--rounds", type=int, help="10 for coverage, 60 for expansion")
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    if options.command == "coverage":
        coverage(options.results, options.runs or 200, options.rounds or 10)
    elif options.command == "expansion":
        expansion(options.results, options.runs or 30, options.rounds or 60)
    else:
        update_report(REPORT, options.results)


if __name__ == "__main__":
    main()
