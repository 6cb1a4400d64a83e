r"""Means, their spread, and differences between methods that share their problems."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd


@dataclass(frozen=True)
class Moments:
    r"""Mean and population standard deviation of ``n`` repetitions."""

    mean: float
    std: float
    n: int

    @classmethod
    def of(cls, values: Iterable[float]) -> "Moments":
        values = np.asarray(list(values))
        return cls(float(values.mean()), float(values.std()), len(values))

    @property
    def standard_error(self) -> float:
        r"""Standard error of the mean, from the unbiased variance; 0 for one repetition."""
        return self.std / math.sqrt(max(self.n - 1, 1))

    def distance(self, other: "Moments") -> float:
        r"""Difference of the means in standard errors of the difference."""
        error = math.sqrt(self.std**2 / self.n + other.std**2 / other.n)
        return (self.mean - other.mean) / error if error else math.inf


def paired_difference(
    values: Sequence[float] | np.ndarray, others: Sequence[float] | np.ndarray
) -> Moments:
    r"""Moments of the differences between repetitions that share their problem."""
    return Moments.of(np.subtract(values, others))


def ratio_of_means(
    values: Sequence[float] | np.ndarray, others: Sequence[float] | np.ndarray
) -> Moments:
    r"""Ratio of the means of paired values, with its spread by the delta method.

    The standard error is that of the mean of ``a - r b``, over the mean of ``b``. Infinite
    where the others are zero.
    """
    above, below = np.asarray(values), np.asarray(others)
    scale = float(below.mean())
    if scale == 0.0:
        return Moments(math.inf, 0.0, len(below))
    ratio = float(above.mean()) / scale
    residuals = Moments.of((above - ratio * below) / scale)
    return Moments(ratio, residuals.std, residuals.n)


def spaced(last: int, count: int, space: Callable = np.geomspace) -> np.ndarray:
    r"""Round numbers from 1 to ``last``, at most so many."""
    return np.unique(space(1, last, count).round().astype(int))


def moments_table(
    curves: Mapping[tuple[str, ...], np.ndarray],
    columns: Sequence[str],
    rounds: Sequence[int] | np.ndarray,
    digits: int | None = None,
) -> pd.DataFrame:
    r"""Moments of curves at some rounds: columns of labels, ``round``, moments and ``n``.

    Args:
        curves: ``repetitions x rounds``, by the labels of the curve.
        columns: What the labels are.
        rounds: Numbers of the rounds, from 1.
        digits: Decimal places of mean and standard deviation; without them there are all,
            and the standard error of the mean besides.
    """
    rows = []
    for labels, curve in curves.items():
        for number in rounds:
            moments = Moments.of(curve[:, number - 1])
            row = dict(zip([*columns, "round"], [*labels, number], strict=True))
            row |= {"mean": moments.mean, "std": moments.std, "n": moments.n}
            row["standard_error"] = moments.standard_error
            rows.append(row)
    table = pd.DataFrame(rows)
    if digits is None:
        return table
    rounded = {name: [round(v, digits) for v in table[name]] for name in ("mean", "std")}
    return table.assign(**rounded).drop(columns="standard_error")
