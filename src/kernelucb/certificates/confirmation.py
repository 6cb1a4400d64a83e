r"""Further runs of one setting or two, without a kernel."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from kernelucb._numerics.checks import (
    as_double,
    finite,
    positive_scalar,
    probability,
    whole_number,
)
from kernelucb._numerics.digits import assumed, between, nearest, one_minus
from kernelucb._numerics.estimates import is_estimate

# `rho` times the number of runs at which the interval is narrowest, at delta 0.05.
_NARROWEST = 8.2


@dataclass(frozen=True)
class Confirmation:
    r"""An interval for one setting's value, or for the difference of two settings' values.

    Attributes:
        estimate: Mean outcome, or the difference of the two means.
        lower: Lower limit, outcome units.
        upper: Upper limit.
        counts: Number of runs of each setting.
        delta: Failure probability of all looks together.
        noise_std: Noise scale that the interval rests on, outcome units.
        certified: Whether the noise scale was given, not estimated by this library.
    """

    estimate: float
    lower: float
    upper: float
    counts: tuple[int, ...]
    delta: float
    noise_std: float
    certified: bool

    @property
    def is_higher(self) -> bool:
        r"""Whether value or difference is above zero: the improvement is real."""
        return self.lower > 0.0

    def __str__(self) -> str:
        of = "value" if len(self.counts) == 1 else "difference"
        runs = " and ".join(map(str, self.counts))
        known = "given" if self.certified else "estimated"
        lower, upper = between(self.lower, self.upper)
        estimate = nearest(self.estimate, self.upper - self.lower)
        return (
            f"{of} {estimate}, between {lower} and {upper} with "
            f"probability {one_minus(self.delta)} at every look at once ({runs} runs; "
            f"independent of any kernel; noise scale {assumed(self.noise_std)}, {known})"
        )


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
    noise = positive_scalar("noise_std", noise_std)
    level = math.log(1.0 / probability("delta", delta))
    rho = _NARROWEST / whole_number("expected_runs", expected_runs)
    samples = [_checked("outcomes", outcomes)]
    if baseline_outcomes is not None:
        samples.append(_checked("baseline_outcomes", baseline_outcomes))
    counts = [len(sample) for sample in samples]
    squared = sum(math.log1p(rho * count) for count in counts) + 2.0 * level
    width = sum((1.0 + 1.0 / (rho * count)) / count for count in counts)
    half = float(noise) * math.sqrt(squared * width)
    means = [float(sample.mean()) for sample in samples]
    estimate = means[0] - sum(means[1:])
    return Confirmation(
        estimate=estimate,
        lower=estimate - half,
        upper=estimate + half,
        counts=tuple(counts),
        delta=delta,
        noise_std=float(noise),
        certified=not is_estimate(noise_std),
    )


def _checked(name: str, outcomes: Tensor | Sequence[float]) -> Tensor:
    sample = as_double(outcomes).reshape(-1)
    if len(sample) == 0:
        raise ValueError(f"{name} is empty; give at least one outcome.")
    finite(name, sample)
    return sample.to(torch.float64)
