r"""Turns: which function plays which point of a block of points.

Where a band holds the function, the best of the points that maximise its upper side is
within the mean width of the band at them of the optimum, whatever plays the other points
(``docs/mathematics.md``, "Turns of the upper bound").
"""

from collections.abc import Sequence

from kernelucb._numerics.checks import one_of
from kernelucb.confidence.family import GOLDEN_RATIO

# A turn of "mean" maximises a point this far on the way from the estimate to the upper
# side: not quite the estimate, whose maximum pending points would not move.
SHARE = 0.05


def checked_turns(turns: Sequence[str]) -> tuple[str, ...]:
    r"""Turns of a bound, ``"upper"`` or ``"mean"``, as a tuple.

    Raises:
        ValueError: If there are none, or one is another word.
    """
    if isinstance(turns, str) or len(turns) == 0:
        raise ValueError(f'turns must be words such as ("upper", "mean"), got {turns!r}.')
    return tuple(one_of("Each of turns", each, "upper", "mean") for each in turns)


def turns_of(ucb_every: int | None) -> tuple[str, ...]:
    r"""A block of ``ucb_every`` points, one of them by the upper bound; none for None."""
    others = ["search"] * ((ucb_every or 1) - 1)
    return ("search",) if ucb_every is None else ("upper", *others)


def turn_at(turns: Sequence[str], count: int) -> str:
    r"""Return the turn of the point after ``count`` observed and pending ones.

    Each block begins at another place, which moves by the golden ratio, so no batch size
    always meets the same turn.
    """
    block, place = divmod(count, len(turns))
    start = int(block * GOLDEN_RATIO % 1.0 * len(turns))
    return turns[(place - start) % len(turns)]
