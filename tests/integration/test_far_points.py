r"""A point's value does not depend on the other points in the call, however far."""

import pytest
import torch
from acquisitions import ACQUISITIONS, made
from torch.testing import assert_close

from problems import uniform
from tolerances import REARRANGED


@pytest.mark.parametrize("distance", [1e8, 1e30])
@pytest.mark.parametrize("name", ACQUISITIONS)
def test_far_points_do_not_change_the_values_of_others(name, distance):
    acqf = made(name)
    near, far = uniform(20, 2, seed=5), distance * uniform(20, 2, seed=6)
    alone, together = acqf(near.unsqueeze(-2)), torch.cat([near, far]).unsqueeze(-2)
    assert_close(acqf(together)[:20], alone, rtol=REARRANGED, atol=REARRANGED)
