r"""Nothing is made on the CPU for inputs that are elsewhere, on a device that pretends."""

import ast
from pathlib import Path

import pytest
import torch

import kernelucb
from device_acquisitions import PROBLEM, There
from device_uses import CUDA_ONLY, SEARCHES, VALUES
from pretended_device import AVAILABLE, pretended_device

pytestmark = pytest.mark.skipif(not AVAILABLE, reason="needs a newer torch")

# What has no tensors.
RESULTS = {"Analytic", "MartingaleMixture"}


@pytest.mark.parametrize("name", VALUES)
def test_values(name):
    torch.manual_seed(0)
    expected = VALUES[name](There("cpu"))
    with pretended_device() as device:
        torch.manual_seed(0)
        found = VALUES[name](There(device))
        assert all(part.device == device for part in found)
        found = [part.detach().cpu() for part in found]
    for part, other in zip(found, expected, strict=True):
        torch.testing.assert_close(part, other.detach(), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", sorted(set(SEARCHES) - CUDA_ONLY))
def test_searches(name):
    with pretended_device() as device:
        assert all(part.device == device for part in SEARCHES[name](There(device)))


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
    for module in ("device_acquisitions", "device_models", "device_uses"):
        source = Path(__file__).parents[1].joinpath(f"{module}.py").read_text("utf-8")
        nodes = list(ast.walk(ast.parse(source)))
        used |= {node.id for node in nodes if isinstance(node, ast.Name)}
    assert set(kernelucb.__all__) - used == RESULTS
