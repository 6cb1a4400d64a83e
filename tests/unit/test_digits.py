r"""Printed numbers stay on the true side."""

import math
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelucb._numerics import digits

FLOATS = st.floats(allow_nan=False, allow_infinity=False, width=64)


@given(FLOATS, FLOATS)
def test_a_printed_interval_contains_its_ends_and_is_hardly_wider(one, other):
    lower, upper = sorted((one, other))
    low, high = map(Decimal, digits.between(lower, upper))
    assert float(low) <= lower
    assert upper <= float(high)
    width = Decimal(upper) - Decimal(lower)
    rounding = max(abs(Decimal(lower)), abs(Decimal(upper))) * Decimal("1e-15")
    assert high - low <= width * Decimal("1.03") + rounding


@given(FLOATS)
def test_a_number_by_itself_has_four_digits_on_the_true_side(number):
    low, high = Decimal(digits.at_least(number)), Decimal(digits.at_most(number))
    assert float(low) <= number <= float(high)
    assert high - low <= abs(Decimal(number)) * Decimal("0.0011")


@given(st.floats(1e-300, 1e300), st.floats(1e-12, 0.9))
def test_limits_that_are_assumed_are_printed_below_and_probabilities_too(number, delta):
    assumed, chance = float(digits.assumed(number)), Decimal(digits.one_minus(delta))
    assert number * (1.0 - 1e-7) <= assumed <= number * (1.0 + 1e-11)
    assert float(digits.as_given(number)) == number
    assert 1 - Decimal(delta) * Decimal("1.001") <= chance
    assert chance <= 1 - Decimal(delta) * Decimal("0.999999999")


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6))
def test_limits_of_coordinates_are_rounded_outwards_or_inwards(lower, width):
    upper = lower + width
    error = 1e-11 * max(abs(lower), abs(upper))
    low, high = map(float, digits.sides(lower, upper))
    assert low <= lower + error
    assert high >= upper - error
    low, high = map(float, digits.sides(lower, upper, inwards=True))
    assert lower - error <= low <= high <= upper + error


EXAMPLES = [
    (digits.between(78.123, 91.456), ("78.1", "91.5")),
    (digits.between(-76421.1301, -76421.1117), ("-76421.1301", "-76421.1117")),
    (digits.between(1.5, 1.5), ("1.5", "1.5")),
    (digits.between(1e-9, 2e-9), ("1e-9", "2e-9")),
    (digits.between(-math.inf, 3.25), ("-inf", "3.25")),
    (digits.between(-0.0, 0.0), ("0", "0")),
    (digits.sides(7.999999999999999, 8.12345678901), ("8", "8.124")),
    (digits.as_given(200.0), "200"),
    (digits.assumed(5.0 / 3.0 * 3.0), "5"),
    (digits.one_minus(0.1 + 0.2), "0.7"),
    (digits.nearest(99.9917, 0.004), "99.9917"),
    (digits.coordinate(0.1 + 0.2), "0.3"),
    (digits.coordinate(12345.678), "12345.678"),
    (digits.coordinate(1700000001.0), "1700000001"),
    (digits.coordinate(0.420817891584), "0.420818"),
]


@pytest.mark.parametrize(("found", "expected"), EXAMPLES)
def test_examples(found, expected):
    assert found == expected


@pytest.mark.parametrize("low", [1.0000000001e-4, 3.3333333333e-7])
def test_a_limit_of_a_logarithmic_input_is_never_zero(low):
    first, last = digits.sides(low, 0.29999999999)
    assert 0.9 * low <= float(first) <= low
    assert float(last) == 0.3


def test_a_point_in_a_sentence_has_no_twelve_digits():
    shown = {
        0.0204909179689: "0.0204909",
        0.1234567: "0.1234567",
        1234567.891234: "1234567.89",
    }
    assert {number: digits.coordinate(number) for number in shown} == shown
