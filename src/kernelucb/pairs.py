r"""Is an improvement real or noise? Pairs of outcomes, read after each; without torch."""

import csv
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from kernelucb._numerics.digits import between, nearest, one_minus

# `rho` times the number of runs at which a normal mixture is narrowest, at delta 0.05.
NARROWEST = 8.2
_CAP = 0.75  # of a bet: share of the capital that one pair can take, as in the paper
_HALVINGS = 50  # of the interval in which a limit is sought
_AGAIN = 20  # times that bounded pairs come again for an outlook
_MOST_PAIRS = 10_000  # of an outlook
_WORDS = {
    "gaussian": "the differences of pairs are independent and Gaussian (not skewed, no "
    "rare large ones; else give range), with one mean and one scale, which need not be "
    "known",
    "noise_std": "pairs have one mean difference, whatever came before, and the noise of "
    "an outcome is independent and sub-Gaussian with scale {0:.6g}",
    "range": "pairs have one mean difference, whatever came before, and all outcomes lie "
    "between {0:.6g} and {1:.6g}",
}


@dataclass(frozen=True)
class Comparison:
    r"""A challenger against the baseline, or one setting against another.

    Attributes:
        challenger: Name of the setting.
        baseline: Name of the setting that it is compared with.
        pairs: Number of pairs.
        estimate: Mean difference, challenger minus baseline.
        lower: Lower limit of the mean difference, at every look at once.
        upper: Upper limit.
        minimize: Whether smaller outcomes are better.
        outlook: About how many pairs decide, if the differences go on as so far; None where
            it is decided, or more than 10,000 would.
    """

    challenger: str
    baseline: str
    pairs: int
    estimate: float
    lower: float
    upper: float
    minimize: bool
    outlook: int | None

    @property
    def verdict(self) -> str:
        r"""``"better"``, ``"worse"``, ``"not decided"``, or ``"contradicted"``.

        Contradicted: limits of different looks exclude each other, so that what they rest
        on is not true, such as one mean difference for all pairs.
        """
        if self.lower > self.upper:
            return "contradicted"
        if not self.lower > 0.0 and not self.upper < 0.0:
            return "not decided"
        return "better" if (self.upper < 0.0) == self.minimize else "worse"

    def __str__(self) -> str:
        lower, upper = between(*sorted((self.lower, self.upper)))
        limits = f"between {lower} and {upper}"
        if self.verdict == "contradicted":
            limits = f"by different looks above {upper} and below {lower}"
        elif not math.isfinite(self.upper - self.lower):
            limits = "no limits yet"
        mean = nearest(self.estimate, abs(self.upper - self.lower))
        more = f"; about {self.outlook} pairs would decide" if self.outlook else ""
        return (
            f"{self.challenger} against {self.baseline}: {self.verdict} "
            f"(mean difference {mean}, {limits}; {self.pairs} pairs{more})"
        )


@dataclass(frozen=True)
class Comparisons:
    r"""All challengers against the baseline, and what that rests on.

    Attributes:
        parts: A ``Comparison`` for each challenger.
        delta: Failure probability of all of them at all looks together.
        assumption: What the probability rests on, in words.
    """

    parts: tuple[Comparison, ...]
    delta: float
    assumption: str

    def __str__(self) -> str:
        lines = [
            *map(str, self.parts),
            f"All of this holds with probability {one_minus(self.delta)}, whenever you "
            "look and stop, if",
            f"- {self.assumption};",
            "- these runs were made to compare: leave out those by which a setting was "
            "chosen.",
        ]
        return "\n".join(lines)


def confirm(
    outcomes: Mapping[str, Sequence[float]],
    /,
    against: str | None = None,
    *,
    noise_std: float | None = None,
    range: tuple[float, float] | None = None,
    delta: float = 0.05,
    expected_runs: int = 10,
    minimize: bool = False,
) -> Comparisons:
    r"""Whether settings are better than a baseline, at any look.

    The ``i``-th outcome of a challenger and the ``i``-th of the baseline are a pair;
    outcomes without a partner are not used. Every challenger has the same share of
    ``delta``.

    Source: with neither ``noise_std`` nor ``range`` the mixture t-test (Lai 1976; Wang and
    Ramdas 2025), with a right Haar prior of the scale and a normal one of mean over scale;
    with ``noise_std`` Robbins' normal mixture (1970); with ``range`` hedged bets
    (Waudby-Smith and Ramdas 2024, Theorem 3). All are anytime.

    Args:
        outcomes: For each setting, by name, its outcomes in their order.
        against: Name of the baseline, by default the first setting.
        noise_std: Scale of sub-Gaussian noise in each outcome, known beforehand. Without it
            and ``range`` the differences are taken for Gaussian, of any scale.
        range: Limits of all outcomes.
        delta: Failure probability of all comparisons at all looks together.
        expected_runs: Number of pairs at which the interval is to be narrowest, fixed
            beforehand; valid at any other.
        minimize: Whether smaller outcomes are better.

    Raises:
        ValueError: If there is no challenger, a pair is not finite, or a number is out of
            its range.
    """
    names = [*outcomes]
    baseline = next(iter(names), "") if against is None else against
    if baseline not in outcomes:
        raise ValueError(f"against is one of {', '.join(names)}, got {baseline!r}.")
    challengers = [name for name in names if name != baseline]
    if not challengers:
        raise ValueError("There is one setting; a comparison needs a second one.")
    if not 0.0 < delta < 1.0:
        raise ValueError(f"delta must be between 0 and 1, got {delta}.")
    if expected_runs < 2:
        raise ValueError(f"expected_runs must be at least 2, got {expected_runs}.")
    share, rho = delta / len(challengers), NARROWEST / expected_runs
    low, high = range or (-math.inf, math.inf)
    if noise_std is not None and range is not None:
        raise ValueError("Give noise_std or range, not both.")
    if range is not None:
        if not -math.inf < low < high < math.inf:
            raise ValueError(f"range must be two increasing numbers, got {range}.")
        rule: Any = _Bets(low - high, high - low, share)
        words = _WORDS["range"].format(low, high)
    elif noise_std is not None:
        if not 0.0 < noise_std < math.inf:
            raise ValueError(f"noise_std must be above 0, got {noise_std}.")
        # A difference of two outcomes has twice the variance.
        rule = _KnownScale(math.sqrt(2.0) * noise_std, share, rho)
        words = _WORDS["noise_std"].format(noise_std)
    else:
        rule, words = _UnknownScale(share, rho), _WORDS["gaussian"]
    parts = list[Comparison]()
    for name in challengers:
        pairs = [*zip(outcomes[name], outcomes[baseline], strict=False)]
        if not all(map(math.isfinite, chain.from_iterable(pairs))):
            raise ValueError(f"An outcome of {name} or {baseline} is not a finite number.")
        if not all(low <= value <= high for value in chain.from_iterable(pairs)):
            raise ValueError(f"An outcome of {name} or {baseline} is outside the range.")
        differences = [float(a) - float(b) for a, b in pairs]
        lower, upper = rule.limits(differences)
        mean = math.fsum(differences) / len(differences) if differences else math.nan
        undecided = lower <= 0.0 <= upper
        outlook = rule.outlook(differences) if undecided and len(differences) > 1 else None
        ends = len(differences), mean, lower, upper
        parts.append(Comparison(name, baseline, *ends, minimize, outlook))
    return Comparisons(tuple(parts), delta, words)


class _Mixture:
    r"""Limits ``mean -+ half_width``, all looks so far intersected."""

    def half_width(self, count: int, squares: float) -> float:
        r"""From the number of pairs and their sum of squares around the mean."""
        raise NotImplementedError

    def limits(self, differences: Sequence[float]) -> tuple[float, float]:
        lower, upper, mean, squares = -math.inf, math.inf, 0.0, 0.0
        for count, value in enumerate(differences, 1):
            step = value - mean  # Welford's update
            mean += step / count
            squares += step * (value - mean)
            half = self.half_width(count, squares)
            lower, upper = max(lower, mean - half), min(upper, mean + half)
        return lower, upper

    def outlook(self, differences: Sequence[float]) -> int | None:
        r"""The number of pairs at which the mean so far would be decided."""
        count = len(differences)
        mean = math.fsum(differences) / count
        variance = math.fsum((each - mean) ** 2 for each in differences) / (count - 1)
        while count < _MOST_PAIRS:
            count += 1
            if self.half_width(count, (count - 1) * variance) < abs(mean):
                return count
        return None


@dataclass(frozen=True)
class _KnownScale(_Mixture):
    scale: float
    delta: float
    rho: float

    def half_width(self, count: int, squares: float) -> float:
        return self.scale * normal_half_width((count,), self.delta, self.rho)


def normal_half_width(counts: Sequence[int], delta: float, rho: float) -> float:
    r"""Half-width for a difference of means, or a mean, in units of the noise scale.

    Robbins (1970): a normal mixture for each of the means, at all times at once.
    """
    squared = sum(math.log1p(rho * count) for count in counts) - 2.0 * math.log(delta)
    return math.sqrt(squared * sum((1.0 + 1.0 / (rho * n)) / n for n in counts))


@dataclass(frozen=True)
class _UnknownScale(_Mixture):
    delta: float
    rho: float

    def half_width(self, count: int, squares: float) -> float:
        r"""Inverts ``(1 + rho n)^(-1/2) ((1 + t^2/v) / (1 + t^2/(v (1 + rho n))))^(n/2)``.

        This ratio of the likelihoods of ``t`` with ``v = n - 1`` degrees of freedom, a
        normal law of variance ``rho`` for mean over scale, is below ``1 / delta``.
        """
        if count < 2:
            return math.inf
        more = 1.0 + self.rho * count
        ratio = math.exp((0.5 * math.log(more) - math.log(self.delta)) * 2.0 / count)
        if ratio >= more:
            return math.inf
        return math.sqrt(squares * (ratio - 1.0) / (1.0 - ratio / more) / count)


@dataclass(frozen=True)
class _Bets:
    low: float
    high: float
    delta: float

    def limits(self, differences: Sequence[float]) -> tuple[float, float]:
        lower, upper = (self._lower(side) for side in self._sides(differences))
        unit = self.high - self.low
        return self.low + unit * lower, self.high - unit * upper

    def outlook(self, differences: Sequence[float]) -> int | None:
        r"""The number of pairs that decide if those so far come again and again."""
        again = [*differences] * min(_AGAIN, _MOST_PAIRS // len(differences))
        for side, null in zip(self._sides(again), self._sides([0.0]), strict=True):
            if count := _pairs_against(null[0], side, self._bets(side), self.delta):
                return count
        return None

    def _sides(self, differences: Sequence[float]) -> tuple[list[float], list[float]]:
        r"""Shares of the range, from below and from above."""
        unit = self.high - self.low
        below = [(each - self.low) / unit for each in differences]
        return below, [1.0 - each for each in below]

    def _lower(self, values: Sequence[float]) -> float:
        r"""The least mean that no bet on a larger one has ruled out."""
        bets, below, above = self._bets(values), 0.0, 1.0
        for _ in range(_HALVINGS):
            middle = 0.5 * (below + above)
            out = _pairs_against(middle, values, bets, self.delta) is not None
            below, above = (middle, above) if out else (below, middle)
        return below

    def _bets(self, values: Sequence[float]) -> list[float]:
        bets, total, squares = list[float](), 0.5, 0.25
        for count, value in enumerate(values, 1):
            scale = squares * math.log1p(count)  # variance so far times count, and more
            bets.append(math.sqrt(2.0 * math.log(2.0 / self.delta) / scale))
            total += value
            squares += (value - total / (count + 1)) ** 2
        return bets


def _pairs_against(
    mean: float, values: Sequence[float], bets: Sequence[float], delta: float
) -> int | None:
    r"""The number of pairs after which bets on more have ruled out the mean."""
    capital = math.log(0.5)  # half is bet on each side
    for count, (bet, value) in enumerate(zip(bets, values, strict=True), 1):
        capital += math.log1p(min(bet, _CAP / mean) * (value - mean))
        if capital >= -math.log(delta):
            return count
    return None


def read_outcomes(
    table: Path, setting: str | None = None, outcome: str | None = None
) -> dict[str, list[float]]:
    r"""Outcomes of settings from a csv, or from standard input for ``-``.

    With ``outcome`` and ``setting`` a row is a run; else a row is a round with a column for
    each setting, and empty cells are left out with their partners.

    Raises:
        ValueError: If a column is not there, or a cell is not a number.
        OSError: If there is no such file.
    """
    text = sys.stdin.read() if str(table) == "-" else table.read_text(encoding="utf-8-sig")
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        raise ValueError("There are no outcomes: the table is empty.")
    mark = next((mark for mark in ";\t," if mark in lines[0]), None)
    if mark is None:
        rows = [line.split() for line in lines]
    else:
        rows = [[c.strip() for c in row] for row in csv.reader(lines, delimiter=mark)]
    header, found = rows[0], dict[str, list[float]]()
    if (setting is None) != (outcome is None):
        raise ValueError("Give both --setting and --outcome, or none of them.")
    if setting is not None and outcome is not None:
        for name in (setting, outcome):
            if name not in header:
                raise ValueError(f"No column {name!r}; there are {', '.join(header)}.")
        at = header.index(setting), header.index(outcome)
        for number, row in enumerate(rows[1:], 2):
            name, cell = (row[i] if i < len(row) else "" for i in at)
            if cell:
                found.setdefault(name, []).append(_number(cell, mark, number))
        return found
    if all(_is_number(cell, mark) for cell in header):
        header, rows = [f"setting {i + 1}" for i, _ in enumerate(header)], [[], *rows]
    if len(header) < 2:
        raise ValueError("A row needs two outcomes or more, one of each setting.")
    columns: list[list[float]] = [[] for _ in header]
    for number, row in enumerate(rows[1:], 1):
        if len(row) != len(header) or not all(row):
            raise ValueError(f"Row {number} needs {len(header)} numbers, got {row}.")
        for column, cell in zip(columns, row, strict=True):
            column.append(_number(cell, mark, number))
    return dict(zip(header, columns, strict=True))


def _plain(cell: str, mark: str | None) -> str:
    return cell if mark == "," else cell.replace(",", ".")  # a decimal comma


def _is_number(cell: str, mark: str | None) -> bool:
    try:
        float(_plain(cell, mark))
    except ValueError:
        return False
    return True


def _number(cell: str, mark: str | None, row: int) -> float:
    if not _is_number(cell, mark):
        raise ValueError(f"Row {row}: {cell!r} is not a number.")
    return float(_plain(cell, mark))
