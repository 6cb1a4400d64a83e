r"""Command line: ``python -m benchmarks.coco bbob``.

The settings of a run are those of ``benchmarks.practical``; what differs is here.
"""

import sys

import pandas as pd

from benchmarks.coco.play import play
from benchmarks.coco.results import summaries
from benchmarks.coco.rivals import INSTALLED, RIVALS
from benchmarks.practical import __main__ as practical
from benchmarks.runner.study import Settings, Study, Summary, grid

STUDY = Study("benchmarks.coco", "Bayesian optimisation of COCO's functions.")
STARTS, BUDGET = 2, 20  # evaluations for each input; the starts are among the budget
BBOB = range(1, 25)
NOISY = range(101, 131)
METHODS = ["q_log_nei", "ucb_2", "random", "mixture_ucb"]


def runs(
    functions: range, dimensions: list[int], instances: range, *methods: str
) -> list[Settings]:
    r"""An instance is finished before the next one begins."""
    noisy = functions[0] > 100
    shared = practical.PROTOCOL | {"starts_per_dimension": STARTS, "batch": 1}
    shared |= {"family": "coco", "noisy": noisy, "noise_std": float(noisy)}
    kinds = [
        {
            "problem": f"f{function}_{d}d",
            "function": function,
            "dimension": d,
            "most_starts": STARTS * d,
            "rounds": (BUDGET - STARTS) * d,
        }
        for d in dimensions
        for function in functions
    ]
    return grid(shared, {"seed": instances}, kinds, {"method": [*methods]})


@STUDY.table("bbob", runs(BBOB, [3, 5], range(1, 2), *METHODS), play)
@STUDY.table("noisy", runs(NOISY, [2, 3], range(1, 2), *METHODS), play)
def coco(played: pd.DataFrame) -> dict[str, Summary]:
    r"""Targets reached by every method on the functions of a suite."""
    return summaries(played, practical.OURS)


@STUDY.table(
    "functions",
    practical.runs(
        practical.FUNCTIONS, range(440, 445), "q_log_nei", "mixture_ucb", *INSTALLED
    ),
    play,
)
def functions(played: pd.DataFrame) -> dict[str, Summary]:
    r"""The rivals on the six test functions of ``benchmarks.practical``."""
    return practical.others(played)


if __name__ == "__main__":
    if absent := [RIVALS[name][0] for name in RIVALS if name not in INSTALLED]:
        print(f"Left out, not installed: {', '.join(absent)}.", file=sys.stderr)
    STUDY.main()
