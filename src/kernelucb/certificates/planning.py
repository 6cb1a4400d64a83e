r"""Before the first run: about how many runs a certified gap of a given size takes."""

import torch
from botorch.utils.sampling import draw_sobol_samples
from gpytorch.kernels import Kernel
from torch import Tensor

from kernelucb._numerics.checks import positive_scalar, probability, whole_number
from kernelucb._numerics.domains import checked_limits
from kernelucb.certificates.words import Plan
from kernelucb.confidence.dual import ExactSet
from kernelucb.confidence.mixture import known_noise_problem
from kernelucb.regression import KernelRegression

_FIRST = 8  # runs that are tried first
_POINTS = 512  # at which the gap is looked for


@torch.no_grad()
def runs_needed(
    kernel: Kernel,
    bounds: Tensor,
    norm_bound: float,
    noise_std: float,
    gap: float,
    *,
    delta: float = 0.05,
    max_runs: int = 2000,
) -> Plan:
    r"""About how many runs it takes until the certified gap can be ``gap``.

    The simulated runs are Sobol points of the box, and the simulated function is the prior
    mean, which leaves most points in question. A search that learns where the optimum is
    needs fewer runs, and a function of a norm close to the bound somewhat fewer or more.
    The number is an expectation for planning, not a bound, and carries no guarantee.

    Source: ours. The gap is the largest gain over 512 points of the set of
    ``MartingaleMixtureUCB`` for simulated outcomes, noise of one fixed seed.

    Args:
        kernel: Kernel of the prior, output scale included; fixed, not fitted here.
        bounds: ``2 x d`` limits of the box.
        norm_bound: Bound on the RKHS norm of ``f - mean``, outcome units.
        noise_std: Noise scale, outcome units.
        gap: Largest regret to accept, outcome units.
        delta: Failure probability.
        max_runs: Largest number of runs to try.

    Raises:
        ValueError: If a scalar is out of its range.
        BotorchTensorDimensionError: If ``bounds`` is not ``2 x d``.
    """
    for name, value in (("norm_bound", norm_bound), ("noise_std", noise_std), ("gap", gap)):
        positive_scalar(name, value)
    probability("delta", delta)
    most, limits = whole_number("max_runs", max_runs), checked_limits(bounds)
    draws = draw_sobol_samples(limits, n=most + _POINTS, q=1, seed=0).squeeze(-2)
    inputs, points = draws[:most], draws[most:]
    noise = torch.randn(most, generator=torch.Generator().manual_seed(0)).to(inputs)
    gaps: dict[int, float] = {}

    def reached(count: int) -> bool:
        data = inputs[:count], noise_std * noise[:count]
        state = KernelRegression(*data, kernel, noise_std)
        problem = known_noise_problem(state, float(norm_bound), "filters", delta)
        functions = ExactSet(problem.regression, problem.constraints, problem.assumptions)
        best = points[functions.bounds(points)[0].argmax()].unsqueeze(0)
        gaps[count] = float(functions.max_gain_over(points, best).max())
        return gaps[count] <= gap

    few, count = 0, min(_FIRST, most)  # too few, and a number to try
    while not reached(count):
        if count == most:
            return Plan(None, gap, most, gaps)
        few, count = count, min(2 * count, most)
    while count - few > max(1, few // 20):  # within a twentieth
        middle = (few + count) // 2
        few, count = (few, middle) if reached(middle) else (middle, count)
    return Plan(count, gap, most, gaps)
