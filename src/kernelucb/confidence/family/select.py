r"""Which kernels of a family a round explores for."""

from typing import Literal

Select = Literal["alternate", "simplest", "widest"]
# Multiples of it modulo one are spread along arithmetic progressions as well, so also where
# observations come in batches of one size.
GOLDEN_RATIO = 0.5 * (1.0 + 5.0**0.5)


def explores_for_all(select: Select, widest_every: int, count: int) -> bool:
    r"""Whether the round after ``count`` observations explores for all kernels.

    Otherwise it does for the simplest consistent one. It follows from the count alone, so
    nothing need be remembered between rounds.
    """
    share = count * GOLDEN_RATIO % 1.0
    return select == "widest" or (select == "alternate" and share * widest_every < 1.0)
