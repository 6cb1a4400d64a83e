r"""Command line: ``python -m benchmarks.stopping stops``."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.runner import legend_below, markdown_table, picture
from benchmarks.runner.study import Study, Summary, grid
from benchmarks.stopping.calibrated import (
    PROMISES,
    REPLAYS,
    decided,
    margins_of,
    margins_table,
    play_claims,
)
from benchmarks.stopping.play import SHARES, play
from benchmarks.stopping.problems import GROUPS, NEEDLES
from benchmarks.stopping.rules import BUDGET, RULES, START

STUDY = Study("benchmarks.stopping", "How often stopping rules stop too early.")
# A hundred runs or a few more of each group of problems.
_SIZES = Counter(GROUPS.values())
GRID = [
    settings
    for settings in grid({"seed": range(50), "problem": [*GROUPS], "budget": BUDGET})
    if settings["seed"] < math.ceil(100 / _SIZES[GROUPS[settings["problem"]]])
]
FREE, MADE = "made by no kernel", "made by a kernel"
WITHIN = {
    FREE: ("simulators", "test functions", "laboratory tables"),
    MADE: ("known norm", "known prior"),
}
_SEARCHES = [each for each in GRID if GROUPS[each["problem"]] in WITHIN[FREE]]
# Replays have the settings of these searches, and seeds that none of them has.
CALIBRATED = [
    _SEARCHES[i] | {"seed": 1000 + number, "function": "draw"}
    for number, i in enumerate(np.random.default_rng(0).choice(len(_SEARCHES), REPLAYS))
] + [
    each | {"function": "own"}
    for each in grid({"seed": range(5), "problem": [*NEEDLES], "budget": BUDGET})
    + _SEARCHES
]


@STUDY.table("stops", GRID, play)
def stops(runs: pd.DataFrame) -> Summary:
    r"""Stops of each rule, false ones, and what they spend."""
    looks = _looks(runs)
    parts = {name: [name] for name in dict.fromkeys(GROUPS.values())} | WITHIN
    rows = [
        _row(
            looks[(looks["rule"] == rule) & looks["group"].isin(groups)],
            part,
            share,
            _promised(rule, part),
        )
        for part, groups in parts.items()
        for rule in RULES
        for share in SHARES
    ]
    table = pd.DataFrame([row for row in rows if row])
    return Summary(table, _lines(table), lambda path: _draw(runs, table, path))


@STUDY.table("calibrated", CALIBRATED, play_claims)
def calibrated(runs: pd.DataFrame) -> dict[str, Summary]:
    r"""Stops at margins from replays on draws of the default prior."""
    is_drawn = runs["function"] == "draw"
    margins = margins_of(runs[is_drawn])
    looks = _looks(pd.DataFrame(decided(runs[~is_drawn], margins)))
    parts = {FREE: looks["group"].isin(WITHIN[FREE])}
    parts |= {name: looks["problem"] == name for name in looks["problem"].unique()}
    rows = [
        _calibrated_row(looks[is_part & (looks["rule"] == rule)], part, share)
        for part, is_part in parts.items()
        for rule in PROMISES
        for share in SHARES
    ]
    table = pd.DataFrame([row for row in rows if row])
    summary = Summary(table, _lines(table, (FREE, *NEEDLES)))
    return {"": summary, "margins": Summary(margins_table(margins))}


def _calibrated_row(looks: pd.DataFrame, part: str, share: float) -> dict[str, Any]:
    if looks.empty:
        return {}
    own = looks[looks["accepted"] == share]
    false = own[(own["count"] > 0) & (own["regret"] > share)]
    seen = (false["unlike"] > 0) & (false["unlike"] <= false["count"])
    return _row(looks, part, share, PROMISES[looks["rule"].iloc[0]].words) | {
        "claims false": int(own["broken"].sum()),
        "unlike": int((own["unlike"] > 0).sum()),
        "false stops unlike": int(seen.sum()),
    }


def _looks(runs: pd.DataFrame) -> pd.DataFrame:
    r"""A row for each run, rule and accepted regret: the stop, and the regret there."""
    rows = []
    for run in runs.to_dict("records"):
        problem, broken = run["problem"], run.get("broken", {})
        given = {"group": GROUPS.get(problem), "problem": problem, "budget": run["budget"]}
        for rule, counts in run["stops"].items():
            bound = run["bounds"].get(rule)
            given |= {"rule": rule, "bound": np.nan if bound is None else bound}
            given |= {"broken": broken.get(rule), "unlike": run.get("unlike")}
            for share, count in zip(SHARES, counts, strict=True):
                regret = run["regrets"][count - START] if count else np.nan
                rows.append(given | {"accepted": share, "count": count, "regret": regret})
    return pd.DataFrame(rows)


def _promised(rule: str, part: str) -> str:
    certified = RULES[rule].needs.startswith("known")
    is_given = part in (MADE, *WITHIN[MADE]) or not certified
    return RULES[rule].promise if is_given else "none"


def _row(looks: pd.DataFrame, part: str, share: float, promised: str) -> dict[str, Any]:
    if looks.empty:
        return {}
    looks = looks[looks["accepted"] == share]
    stopped = looks[looks["count"] > 0]
    rule, false = looks["rule"].iloc[0], int((stopped["regret"] > share).sum())
    spent = looks["count"].where(looks["count"] > 0, looks["budget"])
    return {
        "problems": part,
        "rule": rule,
        "promised": promised,
        "accepted": share,
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
        "bound at the end": round(looks["bound"].median(), 4),
    }


def _lines(table: pd.DataFrame, parts: Iterable[str] = WITHIN) -> Sequence[str]:
    r"""Counts and percentages, of all runs on functions of these kinds."""
    header = ["rule", "promised", "runs"]
    for share in SHARES:
        header += [f"{share:.0%}: stops", "false", "runs spent", "worst regret"]
    lines: list[str] = []
    for part in parts:
        own = table[table["problems"] == part]
        rows = [_cells(rows) for _, rows in own.groupby("rule", sort=False)]
        lines += ["", f"**Functions {part}**", ""]
        lines += markdown_table([*header, "bounds after all runs"], rows)
    return lines[1:]


def _cells(rows: pd.DataFrame) -> list[str]:
    first = rows.iloc[0]
    cells = [first["rule"], first["promised"], str(first["runs"])]
    for row in rows.to_dict("records"):
        false = f"{row['false stops']} ({row['false of stops']:.0%})"
        own = [false, f"{row['spent at stops']:.0f}", f"{row['worst regret']:.0%}"]
        cells += [str(row["stops"]), *(own if row["stops"] else ["-"] * 3)]
    bound = first["bound at the end"]
    return [*cells, "" if np.isnan(bound) else f"{bound:.0%}"]


def _draw(runs: pd.DataFrame, table: pd.DataFrame, path: Path) -> None:
    r"""False stops against runs saved, and what a fixed budget would do."""
    markers, names = "osD^vP*X<>dph8", [r for r in RULES if not r.startswith("budget")]
    groups = runs["problem"].map(GROUPS)
    with picture(path, 1, 2, figsize=(11.0, 6.6), sharey=True) as (figure, panels):
        for axes, (part, within) in zip(panels, WITHIN.items(), strict=True):
            regrets = np.array(runs[groups.isin(within)]["regrets"].tolist())
            if not regrets.size:
                continue
            saved = 1.0 - np.arange(START, START + regrets.shape[1]) / runs["budget"].max()
            false = (regrets > SHARES[0]).mean(0)
            axes.plot(100 * saved, 100 * false, color="#6E6E6E", label="fixed budget")
            own = table[(table["problems"] == part) & (table["accepted"] == SHARES[0])]
            own = own.set_index("rule")
            for index, name in enumerate(names):
                ours = name.split()[0].rstrip(",") in ("gap", "breakdown", "family")
                style = {"marker": markers[index % len(markers)], "markersize": 8}
                style |= {"color": "#0072B2" if ours else "#E69F00", "alpha": 0.85}
                style |= {"linestyle": "", "markeredgecolor": "#222222"}
                at = own.loc[[name]] if name in own.index else own.iloc[:0]
                x, y = 100 * at["saved"], 100 * at["false of runs"]
                axes.plot(x, y, label=name, **style)
            axes.set_title(f"functions {part}")
            axes.set_xlabel(f"runs saved (% of {runs['budget'].max()})")
        panels[0].set_ylabel("runs with a false stop (%)")
        legend_below(figure, panels[0], 4)


if __name__ == "__main__":
    STUDY.main()
