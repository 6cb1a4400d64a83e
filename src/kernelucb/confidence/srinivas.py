r"""GP-UCB's three theorems, each with its beta (Srinivas, Krause, Kakade & Seeger 2010).

A number that a theorem needs and the user does not give has a default or comes from the
data; ``assumptions`` then marks this number as estimated.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

from kernelucb._numerics.checks import positive_scalar, whole_number
from kernelucb._numerics.digits import assumed
from kernelucb._numerics.estimates import is_estimate
from kernelucb.confidence.assumptions import (
    Assumption,
    Assumptions,
    Status,
    bayesian_assumptions,
    rkhs_assumptions,
)
from kernelucb.confidence.norm import (
    NormBoundLike,
    norm_bound_under_prior,
    tracker_of,
)
from kernelucb.regression import KernelRegression

_SOURCE = "Srinivas et al. (2010), Theorem"
_SIZE = 1000


class Terms(NamedTuple):
    r"""The data with a theorem's noise scale, its ``beta`` and its assumptions."""

    regression: KernelRegression
    beta: float
    assumptions: Assumptions


@dataclass(frozen=True)
class FiniteDomain:
    r"""Theorem 1: ``f`` a sample of the GP on a finite domain, Gaussian noise, anytime.

    Attributes:
        size: Number of points of the domain (not its dimension); 1000 when absent, which
            counts as an estimate.
    """

    size: int | None = None

    def __post_init__(self) -> None:
        if self.size is not None:
            whole_number("size", self.size)

    def beta(self, round_number: int, delta: float) -> float:
        r"""``2 ln(|D| t^2 pi^2 / (6 delta))`` in round ``t``, about to be played."""
        size = self.size or _SIZE
        return 2.0 * math.log(size * round_number**2 * math.pi**2 / (6.0 * delta))

    def terms(self, regression: KernelRegression, delta: float) -> Terms:
        r"""Beta and assumptions for the data, at a failure probability."""
        size = self.size or _SIZE
        where = f"for every point of a domain of {size} points"
        assumptions = bayesian_assumptions(f"{_SOURCE} 1", regression, delta, where)
        domain = f"the domain is finite, with at most {size} points fixed in advance"
        assumptions = assumptions.with_extra(_domain(domain, self.size is None))
        beta = self.beta(regression.num_observations + 1, delta)
        return Terms(regression, beta, assumptions)


@dataclass(frozen=True)
class CompactDomain:
    r"""Theorem 2: ``f`` a sample of the GP on ``[0, length]^d``, smooth paths, anytime.

    The partial derivatives of sample paths must satisfy
    ``P(sup |df/dx_j| > L) <= a exp(-(L/b)^2)`` for every ``j``. What is absent is 1, which
    counts as an estimate.

    Attributes:
        length: Side of the cube that holds the domain.
        lipschitz_a: ``a``.
        lipschitz_b: ``b``.
    """

    length: float | None = None
    lipschitz_a: float | None = None
    lipschitz_b: float | None = None

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value is not None:
                positive_scalar(name, value)

    def beta(self, round_number: int, delta: float, dimension: int) -> float:
        r"""``2 ln(t^2 2 pi^2 / (3 delta)) + 2 d ln(t^2 d b r sqrt(ln(4 d a / delta)))``.

        In round ``t``, about to be played, and dimension ``d``.

        Raises:
            ValueError: If ``lipschitz_a`` is too small for a probability bound.
        """
        length, a, b = (float(value or 1.0) for value in vars(self).values())
        ratio = 4.0 * dimension * a / delta
        if ratio <= 1.0:
            raise ValueError(
                f"4 d lipschitz_a / delta must be above 1 for Theorem 2, got {ratio:.3g}; "
                "a probability bound needs lipschitz_a >= 1."
            )
        cover = round_number**2 * dimension * b * length * math.sqrt(math.log(ratio))
        tail = round_number**2 * 2.0 * math.pi**2 / (3.0 * delta)
        return 2.0 * math.log(tail) + 2.0 * dimension * math.log(cover)

    def terms(self, regression: KernelRegression, delta: float) -> Terms:
        r"""Beta and assumptions for the data, at a failure probability."""
        length, a, b = (float(value or 1.0) for value in vars(self).values())
        where = "for the points played (at the maximiser up to 1/t^2)"
        assumptions = bayesian_assumptions(f"{_SOURCE} 2", regression, delta, where)
        domain = (
            f"the domain lies in a cube of side {length:.6g}, and the derivatives of "
            f"sample paths exceed L with probability at most {a:.6g} exp(-(L / {b:.6g})^2)"
        )
        estimated = None in vars(self).values()
        assumptions = assumptions.with_extra(_domain(domain, estimated))
        beta = self.beta(regression.num_observations + 1, delta, regression.dimension)
        return Terms(regression, beta, assumptions)


@dataclass(frozen=True)
class BoundedNorm:
    r"""Theorem 3: ``||f - mean||_H <= norm_bound``, noise bounded by its scale, anytime.

    Attributes:
        norm_bound: Outcome units; a ``NormTracker``, ``"cautious"`` or None to estimate it
            from the data.
        information_gain: Bound on the maximum information gain of ``t`` points, nats (see
            ``kernelucb.information_gain``). When absent, the gain of the observed points,
            which is smaller than the maximum, replaces the bound and counts as an estimate.

    Raises:
        ValueError: If a number is not above 0.
    """

    norm_bound: NormBoundLike = None
    information_gain: float | None = None

    def __post_init__(self) -> None:
        if tracker_of(self.norm_bound) is None:
            positive_scalar("norm_bound", self.norm_bound)
        if self.information_gain is not None:
            positive_scalar("information_gain", self.information_gain)

    def terms(self, regression: KernelRegression, delta: float) -> Terms:
        r"""Beta and assumptions for the data, at a failure probability.

        ``beta = 2 B^2 + 300 gamma ln^3(t/delta)``; their ``B`` bounds the squared norm.
        """
        regression = regression.with_largest_noise()
        norm = norm_bound_under_prior(self.norm_bound, regression, delta)
        gain = observed = 0.5 * float(regression.log_det(1.0))
        words, status = "that of the observed points (it is larger)", Status.ESTIMATED
        if (given := self.information_gain) is not None:
            gain, status = float(given), Status.GIVEN
            words = f"at most {assumed(gain)} nats; "
            words += f"that of the observed points is {observed:.6g}"
            if is_estimate(given):
                status = Status.ESTIMATED
            if observed > gain:
                status = Status.VIOLATED
        log = math.log((regression.num_observations + 1) / delta)
        beta = 2.0 * norm.value**2 + 300.0 * gain * log**3
        source, noise = f"{_SOURCE} 3", "almost surely bounded"
        known = rkhs_assumptions(source, regression, delta, norm.assumption, noise=noise)
        statement = f"the maximum information gain is {words}"
        known = known.with_extra(Assumption("information gain", statement, status))
        return Terms(regression, beta, known)


Theorem = FiniteDomain | CompactDomain | BoundedNorm


def _domain(statement: str, by_default: bool) -> Assumption:
    status = Status.ESTIMATED if by_default else Status.GIVEN
    return Assumption("domain", statement + " (by default)" * by_default, status)
