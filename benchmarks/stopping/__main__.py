r"""Command line: ``python -m benchmarks.stopping stops``."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.runner.pictures import picture
from benchmarks.runner.study import Study, Summary, grid
from benchmarks.runner.tables import markdown_table
from benchmarks.stopping.play import SHARE, play
from benchmarks.stopping.problems import GROUPS
from benchmarks.stopping.rules import BUDGET, RULES, START

STUDY = Study("benchmarks.stopping", "How often stopping rules stop too early.")
GRID = grid({"seed": range(3), "problem": [*GROUPS], "budget": BUDGET})
FREE, MADE = "made by no kernel", "made by a kernel"
WITHIN = {
    FREE: ("simulators", "test functions", "laboratory tables"),
    MADE: ("known norm", "known prior"),
}


@STUDY.table("stops", GRID, play)
def stops(runs: pd.DataFrame) -> Summary:
    r"""Stops of each rule, false ones, and what they spend."""
    looks = _looks(runs)
    parts = {name: [name] for name in dict.fromkeys(GROUPS.values())} | WITHIN
    rows = [
        _row(looks[(looks["rule"] == rule) & looks["group"].isin(groups)], part)
        for part, groups in parts.items()
        for rule in RULES
    ]
    table = pd.DataFrame([row for row in rows if row])
    return Summary(table, _lines(table), lambda path: _draw(runs, table, path))


def _looks(runs: pd.DataFrame) -> pd.DataFrame:
    r"""A row for each run and rule: evaluations spent, and the regret at the stop."""
    rows = []
    for run in runs.to_dict("records"):
        for rule, count in run["stops"].items():
            regret = run["regrets"][count - START] if count else np.nan
            row = {"rule": rule, "group": GROUPS[run["problem"]], "count": count}
            rows.append(row | {"budget": run["budget"], "regret": regret})
    return pd.DataFrame(rows)


def _row(looks: pd.DataFrame, part: str) -> dict[str, Any]:
    if looks.empty:
        return {}
    stopped = looks[looks["count"] > 0]
    rule, false = looks["rule"].iloc[0], int((stopped["regret"] > SHARE).sum())
    promise, certified = RULES[rule].promise, RULES[rule].needs.startswith("known")
    spent = looks["count"].where(looks["count"] > 0, looks["budget"])
    return {
        "problems": part,
        "rule": rule,
        "promised": promise if part in (MADE, *WITHIN[MADE]) or not certified else "none",
        "runs": len(looks),
        "stops": len(stopped),
        "false stops": false,
        "false of stops": round(false / max(len(stopped), 1), 4),
        "false of runs": round(false / len(looks), 4),
        "spent at stops": stopped["count"].median(),
        "saved": round(float(1.0 - (spent / looks["budget"]).mean()), 4),
        "regret": round(stopped["regret"].median(), 4),
        "worst regret": round(stopped["regret"].max(), 4),
        "never": round(1.0 - len(stopped) / len(looks), 4),
    }


def _lines(table: pd.DataFrame) -> Sequence[str]:
    r"""Percentages, of all runs on functions of either kind."""
    header = ["rule", "promised", "stops / runs", "false stops", "never", "spent at stops"]
    header += ["regret at stops", "worst"]
    lines: list[str] = []
    for part in WITHIN:
        own = table[table["problems"] == part].to_dict("records")
        lines += ["", f"**Functions {part}**", ""]
        lines += markdown_table(header, map(_cells, own))
    return lines[1:]


def _cells(row: dict[str, Any]) -> list[str]:
    none = row["stops"] == 0
    shown = [f"{row['spent at stops']:.0f}"]
    shown += [f"{100 * row[name]:.1f} %" for name in ("regret", "worst regret")]
    false = "-" if none else f"{row['false stops']} ({row['false of stops']:.0%} of them)"
    counts = [f"{row['stops']} / {row['runs']}", false, f"{row['never']:.0%}"]
    return [row["rule"], row["promised"], *counts, *(["-"] * 3 if none else shown)]


def _draw(runs: pd.DataFrame, table: pd.DataFrame, path: Path) -> None:
    r"""False stops against runs saved, and what a fixed budget would do."""
    markers, names = "osD^vP*X<>dph8", [r for r in RULES if not r.startswith("budget")]
    groups = runs["problem"].map(GROUPS)
    with picture(path, 1, 2, figsize=(11.0, 6.6), sharey=True) as (figure, panels):
        for axes, (part, within) in zip(panels, WITHIN.items(), strict=True):
            regrets = np.array(runs[groups.isin(within)]["regrets"].tolist())
            saved = 1.0 - np.arange(START, START + regrets.shape[1]) / runs["budget"].max()
            false = (regrets > SHARE).mean(0)
            axes.plot(100 * saved, 100 * false, color="#6E6E6E", label="fixed budget")
            own = table[table["problems"] == part].set_index("rule")
            for index, name in enumerate(names):
                ours = name.split()[0].rstrip(",") in ("gap", "breakdown", "family")
                style = {"marker": markers[index % len(markers)], "markersize": 8}
                style |= {"color": "#0072B2" if ours else "#E69F00", "alpha": 0.85}
                at = own.loc[[name]] if name in own.index else own.iloc[:0]
                x, y = 100 * at["saved"], 100 * at["false of runs"]
                axes.plot(
                    x, y, linestyle="", markeredgecolor="#222222", label=name, **style
                )
            axes.set_title(f"functions {part}")
            axes.set_xlabel(f"runs saved (% of {runs['budget'].max()})")
        panels[0].set_ylabel("runs with a false stop (%)")
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4)


if __name__ == "__main__":
    STUDY.main()
