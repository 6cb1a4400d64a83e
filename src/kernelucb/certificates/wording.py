r"""Names, units and numbers in words, from which sentences are made."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from torch import Tensor

from kernelucb._numerics.digits import between, coordinate, sides

Value = float | str  # of an input: a number or a word
_ROUND_OFF = 1e-9  # of whole numbers


def in_words(value: object) -> str:
    r"""An input's value, for print."""
    return coordinate(value) if isinstance(value, float) else str(value)


def span(*ends: Value) -> str:
    r"""Two ends as ``"40.1 to 54.8"``, rounded outwards; ``"40"`` where they are equal."""
    return " to ".join(_ends(ends))


def _ends(values: Sequence[Value], inwards: bool = False) -> Sequence[str]:
    r"""Two ends of numbers, rounded outwards or inwards, or words; equal ones once."""
    distinct = [*dict.fromkeys(values)]
    numbers = [each for each in distinct if isinstance(each, float)]
    if len(numbers) == len(distinct) == 2:
        return sides(*numbers, inwards=inwards)
    return [*map(in_words, distinct)]


def _whole_ends(values: Sequence[Value], inwards: bool) -> Sequence[Value]:
    r"""The whole numbers at two ends, within or around; as they are if none is within."""
    low, high = (float(each) for each in values)
    up, down = math.ceil(low - _ROUND_OFF), math.floor(high + _ROUND_OFF)
    if inwards:
        return [float(up), float(down)] if up <= down else values
    return [float(math.floor(low + _ROUND_OFF)), float(math.ceil(high - _ROUND_OFF))]


class DomainWords(NamedTuple):
    r"""Names of a search domain's points in sentences; a box needs none."""

    noun: str = "point"  # or "candidate"
    allowed: bool = False  # whether parts of the box are left out
    feasible: bool = False  # whether outcome constraints leave out points
    fixed: Mapping[int, float] = {}  # the context: columns and their values
    values: str = ""  # the same by the names of the inputs, ``" (x1 0.1)"``

    @property
    def context(self) -> str:
        r"""``" in this context (x1 0.1)"``; empty where no column was given."""
        return f" in this context{self.values}" if self.fixed else ""

    @property
    def points(self) -> str:
        r"""``"feasible allowed point"``, without the context."""
        return f"{'feasible ' * self.feasible}{'allowed ' * self.allowed}{self.noun}"

    @property
    def is_box(self) -> bool:
        r"""Whether all points of a box count, in a context or not."""
        return self.points == "point"

    @property
    def optimum(self) -> str:
        r"""``"the optimum of the feasible points in this context"``."""
        return (
            f"the optimum{'' if self.is_box else f' of the {self.points}s'}{self.context}"
        )

    @property
    def nothing(self) -> str:
        r"""``"no feasible point anywhere in this context"``."""
        anywhere = " anywhere" if self.noun == "point" else ""
        return f"no {self.points}{anywhere}{self.context}"

    def best_run(self, inside: bool) -> str:
        r"""``"best run that may be feasible"``, of the runs inside the domain or of all."""
        if not inside:
            return "best run (outside the domain)"
        among = " among the candidates" if self.noun == "candidate" else ""
        feasible = " that may be feasible" if self.feasible else ""
        return f"best{' allowed' * self.allowed} run{among}{feasible}{self.context}"


class Encoding(Protocol):
    r"""Columns that encode other inputs, such as words."""

    @property
    def choices(self) -> Collection[str]:
        r"""Names of the inputs whose values are listed."""
        ...

    def values(
        self, low: Sequence[float], high: Sequence[float], /
    ) -> Mapping[str, Sequence[Value]]:
        r"""By input two limits, or the values of a choice, in a box of columns."""
        ...

    def of_columns(self, columns: Iterable[str], /) -> list[str]:
        r"""The inputs that some columns encode."""
        ...


class Wording(NamedTuple):
    r"""Names and units, for sentences."""

    names: tuple[str, ...]
    outcome: str = "the outcome"
    units: Mapping[str, str] = {}
    encoded: Encoding | None = None  # where the columns are not the inputs
    whole: Collection[str] = ()  # inputs that are whole numbers

    @classmethod
    def of(
        cls,
        dimension: int,
        names: Sequence[str] | None,
        outcome: str,
        units: Mapping[str, str] | None,
    ) -> "Wording":
        r"""From what a user gives for ``dimension`` inputs; ``x0`` and so on by default."""
        labels = [f"x{i}" for i in range(dimension)] if names is None else names
        return cls(tuple(labels), outcome, units or {}).checked(dimension)

    def checked(self, dimension: int) -> "Wording":
        r"""The same; ``ValueError`` if the names are not those of so many inputs."""
        if len(self.names) != dimension:
            raise ValueError(f"There are {len(self.names)} names for {dimension} inputs.")
        return self

    def value(self, text: str, name: str | None = None) -> str:
        r"""A number as text, with the unit of an input or of the outcome."""
        unit = self.units.get(self.outcome if name is None else name, "")
        return f"{text} {unit}".rstrip()

    def interval(self, lower: float, upper: float) -> str:
        r"""``"between 78 and 91 %"``, rounded outwards."""
        low, high = between(lower, upper)
        return f"between {low} and {self.value(high)}"

    def short(self, name: str) -> str:
        r"""``"heat"``, also of ``"heat (C)"``, where the unit is told apart."""
        unit = self.units.get(name, "")
        return name.removesuffix(f"({unit})").rstrip() or name

    def label(self, name: str) -> str:
        r"""``"heat (C)"``, of an input or the outcome."""
        unit = self.units.get(name, "")
        return f"{self.short(name)} ({unit})" if unit else name

    def values(self, lower: Tensor, upper: Tensor) -> Mapping[str, Sequence[Value]]:
        r"""Limits of a box by name, or the words of a choice in it."""
        ends = lower.tolist(), upper.tolist()
        if self.encoded is not None:
            return self.encoded.values(*ends)
        return {n: each for n, *each in zip(self.names, *ends, strict=True)}

    def named(self, point: Tensor) -> dict[str, Value]:
        r"""Values of a point by name."""
        return {name: each[0] for name, each in self.values(point, point).items()}

    def of_columns(self, names: Iterable[str]) -> list[str]:
        r"""Inputs that some columns encode, by name."""
        return [*names] if self.encoded is None else self.encoded.of_columns(names)

    def point(self, point: Tensor, names: Iterable[str] | None = None) -> str:
        r"""``"heat 80 C, time 12 h"``, of all inputs or of some."""
        named = self.named(point)
        asked = named if names is None else names
        return ", ".join(
            f"{self.short(n)} {self.value(in_words(named[n]), n)}" for n in asked
        )

    def box(self, lower: Tensor, upper: Tensor, *, inwards: bool = True) -> str:
        r"""``"heat 70 to 90 C, solvent toluene"``; rounded inwards or outwards."""
        listed: list[str] = []
        for name, each in self.values(lower, upper).items():
            if name in self.whole:
                each = _whole_ends(each, inwards)
            is_choice = self.encoded is not None and name in self.encoded.choices
            text = " to ".join(_ends(each, inwards))
            if is_choice:
                text = " or ".join(map(in_words, dict.fromkeys(each)))
            listed.append(f"{self.short(name)} {self.value(text, name)}")
        return ", ".join(listed)

    def domain(self, words: DomainWords, point: Tensor) -> DomainWords:
        r"""Names of a domain's points, with the values of its context at a point."""
        names = self.of_columns(self.names[column] for column in words.fixed)
        return words._replace(values=f" ({self.point(point, names)})")
