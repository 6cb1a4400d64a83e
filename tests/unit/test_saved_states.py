r"""Checked saved states: whatever a value is, a state that is not right says so."""

from fractions import Fraction

import numpy as np
import pytest
import torch

from kernelucb._numerics import states
from kernelucb.exceptions import StateError

READERS = {
    "level": states.real(),
    "interval": states.optional(states.sequence(states.real())),
    "inputs": states.reals((None,)),
}
ENTRIES = {
    "level": 1.0,
    "interval": [1.0, 2.0],
    "inputs": torch.ones(2, dtype=torch.float64),
}


def read(**changes):
    return states.read_state("Thing", {**states.sealed(ENTRIES), **changes}, READERS)


def test_a_state_as_it_was_saved_is_read():
    values = read()
    assert values.keys() == ENTRIES.keys()
    assert values["inputs"] is not ENTRIES["inputs"]


@pytest.mark.parametrize(
    "value", [b"ab", range(2), [Fraction(1), Fraction(2)], [np.float32(1.0)], {1}, object()]
)
def test_what_was_never_saved_is_refused(value):
    r"""The readers take any sequence and any number; JSON knows a few only."""
    with pytest.raises(StateError, match="interval"):
        read(interval=value)


@pytest.mark.parametrize("value", [b"ab", {1}, object(), 1j, {1: 0, "a": 0}])
def test_what_cannot_be_saved_is_refused(value):
    with pytest.raises(StateError, match="arguments"):
        states.sealed({"arguments": value})


@pytest.mark.parametrize(
    "value",
    [
        torch.zeros(2, dtype=torch.float64).to_sparse(),
        torch.zeros(2, dtype=torch.float64, device="meta"),
    ],
    ids=["sparse", "meta"],
)
def test_tensors_without_plain_numbers_are_refused(value):
    with pytest.raises(StateError, match="inputs"):
        read(inputs=value)
