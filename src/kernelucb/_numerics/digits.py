r"""Numbers in print that stay on the true side: directed rounding to enough digits."""

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

_COUNT = 4  # significant digits of a number by itself
_SHARE = 100.0  # an interval's ends move by at most its width over this
_PLAIN = -5, 9  # exponents between which a number is printed without a power of ten


def at_least(number: float, width: float | None = None) -> str:
    r"""``number`` rounded down, to four digits.

    With a ``width``, to as many digits as an interval of this width needs.
    """
    return _rounded(number, width, ROUND_FLOOR)


def at_most(number: float, width: float | None = None) -> str:
    r"""``number`` rounded up; see ``at_least``."""
    return _rounded(number, width, ROUND_CEILING)


def between(lower: float, upper: float) -> tuple[str, str]:
    r"""Both ends of an interval, rounded outwards by at most a hundredth of its width."""
    return at_least(lower, upper - lower), at_most(upper, upper - lower)


def _rounded(number: float, width: float | None, rounding: str) -> str:
    number = float(number)
    if not math.isfinite(number) or number == 0.0:
        return f"{number:g}"
    exact = Decimal(repr(number))  # 0.1, not the binary fraction next to it
    place = exact.adjusted() - (_COUNT - 1)
    if width is not None and math.isfinite(width):
        if width <= 0.0:  # one value: all digits that tell it from its neighbours
            place = exact.adjusted() - 16
        else:
            place = math.floor(math.log10(width / _SHARE))
    # A double has 17 digits; from there on it is a whole multiple of the place.
    place = max(place, exact.adjusted() - 17)
    step = Decimal(1).scaleb(place)
    nearest = (exact / step).to_integral_value(rounding=rounding) * step
    if nearest == 0:
        return "0"
    low, high = _PLAIN
    if low <= nearest.adjusted() < high:
        text = f"{nearest:f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    mantissa, _, power = f"{nearest.normalize():e}".partition("e")
    return f"{mantissa}e{power}"
