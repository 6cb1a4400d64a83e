r"""Command line: ``python -m benchmarks.speed search``."""

from itertools import product

import numpy as np
import pandas as pd

from benchmarks.runner import as_texts, markdown_table
from benchmarks.runner.study import Study, Summary, grid
from benchmarks.speed.contests import FACTORS, PROBLEMS, play_contest, play_rounds
from benchmarks.speed.fresh import STATEMENTS, play_growth, play_import

STUDY = Study(
    "benchmarks.speed",
    "Processor seconds as ratios to BoTorch's own acquisition functions, and growth. One "
    "job at a time: other work on the machine is in the seconds.",
)
ALIKE = {"problem": [*PROBLEMS]}
WORDS = {
    "round": "a round",
    "construction": "construction",
    "build": "construction, one value",
    "call": "one `optimize_acqf` call",
    "evaluations": "its evaluations",
    "evaluation": "seconds an evaluation",
    "gradient": "value and gradient, 8 points",
    "batch": "256 values",
}
CALL = ["call", "evaluations", "evaluation"]
BOUNDS, COUNTS = ["call", "gradient", "batch", "build"], ["construction", *CALL]
FAMILIES, GUARDED = ["construction", "gradient", "call", "round"], ("guarded", "qLogNEI")
# Of each contest: what makes a row, which pairs of functions, which measures.
SHOWN = {
    "bounds_alone": (["problem", "n"], [("exact", "ucb")], BOUNDS),
    "searches": (
        ["n"],
        [*product(("given", "estimated"), ("ucb beta 4", "ucb beta 2")), GUARDED],
        ["round", "construction", *CALL],
    ),
    "fits": (["n"], [("filters", "martingale")], ["construction", *CALL, "gradient"]),
    "outcomes": (["n", "likelihood", "form"], [("counts", "values")], COUNTS),
    "families": (["n", "d", "select"], [("several", "one")], FAMILIES),
}


# The contests of each table.
CONTESTS = {
    "optimize_acqf": grid(
        {"contest": "bounds_alone", **ALIKE, "n": [50, 200, 1000], "seed": range(15)}
    ),
    "search": grid({"contest": "searches", "n": [20, 50, 200], **ALIKE, "seed": range(6)}),
    "filters": grid({"contest": "fits", "n": [50, 200, 1000], **ALIKE, "seed": range(15)}),
    "counts": grid(
        {"contest": "outcomes", "n": [50, 200, 1000]},
        {"likelihood": ["bernoulli", "poisson"], "form": ["cuts", "tangent"]},
        {"kernel": ["rbf", "matern52"], "seed": range(3)},
    ),
    "family": grid(
        {"contest": "families", "n": [50, 200], "d": [2, 6]},
        {"select": ["simplest", "widest"], "seed": range(8)},
    ),
}


def ratios(runs: pd.DataFrame) -> Summary:
    r"""Ratios of seconds: the median of the pairs, in brackets the ratio of the sums."""
    keys, pairs, measures = SHOWN[runs["contest"][0]]
    rows, lines = [], []
    for values, part in runs.groupby(keys, sort=False):
        for own, other in pairs:
            labels = dict(zip(keys, values, strict=True))
            labels |= {"own": own, "other": other} if len(pairs) > 1 else {}
            cells = [*map(str, labels.values())]
            for name in measures:
                found = np.array([[s[own][name], s[other][name]] for s in part["seconds"]])
                quartiles = np.quantile(found[:, 0] / found[:, 1], [0.25, 0.5, 0.75])
                means = found.mean(0)
                names = ["lower_quartile", "median", "upper_quartile", "of_sums"]
                numbers = [f"{x:.2f}" for x in (*quartiles, means[0] / means[1])]
                row = labels | {"measure": name} | dict(zip(names, numbers, strict=True))
                row |= {"mean_own": f"{means[0]:.4g}", "mean_other": f"{means[1]:.4g}"}
                rows.append(row | {"pairs": len(found)})
                cells.append(f"{numbers[1]} ({numbers[3]})")
            if "contradicted" in part:
                cells.append(f"{part['contradicted'].mean():.1f}")
            lines.append(cells)
    header = [*keys, *(["own", "other"] if len(pairs) > 1 else [])]
    header += [WORDS[name] for name in measures]
    header += ["kernels contradicted"] if "contradicted" in runs else []
    return Summary(pd.DataFrame(rows), markdown_table(header, lines))


for _name, _runs in CONTESTS.items():
    STUDY.table(_name, _runs, play_contest)(ratios)


SIZES = [200, 1000, 2000, 5000]
MOST = 1_000_000  # points; at n = 5000 they would take either function a quarter of an hour
FUNCTIONS = {
    "build": ["exact bound", "sketched bound", "UCB"],
    "pending": ["exact bound"],
    "bounds": ["exact bound", "UCB"],
    "discrete": ["exact bound", "UCB"],
}
TASKS = {
    "build": "construction and 256 values",
    "pending": "4 pending points and 256 values",
    "bounds": "band of very many points, both sides (UCB: its one value)",
    "discrete": "`optimize_acqf_discrete` over very many points",
}
FEW = ("build", "pending")
GROWTH = [
    {"task": task, "n": n, "points": points, "function": function}
    for task, functions in FUNCTIONS.items()
    for n in SIZES
    for points in [256 if task in FEW else min(MOST, MOST * 200_000 // n**2)]
    for function in functions
]


@STUDY.table("growth", GROWTH, play_growth)
def growth(runs: pd.DataFrame) -> Summary:
    r"""Seconds and megabytes with the observations, each in a process of its own."""
    rows = as_texts(runs, {"seconds": ".3f", "megabytes": ".0f"})
    columns, lines = FUNCTIONS["build"], []
    for (task, n, points), part in rows.groupby(["task", "n", "points"], sort=False):
        found = part.set_index("function").to_dict("index")
        cells = {name: f"{e['seconds']}, {e['megabytes']}" for name, e in found.items()}
        ratio = ""
        if "UCB" in found:
            ours, theirs = (float(found[name]["seconds"]) for name in (columns[0], "UCB"))
            ratio = f"{ours / theirs:.2f}"
        told = [cells.get(name, "") for name in columns]
        lines.append([TASKS[task], str(n), f"{int(points):,}", *told, ratio])
    header = [f"{name}: seconds, megabytes" for name in columns]
    header = ["task", "n", "points", *header, "exact / UCB"]
    return Summary(rows, markdown_table(header, lines))


@STUDY.table(
    "bandit",
    grid({"setting": [*FACTORS], "n": [250, 500, 1000], "fit": ["martingale", "filters"]}),
    play_rounds,
)
def bandit(runs: pd.DataFrame) -> Summary:
    r"""Seconds a round of the kernel bandit."""
    rows = as_texts(runs, {"seconds": ".4f"})
    table = rows.pivot(index="n", columns=["setting", "fit"], values="seconds")
    header = ["observations", *(f"{setting}, `{fit}`" for setting, fit in table.columns)]
    lines = [[str(n), *cells] for n, *cells in table.itertuples()]
    return Summary(rows, markdown_table(header, lines))


@STUDY.table(
    "imports",
    grid(
        {"repeat": range(9)},
        [dict(zip(("case", "library"), names, strict=True)) for names in STATEMENTS],
    ),
    play_import,
)
def imports(runs: pd.DataFrame) -> pd.DataFrame:
    r"""Seconds of ``import``, and of what a script needs before its first bound."""
    medians = runs.groupby(["case", "library"], sort=False)[["wall", "processor"]].median()
    table = medians.stack().unstack("library").rename_axis(["case", "clock"])
    ratio = table["kernelucb"] / table["botorch"]
    shown = table.assign(ratio=ratio).map("{:.2f}".format)
    return shown.reset_index().rename_axis(columns=None)


if __name__ == "__main__":
    STUDY.main()
