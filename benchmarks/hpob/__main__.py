r"""Command line: ``python -m benchmarks.hpob compare``."""

from itertools import chain
from types import SimpleNamespace
from typing import Any

import pandas as pd

from benchmarks.hpob import tasks
from benchmarks.hpob.problems import HPOB, STARTS, TABLES
from benchmarks.hpob.results import Comparison, random_lines
from benchmarks.practical.play import played
from benchmarks.practical.results import Results, effort_table
from benchmarks.runner.study import Settings, Study, Summary, grid

STUDY = Study("benchmarks.hpob", "Hyper-parameters from the tables of HPO-B.")
PROTOCOL = {
    "rounds": 100,  # after the five starts,
    "batch": 1,  # a point each
    "rows": 1000,  # of a table, drawn anew in every round, and
    "near": 250,  # those nearest to the best one are the candidates
    "refit_all": 25,  # After so many rounds hyper-parameters are refitted only
    "refit_every": 5,  # in every fifth.
}
OURS = ["mixture_ucb"]
METHODS = ["log_ei", "q_log_nei", "ucb_2", *OURS]
GRID = grid(PROTOCOL, {"seed": range(5), "problem": TABLES, "method": METHODS})


def play(settings: Settings) -> dict[str, Any]:
    r"""One run, as in ``benchmarks.practical.play``; it ends at the optimum."""
    task = SimpleNamespace(**settings)

    def refit(trials: int) -> bool:
        return trials <= task.refit_all or trials % task.refit_every == 0

    run = played(task, HPOB(task), STARTS, refit, until=0.0)
    rest = STARTS + task.rounds - len(run["regret"])
    return run | {"regret": run["regret"] + [0.0] * rest}


@STUDY.table("compare", GRID, play)
def compare(runs: pd.DataFrame) -> dict[str, Summary]:
    r"""Ours and BoTorch's beside the published runs: regret, ranks, pairs."""
    results = Results(runs)
    comparison = Comparison(results)
    paired = [comparison.paired_lines(each) for each in OURS if each in results.methods]
    means = [*comparison.mean_lines(), "", *effort_table(results)]
    lines = [*chain.from_iterable(["", *part] for part in paired)][1:]
    return {
        "runs": Summary(comparison.run_rows(), None),
        "means": Summary(None, means),
        "paired": Summary(None, lines),
    }


@STUDY.table("random")
def random() -> Summary:
    r"""The published random search against its expectation."""
    return Summary(None, random_lines())


STUDY.table("tasks", tasks.GRID, tasks.held_out)(tasks.tables)

if __name__ == "__main__":
    STUDY.main()
