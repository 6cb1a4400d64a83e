r"""Saved states: settings and data, copied, and a clear error where they do not fit."""

import json

import pytest
import torch
from gpytorch.kernels import MaternKernel, RBFKernel

from kernelucb._numerics.saving import digest, fingerprint, opened, same_values, saved
from kernelucb.exceptions import StateError

SETTINGS = {"delta": 0.05, "kernel": torch.ones(2, 2, dtype=torch.float64)}


class Thing:
    r"""Learns ``inputs``."""


def state(**changes):
    return {**saved(Thing(), SETTINGS, inputs=torch.ones(2), count=2), **changes}


def test_what_was_saved_is_read_as_copies():
    first = state()
    inputs, count = opened(Thing(), SETTINGS, first, "inputs", "count")
    assert count == 2
    assert torch.equal(inputs, first["inputs"])
    inputs += 1.0
    assert torch.equal(first["inputs"], torch.ones(2))


@pytest.mark.parametrize(
    ("changes", "settings", "message"),
    [
        ({"class": "Other"}, {}, "no state of a Thing"),
        ({"kernelucb": 1}, {}, "version 1; this release reads version"),
        ({}, {"delta": 0.1}, r"delta is 0\.05 in the state and 0\.1 here"),
        ({}, {"kernel": torch.zeros(2, 2)}, "kernel has other values"),
        ({}, {"more": 1}, "more is None in the state and 1 here"),
    ],
)
def test_what_does_not_fit_is_refused(changes, settings, message):
    with pytest.raises(StateError, match=message):
        opened(Thing(), SETTINGS | settings, state(**changes), "inputs")


def test_what_is_no_state_or_lacks_an_entry_is_refused():
    with pytest.raises(StateError, match="no state of a Thing"):
        opened(Thing(), SETTINGS, [1, 2], "inputs")
    with pytest.raises(StateError, match="lacks outcomes"):
        opened(Thing(), SETTINGS, state(), "inputs", "outcomes")


def test_values_agree_up_to_devices_and_json():
    kernel = SETTINGS["kernel"]
    assert same_values({"kernel": kernel * (1.0 + 1e-12)}, {"kernel": kernel})
    assert not same_values(kernel * (1.0 + 1e-6), kernel)
    assert not same_values(kernel[:1], kernel)
    plain = {"limits": (0.1, None), "names": ["a", "b"]}
    assert same_values(json.loads(json.dumps(plain)), plain)
    assert not same_values([1.0], [1])
    assert not same_values([1.0], [1.0, 2.0])


def test_modules_built_alike_have_one_fingerprint():
    assert torch.equal(fingerprint(MaternKernel(1.5)), fingerprint(MaternKernel(1.5)))
    assert not torch.equal(fingerprint(MaternKernel(1.5)), fingerprint(MaternKernel(2.5)))
    assert not torch.equal(fingerprint(MaternKernel(1.5)), fingerprint(RBFKernel()))
    one, other = RBFKernel(), RBFKernel()
    assert digest(one) == digest(other)
    other.lengthscale = 0.3
    assert digest(one) != digest(other)
