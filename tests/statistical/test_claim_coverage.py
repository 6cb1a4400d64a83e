r"""Certificates, stopping rules and safe sets are right in every round.

Functions of known RKHS norm, points chosen by the bound itself, or the safe points closest
to the threshold. A sequence counts as a failure as soon as a claim is wrong in any round.
Reports follow from the band alone: ``tests/unit/test_optimum_report.py``.
"""

import pytest
import torch
from simulation import Claim

from kernelucb import (
    CertifiedGapStopping,
    KernelRegression,
    MartingaleMixtureUCB,
    SafeSet,
)
from problems import RKHSFunction, frozen_kernel, generator
from tolerances import ORDER

# An empty set may happen, with probability delta.
pytestmark = pytest.mark.filterwarnings(
    "ignore::kernelucb.exceptions.InconsistentConfidenceSetWarning"
)

CLAIM, NORM, NOISE_STD = Claim(36, 0.4), 2.0, 0.1
ARMS = torch.linspace(0.0, 1.0, 40, dtype=torch.float64).unsqueeze(-1)
BOX = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
# On boxes the optimum is looked for on grids: what these miss makes no failure.
DENSE = torch.linspace(0.0, 1.0, 2001, dtype=torch.float64).unsqueeze(-1)
ACCEPTED = 0.4


def stopping(name, seed, on_box=False, maximize=True, shrink=1.0):
    r"""Whether a gap is exceeded, and whether the rule stopped, which ends the sequence.

    A good stop follows: the gap at which the rule stops is at most ``ACCEPTED``.
    """
    kernel, random = frozen_kernel(name, 0.2), generator(seed)
    function = RKHSFunction.random(kernel, NORM, d=1, seed=1000 * seed)
    points, sign = (DENSE if on_box else ARMS), (1.0 if maximize else -1.0)
    optimum = float((sign * function(points)).max())
    domain = {"bounds": BOX} if on_box else {"candidates": ARMS}
    rule = CertifiedGapStopping(ACCEPTED, max_evaluations=500, **domain)
    given = {"norm_bound": shrink * NORM, "delta": CLAIM.delta, "maximize": maximize}
    X, outcomes = torch.rand(1, 1, generator=random).double(), []
    for _ in range(25):
        noise = torch.randn((), dtype=torch.float64, generator=random)
        outcomes.append(function(X[-1:])[0] + NOISE_STD * noise)
        data = X, torch.stack(outcomes), kernel, shrink * NOISE_STD
        acqf = MartingaleMixtureUCB(KernelRegression(*data), **given)
        decision = rule(acqf)
        found = decision.certificate
        assert not decision.stop or found.gap <= ACCEPTED
        lost = optimum - sign * float(function(found.recommended.unsqueeze(0)))
        if lost > found.gap + ORDER or decision.stop:
            return lost > found.gap + ORDER, decision.stop
        X = torch.cat([X, ARMS[acqf(ARMS.unsqueeze(1)).argmax()].unsqueeze(0)])
    return False, False


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "on_box", "maximize"),
    [
        ("rbf", False, True),
        ("matern32", False, False),
        pytest.param("matern52", True, True, marks=pytest.mark.slow),
    ],
)
def test_gaps_hold_at_every_round_and_stops_are_close(name, on_box, maximize, stands):
    r"""36 sequences at delta 0.4: false alarm 9.1e-05, power 0.911.

    Nearly all stop within the rounds, so that the promise is put to the test. Found out:
    norm and noise understated by four.
    """
    ends = []

    def fails(seed, *options):
        failed, stopped = stopping(name, seed, *options)
        ends.append(stopped)
        return failed

    seeds = range(CLAIM.sequences)
    assert stands(CLAIM, (fails(seed, on_box, maximize) for seed in seeds))
    assert sum(ends) >= 0.9 * len(ends)
    assert not stands(CLAIM, (fails(seed, False, True, 0.25) for seed in seeds))


def leaves_the_safe_set(seed, lengthscale=0.2, norm_bound=NORM):
    r"""Whether a run that believes in this length scale and norm evaluates an unsafe point.

    In every round the safe point closest to the threshold by its lower bound, where a wrong
    bound shows first.
    """
    true_kernel, kernel = (frozen_kernel("matern52", each) for each in (0.2, lengthscale))
    arms = torch.linspace(0.0, 1.0, 30, dtype=torch.float64).unsqueeze(-1)
    truth = RKHSFunction.random(true_kernel, NORM, d=1, seed=1000 * seed)(arms)
    truth, random = truth if truth.max() > -truth.min() else -truth, generator(seed)
    chosen, outcomes = [int(truth.argmax())], []
    for _ in range(8):
        noise = torch.randn((), dtype=torch.float64, generator=random)
        outcomes.append(truth[chosen[-1]] + 0.2 * noise)
        state = KernelRegression(arms[chosen], torch.stack(outcomes), kernel, 0.2)
        acqf = MartingaleMixtureUCB(state, norm_bound=norm_bound, delta=0.3)
        if acqf.assumptions.violated:
            return False  # refused: an empty set calls nothing safe
        safe_set = SafeSet(acqf, 0.0, safe_points=arms[chosen])
        margins = safe_set.margin(arms)
        fresh = margins >= 0.0
        fresh[chosen] = False
        if not bool(fresh.any()):
            chosen.append(chosen[0])
            continue
        chosen.append(int(torch.where(fresh, margins, torch.inf).argmin()))
        assert bool(safe_set.is_safe(arms[chosen[-1]]))
        if truth[chosen[-1]] < 0.0:
            return True
    return False


@pytest.mark.slow
def test_the_safe_set_is_not_left(stands):
    r"""68 sequences at delta 0.3: false alarm 6.6e-05, power 0.904.

    Found out: a kernel four times too smooth; most norms that are too small are
    contradicted before they do harm.
    """
    claim, seeds = Claim(68, 0.3), range(68)
    assert stands(claim, (leaves_the_safe_set(seed) for seed in seeds))
    smooth = (leaves_the_safe_set(seed, 0.8, 0.7 * NORM) for seed in seeds)
    assert not stands(claim, smooth)
