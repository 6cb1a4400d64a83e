r"""Theorems 1 and 2 of Calandriello et al. (2019), over whole sequences.

A sequence fails the first as soon as a sketched variance is off by more than a factor
``a``, the second as soon as the certified band misses the function, at any arm in any
round. Failures among ``n`` sequences are at most binomial; see ``test_coverage``.
"""

import torch
from scipy.stats import binom

from kernelucb import BKBUCB, KernelRegression
from kernelucb.confidence.bkb import accuracy_factor, required_qbar
from kernelucb.models import BKBModel
from problems import RKHSFunction, frozen_kernel, generator
from tolerances import COVERAGE_FALSE_ALARM, SKETCH

DELTA, SEQUENCES, ROUNDS, EPSILON = 0.2, 30, 25, 0.8
NORM, NOISE_STD = 2.0, 0.3
ARMS = torch.linspace(0.0, 1.0, 40, dtype=torch.float64).unsqueeze(-1)


def failures(seed):
    r"""Whether the variances and whether the band failed, in one sequence."""
    kernel = frozen_kernel("rbf")
    function = RKHSFunction.random(kernel, NORM, d=1, seed=1000 * seed)
    truth, random = function(ARMS), generator(seed)
    qbar, factor = required_qbar(ROUNDS, DELTA, EPSILON), accuracy_factor(EPSILON)
    X, Y, model = ARMS[:0], ARMS[:0], None
    arm = int(torch.randint(len(ARMS), (), generator=random))
    accuracy = coverage = False
    for _ in range(ROUNDS):
        x = ARMS[arm : arm + 1]
        noise = NOISE_STD * torch.randn(1, 1, generator=random, dtype=torch.float64)
        y = truth[arm] + noise
        X, Y = torch.cat([X, x]), torch.cat([Y, y])
        if model is None:
            model = BKBModel(x, y, kernel, NOISE_STD**2, qbar, seed)
        else:
            model.update(x, y)
        acqf = BKBUCB(
            model, norm_bound=NORM, noise_std=NOISE_STD, delta=DELTA, epsilon=EPSILON
        )
        lower, upper = acqf.bounds(ARMS)
        exact = KernelRegression(X, Y, kernel, NOISE_STD).variance(ARMS)
        ratio = model.posterior(ARMS).variance.flatten() / exact
        off = torch.maximum(ratio, 1.0 / ratio) > factor * (1.0 + SKETCH)
        accuracy |= bool(off.any())
        coverage |= bool(((truth < lower) | (truth > upper)).any())
        arm = int(upper.argmax())
    return accuracy, coverage


def test_variances_and_band_hold_in_all_rounds():
    allowed = int(binom.isf(COVERAGE_FALSE_ALARM, SEQUENCES, DELTA))
    outcomes = [failures(seed) for seed in range(SEQUENCES)]
    assert sum(accuracy for accuracy, _ in outcomes) <= allowed
    assert sum(coverage for _, coverage in outcomes) <= allowed
