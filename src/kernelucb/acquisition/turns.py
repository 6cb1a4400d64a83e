r"""Turns: which function plays which point of a block of points.

Where a band holds the function, the best of the points that maximise its upper side is
within the mean width of the band at them of the optimum, whatever plays the other points
(``docs/mathematics.md``, "Turns of the upper bound").
"""

from collections.abc import Sequence
from typing import Literal, TypeVar

from kernelucb._numerics.checks import one_of
from kernelucb.confidence.family import GOLDEN_RATIO

Turn = Literal["upper", "mean"]
Each = TypeVar("Each")


def checked_turns(turns: Sequence[Turn]) -> tuple[Turn, ...]:
    r"""Turns of a bound as a tuple.

    Raises:
        ValueError: If there are none, or one is another word.
    """
    if isinstance(turns, str) or len(turns) == 0:
        raise ValueError(f'turns must be words such as ("upper", "mean"), got {turns!r}.')
    for each in turns:
        one_of("Each of turns", each, "upper", "mean")
    return tuple(turns)


def turn_at(turns: Sequence[Each], count: int) -> Each:
    r"""Return the turn of the point after ``count`` observed and pending ones.

    Each block begins at another place, which moves by the golden ratio, so no batch size
    always meets the same turn.
    """
    block, place = divmod(count, len(turns))
    start = int(block * GOLDEN_RATIO % 1.0 * len(turns))
    return turns[(place - start) % len(turns)]


def is_upper_turn(every: int | None, count: int) -> bool:
    r"""Whether that point is the one in its block of ``every`` points; never for None."""
    return every is not None and turn_at(range(every), count) == 0
