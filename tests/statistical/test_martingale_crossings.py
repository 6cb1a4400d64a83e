r"""How often do the supermartingales behind the confidence sets reach ``1 / delta``?

By Ville's inequality in at most a share ``delta`` of all sequences, whoever chooses the
arms from the past: here an adversary that knows the truth, or the bound itself. For each
set (a) on some of these very sequences, the library's radius is the one at which the truth
leaves the set when ``M_t`` reaches ``1 / delta``; (b) thousands of sequences are counted;
(c) the same count finds out a claim that is too strong by a factor of three.
"""

import functools
import math

import pytest
import torch
from binomial import Claim
from simulation import Arms, History, crossings

from kernelucb import (
    MartingaleMixture,
    MartingaleMixtureUCB,
    NystromRegression,
    PrequentialRadius,
)
from kernelucb.confidence.fit.radius import sketched_radius
from oracles.crossings import gaussian, nearest_miss, optimistic, played, rademacher
from problems import frozen_kernel
from tolerances import REARRANGED

DELTA, NORM = 0.1, 0.5
# Each arm has a noise scale of its own: adaptive inputs choose the noise as well.
ARMS = Arms(12, torch.linspace(0.2, 0.3, 12, dtype=torch.float64))
FEW = Arms(6, torch.linspace(0.2, 0.3, 6, dtype=torch.float64))
PLAIN = Claim(4000, DELTA)
MIXED = Claim(2000, DELTA)
LENGTHS = (0.05, 0.2, 0.8)


@functools.cache
def one_scale(noise, rule, scale=1.5, rounds=300):
    r"""Sequences and their ``log M_t`` for the mixture at one covariance scale."""
    truth, path = ARMS.truth(NORM, PLAIN.sequences), []
    for sequences in played(scale * ARMS.gram()[None], truth, rounds, rule, noise, 1):
        path.append(sequences.log_martingales[:, 0])
    return sequences, torch.stack(path)


@functools.cache
def mixture(noise, rule, rounds=150):
    r"""The same for an equal mixture over 17 scales."""
    scales = 2.0 ** torch.arange(-8.0, 9.0, dtype=torch.float64)
    priors = scales.reshape(-1, 1, 1) * FEW.gram()
    truth, path = FEW.truth(NORM, MIXED.sequences), []
    for sequences in played(priors, truth, rounds, rule, noise, 2):
        mixed = sequences.log_martingales.logsumexp(1) - math.log(len(scales))
        path.append(mixed)
    return sequences, torch.stack(path)


@functools.cache
def refitted(noise, rule, rounds=200):
    r"""The same for predictions by the likeliest of three length scales so far."""
    priors = torch.stack([ARMS.gram(candidate(length)) for length in LENGTHS])
    truth, path = ARMS.truth(NORM, PLAIN.sequences), []
    best, evidence = torch.zeros(PLAIN.sequences, 1, dtype=torch.int64), 0.0
    for sequences in played(priors, truth, rounds, rule, noise, 3):
        evidence = evidence + sequences.surprise.gather(1, best).squeeze(1)
        path.append(0.5 * sequences.energy - evidence)
        best = sequences.log_martingales.argmax(1, keepdim=True)
    return sequences, torch.stack(path)


def candidate(length):
    return frozen_kernel("rbf", length, float(ARMS.kernel.outputscale))


def library_one_scale(history, scale=1.5):
    return library_radius(history, ARMS, fit=MartingaleMixture(scale))


def library_mixture(history):
    return library_radius(history, FEW, fit=MartingaleMixture("mixture"))


def library_refitted(history):
    r"""Predictions by the library's own regressions, each before its outcome."""
    kernels = [candidate(length) for length in LENGTHS]
    radius, best = PrequentialRadius(DELTA), kernels[0]
    for n in range(len(history.Y)):
        x, y, noise = history.X[n : n + 1], history.Y[n], history.noise_std[n]
        if n == 0:
            radius.observe_predictions(0.0, best(x).to_dense(), y, noise, x)
        else:
            past = History(*(values[:n] for values in history))
            states = [past.state(kernel) for kernel in kernels]
            state = min(states, key=lambda s: float(s.quadratic_form() + s.log_det()))
            predicted = state.mean(x), state.variance(x)
            radius.observe_predictions(*predicted, y, noise, x)
    return radius._predicted  # before it is mixed with the energy


def library_radius(history, arms, **options):
    r"""Squared radius of the set that the acquisition function uses."""
    options = {"delta": DELTA, "fit": "martingale", **options}
    acqf = MartingaleMixtureUCB(
        history.state(arms.kernel), norm_bound=100.0 * NORM, **options
    )
    return acqf.function_constraints.radius.squared(acqf.regression)


adversaries = pytest.mark.parametrize(
    ("noise", "rule"),
    [(gaussian, nearest_miss), (rademacher, optimistic(NORM, DELTA))],
    ids=["Gaussian, nearest miss", "Rademacher, optimistic"],
)


@adversaries
@pytest.mark.parametrize(
    ("run", "arms", "library", "rounds"),
    [
        (one_scale, ARMS, library_one_scale, (1, 2, 9, 150, 300)),
        (mixture, FEW, library_mixture, (1, 2, 9, 75, 150)),
        (refitted, ARMS, library_refitted, (1, 2, 40)),
    ],
)
def test_the_library_s_radius_is_left_when_the_martingale_crosses(
    run, arms, library, rounds, noise, rule
):
    sequences, path = run(noise, rule)
    for index in (0, 1, int(path.amax(0).argmax())):
        for n in rounds:
            history = History.of(arms, sequences, index, n)
            surplus = library(history) - history.energy
            expected = 2.0 * (math.log(1.0 / DELTA) - float(path[n - 1, index]))
            assert surplus == pytest.approx(expected, abs=REARRANGED * history.energy)


@adversaries
@pytest.mark.parametrize("run", [one_scale, refitted])
def test_crossings_are_rarer_than_delta(run, noise, rule, stands):
    r"""4000 sequences at delta 0.1: false alarm 9.5e-05, power 1.000."""
    _, path = run(noise, rule)
    assert stands(PLAIN, crossings(path, DELTA))
    # A claim three times as strong is found out by the same count.
    assert not stands(PLAIN, crossings(path, 3.0 * DELTA))


@adversaries
def test_crossings_of_the_mixture_over_scales_are_rarer_than_delta(noise, rule, stands):
    r"""2000 sequences at delta 0.1: false alarm 7.7e-05, power 1.000.

    Most of the scales are far from the best, so it takes a factor of six to find out.
    """
    _, path = mixture(noise, rule)
    assert stands(MIXED, crossings(path, DELTA))
    assert not stands(MIXED, crossings(path, 6.0 * DELTA))


def test_a_sketched_radius_is_left_no_sooner():
    r"""So that its crossings are rarer still, whatever the inducing points."""
    sequences, path = one_scale(gaussian, nearest_miss)
    for index in (0, 1, int(path.amax(0).argmax())):
        for n in (1, 9, 300):
            history = History.of(ARMS, sequences, index, n)
            X, Y, noise, _ = history
            for inducing in (ARMS.inputs[:1], ARMS.inputs[::3], ARMS.inputs):
                state = NystromRegression(X, Y, ARMS.kernel, noise, inducing)
                radius = sketched_radius(state, DELTA, 1.5).squared(state)
                surplus = radius - library_one_scale(history)
                assert surplus >= -REARRANGED * history.energy
            assert abs(surplus) <= REARRANGED * history.energy  # at all of the arms
