r"""One page of all that was measured: ``python -m benchmarks.overview``.

Each sentence is made from the table of its benchmark.
"""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.runner import ROOT, write_lines

PAGE = ROOT / "docs" / "results" / "index.md"
HEAD = (
    "# What was measured",
    "",
    "One line for each claim, made from a committed table by",
    "`python -m benchmarks.overview`; the links lead to the tables, with date and versions",
    "where recorded. The commands run with the [tested versions](../../constraints.txt).",
)
NARROW, HOLDS = "How narrow", "Whether it holds"
SEARCH, COSTS = "How well it searches and stops", "What it costs"
SECTIONS: dict[str, list[Callable[[], str]]] = {}
Words = Callable[[pd.DataFrame], str]


def claim(section: str, folder: str, table: str, command: str = "") -> Callable:
    r"""Register the sentence on a table; the command has the table's name by default."""

    def register(words: Words) -> Words:
        def text() -> str:
            path = ROOT / "benchmarks" / folder / "results" / f"{table}.csv"
            return (
                f"- {words(pd.read_csv(path))} [More]({Path(folder).name}.md).<br>`python "
                f"-m benchmarks.{folder.replace('/', '.')} {command or table}`"
            )

        SECTIONS.setdefault(section, []).append(text)
        return words

    return register


def _geometric(ratios: pd.Series) -> float:
    return float(np.exp(np.log(ratios).mean()))


@claim(NARROW, "filters", "width")
def width(rows: pd.DataFrame) -> str:
    return (
        f"The default band is **{_geometric(rows.domain):.2f}** times as wide as the "
        f"exact set of Flynn & Reeb over the domain and **{_geometric(rows.data):.2f}** "
        f"times at the data (geometric means, {len(rows)} problems), and missed in "
        f"{rows.missed.sum()} of them."
    )


@claim(NARROW, "filters", "designs")
def designs(rows: pd.DataFrame) -> str:
    points, box = (_geometric(rows[f"{kind}_data"]) for kind in ("points", "box"))
    names = [
        f"{kind}_{place}" for kind in ("points", "box") for place in ("domain", "data")
    ]
    missed = int(rows.points_missed.sum() + rows.box_missed.sum())
    return (
        "Inputs that were planned without looking at outcomes narrow the band at the data "
        f"to **{points:.2f}** (at points fixed beforehand) and **{box:.2f}** (in a box) "
        f"of its width, and widen no mean width above {rows[names].max().max():.3f} times; "
        f"these bands missed in {missed} of {len(rows)} problems."
    )


@claim(NARROW, "laboratory", "widths")
def laboratory(rows: pd.DataFrame) -> str:
    return (
        "With all replicates of two real tables the band of kernel and norm alone is "
        f"{rows.band.min():.1f} to {rows.band.max():.1f} times as wide as plain means with "
        "a union, `with_replicates` "
        f"**{rows.replicates.min():.2f} to {rows.replicates.max():.2f}** times."
    )


@claim(NARROW, "papers/durand_2018", "band")
def noise(rows: pd.DataFrame) -> str:
    last = rows[rows["round"] == rows["round"].max()].set_index("band").mean_width
    return (
        "With unknown noise the joint set is after 1000 observations "
        f"**{last['joint'] / last['exact']:.2f}** times as wide as the exact band with "
        "the known scale, the published band (Durand et al., Corollary 1) "
        f"{last['adaptive'] / last['exact']:.1f} times."
    )


@claim(HOLDS, "trust", "stops")
def stops(rows: pd.DataFrame) -> str:
    given = rows[rows.rule == "`norm_bound=10`"]
    estimated = rows[rows.rule == "`norm_bound=None`, `allow_estimated=True`"]
    estimated = estimated[estimated.given == "kernel and noise"]
    return (
        f"With everything given, **{given.events.sum()} of {given.stops.sum()}** "
        "certified stops were too far from the optimum, with the norm estimated "
        f"{estimated.events.sum()} of {estimated.stops.sum()} (the set of Flynn & Reeb)."
    )


@claim(HOLDS, "trust", "lost")
def lost(rows: pd.DataFrame) -> str:
    rows = rows.set_index("lost")
    coin, worst = rows.loc["by a fair coin"], rows.loc["noise below 0"]
    return (
        f"With outcomes lost by a coin the band missed in {coin.events} of {coin.runs} "
        f"runs, with outcomes of noise below zero lost in **{worst.events} of "
        f"{worst.runs}** (the set of Flynn & Reeb)."
    )


@claim(HOLDS, "safety", "coverage")
def safe_set(rows: pd.DataFrame) -> str:
    rows = rows.set_index("rule")
    true, wrong = rows.loc["norm bound B"], rows.loc["norm bound B / 2"]
    return (
        f"Along the edge of the safe set, **{true.unsafe_runs:.0f} of {true.runs:.0f}** "
        f"runs were unsafe with the true norm, {wrong.unsafe_runs:.0f} with half of "
        f"it, {wrong.unsafe_runs_warned:.0f} of these after a warning (the set of Flynn "
        "& Reeb)."
    )


@claim(HOLDS, "experiments", "safe")
def safe_ax(rows: pd.DataFrame) -> str:
    sums = rows.groupby("method")[["violations", "trials"]].sum()
    safe, plain = sums.loc["safe"], sums.loc["Ax"]
    return (
        f"Safe Ax experiments: **{safe.violations} of {safe.trials}** trials violated "
        f"the constraint, {plain.violations} of {plain.trials} of Ax's own."
    )


@claim(HOLDS, "guarded", "coverage")
def guarded(rows: pd.DataFrame) -> str:
    true = rows[(rows.norm_factor == 1.0) & (rows.noise_factor == 1.0)]
    return (
        f"The band missed in at most **{true.missed.max()} of {true.sequences.max()}** "
        f"sequences of points that each of {len(true)} rules chose by the band."
    )


@claim(HOLDS, "counts", "coverage")
def counts(rows: pd.DataFrame) -> str:
    true, wrong = (rows[(rows.belief == "truth") == held] for held in (True, False))
    return (
        "Bands for successes and counts failed in at most "
        f"**{true.either.max()} of {true.sequences.max()}** sequences, for each of "
        f"{len(true)} settings; with a quarter of the norm, or every outcome counted "
        f"16 times, in {wrong.either.sum():,} of {wrong.sequences.sum():,}."
    )


@claim(HOLDS, "norm", "estimate")
def norm(rows: pd.DataFrame) -> str:
    held = rows[rows.bound == "norm_bound=None"].set_index("norm").held
    return (
        f"A band with an *estimated* norm held in every round in **{held[2.0]:.0%}, "
        f"{held[5.0]:.0%} and {held[15.0]:.0%}** of runs, for functions of norm 2, 5 and "
        "15."
    )


@claim(HOLDS, "reliability", "curves_held_out", "curves")
def reliability(rows: pd.DataFrame) -> str:
    own = rows[(rows["limit"] == "bootstrap") & (rows["method"] == "chosen")]
    own = own[own["count"] == 50].set_index("kind")
    names = {"value": "values", "window gain": "gains near the point", "gap": "gaps"}
    shares = ", ".join(
        f"{100 * own.share_false[kind]:.1f} % of the {name}" for kind, name in names.items()
    )
    worst = own.loc[[*names]].sort_values("worst_share").iloc[-1]
    widths = ", ".join(f"{own.width[kind]:.2f}" for kind in names)
    return (
        "Of claims after 50 runs at levels that are true in 95 % on *other* problems "
        f"**{shares}** were false, {100 * worst.worst_share:.0f} % of one kind on the "
        f"worst problem. Widths over the range: {widths}."
    )


@claim(HOLDS, "stopping", "stops")
def stopping(rows: pd.DataFrame) -> str:
    rows = rows[rows.accepted == 0.05].set_index(["problems", "rule"])
    free = rows.loc["made by no kernel"]
    names = {
        "after Ax's improvement": "Ax's rule",
        "after Wilson (2024)": "Wilson's",
        "Optuna regret bound": "Optuna's regret bound",
    }
    false = ", ".join(
        f"{free.loc[rule, 'false of stops']:.0%} of those of {name}"
        for rule, name in names.items()
    )
    ours, given = free.loc["gap, twice the least norm"], "gap, norm given"
    known = rows.loc[("made by a kernel", given)]
    return (
        "Asked for a regret of 5 % of the range, on functions that no kernel made, false "
        f"stops were {false}; the gap at an estimated norm stopped in {ours.stops} of "
        f"{ours.runs} searches, **{ours['false stops']}** times falsely. With kernel, norm "
        f"and noise given **{known['false stops']} of {known.stops}** stops were false."
    )


@claim(HOLDS, "attack", "attack")
def attack(rows: pd.DataFrame) -> str:
    return (
        f"Of {rows.cases.sum():,} hostile problems **{rows.wrong.sum()}** were silently "
        f"wrong, and {rows.untyped.sum()} ended in raw errors."
    )


@claim(SEARCH, "practical", "compare_runs", "compare")
def search(rows: pd.DataFrame) -> str:
    ranks = rows.groupby(["problem", "seed"]).simple.rank()
    rank = ranks.groupby(rows.method).mean()
    means = ranks.groupby([rows.method, rows.seed]).mean()
    ahead = means["q_log_nei"] - means["guarded_every_4"]
    regrets = rows.groupby(["problem", "method"]).simple.mean()
    of_mean = regrets.groupby("problem").rank().groupby("method").mean()
    return (
        f"Among {len(rank)} rules on {rows.problem.nunique()} problems with refitted "
        f"models ({rows.seed.nunique()} seeds), the guarded search is not told from "
        f"qLogNEI: mean rank of a run **{rank['guarded_every_4']:.2f}** and "
        f"{rank['q_log_nei']:.2f} ({ahead.mean():.2f} ± {ahead.sem():.2f} behind), rank of "
        f"the mean regret {of_mean['guarded_every_4']:.2f} and "
        f"**{of_mean['q_log_nei']:.2f}**. UCB with beta 2 has {rank['ucb_2']:.2f} and "
        f"{of_mean['ucb_2']:.2f}."
    )


@claim(SEARCH, "papers/flynn_reeb_2024", "paired_filters")
def bandits(rows: pd.DataFrame) -> str:
    return (
        f"On the bandits of Flynn & Reeb the default has "
        f"**{_geometric(rows.ratio):.2f}** times the regret of their exact set (geometric "
        f"mean of {len(rows)} settings, {rows.n.min()} repetitions)."
    )


@claim(SEARCH, "unknown_kernel", "regret_runs", "regret")
def family(rows: pd.DataFrame) -> str:
    means = rows.groupby(["method", "setting"]).cumulative.mean()
    ratios = means["alternate"] / means["oracle"]
    means = means.groupby("method").mean()
    return (
        "Told a range of length scales only, `FamilyBandit` has "
        f"**{means['alternate'] / means['oracle']:.2f}** times the regret of the bound "
        f"that knows the length scale (mean regrets over {rows.setting.nunique()} "
        f"settings; mean ratio {ratios.mean():.2f}); the published "
        f"rival LB-GP-UCB {means['balancing'] / means['oracle']:.2f} times."
    )


@claim(SEARCH, "experiments", "dimensions")
def dimensions(rows: pd.DataFrame) -> str:
    last = rows[rows["rounds"] == rows["rounds"].max()].groupby("setting")[
        ["gap", "regret"]
    ]
    four, six = (last.mean().loc[f"RBF, length 0.5, d = {d}"] for d in (4, 6))
    return (
        f"After {rows['rounds'].max()} rounds the certified gap is **{four.gap:.2f}** in "
        f"four dimensions and {six.gap:.1f} in six (RBF, norm 3), where the true regret "
        f"is {four.regret:.3f} and {six.regret:.3f}."
    )


@claim(SEARCH, "papers/srinivas_2010", "synthetic")
def prior_sample(rows: pd.DataFrame) -> str:
    mean = rows[rows["round"] == rows["round"].max()].set_index("method")["mean"]
    return (
        "On samples of a known prior the certified bound has "
        f"**{mean['mixture'] / mean['gp_ucb_theorem']:.1f}** times the regret of GP-UCB "
        f"with the beta of its theorem and {mean['mixture'] / mean['gp_ucb']:.1f} times "
        "that with a fifth of it, which no theorem covers."
    )


@claim(SEARCH, "papers/wang_2018", "grasp")
def earlier_tasks(rows: pd.DataFrame) -> str:
    found = rows[rows.evaluations == 5].set_index("method")["mean"]
    return (
        "With a prior from earlier tasks, the best grasp of five is worth "
        f"**{found['pem_ucb']:.2f}**, against {found['random']:.2f} at random and "
        f"{found['plain']:.2f} by a plain Gaussian process (the authors' data)."
    )


@claim(COSTS, "speed", "optimize_acqf")
def speed(rows: pd.DataFrame) -> str:
    calls = rows[rows.measure == "call"]["median"]
    return (
        "One `optimize_acqf` call with Flynn & Reeb's exact bound takes "
        f"**{calls.min():.2f} to {calls.max():.2f}** times that of BoTorch's "
        "`UpperConfidenceBound`."
    )


@claim(COSTS, "scale", "large")
def sketch(rows: pd.DataFrame) -> str:
    seconds = rows.set_index("step").wall_s["from nothing to the first selection"]
    return (
        "With 100,000 observations, the best of 1,000,000 candidates by a certified "
        f"band takes **{seconds:.0f} seconds** on two cores."
    )


@claim(COSTS, "papers/bkb_2019", "time")
def arms(rows: pd.DataFrame) -> str:
    ratio = rows.set_index("round").ratio["1 to 200"]
    return (
        f"On 20,640 arms `BKBBandit` is **{ratio:.1f}** times as fast as a NumPy "
        "version, over 200 rounds."
    )


def main(arguments: Sequence[str] | None = None) -> None:
    r"""Write the page."""
    parser = argparse.ArgumentParser(description="One page of all that was measured.")
    parser.add_argument("--output", type=Path, default=PAGE, help="the file")
    path, lines = parser.parse_args(arguments).output, list(HEAD)
    for section, entries in SECTIONS.items():
        lines += ["", f"## {section}", "", *(text() for text in entries)]
    write_lines(path, lines)
    print(path)


if __name__ == "__main__":
    main()
