r"""What makes the house hard to live in only falls; lines of code are no measure."""

import pytest

from benchmarks.house import house

# What stands. Who brings a measure down lowers its number.
MOST = {
    "type tests": 115,
    "getattr and hasattr": 30,
    "magic": 2,
    "arguments of type Any": 7,
    "functions above 60 lines": 0,
    "repeated lines of code": 99,
    "words of docs": 24_000,
    "words of the longest page but mathematics": 1000,
}
MOST_ENTERED = {"files": 25, "functions": 221, "calls": 457}  # by the simplest call


@pytest.fixture(scope="module")
def found():
    return house()  # half a second: it reads every file


@pytest.mark.parametrize("measure", MOST)
def test_a_measure_only_falls(measure, found):
    assert found[measure] <= MOST[measure], "ask which object should have known"


@pytest.mark.parametrize("measure", MOST_ENTERED)
def test_the_simplest_call_enters_no_more(measure, found):
    assert found["entered"]["kernelucb"][measure] <= MOST_ENTERED[measure]
