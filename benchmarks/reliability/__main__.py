r"""Command line: ``python -m benchmarks.reliability curves``."""

from typing import Any

import pandas as pd
from scipy.stats import binom

from benchmarks.reliability import coverage as known
from benchmarks.reliability.claims import FUNCTIONS, play
from benchmarks.reliability.reaction import play_ladder
from benchmarks.reliability.shares import (
    CELL,
    CHOICE,
    CHOSEN,
    LIMITS,
    WIDER,
    Shares,
    over_problems,
    rows_of,
    wider,
)
from benchmarks.runner import ROOT, markdown_table, write_table
from benchmarks.runner.simulators import SIMULATORS
from benchmarks.runner.study import Study, Summary, grid
from kernelucb.certificates.measured import Record

STUDY = Study("benchmarks.reliability", "How often claims at a margin are false.")
TABLES = ["crossed_barrel", "agnp"]
PROBLEMS = [*SIMULATORS, *FUNCTIONS, *TABLES]
DESIGNS = ["random", "qlognei", "guard"]
GRID = grid({"seed": range(4), "problem": PROBLEMS, "design": DESIGNS})
PACKAGE = ROOT / "src" / "kernelucb" / "certificates" / "reliability.csv"
# The package's words, and the widths over the range that were hoped for after 50 runs.
KINDS = {"value": "value", "window gain": "window", "window floor": "window floor"}
KINDS |= {"gap": "anywhere"}
WISHES = {"value": 0.10, "window gain": 0.08, "gap": 0.25}
METHODS = ["margin", "deviations", "left out"]
COUNTS = [15, 50, 100]  # of the package
ADVICE = [1.2, 1.5, 2.0, 3.0]  # norm bounds over the least norm


@STUDY.table("curves", GRID, play)
def curves(runs: pd.DataFrame) -> dict[str, Summary]:
    r"""Shares of false claims at each level, and with levels chosen on other problems."""
    rows = rows_of(runs)
    shares = Shares(pd.concat([rows, wider(rows)], ignore_index=True))
    table = shares.table()
    table = table[~table["method"].str.startswith(WIDER)]
    held = [
        over_problems(shares.held_out(limit).assign(limit=name), ["limit", *CELL])
        for name, limit in LIMITS.items()
    ]
    found = pd.concat(held, ignore_index=True)
    return {
        "": Summary(table.round(5), _shown(table)),
        "held_out": Summary(found.round(5), _held_out(found)),
        "norm": _at_norms(runs),
    }


def _at_norms(runs: pd.DataFrame) -> pd.DataFrame:
    r"""False claims on the simulators at norm bounds over the least norm, in numbers."""
    rows = rows_of(runs[runs["problem"].isin([*SIMULATORS])], ["problem", "design"])
    rows = rows[(rows["method"] == "margin") & rows["level"].isin(ADVICE)]
    rows = rows[rows["count"].isin(COUNTS) & (rows["design"] != "guard")]
    cells = rows.groupby(["design", "count", "level"])
    found = cells["false"].agg(claims="size", false="sum").reset_index()
    kinds = rows[rows["false"]].groupby(["design", "count", "level"])
    worst = kinds["problem"].agg(lambda own: own.value_counts().index[0])
    return found.join(worst.rename("most on"), on=["design", "count", "level"]).fillna("")


def _shown(table: pd.DataFrame) -> list[str]:
    r"""Percentages of false claims, in brackets their limit."""
    lines: list[str] = []
    for method in METHODS:
        own = table[(table["method"] == method) & table["count"].isin(COUNTS)]
        levels = sorted(own["level"].unique())
        cells = own.assign(
            text=[
                f"{100 * a:.2g} ({100 * b:.2g})"
                for a, b in zip(own["share_false"], own["at_most"], strict=True)
            ]
        ).pivot(index=["count", "kind"], columns="level", values="text")
        header = ["runs", "claim", *(f"{level:g}" for level in levels)]
        body = ([str(n), kind, *cells.loc[n, kind]] for n, kind in cells.index)
        lines += ["", f"**{method}**", "", *markdown_table(header, body)]
    return lines[1:]


def _held_out(found: pd.DataFrame) -> list[str]:
    r"""What levels are worth on the problem that did not choose them."""
    header = ["runs", "claim", "method", "false", "worst problem", "width"]
    shown = found["method"].isin([*METHODS, CHOSEN, WIDER]) & found["count"].isin(COUNTS)
    lines: list[str] = []
    for name, own in found[shown].groupby("limit", sort=False):
        lines += ["", f"**limit: {name}**", ""]
        body = [
            [
                f"{row['count']}",
                row["kind"],
                row["method"] + _reached(row),
                f"{100 * row['share_false']:.1f} %",
                f"{100 * row['worst_share']:.0f} % ({row['worst']})"
                if row["worst_share"] > 0.0
                else "0 %",
                f"{row['width']:.2f}{_wish(row)}",
            ]
            for row in own.sort_values(["count", "kind"]).to_dict("records")
        ]
        lines += markdown_table(header, body)
    return lines[1:]


def _reached(row: dict[str, Any]) -> str:
    missing = len(PROBLEMS) - row["problems"]
    return f" (no level for {missing} problems)" if missing else ""


def _wish(row: dict[str, Any]) -> str:
    if (
        row["count"] != 50
        or row["method"] not in (CHOSEN, WIDER)
        or row["kind"] not in WISHES
    ):
        return ""
    wish = WISHES[row["kind"]]
    return f" (hoped for {wish:g}{'' if row['width'] <= wish else ', missed'})"


@STUDY.table("package")
def package() -> Summary:
    r"""The table of the package, from that of ``curves``."""
    table = pd.read_csv(STUDY.folder / "results" / "curves.csv")
    kept = table["method"].isin(CHOICE) & table["count"].isin(COUNTS)
    table = table[kept].sort_values([*CELL, "level"])
    # What the ladder shows beside its margins: up to the first level with no false claim.
    beside = (table["method"] == "margin") & (table["kind"] != "window floor")
    zeros = (table["share_false"] == 0.0).groupby([table[name] for name in CELL])
    beside &= (table["share_false"] <= 0.2) & (zeros.cumsum() <= 1)
    # What a reliability may choose: the least levels of 0.9 and 0.95.
    least = [
        table[table["at_most"] <= limit].groupby(CELL).head(1).index
        for limit in (0.1, 0.05)
    ]
    table = table[beside | table.index.isin(least[0].union(least[1]))]
    rows = table.rename(columns={"count": "runs"}).assign(
        kind=table["kind"].map(KINDS), share_false=table["false"] / table["claims"]
    )
    rows = rows.sort_values(["kind", "runs", "method", "level"])[[*Record._fields]]
    write_table(PACKAGE, rows.round(4))
    return Summary(None, None)


@STUDY.table(
    "ladder",
    grid({"count": [20, 50, 80], "range": ["unknown", "0 to 100"], "seed": range(3)}),
    play_ladder,
)
def ladder(runs: pd.DataFrame) -> pd.DataFrame:
    r"""What may be said of a batch reaction after 20, 50 and 80 runs of qLogNEI."""
    rows = [
        {"runs": run["count"], "range": run["range"], "seed": run["seed"], **claim}
        for run in runs.to_dict("records")
        for claim in run["claims"]
    ]
    every = pd.DataFrame(rows).groupby(["runs", "range", "kind"])
    return every[["number", "margin", "seconds"]].median().reset_index().round(2)


@STUDY.table(
    "coverage",
    grid(
        {"kernel": "matern52", "delta": 0.1},
        [{"told": 1.0, "at": 1.0}, {"told": 0.5, "at": 1.0}, {"told": 0.5, "at": 0.5}],
        {"seed": range(1000)},
    ),
    known.play,
)
def coverage(runs: pd.DataFrame) -> pd.DataFrame:
    r"""Sequences in which a false claim stood at the true norm and noise scale."""
    groups = runs.groupby(["kernel", "delta", "told", "at"])
    names = ["misses", "value", "baseline", "window", "anywhere"]
    found, count = groups[names].sum().reset_index(), groups.size().to_numpy()
    # More misses than the limit are rejected: false alarm 1e-4, and the power at 2 delta.
    limit = binom.isf(1e-4, count, found["delta"])
    power = binom.sf(limit, count, 2.0 * found["delta"])
    return found.assign(sequences=count, limit=limit, power=power.round(4))


if __name__ == "__main__":
    STUDY.main()
