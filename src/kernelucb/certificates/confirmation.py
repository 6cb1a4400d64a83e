r"""Further runs of one setting or two, without a kernel."""

import math
from collections.abc import Sequence

from torch import Tensor

from kernelucb._numerics.checks import (
    as_double,
    finite,
    positive_scalar,
    probability,
    whole_number,
)
from kernelucb._numerics.estimates import is_estimate
from kernelucb.certificates.words import Confirmation

# `rho` times the number of runs at which the interval is narrowest, at delta 0.05.
_NARROWEST = 8.2


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
    noise = float(positive_scalar("noise_std", noise_std))
    level = math.log(1.0 / probability("delta", delta))
    rho = _NARROWEST / whole_number("expected_runs", expected_runs)
    counts: list[int] = []
    means: list[float] = []
    given = {"outcomes": outcomes, "baseline_outcomes": baseline_outcomes}
    for name, each in given.items():
        if each is None:
            continue
        sample = finite(name, as_double(each).reshape(-1))
        if len(sample) == 0:
            raise ValueError(f"{name} is empty; give at least one outcome.")
        counts.append(len(sample))
        means.append(float(sample.mean()))
    squared = sum(math.log1p(rho * count) for count in counts) + 2.0 * level
    width = sum((1.0 + 1.0 / (rho * count)) / count for count in counts)
    half, estimate = noise * math.sqrt(squared * width), means[0] - sum(means[1:])
    ends, certified = (estimate - half, estimate + half), not is_estimate(noise_std)
    return Confirmation(estimate, *ends, tuple(counts), delta, noise, certified)
