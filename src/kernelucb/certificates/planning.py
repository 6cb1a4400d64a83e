r"""About how many runs a certified gap takes, and what further runs of a setting say."""

from collections.abc import Sequence

import torch
from botorch.utils.sampling import draw_sobol_samples
from gpytorch.kernels import Kernel
from torch import Tensor

from kernelucb._numerics import checks
from kernelucb._numerics.domains import checked_limits
from kernelucb._numerics.estimates import is_estimate
from kernelucb.certificates.claims import last_tried
from kernelucb.certificates.spending import spend
from kernelucb.certificates.words import Confirmation, Plan
from kernelucb.confidence.dual import ExactSet
from kernelucb.confidence.fit import fit_of
from kernelucb.confidence.mixture import known_noise_problem
from kernelucb.confidence.norm import GivenNorm
from kernelucb.data import KernelRegression
from kernelucb.pairs import NARROWEST, normal_half_width

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
        checks.positive_scalar(name, value)
    checks.probability("delta", delta)
    spend(delta)
    most, limits = checks.whole_number("max_runs", max_runs), checked_limits(bounds)
    draws = draw_sobol_samples(limits, n=most + _POINTS, q=1, seed=0).squeeze(-2)
    inputs, points = draws[:most], draws[most:]
    norm = GivenNorm(float(norm_bound))
    noise = torch.randn(most, generator=torch.Generator().manual_seed(0)).to(inputs)
    gaps: dict[int, float] = {}

    def reached(count: int) -> bool:
        data = inputs[:count], noise_std * noise[:count]
        state = KernelRegression(*data, kernel, noise_std)
        problem = known_noise_problem(state, norm, fit_of("filters"), delta)
        # The set alone: what builds its band, `acquisition`, is not imported from here.
        functions = ExactSet(problem.regression, problem.constraints, problem.assumptions)
        best = points[functions.bounds(points)[0].argmax()].unsqueeze(0)
        gaps[count] = float(functions.max_gain_over(points, best).max())
        return gaps[count] <= gap

    few, count = 0, min(_FIRST, most)  # too few, and a number to try
    while not reached(count):
        if count == most:
            return Plan(None, gap, most, gaps)
        few, count = count, min(2 * count, most)

    def middle(enough: int, few: int) -> int | None:
        return (few + enough) // 2 if enough - few > max(1, few // 20) else None

    return Plan(last_tried(reached, count, few, middle), gap, most, gaps)


def confirmation(
    outcomes: Tensor | Sequence[float],
    baseline_outcomes: Tensor | Sequence[float] | None = None,
    *,
    noise_std: float,
    delta: float = 0.05,
    expected_runs: int = 5,
) -> Confirmation:
    r"""An anytime interval for a setting's value, or for the difference of two settings.

    The interval may be read after every run, and the runs may stop, or change from one
    setting to the other, because of earlier outcomes. No kernel and no norm is assumed.

    Source: Robbins (1970), the normal mixture; with two settings for both means at once.
    Assumes conditionally sub-Gaussian noise of scale ``noise_std``, and runs made for this
    interval: leave out the outcomes by which the setting was chosen among others, since
    they were chosen for being large.

    Example:
        >>> confirmation([86.1, 84.9, 85.3], [76.2, 77.4, 75.9], noise_std=1.0)

    Args:
        outcomes: ``n`` outcomes of one setting, in their order.
        baseline_outcomes: ``m`` outcomes of another setting; the interval is then for the
            first setting's value minus this setting's.
        noise_std: Noise scale, outcome units, known beforehand.
        delta: Failure probability of all looks together.
        expected_runs: Expected number of runs of each setting, fixed beforehand. The
            interval is narrowest at this number, and valid at any other.

    Raises:
        ValueError: If a scalar is out of its range, or a setting has no outcome.
        InputDataError: If an outcome is not finite.
    """
    noise = float(checks.positive_scalar("noise_std", noise_std))
    checks.probability("delta", delta)
    spend(delta)
    rho = NARROWEST / checks.whole_number("expected_runs", expected_runs)
    counts: list[int] = []
    means: list[float] = []
    given = {"outcomes": outcomes, "baseline_outcomes": baseline_outcomes}
    for name, each in given.items():
        if each is None:
            continue
        sample = checks.finite(name, checks.as_double(each, name).reshape(-1))
        if len(sample) == 0:
            raise ValueError(f"{name} is empty; give at least one outcome.")
        counts.append(len(sample))
        means.append(float(sample.mean()))
    half = noise * normal_half_width(counts, delta, rho)
    estimate = means[0] - sum(means[1:])
    ends, certified = (estimate - half, estimate + half), not is_estimate(noise_std)
    return Confirmation(estimate, *ends, tuple(counts), delta, noise, certified)
