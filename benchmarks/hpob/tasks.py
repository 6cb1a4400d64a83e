r"""A norm bound from earlier tasks, on tables that nobody here wrote.

A task is a table and a draw of its rows: accuracies at up to ``points`` rows, no two of
which are closer than ``apart`` times the root of the number of inputs (else rows that
nearly coincide decide the norm). Task 0 of each table is held out in turn.
"""

from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import torch
from gpytorch.kernels import Kernel
from torch import Tensor

from benchmarks.hpob.problems import SPACES, arrays
from benchmarks.runner import Moments, captioned, fixed_kernel, outside, quiet, stream
from benchmarks.runner.study import Settings, Summary, grid
from kernelucb import KernelRegression, MartingaleMixtureUCB, norm_from_tasks
from kernelucb import regret_certificate as certificate

LENGTHS = 0.125, 0.25, 0.5  # times the root of the number of inputs; searches by 0.25
LOOKS = 20, 50, 100  # numbers of runs after which the band is looked at
MEAN = 0.8  # of the prior, for all tables
FIT = 0.05  # failure probability of a band where its norm bound is true
_ROWS = 2000  # of a table, drawn at random, among which a task's are sought
GROUPS = [[f"{s}_{n}" for n in sets] for s, sets in SPACES.items() if len(sets) > 1]
GRID = grid(
    {"points": 200, "apart": 0.05, "noise_std": 0.01, "starts": 5, "tasks": 19},
    {"seed": range(3), "problem": [table for group in GROUPS for table in group]},
)
WAYS = {
    "same": "19 tasks of any table of the space",
    "siblings": "a task of each other table of the space",
    "split": "19 tasks of the other tables of the space",
    "spaces": "a task of each other space",
    "other": "19 tasks of one other space",
    "own": "its own norm, which nobody has",
    "estimate": "no bound: the default estimate",
}


@cache
def task_of(
    table: str, seed: int, number: int, points: int, apart: float
) -> tuple[Tensor, Tensor]:
    r"""Inputs of a task, and its accuracies minus ``MEAN``."""
    data = arrays()[f"table:{table}"]
    order = stream(seed, "task", table, number).permutation(len(data))[:_ROWS]
    inputs, values = np.split(data[order].astype(np.float64), [-1], axis=1)
    kept, free = [], np.full(len(order), True)
    while free.any() and len(kept) < points:
        kept.append(int(free.argmax()))
        free &= np.square(inputs - inputs[kept[-1]]).mean(-1) >= apart**2
    return torch.from_numpy(inputs[kept]), torch.from_numpy(values[kept, 0] - MEAN)


def kernel_of(X: Tensor, length: float) -> Kernel:
    return fixed_kernel("matern52", length * X.shape[-1] ** 0.5)


@cache
def norm_of(length: float, *task: Any) -> float:
    X, values = task_of(*task)
    return float(norm_from_tasks([(X, values)], kernel_of(X, length)).norm_bound)


def group_of(table: str) -> list[str]:
    r"""The tables of its space."""
    return next(group for group in GROUPS if table in group)


def tasks_for(table: str, seed: int, count: int) -> dict[str, list[tuple[str, int]]]:
    r"""Tables and numbers of the tasks whose largest norm is a way's bound."""
    random, group = stream(seed, "ways", table), group_of(table)
    siblings = [each for each in group if each != table]
    spaces = [each for each in GROUPS if each is not group]

    def several(tables: list[str]) -> list[tuple[str, int]]:
        return [(str(random.choice(tables)), number + 1) for number in range(count)]

    return {
        "same": several(group),
        "siblings": [(each, 0) for each in siblings],
        "split": several(siblings),
        "spaces": [(str(random.choice(each)), 0) for each in spaces],
        "other": several(spaces[random.integers(len(spaces))]),
        "own": [(table, 0)],
    }


def promised(way: str, table: str, count: int) -> float:
    r"""Largest probability that the norm is above the bound; NaN where nothing says it."""
    tasks = {"same": count, "siblings": len(group_of(table)) - 1, "spaces": len(GROUPS) - 1}
    return 0.0 if way == "own" else 1.0 / (tasks.get(way, np.nan) + 1.0)


@quiet()  # of norms that the data contradict
@torch.no_grad()
def held_out(settings: Settings) -> dict[str, Any]:
    r"""Bounds for one task, and what their bands say in one search of its points.

    Bands are at ``FIT``: those of ``norm_from_tasks`` at the ``delta`` that is larger by
    the probability that the norm is above the bound.
    """
    table, seed, noise_std = (settings[n] for n in ("problem", "seed", "noise_std"))
    shape, found = (settings["points"], settings["apart"]), []
    tasks = tasks_for(table, seed, settings["tasks"])
    for length in LENGTHS:
        own = norm_of(length, table, seed, 0, *shape)
        for way in WAYS:
            norms = [norm_of(length, t, seed, n, *shape) for t, n in tasks.get(way, [])]
            row = {"length": length, "way": way, "bound": max(norms, default=None)}
            found.append(row | {"looks": [], "norm": own})
    (X, f), random = task_of(table, seed, 0, *shape), stream(seed, "search", table)
    taken = random.permutation(len(X))[: settings["starts"]].tolist()
    noise = torch.from_numpy(noise_std * random.standard_normal(LOOKS[-1]))
    while True:
        data = X[taken], f[taken] + noise[: len(taken)]
        states = {
            each: KernelRegression(*data, kernel_of(X, each), noise_std)
            for each in (LENGTHS if len(taken) in LOOKS else LENGTHS[1:2])
        }
        for row in found if len(taken) in LOOKS else []:
            row["looks"].append(looked(states[row["length"]], row["bound"], X, f))
        if len(taken) == LOOKS[-1]:
            return {"found": found}
        # The default search, of an estimated norm: turns of upper bound and mean.
        search = MartingaleMixtureUCB(states[LENGTHS[1]])
        taken.append(int(search(X.unsqueeze(1)).argmax()))


def looked(state: Any, bound: Any, X: Tensor, f: Tensor) -> dict[str, float]:
    r"""What a band says, and whether it is so; lengths are over the range of the points.

    ``known`` and ``value``: with the plain means of each point and accuracies in 0 to 1.
    """
    band = MartingaleMixtureUCB(state, norm_bound=bound, delta=FIT).band
    narrow = band.with_replicates(len(X)).within(-MEAN, 1.0 - MEAN)
    known = certificate(narrow, X)
    point = known.recommended.reshape(1, -1)
    free = certificate(band, X, recommended=point)
    lower, upper = narrow.bounds(point)
    (best,) = (point == X).all(-1).nonzero()
    spread, regret = float(f.max() - f.min()), float(f.max() - f[best])
    return {
        "missed": float(outside(f, *band.bounds(X), slack=1e-9).any()),
        "told": float(bool(band.assumptions.violated)),
        "false": float(regret > min(free.gap, known.gap) + 1e-9),
        "gap": free.gap / spread,
        "known": known.gap / spread,
        "true": regret / spread,
        "value": float(upper - lower) / spread,
    }


def tables(runs: pd.DataFrame) -> dict[str, Summary]:
    r"""A norm from earlier tasks: how often it fails, what its band says."""
    frame, failures, gaps = _frame(runs), [], []
    for way, name in WAYS.items():
        for length in LENGTHS:
            part = frame[(frame["way"] == way) & (frame["length"] == length)]
            failures.append([name, f"{length:g}", *_failures(part)])
            gaps.append([name, f"{length:g}", *_gaps(part)])
    own = frame[(frame["way"] == "own") & (frame["length"] == LENGTHS[1])]
    norms = own.groupby(["space", "table"])["norm"].median().groupby("space")
    spread = [[str(s), ", ".join(f"{n:.2g}" for n in sorted(each))] for s, each in norms]
    labels = ["norm bound", "length"]
    return {
        "": Summary(None, captioned(_SHARES, [*labels, *_COUNTED], failures)),
        "gaps": Summary(None, captioned(_MEDIANS, [*labels, *_SAID.values(), _LAST], gaps)),
        "norms": Summary(None, captioned(_NORMS, ["space", "norms"], spread)),
    }


_AT = f"after {', '.join(map(str, LOOKS))} runs"
_SHARES = (
    f"Shares of held-out tasks, means over {len(GROUPS)} spaces ± standard errors over "
    f"them. Promised: of the norm (of the band {FIT:g} more). Band missed: a point {_AT}; "
    "untold: and nothing said that data contradict it, as for a false gap. Norm over it: "
    "over the bound, median and largest."
)
_MEDIANS = (
    f"Medians {_AT}, over the range of the task's accuracies. Gap by kernel and norm "
    "alone; with plain means of each point and accuracies in 0 to 1, as is the interval of "
    "the value; and true regret."
)
_NORMS = (
    f"Norms of the tables of each space at length {LENGTHS[1]:g}, medians of the seeds."
)
_COUNTED = "promised", "norm above", "band missed", "untold", "gap false", "norm over it"
_LAST = "share of gaps below 1 at the end"
_SAID = {"gap": "gap", "known": "with means and range", "value": "value", "true": "regret"}


def _frame(runs: pd.DataFrame) -> pd.DataFrame:
    r"""A row for each held-out task, way and length."""
    rows = []
    for run in runs.to_dict("records"):
        table, count = run["problem"], run["tasks"]
        for each in run["found"]:
            looks = pd.DataFrame(each["looks"])
            untold = looks[["missed", "false"]].gt(looks["told"], axis=0).any()
            row = {"table": table, "space": table.partition("_")[0], **each}
            row["promised"] = promised(each["way"], table, count)
            row["over"] = each["norm"] / (each["bound"] or np.nan)
            row["missed"], row["untold"] = looks["missed"].max(), float(untold["missed"])
            row["false"] = float(untold["false"])
            rows.append(row | {name: [*looks[name]] for name in _SAID})
    frame = pd.DataFrame(rows)
    return frame.assign(above=(frame["over"] > 1.0).astype(float))


def _failures(part: pd.DataFrame) -> list[str]:
    by_space = part.groupby("space")
    promise = by_space["promised"].mean().mean()
    columns = ("above", "missed", "untold", "false")
    shares = [Moments.of(by_space[name].mean()) for name in columns]
    cells = [f"{each.mean:.3f} ± {each.standard_error:.3f}" for each in shares]
    over = f"{part['over'].median():.2g}, {part['over'].max():.2g}"
    if part["over"].isna().any():  # no bound
        cells[0] = over = "-"
    return ["-" if np.isnan(promise) else f"{promise:.3f}", *cells, over]


def _gaps(part: pd.DataFrame) -> list[str]:
    medians = (np.median([*part[name]], axis=0) for name in _SAID)
    cells = [", ".join(f"{float(f'{n:.2g}'):g}" for n in each) for each in medians]
    return [*cells, f"{np.mean([each[-1] < 1.0 for each in part['gap']]):.2f}"]
