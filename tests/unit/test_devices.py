r"""Every public use on a device that pretends, and on CUDA where there is a GPU.

On the first nothing is made on the CPU for inputs that are elsewhere.
"""

import ast
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

import device_uses
import kernelucb
from contract import bands
from device_uses import CUDA_ONLY, PROBLEM, SEARCHES, VALUES, There
from pretended_device import AVAILABLE, pretended_device


@contextmanager
def cuda():
    yield torch.device("cuda", torch.cuda.current_device())


DEVICES = [pretended_device] * AVAILABLE + [cuda] * torch.cuda.is_available()


@pytest.fixture(params=DEVICES, ids=lambda device: device.__name__)
def device(request):
    return request.param


# The parts of a report are a certificate and claims, which quick uses ask for on their own.
LONG = {"report, mixed space"}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] if name in LONG else [])
        for name in VALUES
    ],
)
def test_values(name, device):
    torch.manual_seed(0)
    expected = VALUES[name](There("cpu"))
    with device() as where:
        torch.manual_seed(0)
        found = VALUES[name](There(where))
        assert all(part.device == where for part in found)
        found = [part.detach().cpu() for part in found]
    rtol, atol = (1e-6, 1e-8) if device is pretended_device else (1e-5, 1e-6)
    for part, other in zip(found, expected, strict=True):
        torch.testing.assert_close(part, other.detach(), rtol=rtol, atol=atol)


@pytest.mark.parametrize("name", SEARCHES)
def test_searches(name, device):
    if device is pretended_device and name in CUDA_ONLY:
        pytest.skip("ends the process on the device that pretends")
    with device() as where:
        assert all(part.device == where for part in SEARCHES[name](There(where)))


@pytest.mark.skipif(not AVAILABLE, reason="needs a newer torch")
def test_pretends_well_enough():
    with pretended_device() as device:
        there = There(device)
        with pytest.raises(RuntimeError, match="mixes a tensor"):
            there.X @ torch.ones(2, 2, dtype=torch.float64)
        with pytest.raises(RuntimeError, match="generator of the CPU"):
            torch.rand(2, device=there.device, generator=torch.Generator())
        assert torch.equal((there.X @ there.X.mT).cpu(), PROBLEM.X @ PROBLEM.X.mT)


def test_every_public_name_is_used():
    used = set()
    for module in (device_uses, bands):
        nodes = ast.walk(ast.parse(Path(module.__file__).read_text("utf-8")))
        used |= {node.id for node in nodes if isinstance(node, ast.Name)}
    assert set(kernelucb.__all__) <= used
