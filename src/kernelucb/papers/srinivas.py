r"""GP-UCB: Srinivas, Krause, Kakade & Seeger (2010), Gaussian process optimization.

The betas of Theorem 1 (``FiniteDomain``), Theorem 2 (``CompactDomain``) and Theorem 3
(``BoundedNorm``), the band ``mean +- sqrt(beta_t) sd`` of each, and its upper side.

What differs from the paper: of several noise scales Theorem 3 takes the largest. A number
that a theorem needs and the user does not give has a default or comes from the data;
``assumptions`` then marks this number as estimated.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from botorch.acquisition.objective import PosteriorTransform
from botorch.exceptions import UnsupportedError
from botorch.models.model import Model
from torch import Tensor

from kernelucb._numerics.checks import positive_scalar, probability, whole_number
from kernelucb._numerics.digits import assumed
from kernelucb._numerics.estimates import Number
from kernelucb.acquisition.bounds import RegressionUCB, of_state
from kernelucb.confidence.assumptions import (
    Assumption,
    Assumptions,
    Status,
    bayesian_assumptions,
    rkhs_assumptions,
)
from kernelucb.confidence.band import Band, rebuildable
from kernelucb.confidence.norm import (
    NormBoundLike,
    as_ball,
    norm_bound_under_prior,
)
from kernelucb.confidence.ridge import (
    fixed_ridge_band,
)
from kernelucb.data import KernelRegression
from kernelucb.data.from_model import NoiseStd

_SRINIVAS = "Srinivas et al. (2010), Theorem"
_SIZE = 1000  # points of a finite domain where no number is given, as in the paper's plots

# The data with a theorem's noise scale, its `beta` and its assumptions.
Terms = tuple[KernelRegression, Number, Assumptions]


@dataclass(frozen=True)
class FiniteDomain:
    r"""Theorem 1: ``f`` a sample of the GP on a finite domain, Gaussian noise, anytime.

    Attributes:
        size: Number of points of the domain (not its dimension); 1000 when absent, which
            counts as an estimate.
    """

    size: int | None = None
    estimates_norm: ClassVar[bool] = False

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
        assumptions = bayesian_assumptions(f"{_SRINIVAS} 1", regression, delta, where)
        domain = f"the domain is finite, with at most {size} points fixed in advance"
        assumptions = assumptions.with_extra(_domain(domain, self.size is None))
        beta = self.beta(regression.num_observations + 1, delta)
        return regression, beta, assumptions


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
    estimates_norm: ClassVar[bool] = False

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
        assumptions = bayesian_assumptions(f"{_SRINIVAS} 2", regression, delta, where)
        domain = (
            f"the domain lies in a cube of side {length:.6g}, and the derivatives of "
            f"sample paths exceed L with probability at most {a:.6g} exp(-(L / {b:.6g})^2)"
        )
        estimated = None in vars(self).values()
        assumptions = assumptions.with_extra(_domain(domain, estimated))
        beta = self.beta(regression.num_observations + 1, delta, regression.dimension)
        return regression, beta, assumptions


@dataclass(frozen=True)
class BoundedNorm:
    r"""Theorem 3: ``||f - mean||_H <= norm_bound``, noise bounded by its scale, anytime.

    Attributes:
        norm_bound: Outcome units; a ``NormTracker`` or None to estimate it from the data.
        information_gain: Bound on the maximum information gain of ``t`` points, nats (see
            ``kernelucb.information_gain``). When absent, the gain of the observed points,
            which is smaller than the maximum, replaces the bound and counts as an estimate.

    Raises:
        ValueError: If a number is not above 0.
    """

    norm_bound: NormBoundLike = None
    information_gain: float | None = None

    def __post_init__(self) -> None:
        as_ball(self.norm_bound)  # refuses what is none
        if self.information_gain is not None:
            positive_scalar("information_gain", self.information_gain)

    @property
    def estimates_norm(self) -> bool:
        r"""Whether the norm bound is estimated from the data."""
        return as_ball(self.norm_bound).number is None

    def terms(self, regression: KernelRegression, delta: float) -> Terms:
        r"""Beta and assumptions for the data, at a failure probability.

        ``beta = 2 B^2 + 300 gamma ln^3(t/delta)``; their ``B`` bounds the squared norm.
        """
        regression = regression.with_largest_noise()
        norm = norm_bound_under_prior(self.norm_bound, regression, delta)
        gain = observed = 0.5 * float(regression.log_det(1.0))
        words, status = "that of the observed points (it is larger)", Status.ESTIMATED
        if (given := self.information_gain) is not None:
            gain, status = float(given), Status.of(given)
            words = f"at most {assumed(gain)} nats; "
            words += f"that of the observed points is {observed:.6g}"
            if observed > gain:
                status = Status.VIOLATED
        log = math.log((regression.num_observations + 1) / delta)
        beta = 2.0 * norm.value**2 + 300.0 * gain * log**3
        source, noise = f"{_SRINIVAS} 3", "almost surely bounded"
        statement = f"the maximum information gain is {words}"
        gain_item = Assumption("information gain", statement, status)
        assumptions = rkhs_assumptions(
            source, regression, delta, norm.assumption, noise=noise
        ).with_extra(gain_item)
        return regression, norm.assumption.number(beta), assumptions


Theorem = FiniteDomain | CompactDomain | BoundedNorm


def _domain(statement: str, by_default: bool) -> Assumption:
    status = Status.ESTIMATED if by_default else Status.GIVEN
    return Assumption("domain", statement + " (by default)" * by_default, status)


_FINITE_DOMAIN = FiniteDomain()


@rebuildable()
def srinivas(
    model: Model | KernelRegression,
    noise_std: NoiseStd,
    delta: float,
    theorem: Theorem,
    scale: float,
) -> Band:
    r"""The band of ``SrinivasUCB``."""
    probability("delta", delta)
    positive_scalar("scale", scale)
    chosen: Any = theorem
    if not isinstance(chosen, Theorem):
        raise UnsupportedError(
            "theorem must be an instance of FiniteDomain, CompactDomain or "
            f"BoundedNorm, got {theorem!r}."
        )
    state = KernelRegression.of(model, noise_std)
    used, beta, assumptions = theorem.terms(state, delta)
    if scale < 1.0:
        assumptions = assumptions.without_guarantee(
            f"beta is multiplied by {scale:g}; no theorem covers that"
        )
    width = math.sqrt(scale * float(beta))  # the papers' beta is of variances
    whole = fixed_ridge_band(used, 1.0, width, assumptions)
    return of_state(whole, state, constants={"beta": beta})


class SrinivasUCB(RegressionUCB):
    r"""GP-UCB with the betas of Srinivas et al. (2010), anytime.

    ``posterior mean +- sqrt(scale * beta_t) * posterior sd`` with ``t`` the round about to
    be played (observations plus one), and ``beta_t`` by Theorem 1 (``FiniteDomain``: at the
    points of the domain), Theorem 2 (``CompactDomain``: at the points played) or Theorem 3
    (``BoundedNorm``: at every point). ``band.constants["beta"]`` is ``beta_t``.

    Other arguments and errors: see ``MartingaleMixtureUCB``.

    Example:
        >>> acqf = SrinivasUCB(model, theorem=FiniteDomain(size=1000))

    Args:
        theorem: ``FiniteDomain(...)``, ``CompactDomain(...)`` or ``BoundedNorm(...)``.
        scale: Factor of ``beta_t``. A factor below 1 (the paper's experiments use 0.2) has
            no guarantee, and ``assumptions`` says so.
    """

    def __init__(
        self,
        model: Model | KernelRegression,
        *,
        noise_std: NoiseStd = None,
        delta: float = 0.05,
        theorem: Theorem = _FINITE_DOMAIN,
        scale: float = 1.0,
        maximize: bool = True,
        posterior_transform: PosteriorTransform | None = None,
        X_pending: Tensor | None = None,
    ) -> None:
        band = srinivas(model, noise_std, delta, theorem, scale)
        super().__init__(band, maximize, posterior_transform, X_pending, model)
