r"""Numbers in print that stay on the true side: directed rounding to enough digits."""

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from typing import SupportsFloat

_COUNT = 4  # significant digits of a number by itself
_GIVEN = 8  # and of one that is mostly a person's
_SHORT = 8  # characters of a coordinate that need not be fewer
_SHARE = 100.0  # an interval's ends move by at most its width over this
_PLAIN = -5, 9  # exponents between which a number is printed without a power of ten


def at_least(number: SupportsFloat, width: float | None = None, count: int = _COUNT) -> str:
    r"""``number`` rounded down, to ``count`` digits.

    With a ``width``, to as many digits as an interval of this width needs.
    """
    return _rounded(number, width, ROUND_FLOOR, count)


def at_most(number: SupportsFloat, width: float | None = None, count: int = _COUNT) -> str:
    r"""``number`` rounded up; see ``at_least``."""
    return _rounded(number, width, ROUND_CEILING, count)


def between(lower: float, upper: float) -> tuple[str, str]:
    r"""Both ends of an interval, rounded outwards by at most a hundredth of its width."""
    return at_least(lower, upper - lower), at_most(upper, upper - lower)


def nearest(number: float, width: float) -> str:
    r"""An estimate within an interval of some ``width``, to as many digits."""
    return _rounded(number, width, ROUND_HALF_EVEN)


def as_given(number: SupportsFloat) -> str:
    r"""The shortest text that is read back as ``number``."""
    return repr(float(number)).removesuffix(".0")


def assumed(limit: SupportsFloat) -> str:
    r"""An upper limit that is assumed: as given, or below it in the ninth digit.

    What obeys the printed limit obeys the one in use, up to round-off of units.
    """
    return at_least(_settled(limit), count=_GIVEN)


def coordinate(number: SupportsFloat) -> str:
    r"""A coordinate of a point, as a person gives one, up to eight digits; else six.

    Of a large one two decimals stay.
    """
    value = _settled(number)
    given = f"{value:.12g}" if value.is_integer() else f"{value:.{_GIVEN}g}"
    count = max(6, Decimal(given).adjusted() + 3)
    return given if float(given) == value else f"{value:.{count}g}"


def _settled(number: SupportsFloat) -> float:
    r"""A number to twelve digits: without round-off of a unit's change."""
    return float(f"{float(number):.12g}")


def sides(lower: float, upper: float, inwards: bool = False) -> tuple[str, str]:
    r"""Limits of a coordinate, long ones rounded outwards (or inwards).

    A number keeps two digits, so none but 0 is printed as 0, which has no logarithm.
    """
    rounded = (at_most, at_least) if inwards else (at_least, at_most)
    ends = [_settled(each) for each in (lower, upper)]
    texts = [f"{end:.12g}" for end in ends]
    low, high = (
        text if len(text) <= _SHORT else to(end, min(ends[1] - ends[0], 10.0 * abs(end)))
        for text, end, to in zip(texts, ends, rounded, strict=True)
    )
    return low, high


def one_minus(delta: float) -> str:
    r"""The probability ``1 - delta``, rounded down in the fourth digit of ``delta``."""
    failure = Decimal(f"{delta:.12g}")  # 0.3, not the sum 0.1 + 0.2
    place = failure.adjusted() - (_COUNT - 1)
    return _text((1 - failure).quantize(Decimal(1).scaleb(place), ROUND_FLOOR))


def _rounded(
    value: SupportsFloat, width: float | None, rounding: str, count: int = _COUNT
) -> str:
    number = float(value)
    if not math.isfinite(number) or number == 0.0:
        return f"{number + 0.0:g}"  # no minus zero
    exact = Decimal(repr(number))  # 0.1, not the binary fraction next to it
    place = exact.adjusted() - (count - 1)
    if width is not None and math.isfinite(width):
        if width <= 0.0:  # one value: all digits that tell it from its neighbours
            place = exact.adjusted() - 16
        else:
            place = math.floor(math.log10(width / _SHARE))
    # A double has 17 digits; from there on it is a whole multiple of the place.
    place = max(place, exact.adjusted() - 17)
    step = Decimal(1).scaleb(place)
    return _text((exact / step).to_integral_value(rounding=rounding) * step)


def _text(number: Decimal) -> str:
    if number == 0:
        return "0"
    low, high = _PLAIN
    if low <= number.adjusted() < high:
        text = f"{number:f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    mantissa, _, power = f"{number.normalize():e}".partition("e")
    return f"{mantissa}e{power}"
