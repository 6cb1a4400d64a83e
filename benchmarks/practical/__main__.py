r"""Command line: ``python -m benchmarks.practical compare``.

Hyper-parameters are refitted in every round, noise and norm bound are unknown. Everything
that a run depends on is here, in ``problems`` and in ``learners``.
"""

from functools import partial
from itertools import chain

import pandas as pd

from benchmarks.practical import circuit
from benchmarks.practical.causes import AS_AX, CHANGES, causes, rescued, worst_runs
from benchmarks.practical.figures import draw_ranks, draw_regret
from benchmarks.practical.play import play
from benchmarks.practical.problems import PROBLEMS
from benchmarks.practical.results import (
    MEASURES,
    Results,
    paired_table,
    rank_table,
    regret_table,
    run_rows,
)
from benchmarks.runner.study import Settings, Study, Summary, grid

STUDY = Study("benchmarks.practical", "Bayesian optimisation in practice.")
PROTOCOL = {
    "starts_per_dimension": 2,  # random points, the same for all methods of a seed,
    "most_starts": 8,  # but not more than these
    "restarts": 4,  # of the search for the next point, after
    "raw_samples": 128,  # quasi-random points; each with at most
    "iterations": 50,  # steps of L-BFGS-B
    "rows": 2000,  # of a table, drawn anew for every seed, are its domain
}
FUNCTIONS = [*PROBLEMS][:6]
COMMON = [*PROBLEMS][:11]
WIDER = [*PROBLEMS][11:19]
BATCHES = [*PROBLEMS][19:22]
LABORATORIES = [*PROBLEMS][22:25]
SIMULATORS = [*PROBLEMS][25:]
# Compared with every other method in pairs, where they are played.
OURS = ["mixture_ucb", "guarded_every_4"]


def runs(problems: list[str], seeds: range, *methods: str) -> list[Settings]:
    r"""A seed is finished before the next one begins."""
    kinds = [{"problem": name} | PROBLEMS[name][1] for name in problems]
    return grid(PROTOCOL, {"seed": seeds}, kinds, {"method": [*methods]})


_PEOPLE = ("log_ei", "q_log_nei", "thompson", "irgp_ucb", "random")
# The default and what it was before its turn of the improvement.
OUR_TURNS = ("mixture_ucb", "two_turns")


@STUDY.table(
    "compare",
    runs(
        COMMON,
        range(440, 480),
        *("ucb_02", "ucb_2", "ucb_4", *_PEOPLE, "mixture_ucb"),
    ),
    play,
)
def compare(played: pd.DataFrame) -> dict[str, Summary]:
    r"""Every method on every problem with every seed: runs, ranks and regret."""
    results = Results(played)
    drawn = Summary(None, rank_table(results), partial(draw_ranks, results))
    regret = Summary(None, None, partial(draw_regret, results))
    return others(played) | {"ranks": drawn, "regret": regret}


@STUDY.table(
    "wider",
    runs(
        WIDER,
        range(440, 445),
        *("ucb_2", "ucb_4", *_PEOPLE, "mixture_ucb"),
    ),
    play,
)
@STUDY.table(
    "batches",
    runs(
        BATCHES,
        range(20, 30),
        *("q_log_nei", "q_log_nei_joint", "q_ucb_2", "thompson", "random"),
        *("mixture_ucb", "guarded_every_4", "guarded_joint"),
    ),
    play,
)
@STUDY.table(
    "laboratory",
    runs(
        LABORATORIES,
        range(440, 450),
        *("ucb_2", "ucb_4", "log_ei", "q_log_nei", "thompson", "random", *OUR_TURNS),
    ),
    play,
)
@STUDY.table(
    "simulators",
    runs(
        SIMULATORS,
        range(440, 445),
        *("ucb_2", "log_ei", "q_log_nei", "random", *OUR_TURNS),
    ),
    play,
)
@STUDY.table(
    "ax",
    runs(FUNCTIONS, range(20, 30), "ax_default", "q_log_nei", "ucb_2", *OURS),
    play,
)
def others(played: pd.DataFrame) -> dict[str, Summary]:
    r"""The same for other problems and methods, without pictures."""
    results, tables = Results(played), choice(played)
    for measure in MEASURES:
        tables[measure] = Summary(None, regret_table(results, measure))
    return tables


@STUDY.table(
    "guarded",
    runs(COMMON, range(440, 450), "q_log_nei", "mixture_ucb", "guarded_every_4"),
    play,
)
# Seeds apart from the reported ones, on which the default was chosen.
@STUDY.table(
    "turns",
    runs(
        COMMON,
        range(300, 325),
        *("q_log_nei", "two_turns", "three_turns", "log_nei_in_turns"),
    ),
    play,
)
def choice(played: pd.DataFrame) -> dict[str, Summary]:
    r"""Runs, ranks and pairs, from which the defaults were chosen."""
    results = Results(played)
    tables = {
        "runs": Summary(run_rows(results), None),
        "ranks": Summary(None, rank_table(results)),
    }
    compared = [each for each in (*OURS, "three_turns") if each in results.methods]
    ours = [paired_table(results, each) for each in compared]
    if ours:
        lines = chain.from_iterable(["", *part] for part in ours)
        tables["paired"] = Summary(None, [*lines][1:])
    return tables


_EFFORT = runs(FUNCTIONS, range(440, 445), "log_ei", "q_log_nei", "ucb_2", "mixture_ucb")


@STUDY.table("effort", _EFFORT + [each | AS_AX for each in _EFFORT], play)
def effort(played: pd.DataFrame) -> Summary:
    r"""The search for a point as everywhere here, and with Ax's restarts and samples."""
    lines = []
    for (restarts, points), part in played.groupby(["restarts", "raw_samples"]):
        results = Results(part)
        lines += [
            f"**{restarts} restarts from {points} points.**",
            "",
            *rank_table(results),
        ]
        lines += ["", *paired_table(results, "mixture_ucb"), ""]
    return Summary(None, lines[:-1])


_WORST = [PROTOCOL | PROBLEMS[each["problem"]][1] | each for each in worst_runs()]
CAUSES = grid(_WORST, {"change": [*CHANGES]})
STUDY.table("causes", CAUSES, rescued)(causes)

_CIRCUIT = {"trials": 30, "initial": 5, "noise_std": 0.05}


def _experiments(seeds: range) -> list[Settings]:
    return grid(_CIRCUIT, {"seed": seeds, "method": [*circuit.STRATEGIES]})


# As above, the first are the reported seeds, and choices were made on the second ones.
@STUDY.table("circuit", _experiments(range(400, 420)), circuit.play)
@STUDY.table("circuit_choice", _experiments(range(100, 105)), circuit.play)
def filters(played: pd.DataFrame) -> Summary:
    r"""Ax's default and our strategies on a Sallen-Key filter."""
    return Summary(None, circuit.circuit_table(played))


if __name__ == "__main__":
    STUDY.main()
