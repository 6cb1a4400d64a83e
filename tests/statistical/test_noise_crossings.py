r"""Crossings of the supermartingales about the noise: its unknown scale, and its energy.

As in ``test_martingale_crossings``.
"""

import functools
import math

import pytest
import torch
from binomial import Claim
from simulation import Arms, History, crossings

from kernelucb import UnknownNoise, check_consistency
from kernelucb.confidence.fit.radius import mixture_radius, noise_energy_bound
from kernelucb.confidence.unknown_noise import JointSet
from oracles.crossings import gaussian, nearest_miss, optimistic, played, rademacher
from oracles.least_norm import least_norm
from tolerances import LEAST_NORM, REARRANGED

DELTA, NORM = 0.1, 0.5
CLAIM = Claim(2000, DELTA)

# Unknown scale: everything in outcome units, of which SIGMA make a standard deviation.
UNIT = Arms(6, 1.0)
SIGMA, BOUNDS, SCALES = 1.3, (1.0, 2.0), (0.5, 2.0)


@functools.cache
def unknown_scale(rule, rounds=150):
    r"""Sequences and their ``ln q(y) - ln N(y; f, SIGMA^2)``, for Gaussian noise.

    ``q`` is an equal mixture of ``N(0, s^2 I + c K)``, with ten scales ``s`` to the octave.
    With ``r = c / s^2`` each is ``N(0, s^2 (I + r K))``, and parts of one ``r`` share their
    determinant and their form.
    """
    variances = BOUNDS[0] ** 2 * 2.0 ** (torch.arange(11, dtype=torch.float64) / 5.0)
    ratios = (torch.tensor(SCALES).unsqueeze(-1) / variances).flatten()
    variances = variances.repeat(len(SCALES))
    distinct, index = ratios.log().round(decimals=9).unique(return_inverse=True)
    priors = distinct.exp().reshape(-1, 1, 1) * UNIT.gram()
    truth, path = UNIT.truth(NORM, CLAIM.sequences), []
    games = played(priors, truth, rounds, rule, gaussian, 4, loudness=SIGMA)
    for n, sequences in enumerate(games, start=1):
        forms, log_dets = sequences.form[:, index], sequences.log_det[:, index]
        parts = -0.5 * (n * variances.log() + log_dets + forms / variances)
        log_density = parts.logsumexp(1) - math.log(len(variances))
        truth_density = -n * math.log(SIGMA) - 0.5 * sequences.energy / SIGMA**2
        path.append(log_density - truth_density)
    return sequences, torch.stack(path)


def library_unknown_scale(history):
    r"""``R^2(SIGMA)``, outcome units."""
    noise = UnknownNoise(*BOUNDS)
    joint = JointSet.of(history.state(UNIT.kernel), DELTA, SCALES, noise)
    unit = float(joint.regression.noise_std[0])
    log_scale, n = math.log(SIGMA / unit), len(history.Y)
    return 2.0 * SIGMA**2 * (joint.budget - n * log_scale)


rules = pytest.mark.parametrize(
    "rule", [nearest_miss, optimistic(NORM, DELTA)], ids=["nearest miss", "optimistic"]
)


@rules
def test_the_joint_set_is_left_when_the_likelihood_ratio_crosses(rule):
    sequences, path = unknown_scale(rule)
    for index in (0, 1, int(path.amax(0).argmax())):
        for n in (1, 2, 9, 75, 150):
            history = History.of(UNIT, sequences, index, n)
            surplus = library_unknown_scale(history) - history.energy
            expected = math.log(1.0 / DELTA) - float(path[n - 1, index])
            expected *= 2.0 * SIGMA**2
            assert surplus == pytest.approx(expected, abs=REARRANGED * history.energy)


@rules
def test_the_joint_set_is_left_in_fewer_than_delta(rule, stands):
    r"""2000 sequences at delta 0.1: false alarm 7.7e-05, power 1.000."""
    _, path = unknown_scale(rule)
    assert stands(CLAIM, crossings(path, DELTA))
    assert not stands(CLAIM, crossings(path, 4.0 * DELTA))


@functools.cache
def energy_limits(rounds, delta):
    return torch.tensor([noise_energy_bound(n, delta) for n in range(1, rounds + 1)])


@functools.cache
def energies(rounds=1000):
    r"""Sums of squares of Gaussian noise, the extreme case."""
    random = torch.Generator().manual_seed(0)
    noise = torch.randn(CLAIM.sequences, rounds, dtype=torch.float64, generator=random)
    return noise.square().cumsum(1)


def test_the_noise_energy_is_exceeded_in_fewer_than_delta(stands):
    r"""2000 sequences at delta 0.1: false alarm 7.7e-05, power 1.000."""
    paths = energies()

    def failures(delta):
        return int((paths > energy_limits(paths.shape[1], delta)).any(1).sum())

    assert stands(CLAIM, failures(DELTA))
    assert not stands(CLAIM, failures(6.0 * DELTA))


@pytest.mark.parametrize("count", [1, 10, 100, 1000])
def test_the_bound_is_where_the_mixture_reaches_one_over_delta(count):
    shares = 1.0 / (1.0 + 2.0 ** torch.arange(-3.0, 8.5, 0.5, dtype=torch.float64))
    energy = noise_energy_bound(count, DELTA)
    parts = 0.5 * (energy * shares + count * torch.log1p(-shares))
    mixed = float(parts.logsumexp(0)) - math.log(len(shares))
    assert mixed == pytest.approx(math.log(1.0 / DELTA), abs=REARRANGED * energy)


# Two radii, each at half of delta.
CHECKED = Arms(12, torch.linspace(0.2, 0.3, 12, dtype=torch.float64))


@functools.cache
def outside_either(noise, rule, delta, rounds=200):
    r"""Sequences, and for each whether the truth is outside either radius in any round."""
    truth, outside = CHECKED.truth(NORM, CLAIM.sequences), []
    limits = energy_limits(rounds, 0.5 * delta)
    games = played(CHECKED.gram()[None], truth, rounds, rule, noise, 5)
    for n, sequences in enumerate(games):
        crossed = sequences.log_martingales[:, 0] >= math.log(2.0 / delta)
        outside.append(crossed | (sequences.energy > limits[n]))
    return sequences, torch.stack(outside)


adversaries = pytest.mark.parametrize(
    ("noise", "rule"),
    [(gaussian, nearest_miss), (rademacher, optimistic(NORM, DELTA))],
    ids=["Gaussian, nearest miss", "Rademacher, optimistic"],
)


@adversaries
def test_false_alarms_of_the_consistency_check_are_rarer_than_delta(noise, rule, stands):
    r"""2000 sequences at delta 0.1: false alarm 7.7e-05, power 1.000.

    An alarm needs the truth outside one of the two radii, so those are counted.
    """

    def failures(delta):
        return int(outside_either(noise, rule, delta)[1].any(0).sum())

    assert stands(CLAIM, failures(DELTA))
    assert not stands(CLAIM, failures(6.0 * DELTA))


@adversaries
def test_the_consistency_check_is_silent_while_the_truth_is_inside(noise, rule):
    delta = 6.0 * DELTA
    sequences, outside = outside_either(noise, rule, delta)
    alarms = 0
    for index in [*range(10), *outside.any(0).nonzero()[:5].flatten().tolist()]:
        for n in (1, 5, 25, 100, 200):
            history = History.of(CHECKED, sequences, index, n)
            state = history.state(CHECKED.kernel)
            radius = mixture_radius(state, 0.5 * delta, 1.0).squared(state)
            limit = min(radius, noise_energy_bound(n, 0.5 * delta))
            assert (history.energy > limit) == bool(outside[n - 1, index])
            options = {"delta": delta, "fit": "martingale"}
            check = check_consistency(state, 1.001 * NORM, **options)
            assert check.consistent or bool(outside[n - 1, index])
            understated = state.with_noise_std(0.5 * history.noise_std)
            alarms += not check_consistency(understated, NORM, **options).consistent
    assert alarms > 0  # the check does speak up, at half the noise


def test_the_consistency_check_takes_the_smaller_radius_at_half_of_delta():
    r"""Functions of large norm leave the energy's radius smaller, others the mixture's."""
    truth, smaller = torch.cat([CHECKED.truth(norm, 2) for norm in (5.0, 20.0)]), set()
    games = played(CHECKED.gram()[None], truth, 80, nearest_miss, gaussian, 8)
    for n, sequences in enumerate(games, start=1):
        for index in range(4 if n in (3, 10, 30, 80) else 0):
            history = History.of(CHECKED, sequences, index, n)
            log_martingale = float(sequences.log_martingales[index, 0])
            mixture = history.energy + 2.0 * (math.log(2.0 / DELTA) - log_martingale)
            energy = noise_energy_bound(n, 0.5 * DELTA)
            scale = history.noise_std
            K = CHECKED.kernel(history.X).to_dense() / scale.unsqueeze(-1) / scale
            expected = least_norm(K, history.Y / scale, min(mixture, energy))
            state, options = history.state(CHECKED.kernel), {"fit": "martingale"}
            check = check_consistency(state, NORM, delta=DELTA, **options)
            assert check.least_consistent_norm == pytest.approx(expected, rel=LEAST_NORM)
            if expected > 0.0:
                smaller.add("mixture" if mixture < energy else "energy")
    assert smaller == {"mixture", "energy"}
