r"""What Ax experiments violated, reached and recommended, for every method."""

import math
from collections.abc import Callable, Sequence

import numpy as np
from scipy.stats import binom

from benchmarks.experiments.configuration import Experiments, ExperimentTask
from benchmarks.experiments.trials import Run
from benchmarks.runner import RunStore, markdown_table, most_events, paired_difference

_ROUND_OFF = 1e-9
_LEVEL = 0.5  # percent of output that counts as ahead
Row = dict[str, object]


def rows(store: RunStore[Run], tasks: Sequence[ExperimentTask]) -> list[Row]:
    r"""One row for each experiment; regrets are below the best feasible point."""
    found = []
    for task in tasks:
        run = store.load(task)
        feasible = [
            value
            for value, slack in zip(run.objective, run.slack, strict=True)
            if slack >= -_ROUND_OFF
        ]
        value, slack = run.recommended or (math.nan, math.nan)
        found.append(
            {
                "problem": task.problem_name,
                "method": task.method,
                "seed": task.seed,
                "trials": len(run.slack),
                "violations": sum(each < -_ROUND_OFF for each in run.slack),
                "worst_slack": f"{min(run.slack):.4g}",
                "start": f"{run.start:.5g}",
                "optimum": f"{run.optimum:.5g}",
                "best_feasible": f"{max(feasible, default=math.nan):.5g}",
                "recommended": f"{value:.5g}",
                "recommended_slack": f"{slack:.4g}",
                "missed": run.missed,
                "width": f"{run.width:.4g}",
                "seconds": f"{run.seconds:.3g}",
            }
        )
    return found


def safe_table(part: Experiments, found: list[Row]) -> list[str]:
    r"""Violations, and the share of what could be gained over the safe arm."""
    cells = []
    for (problem, method), group in _groups(found).items():
        violated = sum(_number(row, "violations") > 0 for row in group)
        gained = np.array([_gained(row) for row in group])
        cells.append(
            [
                problem,
                method,
                f"{len(group)}",
                f"{violated}",
                _violations(group),
                f"{np.median(gained):.0%}",
                f"{np.quantile(gained, 0.1):.0%}",
                f"{np.mean([_number(row, 'seconds') for row in group]):.1f}",
            ]
        )
    count = sum(row["method"] == part.methods[0] for row in found)
    allowed = most_events(count, part.delta, part.false_alarm)
    power = float(binom.sf(allowed, count, 2.0 * part.delta))
    header = ["problem", "method", "experiments", "with a violation", "violations each"]
    reached = ["gained, median", "gained, lowest tenth", "seconds"]
    return [
        f"{part.trials} trials, delta {part.delta:g} for both bands together; {count} of "
        f"{part.seeds * len(part.problems)} experiments of every method are finished. At "
        f"rate delta more than {allowed} of {count} experiments would have a violation "
        f"with probability {part.false_alarm:g} at most, at twice that rate with "
        f"probability {power:.3f}. Gained: how far the best feasible trial "
        "is on the way from the safe arm to the best feasible point of the whole square.",
        "",
        *markdown_table([*header, *reached], cells),
    ]


def explored_table(part: Experiments, found: list[Row]) -> list[str]:
    r"""Feasibility and regret of what is recommended, and of the best feasible trial."""
    cells = []
    for (problem, method), group in _groups(found).items():
        none = sum(row["recommended"] == "nan" for row in group)
        wrong = sum(_number(row, "recommended_slack") < -_ROUND_OFF for row in group)
        best = [_regret(row, "best_feasible") for row in group]
        recommended = [
            _regret(row, "recommended")
            for row in group
            if _number(row, "recommended_slack") >= -_ROUND_OFF
        ]
        cells.append(
            [
                problem,
                method,
                f"{len(group)}",
                _violations(group),
                f"{none}",
                f"{wrong}",
                _summary(np.median, recommended),
                _summary(np.median, best),
                _summary(np.max, best),
            ]
        )
    seeds = min(len(group) for group in _groups(found).values())
    header = ["problem", "method", "experiments", "violations each", "recommend none"]
    regrets = ["recommend infeasible", "regret of the recommended"]
    regrets += ["of the best feasible trial", "at worst"]
    return [
        f"{part.trials} trials, delta {part.delta:g} for all bands together; {seeds} of "
        f"{part.seeds} seeds are finished. Median regret over seeds: that of the "
        "recommended arm where there is one that is feasible, and of the best feasible "
        "trial, which only the simulation knows (infinite where no trial is feasible).",
        "",
        *markdown_table([*header, *regrets], cells),
    ]


def mixed_table(part: Experiments, found: list[Row]) -> list[str]:
    r"""Best feasible output of every method, and of its differences from the last one."""
    groups = {method: group for (_, method), group in _groups(found).items()}
    reference = {row["seed"]: row for row in groups[part.methods[-1]]}
    cells = []
    for method in part.methods:
        group = [row for row in groups.get(method, []) if row["seed"] in reference]
        own, other = (
            np.array([_reached(row) for row in rows])
            for rows in (group, [reference[row["seed"]] for row in group])
        )
        difference = paired_difference(own, other)
        ahead, behind = (own > other + _LEVEL).sum(), (own < other - _LEVEL).sum()
        none = sum(row["recommended"] == "nan" for row in group)
        wrong = sum(_number(row, "recommended_slack") < -_ROUND_OFF for row in group)
        recommended = [
            _regret(row, "recommended")
            for row in group
            if _number(row, "recommended_slack") >= -_ROUND_OFF
        ]
        cells.append(
            [
                method,
                f"{len(group)}",
                f"{own.mean():.2f}",
                f"{own.min():.1f}",
                f"{difference.mean:+.2f} ± {difference.standard_error:.2f}",
                f"{ahead} / {behind}",
                _violations(group),
                f"{none}",
                f"{wrong}",
                _summary(np.mean, recommended),
                f"{np.mean([_number(row, 'width') for row in group]):.1f}",
                f"{sum(_number(row, 'missed') > 0 for row in group)}",
                f"{np.mean([_number(row, 'seconds') for row in group]):.0f}",
            ]
        )
    header = ["method", "seeds", "best feasible, mean", "lowest", f"against {method}"]
    header += ["ahead / behind", "infeasible trials each", "recommend none"]
    header += ["recommend infeasible", "regret of the recommended", "band"]
    header += ["experiments it missed", "seconds"]
    optimum = np.mean([_number(row, "optimum") for row in reference.values()])
    return [
        f"{part.trials} trials; {min(map(len, groups.values()))} of {part.seeds} seeds are "
        f"finished. Best feasible: the largest true output of a feasible trial, percent "
        f"(0 where none is); the best possible one is {optimum:.2f} on average. Against "
        f"{method}: paired, mean ± standard error; ahead and behind: by more than "
        f"{_LEVEL:g}. Band: half its median width over all recipes at the end, and the "
        "experiments in which it missed a recipe, of either outcome.",
        "",
        *markdown_table(header, cells),
    ]


def _groups(found: list[Row]) -> dict[tuple[str, str], list[Row]]:
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in sorted(found, key=lambda row: str(row["problem"])):
        groups.setdefault((str(row["problem"]), str(row["method"])), []).append(row)
    return groups


def _violations(group: list[Row]) -> str:
    return f"{np.mean([_number(row, 'violations') for row in group]):.1f}"


def _number(row: Row, name: str) -> float:
    return float(str(row[name]))


def _gained(row: Row) -> float:
    start, best = _number(row, "start"), _number(row, "best_feasible")
    # Between the points of the grid there may be a little more.
    possible = max(_number(row, "optimum"), best) - start
    return (best - start) / possible if possible > 0.0 else 1.0


def _regret(row: Row, name: str) -> float:
    value = _number(row, name)
    return math.inf if math.isnan(value) else max(_number(row, "optimum") - value, 0.0)


def _reached(row: Row) -> float:
    value = _number(row, "best_feasible")
    return 0.0 if math.isnan(value) else value


def _summary(statistic: Callable, values: list[float]) -> str:
    return f"{statistic(values):.3f}" if values else "none"
