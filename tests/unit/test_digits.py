r"""Printed numbers stay on the true side."""

import math
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelucb._numerics.digits import at_least, at_most, between

FLOATS = st.floats(allow_nan=False, allow_infinity=False, width=64)


@given(FLOATS, FLOATS)
def test_a_printed_interval_contains_its_ends_and_is_hardly_wider(one, other):
    lower, upper = sorted((one, other))
    low, high = map(Decimal, between(lower, upper))
    assert float(low) <= lower
    assert upper <= float(high)
    width = Decimal(upper) - Decimal(lower)
    digits = max(abs(Decimal(lower)), abs(Decimal(upper))) * Decimal("1e-15")
    assert high - low <= width * Decimal("1.03") + digits


@given(FLOATS)
def test_a_number_by_itself_has_four_digits_on_the_true_side(number):
    low, high = Decimal(at_least(number)), Decimal(at_most(number))
    assert float(low) <= number <= float(high)
    assert high - low <= abs(Decimal(number)) * Decimal("0.0011")


@pytest.mark.parametrize(
    ("ends", "text"),
    [
        ((78.123, 91.456), "78.1 91.5"),
        ((-76421.1301, -76421.1117), "-76421.1301 -76421.1117"),
        ((99.9912, 99.9923), "99.9912 99.9923"),
        ((0.0, 5000.0), "0 5000"),
        ((1.5, 1.5), "1.5 1.5"),
        ((1e-9, 2e-9), "1e-9 2e-9"),
        ((-math.inf, 3.25), "-inf 3.25"),
    ],
)
def test_examples(ends, text):
    assert " ".join(between(*ends)) == text
