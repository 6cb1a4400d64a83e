r"""Table 1 side by side with the published one, and Figure 7 in numbers."""

import math
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.papers.flynn_reeb_2024.configuration import Method
from benchmarks.papers.flynn_reeb_2024.summaries import (
    AGREEMENT,
    Selection,
    cumulative_regret,
    published,
    total_regret,
)
from benchmarks.runner import (
    Moments,
    RunStore,
    markdown_table,
    moments_table,
    paired_difference,
    read_table,
    spaced,
    write_summary,
)


def result_stem(folder: Path, stem: str, selection: Selection) -> str:
    r"""Name of a summary: beside, never over, one that rests on more.

    Fewer rounds than the protocol's, or fewer repetitions than the summary that lies
    there, get a name of their own.
    """
    if selection.rounds != selection.configuration.protocol.rounds:
        stem += f"_{selection.rounds}_rounds"
    existing = folder / f"{stem}.csv"
    if existing.exists() and _holds_more(read_table(existing), selection):
        stem += f"_part_of_{selection.repetitions}_repetitions"
    return stem


def _holds_more(rows: pd.DataFrame, selection: Selection) -> bool:
    r"""Whether a summary has repetitions, settings or methods that the selection lacks."""
    settings = [setting.name for setting in selection.settings]
    methods = [method.name for method in selection.methods]
    more = rows["n"].astype(int) > selection.repetitions
    others = ~rows["setting"].isin(settings) | ~rows["method"].isin(methods)
    return bool((more | others).any())


def _totals(store: RunStore, selection: Selection) -> dict[tuple[str, str], Moments]:
    r"""Regret after the last round, by method and setting."""
    return {
        (method.name, setting.name): total_regret(store, selection, setting, method)
        for method in selection.methods
        for setting in selection.settings
    }


def _row(method: str, setting: str, moments: Moments) -> dict:
    row = {"method": method, "setting": setting, "mean": round(moments.mean, 3)}
    return row | {"std": round(moments.std, 3), "n": moments.n}


def write_table1(store: RunStore, selection: Selection, folder: Path) -> list[Path]:
    r"""``table1.csv`` and the side-by-side table ``table1.md``."""
    totals, paper = _totals(store, selection), {}
    if selection.rounds == selection.configuration.protocol.rounds:
        paper = published()
    rows = []
    for pair, ours in totals.items():
        theirs = paper.get(pair)
        mean, std = ("", "") if theirs is None else (theirs.mean, theirs.std)
        rows.append(_row(*pair, ours) | {"published_mean": mean, "published_std": std})
    lines = _side_by_side(totals, paper, selection)
    return write_summary(folder, result_stem(folder, "table1", selection), rows, lines)


def _side_by_side(
    totals: dict[tuple[str, str], Moments],
    paper: dict[tuple[str, str], Moments],
    selection: Selection,
) -> list[str]:
    r"""One row for each method and setting, and how many agree."""
    rows, agreements = [], []
    for setting in selection.settings:
        for method in selection.methods:
            ours = totals[method.name, setting.name]
            theirs = paper.get((method.name, setting.name))
            cells = ["-", _text(ours), "-", "-"]
            if theirs is not None:
                distance = ours.distance(theirs)
                agreements.append(abs(distance) <= AGREEMENT)
                verdict = "yes" if agreements[-1] else "**no**"
                cells = [_text(theirs), _text(ours), f"{distance:+.2f}", verdict]
            rows.append([setting.name, method.label, *cells])
    error = "difference / standard error"
    lines = [
        f"Cumulative regret after {selection.rounds} rounds, mean ± population standard "
        f"deviation over {selection.repetitions} repetitions.",
        "",
        *markdown_table(["setting", "method", "published", "ours", error, "agree"], rows),
    ]
    if agreements:
        lines += [
            "",
            f"{sum(agreements)} of {len(agreements)} means differ from the published one "
            f"by at most {AGREEMENT:g} standard errors of the difference.",
        ]
    return lines


def write_paired(
    store: RunStore, selection: Selection, folder: Path, name: str
) -> list[Path]:
    r"""``<name>.csv`` and ``<name>.md``: the first of two methods against the second.

    Differences are taken within repetitions, which share reward function and arms.
    """
    first, second = selection.methods
    rows = []
    for setting in selection.settings:
        ours, others = (
            cumulative_regret(store, selection, setting, method)[:, -1]
            for method in selection.methods
        )
        difference = paired_difference(ours, others)
        rows.append(
            {
                "method": first.name,
                "setting": setting.name,
                first.name: round(float(ours.mean()), 3),
                second.name: round(float(others.mean()), 3),
                "ratio": round(float(ours.mean() / others.mean()), 4),
                "difference": round(difference.mean, 3),
                "standard_error": round(difference.standard_error, 3),
                "n": difference.n,
            }
        )
    stem = result_stem(folder, name, selection)
    return write_summary(folder, stem, rows, _paired_table(rows, first, second))


def _paired_table(rows: list[dict], first: Method, second: Method) -> list[str]:
    cells = [
        (
            row["setting"],
            f"{row[first.name]:.1f}",
            f"{row[second.name]:.1f}",
            f"{row['ratio']:.3f}",
            f"{row['difference']:+.1f} ± {row['standard_error']:.1f}",
            f"{row['n']}",
        )
        for row in rows
    ]
    differences = "difference ± standard error"
    header = ("setting", first.label, second.label, "ratio of means", differences, "n")
    total = sum(row["difference"] for row in rows)
    error = math.sqrt(sum(row["standard_error"] ** 2 for row in rows))
    ratio = float(np.exp(np.mean([math.log(row["ratio"]) for row in rows])))
    below = sum(row["difference"] < 0 for row in rows)
    clear = sum(row["difference"] < -AGREEMENT * row["standard_error"] for row in rows)
    return [
        *markdown_table(header, cells),
        "",
        f"All settings together: difference {total:+.1f} ± {error:.1f}, geometric mean of "
        f"the ratios {ratio:.3f}. The difference is below zero in {below} of {len(rows)} "
        f"settings, by {AGREEMENT:g} standard errors in {clear}.",
    ]


def write_figure7(store: RunStore, selection: Selection, folder: Path) -> list[Path]:
    r"""``figure7.csv`` and ``figure7.md``: what loose beliefs cost each method."""
    totals = _totals(store, selection)
    rows = [_row(*pair, moments) for pair, moments in totals.items()]
    protocol, first = selection.configuration.protocol, selection.settings[0]
    beliefs = [
        f"sigma {s.noise_factor * protocol.noise_std:g}, "
        f"B {s.norm_factor * protocol.norm:g}"
        for s in selection.settings
    ]
    table = []
    for method in selection.methods:
        reference = totals[method.name, first.name].mean
        cells = [
            f"{_text(totals[method.name, s.name])} "
            f"({totals[method.name, s.name].mean / reference:.2f})"
            for s in selection.settings
        ]
        table.append([method.label, *cells])
    lines = [
        f"Cumulative regret after {selection.rounds} rounds, n = {selection.repetitions}; "
        "in brackets the multiple of the first column.",
        "",
        *markdown_table(["method", *beliefs], table),
    ]
    return write_summary(folder, result_stem(folder, "figure7", selection), rows, lines)


def write_curves(
    store: RunStore, selection: Selection, folder: Path, name: str
) -> list[Path]:
    r"""Mean and spread of the regret curves at some rounds, and a table of the last."""
    curves = {
        (method.name, setting.name): cumulative_regret(store, selection, setting, method)
        for setting in selection.settings
        for method in selection.methods
    }
    rounds = spaced(selection.rounds, 21, np.linspace)
    rows = moments_table(curves, ["method", "setting"], rounds, digits=3)
    lines = _final_totals(selection, _totals(store, selection))
    return write_summary(folder, result_stem(folder, name, selection), rows, lines)


def _final_totals(
    selection: Selection, totals: dict[tuple[str, str], Moments]
) -> list[str]:
    r"""Methods in rows, settings in columns, as the paper's Table 1."""
    names = [setting.name for setting in selection.settings]
    rows = [
        [method.label, *(_text(totals[method.name, name]) for name in names)]
        for method in selection.methods
    ]
    return [
        f"Cumulative regret after {selection.rounds} rounds, mean ± population standard "
        f"deviation, n = {selection.repetitions}.",
        "",
        *markdown_table(["method", *names], rows),
    ]


def _text(moments: Moments) -> str:
    return f"{moments.mean:.1f} ± {moments.std:.1f}"
