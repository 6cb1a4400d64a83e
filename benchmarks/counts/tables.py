r"""What coverage, widths, regrets and safe runs come to, as tables."""

import numpy as np
import pandas as pd
from scipy.stats import binom

from benchmarks.counts import width
from benchmarks.counts.configuration import Regret, Safe, Width
from benchmarks.counts.settings import Belief, Coverage
from benchmarks.runner import markdown_table, most_events

_TARGET = 1.12
KERNELS = {"rbf": "RBF", "matern52": "Matérn 5/2"}


def coverage_table(part: Coverage, counts: list[dict]) -> list[str]:
    r"""Every setting, with bands that believe the truth and with wrong ones."""
    by_case: dict[tuple[str, str], dict[str, dict]] = {}
    for row in counts:
        by_case.setdefault((row["setting"], row["chooser"]), {})[row["belief"]] = row
    true, *wrong = part.beliefs.values()
    cells, delta = [], part.protocol.delta
    for (setting, chooser), rows in by_case.items():
        row = rows[true.name]
        limited = most_events(row["sequences"], delta, part.false_alarm)
        numbers = row["sequences"], limited, row["missed"], row["contradicted"]
        found = [f"{rows[w.name]['either']} of {rows[w.name]['sequences']}" for w in wrong]
        cells.append([setting, chooser, *map(str, numbers), row["closest"], *found])
    count = max(row["sequences"] for row in counts)
    allowed = most_events(count, delta, part.false_alarm)
    alarm, power = (float(binom.sf(allowed, count, p)) for p in (delta, 1.5 * delta))
    header = ["outcomes", "points chosen by", "sequences", "limit", "missed"]
    header += ["contradicted", "closest", *(_found_out(belief) for belief in wrong)]
    rounds = ", ".join(map(str, part.batches))
    return [
        f"Rounds of {rounds} outcomes, {sum(part.batches)} in all; after each a look at "
        f"all of about {part.candidates} candidates, which the points are chosen from; "
        f"delta {delta:g}. A sequence fails where the function is outside the band at any "
        "candidate in any round (*missed*), or no function of the norm bound is left "
        f"(*contradicted*), and ends there. At rate delta more than {allowed} of {count} "
        f"would come with probability {alarm:.1e}, at one and a half times that rate with "
        f"probability {power:.3f}. *Closest*: smallest distance to the edge of the band "
        "over its width. The last columns: sequences in which a wrong band failed.",
        "",
        *markdown_table(header, cells),
    ]


def _found_out(belief: Belief) -> str:
    if belief.copies > 1:
        return f"wrong: every outcome counted {belief.copies} times"
    return f"wrong: {belief.norm:g} of the norm bound"


def _means(frame: pd.DataFrame, column: str) -> str:
    values = frame[column].astype(float)
    return f"{values.mean():.3g}" if len(values) else ""


def width_table(part: Width, found: list[dict]) -> list[str]:
    r"""Mean widths at the points of the whole set, and the ratios to it."""
    frame, lines, largest = pd.DataFrame(found), [], []
    loose = frame.given.astype(float) != part.norm_bound
    many = frame.dimension == part.many_dimensions
    bound, dimensions = part.loose_norm_bound, part.many_dimensions
    harder = {
        f"norm bound {bound:g}": loose & ~many,
        f"{dimensions} dimensions": many & ~loose,
        f"{dimensions} dimensions, norm bound {bound:g}": many & loose,
    }
    for likelihood in part.likelihoods:
        own = frame.likelihood == likelihood
        table, ratios = _widths(frame[own & ~loose & ~many])
        what = "rate" if likelihood == "poisson" else "probability"
        lines += [f"Mean width of the {what}, {likelihood} outcomes:", "", *table, ""]
        for name, values in ratios.items():
            met = "yes" if max(values) <= _TARGET else "no"
            row = [likelihood, name, f"{max(values):.3f}", f"<= {_TARGET:g}", met]
            largest.append(row)
        for label, rows in harder.items():
            if (own & rows).any():
                lines += [f"The same, {label}:", "", *_widths(frame[own & rows])[0], ""]
    header = ["outcomes", "mean width over that of the whole set", "largest"]
    summary = [*markdown_table([*header, "target", "met"], largest), ""]
    frame = frame[~loose & ~many]
    return [*summary, *lines, *_room_table(frame), "", *_width_summary(frame)]


def _widths(frame: pd.DataFrame) -> tuple[list[str], dict[str, list[float]]]:
    r"""A table of widths, and what is in its columns of ratios."""
    names = [name for name in width.BANDS if name in set(frame.band)]
    groups = list(frame.groupby(["kernel", "dimension", "observations"], sort=False))
    ratios = {
        f"{name}{added}": [_ratio(group, name, scale) for _, group in groups]
        for name in width.FORMS
        for scale, added in (("width", ""), ("latent_width", ", latent"))
    }
    cells = [
        [
            f"{KERNELS[kernel]}, d = {d}",
            f"{n}",
            *(_means(group[group.band == name], "width") for name in names),
            *(f"{each[index]:.3f}" for each in ratios.values()),
            f"{group.function.nunique()}",
        ]
        for index, ((kernel, d, n), group) in enumerate(groups)
    ]
    cells.sort(key=lambda row: row[0])
    over = (f"{name} over the whole set" for name in ratios)
    header = ["function", "outcomes", *names, *over, "functions"]
    return markdown_table(header, cells), ratios


def _ratio(group: pd.DataFrame, band: str, scale: str) -> float:
    r"""Of the mean widths of a band and of the whole set."""
    both = (group[group.band == name] for name in (band, width.EXACT))
    own, exact = (each[scale].astype(float).mean() for each in both)
    return float(own / exact)


def _room_table(frame: pd.DataFrame) -> list[str]:
    r"""How far both limits on the loss are above the loss of the function."""
    cells = []
    for (likelihood, n), group in frame.groupby(["likelihood", "observations"], sort=False):
        both = (group[group.band == name] for name in (width.ELLIPSOID, width.RUNNING))
        cells.append([likelihood, f"{n}", *(_means(each, "room") for each in both)])
    cells.sort(key=lambda row: row[0])
    header = ["outcomes", "number", "evidence of a mixture", "running estimators"]
    return [
        "Mean of what the limit on the loss has above the loss of the function, in nats:",
        "",
        *markdown_table(header, cells),
    ]


def _width_summary(frame: pd.DataFrame) -> list[str]:
    own = frame[frame.band.isin(width.FORMS)]
    inside, cells = own.containment.astype(float).min(), []
    for name in width.BANDS:
        own = frame[(frame.band == name) & (frame.likelihood == "bernoulli")]
        cells.append([name, f"{own.missed.sum()} of {len(own)}"])
    count = frame[frame.band == width.EXACT].shape[0]
    return [
        f"The whole set stayed inside the others at every point tried, in "
        f"{count} problems; the smallest distance is {inside:.1g} (log odds or log rate)."
        if inside >= 0.0
        else f"The whole set left one of them by {-inside:.1g}.",
        "",
        *markdown_table(["band", "left out the probability at a query point"], cells),
    ]


def regret_table(part: Regret, found: list[dict]) -> list[str]:
    r"""Means and standard errors over runs."""
    frame, cells = pd.DataFrame(found), []
    keys = ["kernel", "dimension", "method"]
    for (kernel, d, method), group in frame.groupby(keys, sort=False):
        missed = int((group.missed > 0).sum())
        cells.append(
            [
                f"{KERNELS[kernel]}, d = {d}",
                method,
                f"{len(group)}",
                _spread(group.cumulative),
                _spread(group.simple),
                _means(group, "width"),
                "" if method == "random" else f"{missed} of {len(group)}",
                _means(group, "seconds"),
            ]
        )
    cells.sort(key=lambda row: row[0])
    header = ["function", "method", "runs", "cumulative regret"]
    header += ["simple regret", "width", "left out the truth", "seconds"]
    return [
        f"{part.rounds} rounds of one outcome each, mean ± standard error. "
        "*Simple regret*: of the candidate with the largest lower end after the last "
        "round. *Left out the truth*: runs in which the probability of any candidate was "
        "outside after any round.",
        "",
        *markdown_table(header, cells),
    ]


def _spread(values: pd.Series) -> str:
    numbers = values.astype(float)
    error = numbers.std(ddof=1) / np.sqrt(len(numbers)) if len(numbers) > 1 else 0.0
    return f"{numbers.mean():.3f} ± {error:.3f}"


def safe_table(part: Safe, found: list[dict]) -> list[str]:
    r"""Unsafe runs, and how far the safe set came."""
    frame, cells = pd.DataFrame(found), []
    for (method, kernel), group in frame.groupby(["method", "kernel"], sort=False):
        numbers = group[["reached", "best", "start", "known"]].astype(float)
        gained = (numbers.reached - numbers.start) / (numbers.best - numbers.start)
        possible = gained[numbers.best > numbers.start]
        cells.append(
            [
                method,
                KERNELS[kernel],
                f"{len(group)}",
                f"{(group.unsafe > 0).sum()}",
                f"{group.unsafe.sum()} of {group.rounds.sum()}",
                f"{numbers.known.mean():.0%}",
                f"{possible.median():.0%}",
                _means(group, "seconds"),
            ]
        )
    first = frame[frame.method == part.methods[0]]
    delta, count = part.protocol.delta, len(first)
    allowed = most_events(count, delta, part.false_alarm)
    alarm, power = (float(binom.sf(allowed, count, rate)) for rate in (delta, 2.0 * delta))
    header = ["method", "kernel", "runs", "with an unsafe evaluation", "unsafe evaluations"]
    header += ["safe points known", "gained", "seconds"]
    return [
        f"{part.rounds} evaluations of {part.num_trials} parts each, failure probability "
        f"at most {part.threshold:g}, delta {delta:g}. At rate delta more than {allowed} "
        f"of {count} runs would have an unsafe evaluation with probability {alarm:.1e}, at "
        f"twice that rate with probability {power:.3f}. *Safe points known*: share of the "
        "truly safe candidates in the safe set in the end, those included that the start "
        "point is not connected to. *Gained*: how far the best point of the safe set is on "
        "the way from the start point to the best truly safe one, median over runs.",
        "",
        *markdown_table(header, cells),
    ]
