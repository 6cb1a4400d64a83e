r"""Many candidates against one baseline, in rounds as they arrive; without torch."""

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field

import kernelucb.tables as tables
from kernelucb.pairs import Comparison, Comparisons, confirm

# Pairs before it is judged how many more a candidate would need: a share of the most
_LEAST, _EARLIEST = 5, 0.25

# A round: the baseline's outcome and those of the candidates that still run.
Round = Mapping[str, object]


@dataclass
class SequentialComparison:
    r"""Candidates against one baseline, asked after every round, with a promise for all.

    With probability ``1 - delta`` no verdict on any candidate is ever false, however many
    rounds there are and whichever candidates are dropped, for whatever reason, on the way.
    Verdicts stay, unless later rounds contradict them. Assumptions and limits are those of
    ``confirm``, each candidate having the same share of ``delta``.

    Source: see ``confirm``; a union bound over the candidates.

    Example:
        >>> comparison = SequentialComparison("old", candidates=100)
        >>> while running := comparison.running(names):
        ...     state = comparison.add({name: score(name) for name in ["old", *running]})
        >>> print(comparison.verdicts)

    Attributes:
        against: Name of the baseline.
        candidates: Number of candidates that there will be at most, fixed beforehand.
        most: Largest number of pairs of a candidate. One that would need more, as far as
            its first pairs show, is dropped undecided.
        noise_std, range, delta, expected_runs, minimize, missing: See ``confirm``.
        rounds: The rounds so far.
    """

    against: str
    candidates: int
    _: KW_ONLY
    most: int | None = None
    noise_std: float | None = None
    range: tuple[float, float] | None = None
    delta: float = 0.05
    expected_runs: int = 10
    minimize: bool = False
    missing: Sequence[str] = ()
    rounds: list[dict[str, object]] = field(
        default_factory=list[dict[str, object]], init=False
    )
    _found: dict[str, Comparisons] = field(
        default_factory=dict[str, Comparisons], init=False, repr=False
    )

    def __post_init__(self) -> None:
        for name, given in (("candidates", self.candidates), ("most", self.most)):
            if given is not None and given < 1:
                raise ValueError(f"{name} must be at least 1, got {given}.")
        self.against = tables.single_spaced(self.against)
        if not 0.0 < self.delta < 1.0:
            raise ValueError(f"delta must be between 0 and 1, got {self.delta}.")

    def add(self, outcomes: Round) -> dict[str, list[str]]:
        r"""Take a round, and return the ``state`` after it.

        A candidate that is not there, or has no outcome, has no pair in this round; nor has
        any where the baseline has no outcome.

        Raises:
            ValueError: If the baseline is not named, there are more candidates than
                announced, or an outcome is not usable; the round is then not taken.
        """
        given = {tables.single_spaced(name): value for name, value in outcomes.items()}
        if self.against not in given:
            raise ValueError(f"A round needs the baseline, {self.against!r}.")
        rounds, found = [*self.rounds, given], dict(self._found)
        new = [name for name in given if name != self.against]
        if (count := len(found.keys() | {*new})) > self.candidates:
            raise ValueError(
                f"There are {count} candidates and {self.candidates} were announced: the "
                "failure probability is divided by their number, so it is fixed before the "
                "first round (candidates=; --candidates)."
            )
        for name in new:
            if given[name] is None and name in found:  # no pair that is not counted yet
                continue
            pair = {each: [x.get(each) for x in rounds] for each in (self.against, name)}
            found[name] = confirm(
                pair,
                self.against,
                noise_std=self.noise_std,
                range=self.range,
                delta=self.delta / self.candidates,
                expected_runs=self.expected_runs,
                minimize=self.minimize,
                missing=self.missing,
            )
        self.rounds, self._found = rounds, found
        return self.state()

    @property
    def verdicts(self) -> Comparisons:
        r"""The verdicts so far.

        Raises:
            ValueError: Before the first candidate has come.
        """
        if not self._found:
            raise ValueError("No candidate has come yet.")
        every = [*self._found.values()]
        parts = tuple(part for each in every for part in each.parts)
        return Comparisons(parts, self.delta, every[0].assumption)

    def state(self) -> dict[str, list[str]]:
        r"""Names by what is known: by verdict; undecided ones are open or dropped."""
        words = "better", "worse", "contradicted", "open", "dropped"
        found: dict[str, list[str]] = {word: [] for word in words}
        for name, each in self._found.items():
            found[self._word(each.parts[0])].append(name)
        return found

    def running(self, names: Iterable[str]) -> list[str]:
        r"""Those of some candidates that are worth another round."""
        done = self._found.keys() - {*self.state()["open"]}
        return [name for name in names if tables.single_spaced(name) not in done]

    def _word(self, part: Comparison) -> str:
        if part.verdict != "not decided":
            return part.verdict
        if self.most is None:
            return "open"
        if part.pairs < min(max(_LEAST, _EARLIEST * self.most), self.most):
            return "open"
        needed = part.outlook or self.most + 1
        return "dropped" if max(needed, part.pairs + 1) > self.most else "open"


def followed(
    lines: Iterable[str],
    against: str | None = None,
    candidates: int | None = None,
    build: Callable[[str, int], SequentialComparison] = SequentialComparison,
) -> Iterator[SequentialComparison]:
    r"""The comparison after each round of ``rounds_of``, until no candidate is open.

    The first round says what was not given: its first name is the baseline, the others are
    the candidates. Errors as there and of ``SequentialComparison``.
    """
    comparison = None
    for outcomes in rounds_of(lines):
        if comparison is None:
            baseline = next(iter(outcomes)) if against is None else against
            most = candidates or max(len(outcomes) - 1, 1)
            comparison = build(baseline, most)
        state = comparison.add(outcomes)
        yield comparison
        if not state["open"] and sum(map(len, state.values())) == comparison.candidates:
            return


def rounds_of(lines: Iterable[str]) -> Iterator[dict[str, object]]:
    r"""Rounds from JSON objects, one a line, or from csv with a header, as they arrive.

    Raises:
        ValueError: If a line is no round.
    """
    header: list[str] | None = None
    for number, line in enumerate(lines, 1):
        if not (text := line.strip()):
            continue
        if header is None and text.startswith("{"):
            yield _object(text, number)
            continue
        cells = [tables.single_spaced(cell) for cell in next(csv.reader([text]))]
        if header is None:
            header = cells
            continue
        if len(cells) != len(header):
            counts = f"{len(cells)} cells and the header {len(header)}"
            raise ValueError(f"Line {number} has {counts}: write an empty cell for none.")
        # An empty cell is no outcome.
        yield {name: cell or None for name, cell in zip(header, cells, strict=True)}


def _object(text: str, number: int) -> dict[str, object]:
    try:
        return {**json.loads(text)}
    except (json.JSONDecodeError, TypeError) as error:
        raise ValueError(f"Line {number} is no JSON object: {error}.") from error
