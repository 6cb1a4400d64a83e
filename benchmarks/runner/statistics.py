r"""Means, their spread, and differences between methods that share their problems."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np


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
