r"""Set-up that every test shares: a picture back-end, seeds, Hypothesis profiles."""

import functools
import gc
import itertools
import os
from collections import defaultdict

import pytest

# Of what is imported while tests are collected nothing is garbage.
gc.disable()
# Before torch and matplotlib are imported, here or by a process that a test starts.
os.environ["MPLBACKEND"] = "Agg"
# Tests run in several processes; threads of theirs would only wait for each other.
os.environ["OMP_NUM_THREADS"] = "1"


def _profiles(asked, tier):
    r"""Reproducible by default. ``--hypothesis-profile=explore`` looks for new examples."""
    from hypothesis import settings  # not in the process that only hands out the tests

    usual = {"deadline": None, "derandomize": True, "database": None}
    settings.register_profile("kernelucb", max_examples=40, **usual)
    # By default, where the slow tests are left out.
    settings.register_profile("few", max_examples=6, **usual)
    settings.register_profile("explore", max_examples=400, deadline=None, database=None)
    settings.load_profile(asked or tier)


def pytest_addoption(parser):
    parser.addoption(
        "--perturb",
        type=int,
        metavar="SEED",
        help="change random numbers by a share of up to 1e-9, otherwise for each seed",
    )


def pytest_configure(config):
    r"""Examples of Hypothesis by the tier; with `--perturb`, other random numbers."""
    asked = config.getoption("--hypothesis-profile", None)
    if asked or not config.getoption("numprocesses", None):
        _profiles(asked, "few" if config.option.markexpr == "not slow" else "kernelucb")
    if (seed := config.getoption("--perturb")) is not None:
        _perturb(seed)


def _perturb(seed):
    r"""Data, starts and samples differ from the tenth digit on.

    What then ends elsewhere would do so on another processor. Draws that agree without the
    option agree with it, and those in [0, 1) stay there.
    """
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


def _every_combination(items, strength):
    r"""Tests in which all values of a product occur, with ``strength`` 2 all pairs."""
    cases = [(item, {*itertools.combinations(_values(item), strength)}) for item in items]
    missing, chosen = set().union(*(each for _, each in cases)), []
    while missing:
        item, covered = max(cases, key=lambda case: len(case[1] & missing))
        missing -= covered
        chosen.append(item)
    return chosen


def _values(item):
    return sorted((name, id(value)) for name, value in item.callspec.params.items())


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    r"""What `covering`, `representatives` and `one_in` leave of a test is slow."""
    tests = defaultdict(list)
    for item in items:
        if hasattr(item, "callspec"):
            tests[item.nodeid.partition("[")[0]].append(item)
    for cases in tests.values():
        slow = []
        if mark := cases[0].get_closest_marker("covering"):
            chosen = _every_combination(cases, *mark.args or (1,))
            slow += [item for item in cases if item not in chosen]
        if mark := cases[0].get_closest_marker("representatives"):
            names = {item.callspec.id for item in cases}
            if len(cases) > 1 and (unknown := {*mark.args} - names):
                raise pytest.UsageError(f"{cases[0].nodeid}: no cases {sorted(unknown)}")
            slow += [item for item in cases if item.callspec.id not in mark.args]
        if mark := cases[0].get_closest_marker("one_in"):
            slow += [item for place, item in enumerate(cases) if place % mark.args[0]]
        for item in slow:
            item.add_marker("slow")


def pytest_collection_finish():
    r"""The garbage collector need not look through what was imported again.

    Nor does it after every 700 objects: tests make few rings of objects, and those small.
    """
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()


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
