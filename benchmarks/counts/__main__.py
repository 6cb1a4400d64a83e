r"""Command line: ``python -m benchmarks.counts coverage``.

Functions of known norm on the unit cube: log odds of successes, or logs of rates. Times
are in ``benchmarks.speed``.
"""

import math
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import binom

from benchmarks.counts.coverage import play_coverage
from benchmarks.counts.regret import play_regret
from benchmarks.counts.width import BANDS, ELLIPSOID, EXACT, FORMS, RUNNING, play_width
from benchmarks.runner import as_texts, captioned, markdown_table, most_events
from benchmarks.runner.study import Settings, Study, Summary, grid

STUDY = Study("benchmarks.counts", "Successes and counts.")
PROTOCOL = {
    "centres": 12,  # of a random function: uniform on the unit cube, normal weights
    "delta": 0.05,
    "stream": 2031,  # of all random streams
}
KERNELS = {"rbf": "RBF", "matern52": "Matérn 5/2"}
_FALSE_ALARM = 1e-3  # of the limit on failures, at rate delta
_TARGET = 1.12


def _setting(
    likelihood: str,
    kernel: str = "rbf",
    dimension: int = 1,
    *,
    length: float = 0.25,
    norm: float,
    norm_bound: float,
    **others: Any,
) -> Settings:
    r"""A kind of outcome and of function; names the random streams.

    The length scale is ``length`` times the square root of the dimension. ``mean``: log
    odds or log rate where the function is zero; given to the bands. ``sign``: of the
    weights of all kernel sections; 0 where they have both signs.
    """
    own = {"setting": f"{likelihood}_{kernel}_d{dimension}", "likelihood": likelihood}
    own |= {"kernel": kernel, "dimension": dimension, "norm": norm}
    own |= {"lengthscale": length * math.sqrt(dimension), "norm_bound": norm_bound}
    return own | {"mean": 0.0, "num_trials": 1, "sign": 0} | others


def _covered(name: str, likelihood: str, norm_bound: float, **others: Any) -> Settings:
    r"""A function of 0.9 times the norm bound; what is hard has a name."""
    norms = {"norm": 0.9 * norm_bound, "norm_bound": norm_bound}
    setting = _setting(likelihood, **norms, **others)
    return setting | ({"setting": name} if name else {})


COVERED = [
    _covered("", likelihood, 3.0, kernel=kernel, dimension=d, num_trials=trials)
    for likelihood, trials in (("bernoulli", 1), ("binomial", 8), ("poisson", 1))
    for kernel in KERNELS
    for d in (1, 2)
]
HARD = [
    _covered("rare_events", "bernoulli", 1.0, mean=-4.6),
    _covered("rare_events_binomial", "binomial", 1.0, mean=-4.6, num_trials=50),
    _covered("all_successes", "bernoulli", 8.0, length=2.0, sign=1),
    _covered("all_failures", "bernoulli", 8.0, length=2.0, sign=-1),
    _covered("counts_of_0", "poisson", 1.0, mean=-6.0),
    _covered("counts_of_10_000", "poisson", 1.0, mean=9.21),
    _covered("counts_from_0_to_10_000", "poisson", 10.0, length=0.5, sign=1),
]
LOOKS = PROTOCOL | {
    "candidates": 49,  # points of a grid, which are played and looked at
    "batches": [1, 4, 10, 15],  # outcomes of a round; a look at the band after each
    "size": 25,  # sequences in a file
}
# What a band believes: the norm bound over the true one, and how often it counts every
# outcome. The truth first.
BELIEFS = {"truth": (1.0, 1), "quarter": (0.25, 1), "copies": (1.0, 16)}


def _sequences(belief: str, count: int, further: int) -> list[Settings]:
    r"""Points chosen by the bound on every setting, otherwise on the simplest ones."""
    norm_factor, copies = BELIEFS[belief]
    own = {"belief": belief, "norm_factor": norm_factor, "copies": copies}
    size, simplest = LOOKS["size"], COVERED[::4]
    cases = [("bound", [*COVERED, *HARD], count)]
    cases += [(each, simplest, further) for each in ("uniform", "nearest miss")]
    found = []
    for chooser, settings, n in cases:
        blocks = {"chooser": chooser, "block": range(n // size)}
        found += grid([LOOKS], settings, own | blocks)
    return found


COVERAGE = _sequences("truth", 1000, 200)
COVERAGE += _sequences("quarter", 50, 50) + _sequences("copies", 50, 50)


@STUDY.table("coverage", COVERAGE, play_coverage)
def coverage(runs: pd.DataFrame) -> Summary:
    r"""How often a band misses the function in any round."""
    rows = []
    keys = ["setting", "chooser", "belief"]
    for (_, chooser, belief), part in runs.groupby(keys, sort=False):
        missed, contradicted = (
            np.concatenate([*part[name]]) > 0 for name in ("missed", "contradicted")
        )
        row = {"setting": _title(part.iloc[0]), "chooser": chooser, "belief": belief}
        row |= {"sequences": len(missed), "missed": missed.sum()}
        row |= {"contradicted": contradicted.sum(), "either": (missed | contradicted).sum()}
        rows.append(row | {"closest": f"{min(map(min, part['closest'])):.3g}"})
    frame, task, cells = pd.DataFrame(rows), runs.iloc[0], []
    delta, batches = task["delta"], task["batches"]
    for case, part in frame.groupby(["setting", "chooser"], sort=False):
        row, *wrong = part.to_dict("records")
        limit = most_events(row["sequences"], delta, _FALSE_ALARM)
        numbers = row["sequences"], limit, row["missed"], row["contradicted"]
        found = (f"{each['either']} of {each['sequences']}" for each in wrong)
        cells.append([*case, *map(str, numbers), row["closest"], *found])
    count = frame["sequences"].max()
    allowed = most_events(count, delta, _FALSE_ALARM)
    alarm, power = (float(binom.sf(allowed, count, r)) for r in (delta, 1.5 * delta))
    header = ["outcomes", "points chosen by", "sequences", "limit", "missed"]
    header += ["contradicted", "closest", *map(_found_out, [*BELIEFS][1:])]
    rounds = ", ".join(map(str, batches))
    text = (
        f"Rounds of {rounds} outcomes, {sum(batches)} in all; after each a look at "
        f"all of about {task['candidates']} candidates, which the points are chosen from; "
        f"delta {delta:g}. A sequence fails where the function is outside the band at any "
        "candidate in any round (*missed*), or no function of the norm bound is left "
        f"(*contradicted*), and ends there. At rate delta more than {allowed} of {count} "
        f"would come with probability {alarm:.1e}, at one and a half times that rate with "
        f"probability {power:.3f}. *Closest*: smallest distance to the edge of the band "
        "over its width. The last columns: sequences in which a wrong band failed."
    )
    return Summary(frame, captioned(text, header, cells))


def _title(run: pd.Series) -> str:
    if run["setting"] in [each["setting"] for each in HARD]:
        return run["setting"].replace("_", " ")
    return f"{run['likelihood']}, {_function(run['kernel'], run['dimension'])}"


def _function(kernel: str, dimension: int) -> str:
    return f"{KERNELS[kernel]}, d = {dimension}"


def _found_out(belief: str) -> str:
    norm, copies = BELIEFS[belief]
    if copies > 1:
        return f"wrong: every outcome counted {copies} times"
    return f"wrong: {norm:g} of the norm bound"


SEARCH = {
    "penalty": 1.0,  # of the running estimators; of 0.03 to 3, best on functions 100 to 105
    "misfit": 0.005,  # at which a probability function counts as approximated
}
NORMS = {"length": 0.2, "norm": 3.0, "norm_bound": 3.5}
LOOSE, MANY = 7.0, 4  # a norm bound, and dimensions, that are harder


def _widths(observations: int, loose: bool, dimensions: list[int]) -> list[Settings]:
    r"""Few functions of many observations."""
    settings = []
    for likelihood in ("bernoulli", "poisson"):
        for kernel in KERNELS:
            for d in dimensions:
                setting = _setting(likelihood, kernel, d, **NORMS)
                if loose:
                    setting |= {"setting": f"{setting['setting']}_bound_{LOOSE:g}"}
                    setting |= {"norm_bound": LOOSE}
                settings.append(setting)
    functions, exact = (2, 10) if observations >= 1000 else (5, 20)
    own = SEARCH | {"observations": observations, "variational_iterations": 200}
    # Points at which widths are taken, and how many the whole set is computed at.
    own |= {"queries": 100, "exact_queries": exact}
    return grid(PROTOCOL | own, settings, {"function": range(functions)})


WIDTHS = [run for n in (30, 100, 300, 1000) for run in _widths(n, False, [1, 2])]
WIDTHS += _widths(100, True, [1, 2])
WIDTHS += _widths(300, False, [MANY]) + _widths(300, True, [MANY])
_FORMATS = {"width": ".5g", "width_all": ".5g", "latent_width": ".5g", "room": ".4g"}
_FORMATS |= {"missed": "d", "seconds": ".3g", "containment": ".3g"}


@STUDY.table("width", WIDTHS, play_width)
def widths(runs: pd.DataFrame) -> Summary:
    r"""Mean widths of the bands, against the whole set and rivals."""
    frame = pd.DataFrame(
        {name: run[name] for name in ("likelihood", "kernel", "dimension", "observations")}
        | {"given": f"{run['norm_bound']:g}", "function": run["function"], "band": band}
        | {name: format(found.get(name, np.nan), f) for name, f in _FORMATS.items()}
        | {"norm_bound": f"{run['probability_norm']:.4g}"}
        for _, run in runs.iterrows()
        for band, found in run["bands"].items()
    )
    lines, largest = [], []
    loose, many = frame["given"] == f"{LOOSE:g}", frame["dimension"] == MANY
    harder = {
        f"norm bound {LOOSE:g}": loose & ~many,
        f"{MANY} dimensions": many & ~loose,
        f"{MANY} dimensions, norm bound {LOOSE:g}": many & loose,
    }
    for likelihood in frame["likelihood"].unique():
        own = frame["likelihood"] == likelihood
        table, ratios = _width_table(frame[own & ~loose & ~many])
        what = "rate" if likelihood == "poisson" else "probability"
        lines += [f"Mean width of the {what}, {likelihood} outcomes:", "", *table, ""]
        for name, values in ratios.items():
            met = "yes" if max(values) <= _TARGET else "no"
            row = [likelihood, name, f"{max(values):.3f}", f"<= {_TARGET:g}", met]
            largest.append(row)
        for label, which in harder.items():
            if (own & which).any():
                table, _ = _width_table(frame[own & which])
                lines += [f"The same, {label}:", "", *table, ""]
    header = ["outcomes", "mean width over that of the whole set", "largest"]
    summary = [*markdown_table([*header, "target", "met"], largest), ""]
    easy = frame[~loose & ~many]
    return Summary(frame, [*summary, *lines, *_rooms(easy), "", *_misses(easy)])


def _mean(frame: pd.DataFrame, column: str) -> str:
    values = frame[column].astype(float)
    return f"{values.mean():.3g}" if len(values) else ""


def _width_table(frame: pd.DataFrame) -> tuple[list[str], dict[str, list[float]]]:
    r"""A table of widths, and what is in its columns of ratios."""
    names = [name for name in BANDS if name in set(frame["band"])]
    groups = list(frame.groupby(["kernel", "dimension", "observations"], sort=False))
    ratios = {
        f"{name}{added}": [_ratio(group, name, scale) for _, group in groups]
        for name in FORMS
        for scale, added in (("width", ""), ("latent_width", ", latent"))
    }
    cells = [
        [
            _function(kernel, d),
            f"{n}",
            *(_mean(group[group["band"] == name], "width") for name in names),
            *(f"{each[index]:.3f}" for each in ratios.values()),
            f"{group['function'].nunique()}",
        ]
        for index, ((kernel, d, n), group) in enumerate(groups)
    ]
    cells.sort(key=lambda row: row[0])
    over = (f"{name} over the whole set" for name in ratios)
    header = ["function", "outcomes", *names, *over, "functions"]
    return markdown_table(header, cells), ratios


def _ratio(group: pd.DataFrame, band: str, scale: str) -> float:
    r"""Of the mean widths of a band and of the whole set."""
    own, exact = (group.loc[group["band"] == name, scale] for name in (band, EXACT))
    return float(own.astype(float).mean() / exact.astype(float).mean())


def _rooms(frame: pd.DataFrame) -> list[str]:
    r"""How far both limits on the loss are above the loss of the function."""
    cells = []
    for (likelihood, n), group in frame.groupby(["likelihood", "observations"], sort=False):
        both = (group[group["band"] == name] for name in (ELLIPSOID, RUNNING))
        cells.append([likelihood, f"{n}", *(_mean(each, "room") for each in both)])
    cells.sort(key=lambda row: row[0])
    header = ["outcomes", "number", "evidence of a mixture", "running estimators"]
    text = "Mean of what the limit on the loss has above the loss of the function, in nats:"
    return captioned(text, header, cells)


def _misses(frame: pd.DataFrame) -> list[str]:
    inside = frame.loc[frame["band"].isin(FORMS), "containment"].astype(float).min()
    cells = []
    for name in BANDS:
        own = frame[(frame["band"] == name) & (frame["likelihood"] == "bernoulli")]
        cells.append([name, f"{(own['missed'] == '1').sum()} of {len(own)}"])
    count = (frame["band"] == EXACT).sum()
    text = (
        f"The whole set stayed inside the others at every point tried, in {count} "
        f"problems; the smallest distance is {inside:.1g} (log odds or log rate)."
    )
    text = text if inside >= 0.0 else f"The whole set left one of them by {-inside:.1g}."
    return captioned(text, ["band", "left out the probability at a query point"], cells)


METHODS = ["LikelihoodUCB", "Gaussian band", "running estimators", "variational GP"]
REGRET = grid(
    PROTOCOL | SEARCH | {"rounds": 60, "candidates": 100},
    {"variational_iterations": 30},  # after each outcome, from the last fit
    {"run": range(12)},
    [_setting("bernoulli", kernel, d, **NORMS) for kernel in KERNELS for d in (1, 2)],
    {"method": [*METHODS, "random"]},
)


@STUDY.table("regret", REGRET, play_regret)
def regrets(runs: pd.DataFrame) -> Summary:
    r"""Looking for the largest success probability."""
    keys = ["kernel", "dimension", "method"]
    rows = runs.assign(cumulative=runs["regrets"].map(sum))
    names, cells = ["cumulative", "simple", "missed", "width", "seconds"], []
    forms = dict(zip(names, (".5g", ".5g", "d", ".5g", ".3g"), strict=True))
    rows = as_texts(rows[[*keys, "run", *names]], forms)
    for (kernel, d, method), group in rows.groupby(keys, sort=False):
        missed = f"{(group['missed'] != '0').sum()} of {len(group)}"
        cells.append([_function(kernel, d), method, f"{len(group)}"])
        cells[-1] += [_spread(group["cumulative"]), _spread(group["simple"])]
        cells[-1] += [_mean(group, "width"), "" if method == "random" else missed]
        cells[-1].append(_mean(group, "seconds"))
    cells.sort(key=lambda row: row[0])
    header = ["function", "method", "runs", "cumulative regret"]
    header += ["simple regret", "width", "left out the truth", "seconds"]
    text = (
        f"{runs['rounds'][0]} rounds of one outcome each, mean ± standard error. "
        "*Simple regret*: of the candidate with the largest lower end after the last "
        "round. *Left out the truth*: runs in which the probability of any candidate was "
        "outside after any round."
    )
    return Summary(rows, captioned(text, header, cells))


def _spread(values: pd.Series) -> str:
    numbers = values.astype(float)
    error = numbers.std(ddof=1) / np.sqrt(len(numbers)) if len(numbers) > 1 else 0.0
    return f"{numbers.mean():.3f} ± {error:.3f}"


if __name__ == "__main__":
    STUDY.main()
