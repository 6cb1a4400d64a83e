r"""How many of a number of sequences may fail, and the simulations that are counted.

A bound that holds with probability ``1 - delta`` fails in at most a binomial number of
independent sequences. A test allows ``limit`` of them. Its false-alarm rate is the
probability that a bound which fails in exactly a share ``delta`` is rejected, over seeds
(those of the tests are fixed); its power the probability that one which fails in a share
``2 delta`` is.

Vectorised simulations run in units of the noise scale; the library is given outcome units.
"""

import math
from collections.abc import Iterable
from typing import NamedTuple

import torch
from scipy.stats import binom
from torch import Tensor

from kernelucb import KernelRegression
from oracles.crossings import Sequences
from problems import RKHSFunction, frozen_kernel
from tolerances import COVERAGE_FALSE_ALARM

LEAST_POWER = 0.9


class Claim:
    r"""A bound is said to fail in at most a share ``delta`` of ``sequences``.

    Attributes:
        limit: Most failures with which the claim stands.
        false_alarm: Probability of more where the share is ``delta``.
        power: Probability of more where the share is ``2 delta``.
    """

    def __init__(self, sequences: int, delta: float) -> None:
        r"""Raises ValueError where the sequences are too few to find out ``2 delta``."""
        self.sequences, self.delta = sequences, delta
        self.limit = int(binom.isf(COVERAGE_FALSE_ALARM, sequences, delta))
        self.false_alarm = float(binom.sf(self.limit, sequences, delta))
        self.power = float(binom.sf(self.limit, sequences, min(2.0 * delta, 1.0)))
        if self.power < LEAST_POWER:
            raise ValueError(
                f"{self}: the power must be at least {LEAST_POWER}; use more sequences or "
                "a larger delta."
            )

    def stands(self, failures: int | Iterable[bool]) -> bool:
        r"""Whether so many failures are at most the limit.

        Of sequences played one after the other no more are looked at than the verdict
        needs: it is the verdict of all of them.
        """
        if isinstance(failures, int):
            return failures <= self.limit
        count, outcomes = 0, iter(failures)
        for played in range(1, self.sequences + 1):
            count += bool(next(outcomes))
            if count > self.limit or count + self.sequences - played <= self.limit:
                break
        return count <= self.limit

    def __str__(self) -> str:
        return (
            f"{self.sequences} sequences at delta {self.delta:g}: false alarm "
            f"{self.false_alarm:.1e}, power {self.power:.3f}"
        )


# Evidence grows in small steps where the prior variance is a tenth of the noise's: little
# overshoot, so that crossings are nearly as frequent as the theory allows.
PRIOR_SCALE = 0.1


class Arms:
    r"""Arms on ``[0, 1]`` under a Matern 5/2 kernel, with noise of given scales.

    Args:
        count: Number of arms ``A``.
        noise_std: One number, or ``A`` of them, outcome units.
        variance: Prior variance, outcome units squared.
    """

    LENGTHSCALE = 0.1

    def __init__(
        self, count: int, noise_std: float | Tensor, variance: float | None = None
    ) -> None:
        self.inputs = torch.linspace(0.0, 1.0, count, dtype=torch.float64).unsqueeze(-1)
        self.noise_std = torch.as_tensor(noise_std, dtype=torch.float64).expand(count)
        if variance is None:
            variance = PRIOR_SCALE * float(self.noise_std.min()) ** 2
        self.kernel = frozen_kernel("matern52", self.LENGTHSCALE, variance)

    def gram(self, kernel=None) -> Tensor:
        r"""``A x A`` covariances of ``f / noise_std``."""
        covariance = (kernel or self.kernel)(self.inputs).to_dense()
        return covariance / self.noise_std.unsqueeze(-1) / self.noise_std

    def truth(self, norm: float, count: int) -> Tensor:
        r"""``count`` times the values of a function of this norm, units of the noise."""
        function = RKHSFunction.random(self.kernel, norm, d=1, seed=0)
        return (function(self.inputs) / self.noise_std).expand(count, -1)


class History(NamedTuple):
    r"""The first rounds of one sequence, outcome units."""

    X: Tensor
    Y: Tensor
    noise_std: Tensor
    truth: Tensor

    @classmethod
    def of(cls, arms: Arms, sequences: Sequences, index: int, rounds: int) -> "History":
        chosen = torch.stack([each[index] for each in sequences.arms[:rounds]])
        outcomes = torch.stack([each[index] for each in sequences.outcomes[:rounds]])
        noise = arms.noise_std[chosen]
        truth = sequences.truth[index, chosen] * noise
        return cls(arms.inputs[chosen], outcomes * noise, noise, truth)

    @property
    def energy(self) -> float:
        r"""Squared distance of the truth to the outcomes, noise units."""
        return float(((self.Y - self.truth) / self.noise_std).square().sum())

    def state(self, kernel) -> KernelRegression:
        return KernelRegression(self.X, self.Y, kernel, self.noise_std)


def crossings(path: Tensor, delta: float) -> int:
    r"""Sequences whose supermartingale reaches ``1 / delta`` in any round.

    Args:
        path: ``rounds x N`` values of ``log M_t``.
        delta: Failure probability.
    """
    return int((path.amax(0) >= math.log(1.0 / delta)).sum())
