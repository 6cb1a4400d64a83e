r"""Command line: ``python -m benchmarks.papers.wang_2018 grasp``."""

import math
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.papers.wang_2018.grasp import play_grasp
from benchmarks.runner import Moments, captioned, draw_spread, picture, read_table
from benchmarks.runner.study import Settings, Study, Summary, grid

STUDY = Study("benchmarks.papers.wang_2018", "Experiments of Wang, Kim & Kaelbling (2018).")
# In the order of the tables, with Okabe & Ito's palette and a dash pattern each, so that
# grey print tells them apart.
METHODS = {
    "pem_ucb": ("PEM-BO UCB", "#0072B2", "-"),
    "pem_pi": ("PEM-BO PI", "#56B4E9", (0, (6, 2))),
    "pem_pi_oracle": ("PEM-BO PI, target the problem's own best", "#56B4E9", (0, (1, 2))),
    "plain": ("Plain UCB", "#E69F00", (0, (3, 1.5))),
    "tlsm": ("TLSM-BO UCB", "#D55E00", (0, (8, 3, 1, 3, 1, 3))),
    "random": ("Random", "#6E6E6E", (0, (1, 4))),  # mean of 500 random orders
}
COLUMNS = (1, 2, 3, 5, 10, 20)

# Leave one problem out, the others are the training tasks. No noise term, evaluated arms
# are never repeated, the first is the acquisition function's choice.
GRASP = {"seed": 2018, "share": 1.0, "missing": 0.0, "held_out": 1}
GRASP |= {"domain": "grasp", "delta": 0.01, "evaluations": 20}
GRASP["pooled_points"] = 1000  # training points that TLSM-BO can afford (the paper's)


def _runs(methods: str, **changes: Any) -> list[Settings]:
    r"""Every setting, problem and method; runs that share a prior follow each other."""
    return grid(GRASP | changes, {"problem": range(100), "method": methods.split()})


GRASP_METHODS = "pem_ucb pem_pi pem_pi_oracle plain tlsm random"
SHARES = [0.01, 0.02, 0.03, 0.05, 0.1, 0.3]  # of the training problems


def play(task: Settings) -> dict[str, Any]:
    r"""True value of each evaluation, and why the method is not defined where it is not."""
    try:
        values = play_grasp(task)
    except ValueError as error:
        if "training functions" not in str(error):
            raise
        return {"values": [], "refused": str(error)}
    if not np.all(np.isfinite(values)):
        raise ArithmeticError(f"A value that is not a number in {task}.")
    return {"values": values, "refused": ""}


@STUDY.table("grasp", _runs(GRASP_METHODS), play)
def single(runs: pd.DataFrame) -> Summary:
    r"""Best value found against evaluations, and paired differences."""
    summary = _best_values(runs, _published())
    lines = [*summary.lines, *_differences(_by_method(runs))]
    return Summary(summary.rows, lines, partial(_draw_evaluations, runs))


@STUDY.table("grasp_curve", _runs("pem_ucb pem_pi", share=SHARES, evaluations=5), play)
@STUDY.table(
    # The matrix is completed once for ten problems, all of which are left out.
    "grasp_missing",
    _runs("pem_ucb pem_pi", missing=[0.0, 0.3, 0.6], held_out=10),
    play,
)
def curve(runs: pd.DataFrame) -> Summary:
    r"""Best value found against the share of the training data."""
    summary = _best_values(runs, {})
    return Summary(summary.rows, summary.lines, partial(_draw_shares, runs))


def _best_values(runs: pd.DataFrame, published: dict[str, list[str]]) -> Summary:
    r"""Moments of the best value so far, of each method in each setting."""
    columns = [n for n in COLUMNS if n <= runs["evaluations"][0]]
    rows, lines = [], []
    for _, part in runs.groupby(["share", "missing"], sort=False):
        words = f"{part['share'].iloc[0]:.0%} of the tasks"
        if part["held_out"].iloc[0] > 1:
            words = f"{part['missing'].iloc[0]:.0%} missing"
        for method, best in _by_method(part).items():
            label, cells = METHODS[method][0], ["not defined"] * len(columns)
            if best is not None:
                moments = {n: Moments.of(best[:, n - 1]) for n in columns}
                setting = {name: part[name].iloc[0] for name in ("share", "missing")}
                rows += [
                    {"method": method, **setting, "evaluations": n}
                    | {"mean": round(m.mean, 4), "std": round(m.std, 4), "n": m.n}
                    for n, m in moments.items()
                ]
                cells = [_cell(m, "") for m in moments.values()]
            lines.append([words, label, *cells])
            if method in published:
                lines.append(["", f"{label}, authors' stored run", *published[method]])
    text = (
        "Best value found after so many evaluations, mean ± 1.96 standard errors over "
        f"{runs['problem'].nunique()} problems."
    )
    header = ["setting", "method", *map(str, columns)]
    return Summary(pd.DataFrame(rows), captioned(text, header, lines))


def _by_method(runs: pd.DataFrame) -> dict[str, np.ndarray | None]:
    r"""Best value so far, ``problems x evaluations``; None where the method refused."""
    return {
        str(method): None
        if part["refused"].any()
        else np.maximum.accumulate(part["values"].tolist(), axis=1)
        for method, part in runs.groupby("method", sort=False)
    }


def _differences(best: dict[str, np.ndarray | None]) -> list[str]:
    r"""Paired differences of PEM-BO UCB to the others."""
    reference = best.pop("pem_ucb", None)
    others = {name: values for name, values in best.items() if values is not None}
    if reference is None or not others:
        return []
    columns = [n for n in COLUMNS if n <= reference.shape[1]]
    text = "Paired differences, PEM-BO UCB minus the other (mean ± 1.96 standard errors):"
    table = []
    for name, values in others.items():
        moments = [Moments.of((reference - values)[:, n - 1]) for n in columns]
        table.append([METHODS[name][0], *(_cell(m, "+") for m in moments)])
    return ["", *captioned(text, ["other", *map(str, columns)], table)]


def _cell(moments: Moments, sign: str) -> str:
    nothing = sign and math.isclose(moments.mean, 0.0, abs_tol=5e-4)
    mean = "0.000" if nothing else f"{moments.mean:{sign}.3f}"
    return f"{mean} ± {1.96 * moments.standard_error:.3f}"


def _published() -> dict[str, list[str]]:
    r"""Curves stored with the authors' code: mean and 1.96 standard errors, as cells."""
    table = read_table(Path(__file__).with_name("expected.csv"))
    pairs = zip(table["mean"], table["interval"], strict=True)
    table["cell"] = [f"{float(m):.3f} ± {float(i):.3f}" for m, i in pairs]
    return table.groupby("method")["cell"].agg(list).to_dict()


def _draw_evaluations(runs: pd.DataFrame, path: Path) -> None:
    problems = runs["problem"].nunique()
    with picture(path, figsize=(7.6, 3.6)) as (_, axes):
        for method, best in _by_method(runs).items():
            if best is not None:
                mean, rounds = best.mean(0), np.arange(1, best.shape[1] + 1)
                error = 1.96 * best.std(0) / np.sqrt(max(len(best) - 1, 1))
                style, label = _style(method)
                draw_spread(axes, rounds, mean, error, style, label, alpha=0.12)
        axes.set(xlabel="evaluations", ylabel="best value found")
        axes.set_title(f"mean ± 1.96 standard errors over {problems} problems")
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))


def _draw_shares(runs: pd.DataFrame, path: Path) -> None:
    r"""The last value of each method against the share of the data."""
    axis = "missing" if runs["missing"].any() else "share"
    shares = [100.0 * share for share in runs[axis].unique()]
    with picture(path, figsize=(7.6, 3.6)) as (_, axes):
        for number, (method, part) in enumerate(runs.groupby("method", sort=False)):
            x, moments = [], []
            for share, group in part.groupby(axis, sort=False):
                (best,) = _by_method(group).values()
                if best is not None:
                    percent = 100.0 * share
                    # Beside each other, not over each other.
                    beside = percent + number, percent * 1.04**number
                    x.append(beside[0] if axis == "missing" else beside[1])
                    moments.append(Moments.of(best[:, -1]))
            errors = [1.96 * m.standard_error for m in moments]
            style, label = _style(str(method))
            mean = [m.mean for m in moments]
            axes.errorbar(x, mean, errors, label=label, marker="o", capsize=3, **style)
        if axis == "share":
            axes.set_xscale("log")
            axes.set_xticks(shares, [f"{share:g}" for share in shares])
            axes.minorticks_off()
        what = "training values missing" if axis == "missing" else "training data"
        axes.set(xlabel=f"{what}, %", ylabel="best value found")
        axes.set_title(
            f"after {runs['evaluations'][0]} evaluations, mean ± 1.96 standard errors "
            f"over {runs['problem'].nunique()} problems"
        )
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))


def _style(method: str) -> tuple[dict[str, Any], str]:
    label, color, dashes = METHODS[method]
    return {"color": color, "linestyle": dashes}, label


if __name__ == "__main__":
    STUDY.main()
