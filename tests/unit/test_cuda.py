r"""The same on CUDA as on the CPU, for everything public; skipped where there is none."""

import pytest
import torch

if not torch.cuda.is_available():
    pytest.skip("needs CUDA", allow_module_level=True)

from torch.testing import assert_close

from device_acquisitions import There
from device_uses import SEARCHES, VALUES


@pytest.mark.parametrize("name", VALUES)
def test_values(name):
    torch.manual_seed(0)
    expected = VALUES[name](There("cpu"))
    torch.manual_seed(0)
    found = VALUES[name](There("cuda"))
    for part, other in zip(found, expected, strict=True):
        assert part.is_cuda
        assert_close(part.detach().cpu(), other.detach(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", SEARCHES)
def test_searches(name):
    assert all(part.is_cuda for part in SEARCHES[name](There("cuda")))
