r"""The band against its set as defined: one convex program over all of the mixture."""

import pytest
import torch

from kernelucb import KernelRegression, MartingaleMixtureUCB
from oracles.mixture_program import (
    energy_alone,
    flynn_reeb,
    hybrid,
    upper_deviation,
)
from problems import make_problem
from tolerances import SOCP

DELTA, NORM = 0.05, 2.4
# The members and their prior weights, as the documentation states them.
ENERGIES = [1.0 / (1.0 + 2.0 ** (0.5 * j)) for j in range(-6, 17)]
HYBRIDS = [
    (unit**2 * 4.0**-power, floor)
    for unit in (4.0, NORM)
    for power in range(1, 9)
    for floor in (0.0, 0.1, 0.3, 0.6)
]


def members(gram, y):
    return [
        flynn_reeb(gram, y, 1.0, 0.7),
        *(energy_alone(len(y), energy, 0.1 / len(ENERGIES)) for energy in ENERGIES),
        *(hybrid(gram, *each, 0.2 / len(HYBRIDS)) for each in HYBRIDS),
    ]


@pytest.mark.parametrize(
    ("kernel", "n", "noise_std", "duplicates"),
    [("rbf", 8, 0.1, False), ("matern52", 16, 0.3, True), ("matern32", 30, 0.05, False)],
)
def test_one_ellipsoid_holds_the_whole_mixture_and_hardly_more(
    kernel, n, noise_std, duplicates
):
    r"""The best weights for each point would narrow the band by less than 3 %."""
    problem = make_problem(n, 1, kernel, 2.0, noise_std, duplicates=duplicates)
    # Noise scales apart by a factor of three.
    scales = noise_std * torch.linspace(1.0, 3.0, n, dtype=torch.float64)
    state = KernelRegression(problem.X, problem.Y, problem.kernel, scales)
    acqf = MartingaleMixtureUCB(state, norm_bound=NORM, delta=DELTA, fit="filters")
    lower, upper = acqf.bounds(problem.test_X[::3])
    for x, low, high in zip(problem.test_X[::3], lower, upper, strict=True):
        joint = problem.kernel(torch.cat([problem.X, x.unsqueeze(0)])).to_dense()
        K = joint[:-1, :-1] / scales.outer(scales)
        both = members(K, problem.Y / scales)
        arguments = (scales, both, NORM, DELTA)
        top = upper_deviation(joint, problem.Y, *arguments)
        bottom = -upper_deviation(joint, -problem.Y, *arguments)
        assert float(high) >= top - SOCP
        assert float(low) <= bottom + SOCP
        assert float(high - low) <= 1.03 * (top - bottom) + SOCP
