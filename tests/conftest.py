r"""Set-up that every test shares: a picture back-end, seeds, Hypothesis profiles."""

import matplotlib
import pytest
import torch
from hypothesis import settings

matplotlib.use("Agg")
# Tests run in several processes; threads of theirs would only wait for each other.
torch.set_num_threads(1)

# Reproducible by default. `--hypothesis-profile=explore` looks for new examples.
settings.register_profile(
    "kernelucb", max_examples=40, deadline=None, derandomize=True, database=None
)
settings.register_profile("explore", max_examples=400, deadline=None, database=None)
settings.load_profile("kernelucb")


@pytest.fixture(autouse=True)
def seeded():
    r"""One seed for every test.

    The default dtype stays float32, as users have it: tests ask for float64 explicitly,
    so that a constant which the library makes in the default dtype shows.
    """
    torch.manual_seed(0)
