r"""``print`` of what public functions return shows words, with four digits at most."""

import re

import pytest
import torch

import kernelucb as k
from kernelucb.certificates.words import StoppingDecision
from kernelucb.optim.chunked import argmax
from kernelucb.papers.streaming import NoiseInterval
from kernelucb.testing import Coverage
from problems import frozen_kernel, normal, uniform

X = uniform(12, 1, seed=0)
KERNEL = frozen_kernel("matern52")
DATA = k.KernelRegression(X, torch.sin(6.0 * X), KERNEL, noise_std=0.1)
# Thirty runs at each of three settings, with noise that grows with the outcome
SETTINGS = torch.tensor([[0.0], [1.0], [2.0]], dtype=torch.float64).repeat(30, 1)
NOISY = 3.0 * SETTINGS + (0.1 + 0.3 * SETTINGS) * normal(90, seed=1)[:, None]
TASKS = [(X, torch.sin(6.0 * X + shift)) for shift in (0.0, 0.7, 1.9)]


def bound(**options):
    return k.MartingaleMixtureUCB(DATA, norm_bound=5.0, **options)


def stop(gap):
    box = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
    return k.CertifiedGapStopping(gap)(bound(), bounds=box)


RETURNED = {
    "no contradiction": (
        lambda: k.check_consistency(DATA, 5.0, 0.1),
        r"No contradiction: functions of norm 1\.\d+ explain the data, the norm bound is 5",
    ),
    "a contradiction": (
        lambda: k.check_consistency(DATA, 0.01, 0.1),
        "The data contradict the assumptions. norm_bound is too small",
    ),
    "noise by region": (
        lambda: k.check_consistency(
            k.KernelRegression(SETTINGS, NOISY, KERNEL, noise_std=0.3), 30.0
        ),
        "^The data contradict the assumptions. The noise differs by region: ",
    ),
    "an estimate": (lambda: k.least_consistent_norm(DATA), r"^1\.\d{1,3} \(estimated\)$"),
    "noise scales": (
        lambda: k.Estimate(torch.tensor([0.123456789, 2.0], dtype=torch.float64)),
        r"^0\.1235, 2 \(estimated\)$",
    ),
    "an assumption": (
        lambda: bound().assumptions["noise"],
        r"^\[given\] .*sub-Gaussian",
    ),
    "a witness": (
        lambda: bound().witness(X[:1] + 0.05),
        r"^a function of norm \d\S*, \d\S* noise units from the data \(at most \d",
    ),
    "a norm from tasks": (
        lambda: k.norm_from_tasks(TASKS, KERNEL),
        r"^norm of the next task at most \d\S*, wrong with probability at most 0\.25: "
        "number 3 of the ascending norms of 3 ",
    ),
    "a noise interval": (
        lambda: NoiseInterval(0.12345678, 0.98765432),
        r"^a noise scale between 0\.12\d* and 0\.9\d+$",
    ),
    "a candidate": (
        lambda: argmax(bound(), X),
        r"^candidate \d+: \(0\.\d{1,4}\), acquisition value \d",
    ),
    "a coverage": (
        lambda: Coverage(2, 100, 9, 0.987654321),
        "^2 of 100 runs missed the truth; up to 9 pass, .* 0.988$",
    ),
    "a stop": (
        lambda: StoppingDecision(True, "certified: at most 1", None),
        "^Stop: certified: at most 1$",
    ),
    "no stop": (
        lambda: StoppingDecision(False, "heuristic", None),
        "^Go on: heuristic$",
    ),
}


@pytest.mark.parametrize("name", RETURNED)
def test_is_in_words(name):
    build, words = RETURNED[name]
    printed = str(build())
    assert re.search(words, printed), printed
    assert not re.search(r"^\w+\(\w+=|tensor\(|\d\.\d{5}", printed)
