r"""Shares of false claims, over problems: runs of one problem are alike."""

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Array = NDArray[np.float64]
CELL = ["count", "method", "kind"]
WANTED, CONFIDENCE = 0.95, 0.95
CHOICE = ("margin", "deviations")  # of which the package takes the narrower
CHOSEN, WIDER = "chosen", "wider of both"
_RESAMPLES = 2000


def rows_of(runs: pd.DataFrame, keys: Sequence[str] = ("problem",)) -> pd.DataFrame:
    r"""A row for each claim; ``margin`` is a method beside that of each kernel."""
    parts = [
        pd.DataFrame(run["rows"]).assign(**{key: run[key] for key in keys}, run=number)
        for number, run in enumerate(runs.to_dict("records"))
    ]
    rows = pd.concat(parts, ignore_index=True)
    split = rows["method"].str.split(", ", expand=True)
    every = rows[split[0] == "margin"].assign(method="margin")
    return pd.concat([rows, every], ignore_index=True)


def wider(rows: pd.DataFrame) -> pd.DataFrame:
    r"""Gaps that are the wider of a margin's, of one kernel, and of the deviations'.

    A method for each kernel and margin, ``"wider of both, rbf, 1.05"``; its level is the
    deviations'.
    """
    gaps = rows[rows["kind"] == "gap"]
    keys = ["run", "count", "kind", "problem"]
    margins = gaps[gaps["method"].str.startswith("margin, ") & (gaps["level"] <= 1.5)]
    deviations = gaps[gaps["method"] == "deviations"]
    found = deviations.merge(margins, on=keys, suffixes=("", "_other"))
    kernels = found["method_other"].str.removeprefix("margin")
    levels = found["level_other"].map("{:g}".format)
    return found.assign(
        method=WIDER + kernels + ", " + levels,
        false=found["false"] & found["false_other"],  # both must be below the truth
        width=found[["width", "width_other"]].max(axis=1),
    )[rows.columns]


class Shares:
    r"""Of each cell and level the share of false claims on each problem.

    Attributes:
        index: Cells and levels.
        of: ``cells x problems`` shares of false claims.
        widths: As many medians of widths over the problems' ranges.
        claims: Numbers of claims of each cell.
        false: Numbers of false ones.
    """

    def __init__(self, rows: pd.DataFrame) -> None:
        cells = rows.groupby([*CELL, "level", "problem"], observed=True)
        found = cells.agg(
            share=("false", "mean"),
            width=("width", "median"),
            claims=("false", "size"),
            false=("false", "sum"),
        )
        self.problems = sorted(rows["problem"].unique())
        of, widths, claims, false = (found[name].unstack() for name in found)
        self.index = of.index.to_frame(index=False)
        self.of, self.widths = of[self.problems].to_numpy(), widths.to_numpy()
        self.claims = claims.sum(axis=1).to_numpy()
        self.false = false.sum(axis=1).to_numpy()

    def table(self) -> pd.DataFrame:
        r"""All levels, with both limits."""
        return self.index.assign(
            claims=self.claims,
            false=self.false,
            problems=len(self.problems),
            problems_with_false=(self.of > 0.0).sum(1),
            share_false=self.of.mean(1),  # over problems
            at_most=resampled(self.of),
            one_more=one_more(self.of),
            width=np.median(self.widths, axis=1),
        )

    def least(self, limits: Array, widths: Array) -> pd.DataFrame:
        r"""Of each cell the least level whose limit is low enough, with its ``row``.

        ``chosen`` is a method beside the others: of ``CHOICE`` the one whose level has the
        smaller width, of ``cells x problems`` ones. So is ``wider of both``, of its
        kernels, margins and levels.
        """
        own = self.index.assign(row=range(len(self.index)), typical=np.median(widths, 1))
        enough = own[limits <= 1.0 - WANTED + 1e-12].sort_values("level")
        least = enough.groupby(CELL, as_index=False).head(1)
        both = least["method"].str.startswith(WIDER)
        found = [least[~both]]
        for name, own in ((CHOSEN, least["method"].isin(CHOICE)), (WIDER, both)):
            narrow = least[own].sort_values("typical").groupby(["count", "kind"])
            found.append(narrow.head(1).assign(method=name))
        return pd.concat(found, ignore_index=True)

    def held_out(self, limit: Callable[[Array], Array]) -> pd.DataFrame:
        r"""On each problem, what the levels are worth that all others choose."""
        found: list[pd.DataFrame] = []
        for column, problem in enumerate(self.problems):
            others = np.delete(self.of, column, 1)
            widths = np.delete(self.widths, column, 1)
            own = self.least(limit(others), widths).assign(problem=problem)
            own["share_false"] = self.of[own["row"], column]
            own["width"] = self.widths[own["row"], column]
            found.append(own.drop(columns=["row", "typical"]))
        return pd.concat(found, ignore_index=True)


def resampled(shares: Array) -> Array:
    r"""Upper limit of the mean share, by a bootstrap over problems.

    The problems are drawn anew and their mean is taken, so runs of one problem count as one
    piece of evidence. It is never below one problem in all and one more: that no claim was
    false so far does not show that none will be.
    """
    count = shares.shape[1]
    random = np.random.default_rng(0)
    weights = random.multinomial(count, np.full(count, 1.0 / count), size=_RESAMPLES)
    limit = np.quantile(shares @ weights.T / count, CONFIDENCE, axis=1)
    return np.maximum(limit, 1.0 / (count + 1))


def one_more(shares: Array) -> Array:
    r"""The mean share with one more problem, all of whose claims are false.

    Where problems are exchangeable, claims at a level chosen by it are false on a further
    problem with at most that probability, on average over the draw of all problems
    (Angelopoulos et al., 2024, Theorem 1): a theorem that knows no confidence.
    """
    return (shares.sum(1) + 1.0) / (shares.shape[1] + 1)


LIMITS: dict[str, Callable[[Array], Array]] = {
    "bootstrap": resampled,
    "one more problem": one_more,
    "none": lambda shares: shares.mean(1),
}


def over_problems(each: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    r"""The share on all problems together, and on the worst."""
    worst = each.sort_values(["share_false", "problem"]).groupby(by, as_index=False).tail(1)
    found = each.groupby(by, as_index=False).agg(
        problems=("share_false", "size"),
        share_false=("share_false", "mean"),
        problems_above=("share_false", lambda own: int((own > 1.0 - WANTED).sum())),
        width=("width", "median"),
    )
    names = {"share_false": "worst_share", "problem": "worst"}
    return found.merge(worst.rename(columns=names)[[*by, *names.values()]], on=by)
