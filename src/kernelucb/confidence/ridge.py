r"""Bands of the form: ridge estimate plus or minus a width times its deviation.

Three theorems fix regulariser and width: Abbasi-Yadkori (2012), Chowdhury & Gopalan (2017)
and Wang & de Freitas (2014); norm bounds are in prior units here. And GP-UCB's three
theorems, each with its beta (Srinivas, Krause, Kakade & Seeger 2010). A number that one of
these needs and the user does not give has a default or comes from the data; ``assumptions``
then marks this number as estimated.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from kernelucb._numerics.arrays import safe_sqrt
from kernelucb._numerics.checks import positive_scalar, whole_number
from kernelucb._numerics.digits import assumed
from kernelucb._numerics.estimates import Estimate, Number
from kernelucb.confidence.assumptions import (
    Assumption,
    Assumptions,
    Status,
    bayesian_assumptions,
    rkhs_assumptions,
)
from kernelucb.confidence.norm import (
    NormBound,
    NormBoundLike,
    norm_bound_under_prior,
    tracker_of,
)
from kernelucb.confidence.sets import QueryPoints, RidgeT_co, StateSet
from kernelucb.data import KernelRegression, Projection

_ABBASI_YADKORI_SOURCE = (
    "Abbasi-Yadkori (2012), Theorem 3.11 (Durand, Maillard & Pineau (2018), Theorem 1)"
)
_IGP_UCB_SOURCE = "Chowdhury & Gopalan (2017), Theorem 2"
_WANG_DE_FREITAS_SOURCE = (
    "Wang & de Freitas (2014), Proposition 1 (Durand, Maillard & Pineau (2018), Lemma 3), "
    "its last term in noise units (ours)"
)
FIXED_DESIGN = Assumption(
    "design", "the inputs were fixed before any outcome was seen", Status.GIVEN
)


class RidgeBand(StateSet[RidgeT_co, Projection]):
    r"""``mean_tau(x) +- width * sqrt(var_tau(x))`` at one regulariser ``tau``.

    ``width`` is dimensionless; ``tau = alpha / noise_std^2``.
    """

    has_hessian = True

    def __init__(
        self,
        regression: RidgeT_co,
        regularizer: float,
        width: float,
        assumptions: Assumptions,
    ) -> None:
        super().__init__(regression, assumptions)
        self.regularizer, self.width = regularizer, width

    def support(self, points: QueryPoints, sign: int) -> Tensor:
        r"""``sign (mean_tau - baseline) + width sd_tau``, ``b`` values."""
        tau = points.centre.baseline.new_tensor(self.regularizer)
        deviation = self.regression.deviation_at(points.centre, tau)
        radius = self.width * safe_sqrt(self.design.variance_at(points.design, tau))
        return sign * deviation + radius


def check_resolved(tau: float, noise_std: Tensor | float, variance: Tensor) -> None:
    r"""Raise ``ValueError`` where the rounding of kernel values hides a ridge parameter.

    Kernel values are rounded to ``eps k(x, x)``, which must be below ``tau noise_std^2``;
    otherwise the bound would depend on round-off. For theorems that fix ``tau``; the bounds
    of the martingale mixture hold at any ``tau``, and take a larger one. ``variance``
    holds prior variances at the observed inputs, outcome units squared.

    Raises:
        ValueError: If round-off is larger; names the smallest noise scale that works.
    """
    noise = float(torch.as_tensor(noise_std).min())
    largest = float(variance.max()) if variance.numel() else 0.0
    rounding = torch.finfo(torch.float64).eps * largest
    ridge = noise**2 * tau
    if not ridge >= rounding:
        smallest = noise * math.sqrt(rounding / ridge)
        raise ValueError(
            f"noise_std must be at least {smallest:.4g}, got {noise:.4g}: the smallest "
            f"ridge parameter, {ridge:.4g}, is lost in the rounding of a prior variance of "
            f"{largest:.4g}. Or use MartingaleMixtureUCB, which takes a larger one; where "
            "it does not follow the noise (IGP-UCB), divide the outcomes by their scale."
        )


def fixed_ridge_band(
    regression: KernelRegression,
    regularizer: float,
    width: float,
    assumptions: Assumptions,
) -> RidgeBand[KernelRegression]:
    r"""The band of a theorem that fixes ``tau``.

    Raises:
        ValueError: If the kernel's rounding hides this ``tau``; see ``check_resolved``.
    """
    check_resolved(regularizer, regression.noise_scales, regression.distinct_variance)
    return RidgeBand(regression, regularizer, width, assumptions)


class RidgeTheorem(NamedTuple):
    r"""An anytime theorem of one ``tau``, where a log-determinant gives the width."""

    source: str
    delta: float
    regularizer: float  # `tau`
    width: Callable[[float, float], float]  # of `ln det(I + K_w / tau)` and the norm bound
    horizon: int | None = None  # number of rounds that the theorem covers; None for all

    def assumptions(self, known: Any, norm: Assumption) -> Assumptions:
        r"""Assumptions of the band, from the status of the data's prior and noise."""
        horizon = self.horizon
        return rkhs_assumptions(self.source, known, self.delta, norm, horizon=horizon)

    def band(
        self, regression: KernelRegression, norm: NormBound
    ) -> RidgeBand[KernelRegression]:
        r"""The band of the data; raises ``ValueError`` as ``check_resolved``."""
        width = self.width(float(regression.log_det(self.regularizer)), norm.value)
        assumptions = self.assumptions(regression, norm.assumption)
        return fixed_ridge_band(regression, self.regularizer, width, assumptions)


def abbasi_yadkori_theorem(delta: float, regularizer: float) -> RidgeTheorem:
    r"""The self-normalised bound at any ``tau``."""
    width = partial(abbasi_yadkori_width, delta=delta, regularizer=regularizer)
    return RidgeTheorem(_ABBASI_YADKORI_SOURCE, delta, regularizer, width)


def abbasi_yadkori_width(
    log_det: float, norm: float, delta: float, regularizer: float
) -> float:
    r"""``norm + sqrt(log_det + 2 ln(1/delta)) / sqrt(tau)``, ``log_det`` at ``tau``.

    Source: Abbasi-Yadkori (2012), Theorem 3.11, for kernels Durand, Maillard & Pineau
    (2018), Theorem 1, in whitened form.
    """
    return norm + math.sqrt((log_det + 2.0 * math.log(1.0 / delta)) / regularizer)


def igp_ucb_theorem(delta: float, noise_std: float, horizon: int) -> RidgeTheorem:
    r"""Improved GP-UCB, for the ridge parameter ``1 + eta`` with ``eta = 2 / horizon``."""
    regularizer = (1.0 + 2.0 / horizon) / noise_std**2
    width = partial(igp_ucb_width, delta=delta, noise_std=noise_std)
    return RidgeTheorem(_IGP_UCB_SOURCE, delta, regularizer, width, horizon)


def igp_ucb_width(log_det: float, norm: float, delta: float, noise_std: float) -> float:
    r"""``norm + noise_std sqrt(log_det + t eta + 2 ln(1/delta))``, ``t eta`` at most 2.

    Source: Chowdhury & Gopalan (2017), Theorem 2.
    """
    return norm + noise_std * math.sqrt(log_det + 2.0 + 2.0 * math.log(1.0 / delta))


def wang_de_freitas_band(
    regression: KernelRegression, norm: NormBound, delta: float, fixed_design: bool
) -> RidgeBand[KernelRegression]:
    r"""Posterior band of width ``l``, for fixed inputs and each round alone.

    ``l^2 = B^2 + sqrt(8 g ln(2/delta)) + sqrt(2 ln(4/delta)) B + 2 g + 2 ln(2/delta)`` with
    ``g`` half the log-determinant and ``B`` the norm bound, for one noise scale.

    Source: Wang & de Freitas (2014), Proposition 1, as Lemma 3 of Durand, Maillard &
    Pineau (2018), whose last term is printed as ``2 noise_std ln(2/delta)``. In the units
    of its other terms it is ``2 ln(2/delta)``; with the printed one the band fails far
    more often than ``delta`` where ``noise_std`` is below one.
    """
    gain = 0.5 * float(regression.log_det(1.0))
    squared = (
        norm.value**2
        + math.sqrt(8.0 * gain * math.log(2.0 / delta))
        + math.sqrt(2.0 * math.log(4.0 / delta)) * norm.value
        + 2.0 * gain
        + 2.0 * math.log(2.0 / delta)
    )
    assumptions = rkhs_assumptions(
        _WANG_DE_FREITAS_SOURCE, regression, delta, norm.assumption, anytime=False
    )
    if fixed_design:
        assumptions = assumptions.with_extra(FIXED_DESIGN)
    else:
        assumptions = assumptions.without_guarantee(
            "the inputs must have been fixed before any outcome was seen, which an "
            "acquisition function does not do (fixed_design=True if they were)",
            name=FIXED_DESIGN.name,
        )
    return fixed_ridge_band(regression, 1.0, math.sqrt(squared), assumptions)


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
            if isinstance(given, Estimate):
                status = Status.ESTIMATED
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
