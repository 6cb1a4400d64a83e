r"""The file for botorch_community: its own tests, and agreement with the package."""

import importlib.util
import sys
import unittest
from pathlib import Path

import pytest
import torch

from kernelucb import MartingaleMixtureUCB
from problems import RKHSFunction, frozen_kernel, frozen_model, normal, uniform

CONTRIB = Path(__file__).parents[2] / "contrib" / "botorch_community"
NAME = "botorch_community.acquisition.martingale_mixture"


@pytest.fixture(autouse=True)
def community(monkeypatch):
    r"""The file among the modules of the installed package that it is written for."""
    package = importlib.import_module("botorch_community.acquisition")
    path = [*package.__path__, str(CONTRIB / "botorch_community" / "acquisition")]
    monkeypatch.setattr(package, "__path__", path)
    yield
    sys.modules.pop(NAME, None)


@pytest.mark.parametrize(
    ("name", "d", "n", "noise"),
    [("rbf", 1, 8, 0.1), ("matern52", 2, 30, 0.3), ("matern32", 3, 60, 0.05)],
)
def test_agrees_with_the_package(name, d, n, noise):
    module = importlib.import_module(NAME)
    kernel = frozen_kernel(name, 0.4)
    X, points = uniform(n, d, n), uniform(40, d, n + 1)
    Y = RKHSFunction.random(kernel, 3.0, d=d, seed=n)(X) + noise * normal(n, n + 2)
    model = frozen_model(X, Y, kernel, noise, mean=0.3)
    given = {"norm_bound": 4.0, "noise_std": noise}
    theirs = module.MartingaleMixtureUpperConfidenceBound(model, **given)
    ours = MartingaleMixtureUCB(model, **given, fit="martingale")
    found = [*theirs.band(points)], [*ours.bounds(points)]
    torch.testing.assert_close(*found, rtol=0.0, atol=1e-8)


# A suite of its own.
def test_its_own_tests_pass():
    path = CONTRIB / "test_community" / "acquisition" / "test_martingale_mixture.py"
    spec = importlib.util.spec_from_file_location("its_own_tests", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    suite = unittest.defaultTestLoader.loadTestsFromModule(module)
    result = unittest.TestResult()
    suite.run(result)
    assert result.testsRun == 10
    assert not [text for _, text in (*result.failures, *result.errors)]
