r"""Table 1 side by side with the published one, and Figure 7 in numbers."""

import math
from pathlib import Path

import numpy as np

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
    paired_difference,
    read_rows,
    write_atomically,
    write_rows,
)


def result_file(folder: Path, stem: str, selection: Selection, suffix: str) -> Path:
    r"""Where a summary goes: beside, never over, one that rests on more.

    Fewer rounds than the protocol's, or fewer repetitions than the summary that lies
    there, get a name of their own.
    """
    if selection.rounds != selection.configuration.protocol.rounds:
        stem += f"_{selection.rounds}_rounds"
    existing = folder / f"{stem}.csv"
    if existing.exists() and _holds_more(read_rows(existing), selection):
        stem += f"_part_of_{selection.repetitions}_repetitions"
    return folder / f"{stem}{suffix}"


def _holds_more(rows: list[dict[str, str]], selection: Selection) -> bool:
    r"""Whether a summary has repetitions, settings or methods that the selection lacks."""
    settings = {setting.name for setting in selection.settings}
    methods = {method.name for method in selection.methods}
    return any(
        int(row["n"]) > selection.repetitions
        or row["setting"] not in settings
        or row["method"] not in methods
        for row in rows
    )


def write_table1(store: RunStore, selection: Selection, folder: Path) -> list[Path]:
    r"""``table1.csv`` and the side-by-side table ``table1.md``."""
    totals = {
        (method.name, setting.name): total_regret(store, selection, setting, method)
        for method in selection.methods
        for setting in selection.settings
    }
    paper = published() if _as_published(selection) else {}
    files = [result_file(folder, "table1", selection, s) for s in (".csv", ".md")]
    rows = [
        {
            "method": method,
            "setting": setting,
            "mean": round(ours.mean, 3),
            "std": round(ours.std, 3),
            "n": ours.n,
            "published_mean": paper[method, setting].mean if _in(paper, method) else "",
            "published_std": paper[method, setting].std if _in(paper, method) else "",
        }
        for (method, setting), ours in totals.items()
    ]
    write_rows(files[0], rows)
    write_atomically(files[1], _side_by_side(totals, paper, selection) + "\n")
    return files


def _as_published(selection: Selection) -> bool:
    return selection.rounds == selection.configuration.protocol.rounds


def _in(paper: dict, method: str) -> bool:
    return any(name == method for name, _ in paper)


def _side_by_side(
    totals: dict[tuple[str, str], Moments],
    paper: dict[tuple[str, str], Moments],
    selection: Selection,
) -> str:
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
    return "\n".join(lines)


def write_paired(store: RunStore, selection: Selection, folder: Path) -> list[Path]:
    r"""``paired.csv`` and ``paired.md``: the exact bound against the grid.

    Differences are taken within repetitions, which share reward function and arms.
    """
    methods = selection.configuration.methods
    rows = []
    for setting in selection.settings:
        exact, grid = (
            cumulative_regret(store, selection, setting, methods[name])[:, -1]
            for name in ("exact", "dmm")
        )
        difference = paired_difference(exact, grid)
        rows.append(
            {
                "method": "exact",
                "setting": setting.name,
                "exact": round(float(exact.mean()), 3),
                "dmm": round(float(grid.mean()), 3),
                "ratio": round(float(exact.mean() / grid.mean()), 4),
                "difference": round(difference.mean, 3),
                "standard_error": round(difference.standard_error, 3),
                "n": difference.n,
            }
        )
    files = [result_file(folder, "paired", selection, suffix) for suffix in (".csv", ".md")]
    write_rows(files[0], rows)
    write_atomically(files[1], _paired_table(rows))
    return files


def _paired_table(rows: list[dict]) -> str:
    cells = [
        (
            row["setting"],
            f"{row['exact']:.1f}",
            f"{row['dmm']:.1f}",
            f"{row['ratio']:.3f}",
            f"{row['difference']:+.1f} ± {row['standard_error']:.1f}",
            f"{row['n']}",
        )
        for row in rows
    ]
    differences = "difference ± standard error"
    header = ("setting", "exact", "DMM", "ratio of means", differences, "n")
    lines = markdown_table(header, cells)
    total = sum(row["difference"] for row in rows)
    error = math.sqrt(sum(row["standard_error"] ** 2 for row in rows))
    ratio = float(np.exp(np.mean([math.log(row["ratio"]) for row in rows])))
    lines += [
        "",
        f"All settings together: difference {total:+.1f} ± {error:.1f}, geometric mean of "
        f"the ratios {ratio:.3f}.",
    ]
    return "\n".join(lines) + "\n"


def write_figure7(store: RunStore, selection: Selection, folder: Path) -> list[Path]:
    r"""``figure7.csv`` and ``figure7.md``: what loose beliefs cost each method."""
    files = [result_file(folder, "figure7", selection, s) for s in (".csv", ".md")]
    totals = {
        (method.name, setting.name): total_regret(store, selection, setting, method)
        for method in selection.methods
        for setting in selection.settings
    }
    write_rows(
        files[0],
        [
            {
                "method": method,
                "setting": setting,
                "mean": round(moments.mean, 3),
                "std": round(moments.std, 3),
                "n": moments.n,
            }
            for (method, setting), moments in totals.items()
        ],
    )
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
    write_atomically(files[1], "\n".join(lines) + "\n")
    return files


def write_curves(
    store: RunStore, selection: Selection, folder: Path, name: str
) -> list[Path]:
    r"""Mean and spread of the regret curves at some rounds, and a table of the last."""
    rounds = np.unique(np.linspace(1, selection.rounds, 21).round().astype(int))
    rows = []
    for setting in selection.settings:
        for method in selection.methods:
            curves = cumulative_regret(store, selection, setting, method)
            for number in rounds:
                moments = Moments.of(curves[:, number - 1])
                rows.append(
                    {
                        "method": method.name,
                        "setting": setting.name,
                        "round": number,
                        "mean": round(moments.mean, 3),
                        "std": round(moments.std, 3),
                        "n": moments.n,
                    }
                )
    files = [result_file(folder, name, selection, suffix) for suffix in (".csv", ".md")]
    write_rows(files[0], rows)
    write_atomically(files[1], _final_totals(store, selection))
    return files


def _final_totals(store: RunStore, selection: Selection) -> str:
    r"""Methods in rows, settings in columns, as the paper's Table 1."""
    settings = selection.settings
    rows = [
        [method.label]
        + [_text(total_regret(store, selection, s, method)) for s in settings]
        for method in selection.methods
    ]
    lines = [
        f"Cumulative regret after {selection.rounds} rounds, mean ± population standard "
        f"deviation, n = {selection.repetitions}.",
        "",
        *markdown_table(["method", *(setting.name for setting in settings)], rows),
    ]
    return "\n".join(lines) + "\n"


def _text(moments: Moments) -> str:
    return f"{moments.mean:.1f} ± {moments.std:.1f}"
