r"""Before the first run: about how many runs a certified gap of a given size takes."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from botorch.utils.sampling import draw_sobol_samples
from gpytorch.kernels import Kernel
from torch import Tensor

from kernelucb._numerics.checks import positive_scalar, probability, whole_number
from kernelucb._numerics.digits import as_given
from kernelucb._numerics.domains import checked_limits
from kernelucb.confidence.dual import ExactSet
from kernelucb.confidence.mixture import known_noise_problem
from kernelucb.regression import KernelRegression

_FIRST, _POINTS = 8, 512


@dataclass(frozen=True)
class Plan:
    r"""About how many runs until the gap can be as small as wanted.

    Attributes:
        runs: The estimated number of runs; None where it is above ``max_runs``.
        gap: The gap that was asked for, outcome units.
        max_runs: Largest number of runs to try.
        gaps: Simulated gap by number of runs, outcome units.
    """

    runs: int | None
    gap: float
    max_runs: int
    gaps: dict[int, float]

    def __str__(self) -> str:
        runs = (
            f"more than {self.max_runs:,}" if self.runs is None else f"about {self.runs:,}"
        )
        tried = ", ".join(f"{n:,} runs {gap:.3g}" for n, gap in sorted(self.gaps.items()))
        return f"{runs} runs until the gap can be {as_given(self.gap)} (gaps: {tried})"


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
    most = whole_number("max_runs", max_runs)
    limits = checked_limits(bounds).to(torch.float64)
    draws = draw_sobol_samples(limits, n=most + _POINTS, q=1, seed=0).squeeze(-2)
    inputs, points = draws[:most], draws[most:]
    noise = torch.randn(most, generator=torch.Generator().manual_seed(0)).to(inputs)
    gaps: dict[int, float] = {}

    def reached(count: int) -> bool:
        outcomes = noise_std * noise[:count]
        state = KernelRegression(inputs[:count], outcomes, kernel, noise_std)
        problem = known_noise_problem(state, float(norm_bound), "filters", delta)
        own = ExactSet(problem.regression, problem.constraints, problem.assumptions)
        lower, _ = own.bounds(points)
        reference = points[lower.argmax()].unsqueeze(0)
        gaps[count] = float(own.max_gain_over(points, reference).max())
        return gaps[count] <= gap

    return Plan(_first(reached, most), gap, most, gaps)


def _first(reached: Callable[[int], bool], most: int) -> int | None:
    r"""About the first number at which something is reached; None where it never is."""
    bad, count = 0, min(_FIRST, most)
    while not reached(count):
        if count == most:
            return None
        bad, count = count, min(2 * count, most)
    while count - bad > max(1, bad // 20):
        middle = (bad + count) // 2
        if reached(middle):
            count = middle
        else:
            bad = middle
    return count
