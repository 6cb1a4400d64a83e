r"""Saved states: settings and data, copied, and a clear error where they do not fit."""

import json

import torch
from gpytorch.kernels import MaternKernel, RBFKernel

from kernelucb._numerics.saving import fingerprint, opened, same_values, saved

SETTINGS = {"delta": 0.05, "kernel": torch.ones(2, 2, dtype=torch.float64)}


class Thing:
    r"""Learns ``inputs``."""


def state(**changes):
    return {**saved(Thing(), SETTINGS, inputs=torch.ones(2), count=2), **changes}


def test_what_was_saved_is_read_as_copies():
    first = state()
    inputs, count = opened(Thing(), SETTINGS, first, "inputs", "count")
    assert count == 2
    inputs += 1.0
    assert torch.equal(first["inputs"], torch.ones(2))


def test_values_agree_up_to_round_off_and_json():
    kernel = SETTINGS["kernel"]
    assert same_values({"kernel": kernel * (1.0 + 1e-12)}, {"kernel": kernel})
    assert not same_values(kernel * (1.0 + 1e-6), kernel)
    plain = {"limits": (0.1, None), "names": ["a", "b"]}
    assert same_values(json.loads(json.dumps(plain)), plain)
    one, other = fingerprint(MaternKernel(1.5)), fingerprint(MaternKernel(2.5))
    assert torch.equal(one, fingerprint(MaternKernel(1.5)))
    assert not torch.equal(one, other)
    assert not torch.equal(one, fingerprint(RBFKernel()))
