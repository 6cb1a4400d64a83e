r"""Set-up that every test shares: a picture back-end, seeds, Hypothesis profiles."""

import functools
import gc
import os

import pytest
from hypothesis import settings

# Before torch and matplotlib are imported, here or by a process that a test starts.
os.environ["MPLBACKEND"] = "Agg"
# Tests run in several processes; threads of theirs would only wait for each other.
os.environ["OMP_NUM_THREADS"] = "1"

# Reproducible by default. `--hypothesis-profile=explore` looks for new examples.
settings.register_profile(
    "kernelucb", max_examples=40, deadline=None, derandomize=True, database=None
)
settings.register_profile("explore", max_examples=400, deadline=None, database=None)
settings.load_profile("kernelucb")


def pytest_addoption(parser):
    parser.addoption(
        "--perturb",
        type=int,
        metavar="SEED",
        help="change random numbers by a share of up to 1e-9, otherwise for each seed",
    )


def pytest_configure(config):
    r"""With `--perturb`, data, starts and samples differ from the tenth digit on.

    What then ends elsewhere would do so on another processor. Draws that agree without the
    option agree with it, and those in [0, 1) stay there.
    """
    seed = config.getoption("--perturb")
    if seed is None:
        return
    import torch
    from torch.quasirandom import SobolEngine

    def perturbed(draw):
        @functools.wraps(draw)
        def drawn(*args, **kwargs):
            values = draw(*args, **kwargs)
            with torch.no_grad():
                changed = values * (1.0 - 1e-9 * torch.cos(1e6 * values + seed).square())
            return changed.requires_grad_(values.requires_grad)

        return drawn

    for owner, name in ((torch, "rand"), (torch, "randn"), (SobolEngine, "draw")):
        setattr(owner, name, perturbed(getattr(owner, name)))


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session):
    r"""The device that pretends is registered before a test file is imported.

    Torch counts its devices at its first backward pass, which may be in such a file.
    """
    if session.config.getoption("numprocesses", None) is None:  # not where no test runs
        import devices  # noqa: F401


def pytest_collection_finish():
    r"""What was imported stays: the garbage collector need not look through it again."""
    gc.freeze()


@pytest.fixture(autouse=True)
def seeded():
    r"""One seed for every test, and gradients on.

    The default dtype stays float32, as users have it: tests ask for float64 explicitly,
    so that a constant which the library makes in the default dtype shows.
    """
    import torch  # not in the process that only hands out the tests

    torch.default_generator.manual_seed(0)
    # `torch.manual_seed` keeps a stack trace for CUDA where there is none.
    if torch.cuda.is_available():
        torch.cuda.manual_seed_all(0)
    yield
    assert torch.is_grad_enabled(), "This test leaves gradients off for those after it."


@pytest.fixture
def ax():
    r"""Axes to draw on."""
    plt = pytest.importorskip("matplotlib.pyplot")
    figure, ax = plt.subplots()
    yield ax
    plt.close(figure)
