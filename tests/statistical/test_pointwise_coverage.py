r"""Intervals of replicates and of fixed designs hold, with stated power."""

import pytest
import torch
from simulation import Claim

from kernelucb import KernelRegression, MartingaleMixtureUCB, ReplicateNoise
from kernelucb.confidence.pointwise import FixedDesign, half_width
from problems import RKHSFunction, frozen_kernel, generator, normal, uniform
from tolerances import ORDER

NORM, NOISE = 4.0, 0.5
ARMS = torch.linspace(0.0, 1.0, 12, dtype=torch.float64).unsqueeze(-1)
BOX = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
FUNCTION = RKHSFunction.random(frozen_kernel("matern52"), NORM, d=1, seed=3)
CLAIM = Claim(400, 0.2)


def crossing_share(told):
    r"""Sequences in which some of three arms leaves its interval; the worst arm is fed."""
    arms, rounds, rows = 3, 300, torch.arange(CLAIM.sequences)
    sums = torch.zeros(CLAIM.sequences, arms).double()
    counts, failed = torch.zeros_like(sums), torch.zeros(CLAIM.sequences).bool()
    noise = torch.randn(rounds, CLAIM.sequences, generator=generator(11)).double()
    level = torch.tensor(arms / CLAIM.delta).log()
    for step in noise:
        with_runs = counts.clamp_min(1.0)
        half = half_width(with_runs / told**2, 8.0 * told**2, level)
        ratio = (sums / with_runs).abs() / half
        failed |= (ratio > 1.0).any(-1)
        # The arm that is nearest to its limit, so that stopping and choosing both harm.
        arm = torch.where(counts == 0.0, 9.0, ratio).argmax(-1)
        sums[rows, arm] += step
        counts[rows, arm] += 1.0
    return int(failed.sum())


def test_replicates_hold_whichever_input_is_fed():
    r"""At most ``CLAIM.limit`` of 400 sequences fail; at half the noise nearly all do."""
    assert crossing_share(1.0) <= CLAIM.limit, CLAIM
    assert crossing_share(0.5) > CLAIM.limit


def design_failures(told):
    failed = 0
    for seed in range(CLAIM.sequences):
        X = uniform(20, 1, 10 * seed)
        Y = FUNCTION(X) + NOISE * normal(20, 10 * seed + 1)
        state = KernelRegression(X, Y, frozen_kernel("matern52"), told * NOISE)
        for is_box, domain in ((False, ARMS), (True, BOX)):
            known = FixedDesign([state], NORM, CLAIM.delta, domain, is_box)
            lower, upper = known.limits(ARMS)
            outside = (FUNCTION(ARMS) < lower - ORDER) | (FUNCTION(ARMS) > upper + ORDER)
            if bool(outside.any()):
                failed += 1
                break
    return failed


@pytest.mark.slow
def test_designs_hold_at_every_point_at_once():
    r"""Points and boxes; at a third of the noise the check finds the failures."""
    assert design_failures(1.0) <= CLAIM.limit, CLAIM
    assert design_failures(0.33) > CLAIM.limit


def replicate_failures(measured):
    r"""Three runs at eight inputs each; the noise is measured by the same runs, or .1."""
    X, failed, truth = ARMS[:8].repeat(3, 1), 0, FUNCTION(ARMS)
    for seed in range(CLAIM.sequences):
        Y = FUNCTION(X) + NOISE * normal(24, 10 * seed + 2)
        noise = ReplicateNoise(X, Y, between=(0.1, 1.0)) if measured else 0.1
        state = KernelRegression(X, Y, frozen_kernel("matern52"), NOISE)
        options = {"norm_bound": NORM, "noise_std": noise, "delta": CLAIM.delta}
        band = MartingaleMixtureUCB(state, **options).band.with_replicates(12)
        lower, upper = band.bounds(ARMS)
        failed += bool(((truth < lower - ORDER) | (truth > upper + ORDER)).any())
    return failed


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::kernelucb.exceptions.InconsistentConfidenceSetWarning")
def test_bands_hold_whose_noise_is_measured_by_the_same_runs():
    r"""At a fifth of the noise the check finds the failures."""
    assert replicate_failures(True) <= CLAIM.limit, CLAIM
    assert replicate_failures(False) > CLAIM.limit
