r"""Command line: ``python -m benchmarks.experiments dimensions``."""

import math
from collections.abc import Callable

import numpy as np
import pandas as pd
from scipy.stats import binom

from benchmarks.experiments.coverage import PARTS, play_coverage
from benchmarks.experiments.dimensions import play_dimensions
from benchmarks.experiments.problems import REACTION
from benchmarks.experiments.trials import play_experiment
from benchmarks.runner import Moments, as_texts, captioned, most_events, paired_difference
from benchmarks.runner.study import Settings, Study, Summary, grid

STUDY = Study(
    "benchmarks.experiments",
    "Experiments with many inputs, categories, contexts and outcome constraints.",
)
PROTOCOL = {
    "centres": 12,  # of a random function: uniform on the unit cube, normal weights
    "stream": 2028,  # of all random streams
    "restarts": 2,  # of optimize_acqf, and of Ax's optimisers for our strategies
    "raw_samples": 32,
    "iterations": 30,  # most steps of each restart
}
KERNELS = {"rbf": "RBF", "matern52": "Matérn 5/2"}
_FALSE_ALARM = 1e-4  # of the limit on failures and violations, at rate delta
_ROUND_OFF = 1e-9
_LEVEL = 0.5  # percent of output that counts as ahead


def _known(
    problem: str, kernel: str, length: float, d: int, norm: float, noise_std: float
) -> Settings:
    r"""A kind of function on the unit cube, all of which is given to the bands."""
    own = {"problem": problem, "kernel": kernel, "lengthscale": length, "dimension": d}
    return own | {"norm": norm, "noise_std": noise_std}


DIMENSIONS = grid(
    [PROTOCOL | {"delta": 0.05, "looks": [50, 100, 200]}],  # after one random point
    {"evaluations": 100000},  # of the certificate
    {"seed": range(5)},
    [
        _known(f"{kernel}_d{d}", kernel, 0.5, d, 3.0, 0.1)
        for d in (4, 6)
        for kernel in KERNELS
    ],
)


@STUDY.table("dimensions", DIMENSIONS, play_dimensions)
def dimensions(runs: pd.DataFrame) -> Summary:
    r"""Certified gaps in four and six dimensions, on functions of known norm."""
    columns = ["rounds", "gap", "found", "regret", "certified", "seconds"]
    lists = ["looks", "gaps", "found", "regrets", "certified", "seconds"]
    rows = runs[["seed", *lists]].set_axis(["seed", *columns], axis=1)
    rows.insert(0, "setting", [_title(run) for _, run in runs.iterrows()])
    rows = rows.explode(columns)
    rows["regret"] = [max(regret, 0.0) for regret in rows["regret"]]
    forms = {"gap": ".5g", "found": ".5g", "regret": ".4g", "seconds": ".3g"}
    rows, cells = as_texts(rows, forms), []
    for (setting, rounds), group in rows.groupby(["setting", "rounds"], sort=False):
        values = {name: Moments.of(group[name].astype(float)) for name in forms}
        means = (values[name] for name in ("gap", "found", "regret"))
        spread = (f"{each.mean:.3f} ± {each.standard_error:.3f}" for each in means)
        seconds = f"{values['seconds'].mean:.1f}"
        cells.append([setting, f"{rounds}", *spread, seconds, f"{len(group)}"])
    gaps, regrets = rows["gap"].astype(float), rows["regret"].astype(float)
    header = ["function", "rounds", "certified gap", "found by the search", "true regret"]
    text = (
        f"Mean ± standard error over seeds; {len(runs)} runs. "
        f"{rows['certified'].sum()} of {len(rows)} certificates are certified, and "
        f"{(regrets > gaps + 1e-6).sum()} were wrong. Largest gap: {gaps.max():.3g}."
    )
    return Summary(rows, captioned(text, [*header, "seconds", "seeds"], cells))


def _title(run: pd.Series) -> str:
    kernel, d = KERNELS[run["kernel"]], run["dimension"]
    return f"{kernel}, length {run['lengthscale']:g}, d = {d}"


# One continuous input and a category with three codes.
SEQUENCES = PROTOCOL | {
    "delta": 0.15,  # 0.1 would leave 200 sequences a power below 0.9
    "codes": [0.0, 0.5, 1.0],
    "arms": 41,  # values of the continuous input that are played
    "grid": 401,  # values of it on which the optimum is looked for
    "looks": [4, 8, 16],  # numbers of observations
    "evaluations": 400,  # of every part of a report
    "level": -0.5,  # of the constraint
    "size": 10,  # sequences in a file
}
SEQUENCES |= _known("mixed", "matern52", 0.3, 2, 2.0, 0.1)
CASES = {"case": ["mixed space", "context", "constrained"]}
# Bands believe ``factor`` times the norm and the noise.
COVERAGE = grid([SEQUENCES], {"factor": 1.0}, CASES, {"block": range(20)})
COVERAGE += grid([SEQUENCES], {"factor": 0.25}, CASES, {"block": range(5)})


@STUDY.table("coverage", COVERAGE, play_coverage)
def coverage(runs: pd.DataFrame) -> Summary:
    r"""Wrong reports on a mixed space, in contexts and with a constraint."""
    rows, cells, delta = [], [], runs["delta"][0]
    for (factor, case), part in runs.groupby(["factor", "case"], sort=False):
        wrong = part["wrong"].explode()
        row = {"case": case, "factor": factor, "sequences": len(wrong)}
        row |= {"reports": sum(map(sum, part["reports"])), "failed": sum(map(any, wrong))}
        row |= {name: sum(name in each for each in wrong) for name in PARTS}
        rows.append(row)
        belief = "the truth" if factor == 1.0 else f"{factor:g} of both"
        allowed = most_events(row["sequences"], delta, _FALSE_ALARM)
        numbers = (row[name] for name in ("sequences", "reports", "failed"))
        parts = (row[name] for name in PARTS)
        cells.append([case, belief, *map(str, (*numbers, allowed, *parts))])
    count, looks = rows[0]["sequences"], ", ".join(map(str, runs["looks"][0]))
    allowed = most_events(count, delta, _FALSE_ALARM)
    alarm, power = (float(binom.sf(allowed, count, rate)) for rate in (delta, 2.0 * delta))
    header = ["case", "norm and noise believed", "sequences", "reports", "failed", "limit"]
    text = (
        f"Reports after {looks} observations, delta {delta:g} for all bands together. "
        "A sequence failed if any part of any report was wrong, and ends there; the last "
        f"columns say which parts. At rate delta more than {allowed} of {count} would come "
        f"with probability {alarm:.1e}, at twice that rate with probability {power:.3f}."
    )
    return Summary(pd.DataFrame(rows), captioned(text, [*header, *PARTS], cells))


PLANES = [
    _known("plane_matern52", "matern52", 0.4, 2, 2.0, 0.05),
    _known("plane_rbf", "rbf", 0.3, 2, 2.0, 0.05),
]
# One constraint that a share of the points satisfies; optima are looked for on a grid. All
# methods are told of one arm in the upper half of the feasible points, if ``is_safe``.
_AX = PROTOCOL | {"delta": 0.1, "grid": 101}
SAFE = grid(
    _AX | {"trials": 20, "share": 0.5, "is_safe": True, "seed": range(100)},
    PLANES,
    {"method": ["safe", "safe, wider every 3rd", "Ax"]},
)
EXPLORED = grid(
    _AX | {"trials": 25, "is_safe": False, "seed": range(20)},
    [plane | {"share": 0.3} for plane in PLANES]
    # Of BoTorch; their norms are estimated.
    + grid({"problem": ["ConstrainedGramacy", "ConstrainedHartmann"], "noise_std": 0.05}),
    {"method": ["explored", "explored, qLogNEI", "Ax"]},
)


def _reactions(seeds: range, *methods: str) -> list[Settings]:
    r"""Ax's default strategy beside ours; each seed draws reactions of its own."""
    own = {"grid": 81, "trials": 20, "is_safe": False, "problem": REACTION}
    return grid(_AX | own, {"seed": seeds, "method": [*methods]})


MIXED = _reactions(range(20), "certified", "estimated", "Ax")
_THOROUGH = ("certified, Ax's optimiser", "estimated, Ax's optimiser")
OPTIMISER = _reactions(range(8), *_THOROUGH, "Ax")


@STUDY.table("safe", SAFE, play_experiment)
def safe(runs: pd.DataFrame) -> Summary:
    r"""Ax experiments whose trials must not violate a constraint."""
    rows, cells = _experiments(runs), []
    for (problem, method), group in _groups(rows):
        gained = _gained(group)
        cells.append([problem, method, f"{len(group)}"])
        cells[-1] += [f"{(group['violations'] > 0).sum()}", _violations(group)]
        cells[-1] += [f"{np.median(gained):.0%}", f"{np.quantile(gained, 0.1):.0%}"]
        cells[-1].append(f"{group['seconds'].mean():.1f}")
    task, count = runs.iloc[0], (runs["method"] == runs["method"][0]).sum()
    allowed = most_events(count, task["delta"], _FALSE_ALARM)
    power = float(binom.sf(allowed, count, 2.0 * task["delta"]))
    header = ["problem", "method", "experiments", "with a violation", "violations each"]
    reached = ["gained, median", "gained, lowest tenth", "seconds"]
    text = (
        f"{task['trials']} trials, delta {task['delta']:g} for both bands together; "
        f"{count} experiments of every method. At "
        f"rate delta more than {allowed} of {count} experiments would have a violation "
        f"with probability {_FALSE_ALARM:g} at most, at twice that rate with "
        f"probability {power:.3f}. Gained: how far the best feasible trial "
        "is on the way from the safe arm to the best feasible point of the whole square."
    )
    return Summary(rows, captioned(text, [*header, *reached], cells))


@STUDY.table("explored", EXPLORED, play_experiment)
def explored(runs: pd.DataFrame) -> Summary:
    r"""Ax experiments whose trials may violate constraints."""
    rows, cells = _experiments(runs), []
    for (problem, method), group in _groups(rows):
        best = _regrets(group, "best_feasible")
        cells.append([problem, method, f"{len(group)}", _violations(group)])
        cells[-1] += _recommendations(group, np.median)
        cells[-1] += [f"{np.median(best):.3f}", f"{best.max():.3f}"]
    header = ["problem", "method", "experiments", "violations each", "recommend none"]
    regrets = ["recommend infeasible", "regret of the recommended"]
    regrets += ["of the best feasible trial", "at worst"]
    task = runs.iloc[0]
    text = (
        f"{task['trials']} trials, delta {task['delta']:g} for all bands together; "
        f"{runs['seed'].nunique()} seeds. Median regret over seeds: that of the "
        "recommended arm where there is one that is feasible, and of the best feasible "
        "trial, which only the simulation knows (infinite where no trial is feasible)."
    )
    return Summary(rows, captioned(text, [*header, *regrets], cells))


@STUDY.table("mixed", MIXED, play_experiment)
@STUDY.table("optimiser", OPTIMISER, play_experiment)
def reactions(runs: pd.DataFrame) -> Summary:
    r"""Ax experiments on reactions: ours, certified and estimated, beside Ax alone."""
    rows, cells = _experiments(runs), []
    groups = {method: group for (_, method), group in _groups(rows)}
    last, reference = [*groups.items()][-1]
    other = reference["best_feasible"].fillna(0.0).to_numpy()
    for method, group in groups.items():
        own = group["best_feasible"].fillna(0.0).to_numpy()
        difference = paired_difference(own, other)
        ahead, behind = (own > other + _LEVEL).sum(), (own < other - _LEVEL).sum()
        cells.append([method, f"{len(group)}", f"{own.mean():.2f}", f"{own.min():.1f}"])
        cells[-1].append(f"{difference.mean:+.2f} ± {difference.standard_error:.2f}")
        cells[-1] += [f"{ahead} / {behind}", _violations(group)]
        cells[-1] += _recommendations(group, np.mean)
        cells[-1] += [f"{group['width'].mean():.1f}", f"{(group['missed'] > 0).sum()}"]
        cells[-1].append(f"{group['seconds'].mean():.0f}")
    header = ["method", "seeds", "best feasible, mean", "lowest", f"against {last}"]
    header += ["ahead / behind", "infeasible trials each", "recommend none"]
    header += ["recommend infeasible", "regret of the recommended", "band"]
    header += ["experiments it missed", "seconds"]
    text = (
        f"{runs['trials'][0]} trials; {len(reference)} seeds. Best feasible: the largest "
        "true output of a feasible trial, percent (0 where none is); the best possible one "
        f"is {reference['optimum'].mean():.2f} on average. Against {last}: paired, mean ± "
        f"standard error; ahead and behind: by more than {_LEVEL:g}. Band: half its median "
        "width over all recipes at the end, and the experiments in which it missed a "
        "recipe, of either outcome."
    )
    return Summary(rows, captioned(text, header, cells))


_FORMATS = {
    "worst_slack": ".4g",
    "start": ".5g",
    "optimum": ".5g",
    "best_feasible": ".5g",
    "recommended": ".5g",
    "recommended_slack": ".4g",
    "missed": "d",
    "width": ".4g",
    "seconds": ".3g",
}


def _experiments(runs: pd.DataFrame) -> pd.DataFrame:
    r"""A row for each experiment; regrets are below the best feasible point."""
    found = []
    for _, run in runs.iterrows():
        slack, trials = run["slack"], zip(run["objective"], run["slack"], strict=True)
        feasible = [value for value, room in trials if room >= -_ROUND_OFF]
        value, room = run["recommended"] or (math.nan, math.nan)
        own = {"worst_slack": min(slack), "start": run["first"], "recommended": value}
        own |= {"recommended_slack": room, "best_feasible": max(feasible, default=math.nan)}
        own |= {name: run[name] for name in ("optimum", "missed", "width", "seconds")}
        row = {name: run[name] for name in ("problem", "method", "seed")}
        row |= {"trials": len(slack), "violations": len(slack) - len(feasible)}
        found.append(row | {name: format(own[name], f) for name, f in _FORMATS.items()})
    return pd.DataFrame(found)


def _groups(rows: pd.DataFrame) -> pd.api.typing.DataFrameGroupBy:
    r"""The same rows as numbers, for each problem and method."""
    numbers = rows.astype(dict.fromkeys(_FORMATS, float))
    ordered = numbers.sort_values("problem", kind="stable")
    return ordered.groupby(["problem", "method"], sort=False)


def _violations(group: pd.DataFrame) -> str:
    return f"{group['violations'].mean():.1f}"


def _gained(group: pd.DataFrame) -> np.ndarray:
    best, start = group["best_feasible"], group["start"]
    # Between the points of the grid there may be a little more.
    possible = np.fmax(group["optimum"], best) - start
    return np.where(possible > 0.0, (best - start) / possible, 1.0)


def _regrets(group: pd.DataFrame, name: str) -> pd.Series:
    return (group["optimum"] - group[name]).clip(lower=0.0).fillna(math.inf)


def _recommendations(group: pd.DataFrame, statistic: Callable) -> list[str]:
    r"""How many recommend nothing, how many a point that is not feasible; the regret."""
    slack = group["recommended_slack"]
    regrets = _regrets(group, "recommended")[slack >= -_ROUND_OFF]
    regret = f"{statistic(regrets):.3f}" if len(regrets) else "none"
    return [f"{slack.isna().sum()}", f"{(slack < -_ROUND_OFF).sum()}", regret]


if __name__ == "__main__":
    STUDY.main()
