r"""What reports and certificates say of mixed spaces, contexts and constrained optima.

Functions of known RKHS norm over one continuous input and a category with three codes,
points chosen by the bound itself. A sequence counts as a failure as soon as, at any look,
the report's interval misses the optimum, its region does not hold it, or the recommended
point is further from it than the gap; with a given category; or with a constraint, where
the recommended point must be feasible as well.
"""

import functools
import warnings
from contextlib import suppress
from typing import NamedTuple

import pytest
import torch
from binomial import Claim

from kernelucb import KernelRegression, MartingaleMixtureUCB, MixedSpace
from kernelucb.certificates.regret import latent_certificate
from kernelucb.certificates.report import interval, possible_maximisers
from kernelucb.certificates.task import Task
from kernelucb.confidence.outcome_constraints import OutcomeConstraints
from kernelucb.exceptions import InconsistentConfidenceSetWarning, NoSafePointError
from problems import RKHSFunction, frozen_kernel, generator
from tolerances import ORDER

CLAIM, ROUNDS, LOOKS = Claim(36, 0.4), 8, (4, 8)
NORM, NOISE_STD, LEVEL, COST = 2.0, 0.1, -0.5, 100
CODES = (0.0, 0.5, 1.0)
BOX = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
SPACE = MixedSpace(BOX, discrete_dims={1: CODES})
# The optimum is looked for on this grid: what it misses makes no failure.
GRID = torch.cartesian_prod(
    torch.linspace(0.0, 1.0, 201).double(), torch.tensor(CODES).double()
)
ARMS = GRID[::5]
CASES = ("whole", "context", "constrained")


def band(function, X, noise, shrink, share):
    state = KernelRegression(X, function(X) + noise, function.kernel, shrink * NOISE_STD)
    return MartingaleMixtureUCB(state, norm_bound=shrink * NORM, delta=share * CLAIM.delta)


def sequence(case, seed, shrink):
    r"""Whether any look was wrong, and how many there were."""
    kernel, random = frozen_kernel("matern52", 0.3), generator(seed)
    objective, other = (
        RKHSFunction.random(kernel, NORM, d=2, seed=1000 * seed + i) for i in range(2)
    )
    region = SPACE.region({1: 0.5} if case == "context" else None)
    share = 0.5 if case == "constrained" else 1.0
    noise = NOISE_STD * torch.randn(2, ROUNDS, dtype=torch.float64, generator=random)
    X, looks = ARMS[torch.randint(len(ARMS), (2,), generator=random)], 0
    for n in range(2, ROUNDS + 1):
        acqf = band(objective, X, noise[0, :n], shrink, share)
        if n in LOOKS:
            constraints = None
            if case == "constrained":
                own = band(other, X, noise[1, :n], shrink, share)
                constraints = OutcomeConstraints(own, LEVEL)
            # Where no point is certainly feasible, nothing is claimed.
            with suppress(NoSafePointError):
                found = Look.of(Task(acqf, constraints, region))
                looks += 1
                if wrong(found, objective, other, case):
                    return True, looks
        X = torch.cat([X, ARMS[acqf(ARMS.unsqueeze(1)).argmax()].unsqueeze(0)])
    return False, looks


class Look(NamedTuple):
    r"""The parts of an ``optimum_report`` that are promises."""

    recommended: torch.Tensor
    gap: float
    lower: float
    upper: float
    region: torch.Tensor

    @classmethod
    @torch.no_grad()
    def of(cls, task):
        certificate = latent_certificate(task, 0.05, COST)
        lower, upper = interval(task, certificate, 0.05, COST)
        best = certificate.recommended
        box = possible_maximisers(task, best, COST).box
        return cls(best, certificate.gap, lower, upper, box)


def wrong(report, objective, other, case):
    points = GRID[GRID[:, 1] == 0.5] if case == "context" else GRID
    recommended = report.recommended.unsqueeze(0)
    if case == "constrained":
        points = points[other(points) >= LEVEL]
        if float(other(recommended)) < LEVEL:
            return True
    values = objective(points)
    best, largest = points[values.argmax()], float(values.max())
    reached = float(objective(recommended))
    return (
        largest > report.upper + ORDER
        or max(largest, reached) < report.lower - ORDER
        or largest - reached > report.gap + ORDER
        or bool((best < report.region[0] - ORDER).any())
        or bool((best > report.region[1] + ORDER).any())
    )


@functools.cache
def outcomes(case, shrink, count):
    with warnings.catch_warnings():  # an empty set may happen, with probability delta
        warnings.simplefilter("ignore", InconsistentConfidenceSetWarning)
        return [sequence(case, seed, shrink) for seed in range(count)]


@pytest.mark.parametrize("case", CASES)
def test_reports_hold_at_every_look(case, stands):
    r"""36 sequences at delta 0.4: false alarm 9.1e-05, power 0.911.

    Where two bands must hold, each has half of delta.
    """
    runs = outcomes(case, 1.0, CLAIM.sequences)
    assert sum(looks for _, looks in runs) >= 0.8 * CLAIM.sequences
    assert stands(CLAIM, sum(failed for failed, _ in runs))


def test_wrong_claims_are_found_out():
    r"""The same count, for norm and noise understated by four."""
    runs = outcomes("whole", 0.25, CLAIM.sequences)
    assert sum(failed for failed, _ in runs) > CLAIM.limit
