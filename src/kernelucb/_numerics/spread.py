r"""Turns that are spread evenly over a count, along its arithmetic progressions as well.

So also where observations come in batches of equal size. A turn follows from the count
alone, so nothing need be remembered between rounds.
"""

_GOLDEN_RATIO = 0.5 * (1.0 + 5.0**0.5)


def place_at(count: int, num_places: int) -> int:
    r"""The place of a count among ``num_places``, from 0: by multiples of the golden ratio.

    These are spread evenly modulo one.
    """
    return int(count * _GOLDEN_RATIO % 1.0 * num_places)
