r"""Safe sets: ``python -m benchmarks.safety {coverage,expansion,report}``."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch
from rich.progress import track

from benchmarks.runner import Benchmark, Call, markdown_table, number, write_summary
from benchmarks.safety.play import along_the_edge, regrets
from benchmarks.safety.problems import Problem, random_problem, two_hills

CLAIMS = {
    "norm bound 2 B": 2.0,
    "norm bound B": 1.0,
    "norm bound B / 2": 0.5,
    "norm bound B / 4": 0.25,
    "mean - 2 sd": None,
}
Run = TypeVar("Run")
BENCHMARK = Benchmark("benchmarks.safety", "How safe choices are, and what they cost.")


def _played(
    name: str, problems: Sequence[Problem], play: Callable[[Problem, int], Run]
) -> list[Run]:
    r"""One run on each problem, seeded by its number."""
    return [play(problem, n) for n, problem in enumerate(track(problems, description=name))]


@BENCHMARK.command(
    "coverage", options=[number("--runs", "", 200), number("--rounds", "", 10)]
)
def coverage(call: Call) -> list[Path]:
    r"""How often a claimed norm bound lets unsafe points through."""
    torch.set_num_threads(1)
    runs, rounds = call.options.runs, call.options.rounds
    problems = [random_problem(seed) for seed in range(runs)]
    rows = []
    for name, claim in CLAIMS.items():
        played = _played(
            name,
            problems,
            lambda p, seed: along_the_edge(p, claim, seed, rounds),  # noqa: B023
        )
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
    return _write(
        call,
        rows,
        [*header, "share of safe arms found"],
        lambda row: [
            row["rule"],
            f"{row['unsafe_runs']} of {runs}",
            f"{row['unsafe_evaluations']} of {runs * rounds}",
            str(row["unsafe_runs_warned"]),
            row["found"],
        ],
    )


@BENCHMARK.command(
    "expansion", options=[number("--runs", "", 30), number("--rounds", "", 60)]
)
def expansion(call: Call) -> list[Path]:
    r"""Whether choices that widen the safe set pay."""
    torch.set_num_threads(1)
    runs, rounds = call.options.runs, call.options.rounds
    problems = {
        "two hills": [two_hills()] * runs,
        "random": [random_problem(1000 + seed) for seed in range(runs)],
    }
    rows = []
    for name, rule in ((n, r) for n in problems for r in ("objective", "alternate")):
        played = _played(
            f"{name}, {rule}",
            problems[name],
            lambda p, seed: regrets(p, rule, seed, rounds),  # noqa: B023
        )
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
    return _write(
        call,
        rows,
        ["problem", "rule", f"regret after {half}", f"after {rounds}", "unsafe runs"],
        lambda row: [
            row["problem"],
            row["rule"],
            row["regret_at_half"],
            f"{row['regret']} ± {row['standard_error']}",
            f"{row['unsafe_runs']} of {runs}",
        ],
    )


def _write(
    call: Call, rows: list[dict], header: list[str], cells: Callable[[Any], list[str]]
) -> list[Path]:
    lines = markdown_table(header, map(cells, rows))
    return write_summary(call.folders.results, call.command, rows, lines)


if __name__ == "__main__":
    BENCHMARK.main()
