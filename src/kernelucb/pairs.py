r"""Is an improvement real or noise? Pairs of outcomes, read after each; without torch."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import kernelucb.tables as tables
from kernelucb._numerics.digits import between, nearest, one_minus

_Floats = Sequence[float]
# `rho` times the number of runs at which a normal mixture is narrowest, at delta 0.05.
NARROWEST = 8.2
_CAP = 0.75  # of a bet: share of the capital that one pair can take, as in the paper
_HALVINGS = 50  # of the interval in which a limit is sought
_AGAIN = 20  # times that bounded pairs come again for an outlook
_MOST_PAIRS = 10_000  # of an outlook
# Of a rounding step, squared: a variance from which on rounding errors average out. The
# noise is then at least 0.65 steps, at which they move a Gaussian mean by 1e-4 steps.
_SCATTERED = 0.5
_ROUND_OFF = 1e-9, 1e-13  # of the spread and of the largest outcome
_WORDS = {
    "gaussian": "the differences of pairs are independent and Gaussian, but for rounding "
    "(not skewed, no rare large ones; else give range), with one mean and one scale, which "
    "need not be known",
    "noise_std": "pairs have one mean difference, whatever came before, and the noise of "
    "an outcome, its rounding included, is independent and sub-Gaussian with scale {0:.6g}",
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
        unpaired: Number of outcomes without a partner, which are not used.
        rounding: Step of rounded outcomes that the limits count, since the outcomes scatter
            too little for their rounding errors to average out; else 0.
    """

    challenger: str
    baseline: str
    pairs: int
    estimate: float
    lower: float
    upper: float
    minimize: bool
    outlook: int | None
    unpaired: int = 0
    rounding: float = 0.0

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
        mean = (
            nearest(self.estimate, abs(self.upper - self.lower)) if self.pairs else "none"
        )
        more = f"; about {self.outlook} pairs would decide" if self.outlook else ""
        if self.unpaired:
            more += f"; not used: {self.unpaired} without a partner"
        if self.pairs and not self.lower <= self.estimate <= self.upper:
            more += "; earlier looks exclude the mean: is what they rest on true?"
        if self.rounding:
            step = f"; rounding to steps of {nearest(self.rounding, self.rounding)} counts"
            more += f"; little scatter is shown{step * math.isfinite(self.rounding)}"
        return (
            f"{self.challenger} against {self.baseline}: {self.verdict} (mean difference "
            f"{mean}, {limits}; {self.pairs} pair{'s' * (self.pairs != 1)}{more})"
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
            "- whether an outcome is there does not depend on it;",
            "- these runs were made to compare: leave out those by which a setting was "
            "chosen.",
        ]
        return "\n".join(lines)


def confirm(
    outcomes: Mapping[str, Sequence[object]],
    /,
    against: str | None = None,
    *,
    noise_std: float | None = None,
    range: tuple[float, float] | None = None,
    delta: float = 0.05,
    expected_runs: int = 10,
    minimize: bool = False,
    missing: Sequence[str] = (),
) -> Comparisons:
    r"""Whether settings are better than a baseline, at any look.

    The ``i``-th outcome of a challenger and the ``i``-th of the baseline are a pair; where
    one of them is missing (None, NaN, an empty text), neither is used. Every challenger has
    the same share of ``delta``.

    Source: with neither ``noise_std`` nor ``range`` the mixture t-test (Lai 1976; Wang and
    Ramdas 2025), with a right Haar prior of the scale and a normal one of mean over scale;
    with ``noise_std`` Robbins' normal mixture (1970); with ``range`` hedged bets
    (Waudby-Smith and Ramdas 2024, Theorem 3). All are anytime. In the first case outcomes
    may be rounded, to steps that are found from their digits: where they scatter by less,
    the limits are those of the worst rounding errors (ours, ``_UnknownScale``).

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
        missing: Further words for "no outcome".

    Raises:
        ValueError: If there is no challenger, a pair is not finite, or a number is out of
            its range.
    """
    sheet = tables.in_python(outcomes.items(), 1)
    names, read = sheet.names, _read(sheet, sheet.names, missing=missing)
    if len({*names}) < 2:
        raise ValueError("There is one setting; a comparison needs a second one.")
    baseline = names[0] if against is None else tables.single_spaced(against)
    if baseline not in names:
        raise ValueError(f"against is one of {', '.join(names)}, got {baseline!r}.")
    challengers = [name for name in names if name != baseline]
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
        sides = read[name], read[baseline]
        together = [*zip(*sides, strict=False)]
        pairs = [pair for pair in together if not math.isnan(sum(pair))]
        alone = sum(not math.isnan(x) for x in chain(*sides)) - 2 * len(pairs)
        if not all(low <= value <= high for value in chain(*pairs)):
            raise ValueError(f"An outcome of {name} or {baseline} is outside the range.")
        differences = [a - b for a, b in pairs]
        rounding = [0.0] * len(pairs) if noise_std or range else _rounding(pairs)
        lower, upper = rule.limits(differences, rounding)
        mean = math.fsum(differences) / len(differences) if differences else math.nan
        undecided = lower <= 0.0 <= upper and len(differences) > 1
        outlook = rule.outlook(differences, rounding) if undecided else None
        ends = len(differences), mean, lower, upper, minimize, outlook, alone
        parts.append(Comparison(name, baseline, *ends, sum(rounding[-1:])))
    return Comparisons(tuple(parts), delta, words)


def _read(
    sheet: tables.Sheet,
    names: Iterable[str],
    decimal: str | None = None,
    missing: Sequence[str] = (),
) -> Any:
    r"""Outcomes of columns by name, NaN where there is none."""
    read = tables.numbers_in(sheet, names, decimal, missing, alike=True)
    compare = "name the columns to compare, --columns A,B"
    for name, column in read.items():
        given = [x for x in column.numbers if not math.isnan(x)]
        for place, word in column.words.items():
            is_outcome = given or len(read) == 1 or tables.was_lost(word)
            other = tables.or_missing(word) if is_outcome else f", or {compare}"
            advice = tables.no_number(word) + other
            raise ValueError(f"{name!r} has {word!r} in row {sheet.rows[place]}: {advice}.")
        # By any name, where a file has more than two columns: 1, 2, 3, ...
        is_counter = sheet.separator and len(read) > 2 and len(given) > 3
        is_counter = is_counter or (len(read) > 1 and tables.counts_rows(name, given))
        if is_counter and {b - a for a, b in pairwise(given)} == {1.0}:
            raise ValueError(f"{name!r} counts the rows, or so it seems: {compare}.")
    units = {column.unit for column in read.values() if not all(column.blank)}
    if len(units) > 1:
        raise ValueError(f"Units of columns must be the same, got {sorted(units)}.")
    return {name: column.numbers for name, column in read.items()}


def _step(values: _Floats) -> float:
    r"""The largest step of which all differences of the values are multiples.

    Infinite where the values do not differ, and so show none.
    """
    ordered = sorted(values)
    spread, shares = ordered[-1] - ordered[0], _ROUND_OFF
    least = shares[0] * spread + shares[1] * max(map(abs, ordered))

    def common(a: float, b: float) -> float:
        while b > least:  # Euclid's algorithm
            a, b = b, a % b
            b = 0.0 if a - b < least else b
        return a

    return reduce(common, (b - a for a, b in pairwise(ordered)), 0.0) or math.inf


def _moments(values: Iterable[float]) -> Iterator[tuple[float, float]]:
    r"""After each value the mean and the sum of squares around it (Welford)."""
    mean = squares = 0.0
    for count, value in enumerate(values, 1):
        step = value - mean
        mean += step / count
        squares += step * (value - mean)
        yield mean, squares


def _rounding(pairs: Sequence[tuple[float, float]]) -> list[float]:
    r"""By how much rounding can move a difference, after each pair.

    A step; 0 where rounding errors average out, which both settings and their difference
    must show.
    """
    step = _step([*chain(*pairs)]) if pairs else 0.0
    sides = zip(*((a, b, a - b) for a, b in pairs), strict=True)
    squares = zip(*([each for _, each in _moments(x)] for x in sides), strict=True)
    shown = (min(each) > _SCATTERED * n * step**2 for n, each in enumerate(squares, 1))
    return [0.0 if is_shown else step for is_shown in shown]


class _Mixture:
    r"""Limits ``mean -+ half_width``, all looks so far intersected."""

    def half_width(self, count: int, squares: float, rounding: float) -> float:
        r"""From the number of pairs and their sum of squares around the mean.

        ``rounding`` is by how much each difference may have been moved.
        """
        raise NotImplementedError

    def limits(self, differences: _Floats, rounding: _Floats) -> tuple[float, float]:
        lower, upper = -math.inf, math.inf
        looks = zip(_moments(differences), rounding, strict=True)
        for count, ((mean, squares), step) in enumerate(looks, 1):
            half = self.half_width(count, squares, step)
            lower, upper = max(lower, mean - half), min(upper, mean + half)
        return lower, upper

    def outlook(self, differences: _Floats, rounding: _Floats) -> int | None:
        r"""The number of pairs at which the mean so far would be decided."""
        count = len(differences)
        *_, (mean, squares) = _moments(differences)
        variance = squares / (count - 1)
        while count < _MOST_PAIRS:
            count += 1
            if self.half_width(count, (count - 1) * variance, rounding[-1]) < abs(mean):
                return count
        return None


@dataclass(frozen=True)
class _KnownScale(_Mixture):
    scale: float
    delta: float
    rho: float

    def half_width(self, count: int, squares: float, rounding: float) -> float:
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

    def half_width(self, count: int, squares: float, rounding: float) -> float:
        r"""Inverts ``(1 + rho n)^(-1/2) ((1 + t^2/v) / (1 + t^2/(v (1 + rho n))))^(n/2)``.

        This ratio of the likelihoods of ``t`` with ``v = n - 1`` degrees of freedom, a
        normal law of variance ``rho`` for mean over scale, is below ``1 / delta``.

        It gives the half-width ``c sqrt(S)`` for squares ``S``. Errors ``e`` of at most
        ``r`` move the mean by ``m``, their mean, and ``sqrt(S)`` by at most the root of
        their squares ``E`` around it; ``n m^2 + E <= n r^2``, so ``|m| + c sqrt(E)`` is at
        most ``r sqrt(1 + n c^2)``.
        """
        if count < 2:
            return math.inf
        more = 1.0 + self.rho * count
        ratio = math.exp((0.5 * math.log(more) - math.log(self.delta)) * 2.0 / count)
        if ratio >= more:
            return math.inf
        factor = (ratio - 1.0) / (1.0 - ratio / more)  # c^2 n
        return math.sqrt(squares * factor / count) + rounding * math.sqrt(1.0 + factor)


@dataclass(frozen=True)
class _Bets:
    low: float
    high: float
    delta: float

    def limits(self, differences: _Floats, _: _Floats) -> tuple[float, float]:
        lower, upper = (self._lower(side) for side in self._sides(differences))
        unit = self.high - self.low
        return self.low + unit * lower, self.high - unit * upper

    def outlook(self, differences: _Floats, _: _Floats) -> int | None:
        r"""The number of pairs that decide if those so far come again and again."""
        again = [*differences] * min(_AGAIN, _MOST_PAIRS // len(differences))
        for side, null in zip(self._sides(again), self._sides([0.0]), strict=True):
            if count := _pairs_against(null[0], side, self._bets(side), self.delta):
                return count
        return None

    def _sides(self, differences: _Floats) -> tuple[list[float], list[float]]:
        r"""Shares of the range, from below and from above."""
        unit = self.high - self.low
        below = [(each - self.low) / unit for each in differences]
        return below, [1.0 - each for each in below]

    def _lower(self, values: _Floats) -> float:
        r"""The least mean that no bet on a larger one has ruled out."""
        bets, below, above = self._bets(values), 0.0, 1.0
        # By halves: scipy's import takes seven times as long as all imports of `confirm`,
        # and its root may lie on either side; `below` stays a mean that is ruled out.
        for _ in range(_HALVINGS):
            middle = 0.5 * (below + above)
            out = _pairs_against(middle, values, bets, self.delta) is not None
            below, above = (middle, above) if out else (below, middle)
        return below

    def _bets(self, values: _Floats) -> list[float]:
        bets, total, squares = list[float](), 0.5, 0.25
        for count, value in enumerate(values, 1):
            scale = squares * math.log1p(count)  # variance so far times count, and more
            bets.append(math.sqrt(2.0 * math.log(2.0 / self.delta) / scale))
            total += value
            squares += (value - total / (count + 1)) ** 2
        return bets


def _pairs_against(mean: float, values: _Floats, bets: _Floats, delta: float) -> int | None:
    r"""The number of pairs after which bets on more have ruled out the mean."""
    capital = math.log(0.5)  # half is bet on each side
    for count, (bet, value) in enumerate(zip(bets, values, strict=True), 1):
        capital += math.log1p(min(bet, _CAP / mean) * (value - mean))
        if capital >= -math.log(delta):
            return count
    return None


def read_outcomes(
    table: Path,
    setting: str | None = None,
    outcome: str | None = None,
    columns: Sequence[str] = (),
    decimal: str | None = None,
    missing: Sequence[str] = (),
) -> dict[str, list[float]]:
    r"""Outcomes of settings from a csv, or from standard input for ``-``.

    With ``outcome`` and ``setting`` a row is a run; else a row is a round with a column for
    each setting. An empty cell is NaN, so that it keeps its place and its partner.

    Args:
        table: The file.
        setting: Column with the name of the setting.
        outcome: Column with the outcome.
        columns: Settings to compare, by default all columns; their names where the table
            has no header.
        decimal: Decimal mark, ``"."`` or ``","``, where the cells leave it open.
        missing: Further words for "no outcome".

    Raises:
        ValueError: If a column is not there or could be taken for several things, or a cell
            is not a number.
        OSError: If there is no such file.
    """
    tables.check_decimal(decimal)
    if (setting is None) != (outcome is None):
        raise ValueError("Give both --setting and --outcome, or none of them.")
    names = [*map(tables.single_spaced, columns)]
    sheet = tables.read_file(table, names)
    if setting is not None and outcome is not None:
        by, outcome = map(tables.single_spaced, (setting, outcome))
        return _by_setting(sheet, by, outcome, decimal, missing)
    if not names and not sheet.is_named:
        raise ValueError(
            f"The first row ({', '.join(sheet.names)}) may be outcomes, or names that are "
            "numbers: give the names of the settings, --columns A,B."
        )
    found = _read(sheet, names or sheet.names, decimal, missing)
    if len(found) < 2:
        raise ValueError("A row needs two outcomes or more, one of each setting.")
    return found


def _by_setting(
    sheet: tables.Sheet,
    setting: str,
    outcome: str,
    decimal: str | None,
    missing: Sequence[str],
) -> dict[str, list[float]]:
    found, spellings = dict[str, list[float]](), dict[float, str]()
    (values,) = _read(sheet, [outcome], decimal, missing).values()
    for row, cell, value in zip(sheet.rows, sheet.cells(setting), values, strict=True):
        name = tables.single_spaced(cell)
        number, _ = tables.number_of(name)
        if not name and not math.isnan(value):
            raise ValueError(f"{setting!r} is blank in row {row}: fill it in.")
        if (same := spellings.setdefault(number, name)) != name and number == number:
            raise ValueError(f"{setting!r} is {same} and {name}, one number: write one.")
        if name:
            found.setdefault(name, []).append(value)
    return found
