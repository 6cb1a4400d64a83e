r"""Command line: ``python -m benchmarks.reliability curves``."""

from collections.abc import Iterable

import numpy as np
import pandas as pd
from scipy.stats import beta, binom

from benchmarks.reliability import coverage as known
from benchmarks.reliability.claims import FUNCTIONS, play
from benchmarks.runner.simulators import SIMULATORS
from benchmarks.runner.study import Study, Summary, grid

STUDY = Study("benchmarks.reliability", "How often claims at a margin are false.")
TABLES = ["crossed_barrel", "agnp"]
PROBLEMS = [*SIMULATORS, *FUNCTIONS, *TABLES]
DESIGNS = ["random", "qlognei", "guard"]
GRID = grid({"seed": range(5)}, {"problem": PROBLEMS}, {"design": DESIGNS})
WANTED = 0.95


def _rows(runs: pd.DataFrame) -> pd.DataFrame:
    parts = [
        pd.DataFrame(run["rows"]).assign(problem=run["problem"], design=run["design"])
        for run in runs.to_dict("records")
    ]
    return pd.concat(parts, ignore_index=True)


def _curves(rows: pd.DataFrame, by: Iterable[str] = ()) -> pd.DataFrame:
    r"""Share of false claims, its limits at 95 %, and the width over the range."""
    keys = ["count", "method", "kind", "level", *by]
    found = rows.groupby(keys, observed=True).agg(
        runs=("false", "size"), false=("false", "sum"), width=("width", "median")
    )
    found = found.reset_index()
    runs, false = found["runs"], found["false"]
    found["share"] = false / runs
    found["at_most"] = np.nan_to_num(beta.ppf(0.975, false + 1, runs - false), nan=1.0)
    return found


def _least(curves: pd.DataFrame, wanted: float = WANTED) -> pd.DataFrame:
    r"""For each count, method and kind the least level of measured reliability."""
    enough = curves[curves["at_most"] <= 1.0 - wanted]
    return enough.sort_values("level").groupby(["count", "method", "kind"]).head(1)


@STUDY.table("curves", GRID, play)
def curves(runs: pd.DataFrame) -> dict[str, Summary]:
    r"""Shares of false claims over margins and multiples, and what they are worth."""
    rows = _rows(runs)
    every = _curves(rows)
    chosen = _least(every)
    held = _held_out(rows)
    worst = held.groupby(["count", "method", "kind"]).agg(
        false=("share", "mean"), worst=("share", "max"), width=("width", "median")
    )
    return {
        "": Summary(every.round(4)),
        "reached": Summary(chosen.round(4)),
        "held_out": Summary(worst.reset_index().round(4)),
        "problems": Summary(held.round(4), None),
    }


def _held_out(rows: pd.DataFrame) -> pd.DataFrame:
    r"""Levels chosen on all other problems, and how they did on each."""
    found: list[pd.DataFrame] = []
    for problem, own in rows.groupby("problem"):
        level = _least(_curves(rows[rows["problem"] != problem]))
        keys = ["count", "method", "kind"]
        kept = own.merge(level[[*keys, "level"]], on=[*keys, "level"])
        if len(kept):
            found.append(_curves(kept).assign(problem=problem))
    return pd.concat(found, ignore_index=True)


@STUDY.table(
    "coverage",
    grid(
        {"kernel": ["matern52", "rbf"], "told": [1.0, 0.5], "delta": [0.1]},
        {"seed": range(1000)},
    ),
    known.play,
)
def coverage(runs: pd.DataFrame) -> Summary:
    r"""Sequences in which a false claim stood at the true norm and noise scale."""
    keys = ["kernel", "told", "delta"]
    names = ["misses", "value", "baseline", "window", "anywhere"]
    found = runs.groupby(keys)[names].sum().reset_index()
    count = runs.groupby(keys).size().to_numpy()
    # More misses than the limit are rejected: false alarm 1e-4, and the power at 2 delta.
    limit = binom.isf(1e-4, count, found["delta"])
    power = binom.sf(limit, count, 2.0 * found["delta"])
    return Summary(found.assign(sequences=count, limit=limit, power=power.round(4)))


if __name__ == "__main__":
    STUDY.main()
